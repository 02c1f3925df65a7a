"""`steprelay serve`: the MCP server that hosts start."""

import os
import re
from typing import TYPE_CHECKING, Annotated

import typer

from journal.world import World
from server.terminal.exit_codes import UsageProblem

from .options import Config

if TYPE_CHECKING:
    from collections.abc import Callable

    from server.host.serving import Address
    from server.settings import Found

_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[^:\s]+):(?P<port>\d{1,5})")


def serve(
    config: Config = None,
    http: Annotated[
        str | None, typer.Option("--http", metavar="HOST:PORT", help="Serve HTTP at /mcp instead of stdio.")
    ] = None,
    no_auth: Annotated[
        bool,
        typer.Option("--no-auth", help="With --http on loopback: let anybody on this machine in, without a token."),
    ] = False,
) -> None:
    """Serve MCP hosts over stdio, or over HTTP.

    HTTP wants a bearer token, which lies in a file that only you can read.
    """
    from journal.outlet import Outlet
    from server.settings import find_settings
    from server.terminal.log_file import start_logging

    if no_auth and http is None:
        raise UsageProblem("--no-auth goes with --http; over stdio there is nobody to show a token")
    address = None if http is None else _address(*read_address(http), authenticated=not no_auth)
    start_logging(Outlet())

    def found() -> "Found":
        # Never the working folder: a host starts servers wherever it happens to be.
        return find_settings(config, environ=os.environ, cwd=None)

    _serve(found, address)


def _serve(found: "Callable[[], Found]", address: "Address | None") -> None:
    import anyio

    from server.host.serving import serve_http, serve_stdio

    if address is None:
        anyio.run(lambda: serve_stdio(found, environ=os.environ, world=World()))
    else:
        anyio.run(lambda: serve_http(found, address, environ=os.environ, world=World()))


def _address(host: str, port: int, *, authenticated: bool) -> "Address":
    """Where to serve, with its token, having said where that lies. Raises UsageProblem."""
    from server.host.serving import Address, NotServed, check_address, local_token

    try:
        check_address(host, authenticated=authenticated)
    except NotServed as error:
        raise UsageProblem(str(error)) from error
    if not authenticated:
        return Address(host, port, None)
    token, path = local_token()
    typer.echo(f"steprelay takes the bearer token in {path}", err=True)
    return Address(host, port, token)


def read_address(text: str) -> tuple[str, int]:
    """Host and port. Raises UsageProblem."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise UsageProblem(f"--http takes HOST:PORT, such as 127.0.0.1:8765, not {text!r}")
    return found["host"].strip("[]"), int(found["port"])
