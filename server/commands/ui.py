"""`steprelay ui`: the local page in the browser, with the person at this terminal signed in."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from journal.world import World
from server.terminal.exit_codes import ExitCode, UsageProblem

from .opening import load, run_async
from .options import Config

if TYPE_CHECKING:
    from server.page.place import Place


def ui(
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address instead of opening a browser; it works once.")
    ] = False,
    config: Config = None,
) -> None:
    """Open the page on which a person sees and decides what waits.

    Where no living process serves it, this one does until Ctrl-C, and goes on with runs as `serve` would.
    """
    from server.terminal.asking import nobody_here

    settings = load(config)
    if settings.approvals.page == "off":
        raise UsageProblem("approvals.page is off in the settings; set it to auto or link")
    if (why := nobody_here(os.environ)) is not None:
        raise UsageProblem(f"ui signs a person in, and {why}; type it in a terminal of your own")

    async def work() -> ExitCode:
        from journal.settings import sqlite_path
        from server.page.place import Place

        place = Place(sqlite_path(settings.store))
        if await place.is_ours(place.port()):
            await _show(place, place.port(), no_open=no_open)
            return ExitCode.OK
        from server.assembly import open_product
        from server.page.serving import open_page

        async with open_product(settings, world=World()) as product, open_page(product):
            if product.page.port is None:
                raise UsageProblem("the page cannot be served on this machine; the log in the state folder says why")
            await _show(place, product.page.port, no_open=no_open)
            typer.echo("This process serves the page until Ctrl-C.")
            return await _until_interrupted()

    run_async(work, settings)


async def _until_interrupted() -> NoReturn:
    import anyio

    while True:
        await anyio.sleep_forever()


async def _show(place: "Place", port: int, *, no_open: bool) -> None:
    from server.page.opening import has_desktop, open_browser, signed_in_address

    address = signed_in_address(place, port, World())
    if no_open or not has_desktop(os.environ, sys.platform) or not await open_browser(address):
        typer.echo(f"Open this address within five minutes; it works once:\n  {address}")
