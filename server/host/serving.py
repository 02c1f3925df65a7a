"""Serving hosts over stdio or HTTP, and ending cleanly: at a signal or a closed stdin no child process stays behind."""

import importlib
import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread

from journal.errors import SteprelayError, StoreError
from journal.world import World
from server.product import Product
from server.settings import Settings, load_settings
from server.settings_file.found import Found
from server.terminal.log_file import start_logging

from .bearer import BearerOnly
from .kept_secret import NotKept, local_token, request_state_key
from .mcp_server import build_host_server
from .unread_lines import open_answered

if TYPE_CHECKING:
    from mcp.server.transport_security import TransportSecuritySettings

__all__ = ["Address", "NotServed", "Readiness", "check_address", "local_token", "serve_http", "serve_stdio"]

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 2.0
"""A store that cannot be opened is tried again so often."""
_LAST_SECONDS = 7.0
"""Closing everything may take so long; then the process ends all the same."""


@dataclass(frozen=True)
class Address:
    """Where HTTP is served; `token` is None where nobody has to show one."""

    host: str
    port: int
    token: str | None


class NotServed(SteprelayError):
    """An address that must not, or cannot, be served."""


class NotStarted(SteprelayError):
    """What the machine lacks for steprelay to work, such as a folder that can be written to."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"steprelay cannot start: {error.filename or 'the system'}: {error.strerror or error}; make the place "
            "usable, or set `store` in the settings (or XDG_STATE_HOME) to another one"
        )


class Readiness:
    """The product once it is open, or the reason why there is none; asking waits until one of the two is known.

    A reason may be followed by another, or by the product.
    """

    def __init__(self) -> None:
        self._known = anyio.Event()
        self._product: Product | SteprelayError | None = None

    def known(self, product: Product | SteprelayError) -> bool:
        """Whether that is news."""
        is_news = not isinstance(self._product, SteprelayError) or str(self._product) != str(product)
        self._product = product
        self._known.set()
        return is_news

    async def __call__(self) -> Product:
        await self._known.wait()
        assert self._product is not None
        if isinstance(self._product, SteprelayError):
            # Kept and raised again and again, it would hold on to all who have asked.
            raise self._product.with_traceback(None)
        return self._product


async def serve_stdio(found: Callable[[], Found], *, environ: Mapping[str, str], world: World) -> None:
    """Serve one host over stdin and stdout until stdin closes or a signal comes."""
    from mcp.server.stdio import stdio_server

    async def serve(ready: Readiness, end: _End) -> None:
        server = build_host_server(ready, state_key=_state_key())
        async with stdio_server() as (lines, send):
            # Nothing that fails leaves the transport before its thread has read the next line, which may never come.
            with end.once_failed():
                async with open_answered(lines, send) as receive:
                    await server.run(receive, send, server.create_initialization_options())

    await _serve(found, serve, environ=environ, world=world)


async def serve_http(found: Callable[[], Found], address: Address, *, environ: Mapping[str, str], world: World) -> None:
    """Serve any number of hosts at http://HOST:PORT/mcp until a signal comes. Raises NotServed."""
    import uvicorn

    with _listening(address) as listener:

        async def serve(ready: Readiness, end: _End) -> None:
            server = build_host_server(ready, state_key=_state_key())
            app = server.streamable_http_app(host=address.host, transport_security=_names_served(address.host))
            if address.token is not None:
                app.add_middleware(BearerOnly, token=address.token)
            config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2)
            host = f"[{address.host}]" if ":" in address.host else address.host
            sys.stderr.write(f"steprelay serves http://{host}:{listener.getsockname()[1]}/mcp\n")
            await uvicorn.Server(config).serve(sockets=[listener])

        await _serve(found, serve, environ=environ, world=world)


def check_address(host: str, *, authenticated: bool) -> None:
    """Raises NotServed for an address beyond this machine without authentication."""
    if not authenticated and not _is_loopback(host):
        raise NotServed(f"--no-auth is for loopback only, not for {host}; leave it out, or serve 127.0.0.1")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _names_served(host: str) -> "TransportSecuritySettings | None":
    """On loopback, the names that requests may be for: a website can have a name of its own lead there (DNS rebinding).

    None elsewhere, where nobody knows by which name this machine is reached, and the token alone lets in.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    if not _is_loopback(host):
        return None
    served = f"[{host}]" if ":" in host else host
    names = [f"{name}:*" for name in {"127.0.0.1", "localhost", "[::1]", served}]
    return TransportSecuritySettings(allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names])


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        where = f"{address.host}:{address.port}"
        raise NotServed(f"{where} cannot be served: {error.strerror or error}; choose another with --http") from error


def _state_key() -> bytes:
    """Where no key can be kept, open questions do not outlive this process."""
    try:
        return request_state_key()
    except NotKept as error:
        log.warning("no_state_key", extra={"error": str(error)})
        return os.urandom(32)


async def _serve(
    found: Callable[[], Found],
    serve: "Serve",
    *,
    environ: Mapping[str, str],
    world: World,
) -> None:
    """Serve while the product opens, so that the handshake never waits; end with the process.

    The thread that reads stdin cannot be interrupted, so the process is ended once all that is ours is closed.
    """
    end, ready = _End(), Readiness()
    async with anyio.create_task_group() as group:
        group.start_soon(end.at_signal)
        group.start_soon(end.after, serve, ready)
        # Where serving fails, the group is cancelled; what is open is closed all the same, in its last seconds.
        with anyio.CancelScope(shield=True):
            try:
                with end.once_left():
                    async with AsyncExitStack() as stack:
                        open_one = partial(_open, stack, ready, found, environ=environ, world=world)
                        while not await open_one() and not end.reached.is_set():
                            with anyio.move_on_after(_AGAIN_SECONDS):
                                await end.reached.wait()
                        await end.reached.wait()
            finally:
                end.now()


class _End:
    """The end of a serving process: when it comes, and with which exit code."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self._code = 0

    async def at_signal(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            while True:
                self._come(128 + int(await anext(signals)))

    async def after(self, serve: "Serve", ready: Readiness) -> None:
        with self.once_left():
            await serve(ready, self)

    @contextmanager
    def once_left(self) -> Generator[None]:
        """The end comes when the block is left, whatever by."""
        with self.once_failed():
            yield
        self._come(0)

    @contextmanager
    def once_failed(self) -> Generator[None]:
        """The end comes where the block is left by an error, which goes on, or is cancelled."""
        try:
            yield
        finally:
            if sys.exception() is not None and not self.reached.is_set():
                log.error("serving_failed", exc_info=True)
                self._come(1)

    def _come(self, code: int) -> None:
        if not self.reached.is_set():
            self._code = code
            timer = threading.Timer(_LAST_SECONDS, os._exit, (code,))
            timer.daemon = True
            timer.start()
            self.reached.set()

    def now(self) -> None:
        logging.shutdown()
        sys.stderr.flush()
        os._exit(self._code)


Serve: TypeAlias = Callable[[Readiness, _End], Awaitable[None]]
"""Serves hosts until they are gone; it may tell the end that it failed before it can raise."""


async def _open(
    stack: AsyncExitStack, ready: Readiness, found: Callable[[], Found], *, environ: Mapping[str, str], world: World
) -> bool:
    """Open the product until the stack is closed; false where that failed and may go better later."""
    try:
        settings = await anyio.to_thread.run_sync(_loaded, found, environ)
        from server.assembly import open_product
        from server.page.serving import open_page

        product = await stack.enter_async_context(open_product(settings, world=world))
        ready.known(product)
        await stack.enter_async_context(open_page(product, opens=True))
    except SteprelayError as error:
        _say(ready, error)
        return not isinstance(error, StoreError)
    except OSError as error:
        _say(ready, NotStarted(error))
        return False
    return True


def _loaded(found: Callable[[], Found], environ: Mapping[str, str]) -> Settings:
    """The settings, and with them what a product is made of: reading and importing must not hold the handshake up."""
    settings = load_settings(found(), environ=environ, lenient=True)
    start_logging(settings.outlet)
    importlib.import_module("server.assembly")
    importlib.import_module("server.page.serving")
    return settings


def _say(ready: Readiness, problem: SteprelayError) -> None:
    if ready.known(problem):
        sys.stderr.write(f"steprelay: {problem}\n")
