"""Serving the page: whichever process can, on the port that the link names; when it goes, another takes over."""

import logging
import os
import socket
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial

import anyio
import anyio.to_thread
import uvicorn

from journal.errors import SteprelayError
from journal.tasks import open_tasks
from server.product import Product

from .app import build_app
from .desk import Desk
from .guard import Guard
from .opening import has_desktop, open_for_first
from .place import Place, listening
from .sessions import Sessions

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0
_TRIES = 15
"""Between so many tries to take over, whoever has the port is asked whether it serves our page."""
_MOST_PORTS = 20


@asynccontextmanager
async def open_page(product: Product, *, opens: bool = False) -> AsyncGenerator[Place | None]:
    """Serve the page, or stand by to, until the block ends; with `opens`, in a browser whenever a run first waits.

    None where it is off, or cannot be: the product works without, and its texts name no page.
    """
    setting = product.settings.approvals.page
    place = None if setting == "off" else await anyio.to_thread.run_sync(_place, product)
    if place is None:
        yield None
        return
    async with open_tasks() as group:
        known = anyio.Event()
        group.start_soon(_stand_by, product, place, known)
        await known.wait()
        if opens and setting == "auto" and has_desktop(os.environ, sys.platform):
            group.start_soon(open_for_first, product.store, place)
        try:
            yield place
        finally:
            product.page.port = None


def _place(product: Product) -> Place | None:
    try:
        place = Place(product.store.database.path)
        place.port()
    except (SteprelayError, OSError) as error:
        log.warning("no_page", extra={"error": str(error)})
        return None
    return place


async def _stand_by(product: Product, place: Place, known: anyio.Event) -> None:
    """Sets `known` once the page can be reached, here or at another process, or that was given up."""
    why = f"none of {_MOST_PORTS} ports of loopback could be had"
    try:
        await _serve_in_turn(product, place, known)
    except OSError as error:
        why = str(error)
    product.page.port = None
    known.set()
    log.warning("no_page", extra={"error": why})


async def _serve_in_turn(product: Product, place: Place, known: anyio.Event) -> None:
    """Returns where no port can be had; raises OSError where the state folder fails."""
    desk = Desk(product)
    moves = tries = 0
    while moves < _MOST_PORTS:
        port = place.port()
        with ExitStack() as stack:
            if (listeners := _free(port, stack)) is not None:
                product.page.port = port
                known.set()
                sessions = Sessions(product.store, place.key(port))
                app = build_app(desk, sessions, partial(place.proof, port), port=port)
                await _serve(Guard(app, port=port), listeners)
            elif tries % _TRIES == 0 and not await place.is_ours(port):
                product.page.port, moves = None, moves + 1
                place.move(port)
            else:
                product.page.port, tries = port, tries + 1
                known.set()
                await anyio.sleep(_AGAIN_SECONDS)


def _free(port: int, stack: ExitStack) -> list[socket.socket] | None:
    try:
        return stack.enter_context(listening(port))
    except OSError:
        return None


class _Server(uvicorn.Server):
    """Signals are the business of the process that the page is served in."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def _serve(app: Guard, listeners: list[socket.socket]) -> None:
    """Serve until cancelled; requests that have begun are answered within a second."""
    server = _Server(
        uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", server_header=False, timeout_graceful_shutdown=1
        )
    )

    ended = anyio.Event()

    async def serve() -> None:
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=listeners)
        ended.set()

    async with open_tasks() as group:
        group.start_soon(serve)
        try:
            await ended.wait()
        finally:
            server.should_exit = True
