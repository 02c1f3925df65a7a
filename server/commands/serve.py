"""`steprelay serve`: the MCP server that hosts start."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from journal.world import World
from server.exit_codes import UsageProblem

from .options import Config

if TYPE_CHECKING:
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
    import anyio

    from journal.outlet import Outlet
    from server.log_file import start_logging
    from server.serving import Address, NotServed, check_address, local_token, serve_http, serve_stdio
    from server.settings import find_settings

    if no_auth and http is None:
        raise UsageProblem("--no-auth goes with --http; over stdio there is nobody to show a token")
    start_logging(Outlet())

    def found() -> "Found":
        # Never the working folder: a host starts servers wherever it happens to be.
        return find_settings(config, environ=os.environ, cwd=None)

    if http is None:
        anyio.run(lambda: serve_stdio(found, environ=os.environ, world=World()))
        return
    host, port = read_address(http)
    try:
        check_address(host, authenticated=not no_auth)
    except NotServed as error:
        raise UsageProblem(str(error)) from error
    token, path = (None, None) if no_auth else local_token()
    _say_where(path)
    address = Address(host, port, token)
    anyio.run(lambda: serve_http(found, address, environ=os.environ, world=World()))


def read_address(text: str) -> tuple[str, int]:
    """Host and port. Raises UsageProblem."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise UsageProblem(f"--http takes HOST:PORT, such as 127.0.0.1:8765, not {text!r}")
    return found["host"].strip("[]"), int(found["port"])


def _say_where(token_file: Path | None) -> None:
    if token_file is not None:
        typer.echo(f"steprelay takes the bearer token in {token_file}", err=True)
