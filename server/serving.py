"""Serving hosts over stdio or HTTP, and ending cleanly: at a signal or a closed stdin no child process stays behind."""

import hmac
import logging
import os
import secrets
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from journal.errors import SteprelayError
from journal.settings import state_folder
from journal.world import World

from .found_settings import Found
from .host import build_host_server, request_state_key
from .product import Product
from .settings import load_settings

log = logging.getLogger(__name__)

_LAST_SECONDS = 8.0
"""Closing everything may take so long; then the process ends all the same."""


@dataclass(frozen=True)
class Address:
    """Where HTTP is served; `token` is None where nobody has to show one."""

    host: str
    port: int
    token: str | None


class NotServed(SteprelayError):
    """An address that must not, or cannot, be served."""


class Readiness:
    """The product once it is open, or the reason why there is none; asking waits until one of the two is known."""

    def __init__(self) -> None:
        self._known = anyio.Event()
        self._product: Product | None = None
        self._problem: SteprelayError | None = None

    def opened(self, product: Product) -> None:
        self._product = product
        self._known.set()

    def failed(self, problem: SteprelayError) -> None:
        self._problem = problem
        self._known.set()

    async def __call__(self) -> Product:
        await self._known.wait()
        if self._product is None:
            raise self._problem or SteprelayError("steprelay could not start; its log says why")
        return self._product


async def serve_stdio(found: Callable[[], Found], *, environ: Mapping[str, str], world: World) -> None:
    """Serve one host over stdin and stdout until stdin closes or a signal comes."""
    from mcp.server.stdio import stdio_server

    async def serve(ready: Readiness) -> None:
        server = build_host_server(ready, state_key=request_state_key(state_folder()))
        async with stdio_server() as (receive, send):
            await server.run(receive, send, server.create_initialization_options())

    await _serve(found, serve, environ=environ, world=world)


async def serve_http(found: Callable[[], Found], address: Address, *, environ: Mapping[str, str], world: World) -> None:
    """Serve any number of hosts at http://HOST:PORT/mcp until a signal comes."""

    async def serve(ready: Readiness) -> None:
        import uvicorn

        server = build_host_server(ready, state_key=request_state_key(state_folder()))
        app = server.streamable_http_app(host=address.host)
        if address.token is not None:
            app.add_middleware(_BearerOnly, token=address.token)
        config = uvicorn.Config(app, host=address.host, port=address.port, log_config=None, timeout_graceful_shutdown=2)
        http = uvicorn.Server(config)
        sys.stderr.write(f"steprelay serves http://{address.host}:{address.port}/mcp\n")
        await http.serve()

    await _serve(found, serve, environ=environ, world=world)


def local_token() -> tuple[str, Path]:
    """The bearer token of this user and the 0600 file that holds it, made at first use."""
    path = state_folder() / "http-token"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32))
    return path.read_text(encoding="ascii").strip(), path


def check_address(host: str, *, authenticated: bool) -> None:
    """Raises NotServed for an address beyond this machine without authentication."""
    if not authenticated and host not in ("127.0.0.1", "localhost", "::1"):
        raise NotServed(f"--no-auth is for loopback only, not for {host}; leave it out, or serve 127.0.0.1")


async def _serve(
    found: Callable[[], Found],
    serve: Callable[[Readiness], Awaitable[None]],
    *,
    environ: Mapping[str, str],
    world: World,
) -> None:
    """Serve while the product opens, so that the handshake never waits; end with the process.

    The thread that reads stdin cannot be interrupted, so the process is ended once all that is ours is closed.
    """
    end = _End()
    async with anyio.create_task_group() as group:
        ready = Readiness()
        group.start_soon(end.at_signal)
        group.start_soon(end.after, serve, ready)
        async with _opened(ready, found, environ=environ, world=world):
            await end.reached.wait()
            end.in_any_case()
        end.now()


class _End:
    """The end of a serving process: when it comes, and with which exit code."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self._code = 0

    async def at_signal(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                self._code = 128 + int(number)
                self.reached.set()

    async def after(self, serve: Callable[[Readiness], Awaitable[None]], ready: Readiness) -> None:
        try:
            await serve(ready)
        finally:
            self.reached.set()

    def in_any_case(self) -> None:
        timer = threading.Timer(_LAST_SECONDS, os._exit, (self._code,))
        timer.daemon = True
        timer.start()

    def now(self) -> None:
        logging.shutdown()
        sys.stderr.flush()
        os._exit(self._code)


@asynccontextmanager
async def _opened(
    ready: Readiness, found: Callable[[], Found], *, environ: Mapping[str, str], world: World
) -> AsyncGenerator[None]:
    from .assembly import open_product

    async with AsyncExitStack() as stack:
        try:
            settings = load_settings(found(), environ=environ, lenient=True)
            ready.opened(await stack.enter_async_context(open_product(settings, world=world)))
        except SteprelayError as error:
            sys.stderr.write(f"steprelay: {error}\n")
            ready.failed(error)
        yield


class _BearerOnly:
    """Lets a request through only with the local token."""

    def __init__(self, app: Callable[..., Awaitable[None]], token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: dict[str, object], receive: object, send: Callable[..., Awaitable[None]]) -> None:
        headers = dict(scope.get("headers", ()))  # type: ignore[call-overload]
        shown = headers.get(b"authorization", b"")
        if scope["type"] == "http" and not hmac.compare_digest(shown, self._expected):
            await send({"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]})
            await send({"type": "http.response.body", "body": b"show the token of the http-token file as Bearer"})
            return
        await self._app(scope, receive, send)
