"""Ways to a tool server: a child process, streamable HTTP, and the older HTTP+SSE; all of them tell when they end."""

import contextvars
import os
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

import anyio
import httpx2
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage

from downstream.auth.access import Access
from downstream.settings import ServerSettings

from .bulk import bounded
from .exchange import LARGEST_ANSWER, ContainedTransport, current_exchange
from .failures import CallFailed, ServerUnavailable
from .life import Life
from .listing_mend import Mender
from .sieve import Sieve
from .sse_streams import open_sse
from .stderr_tail import StderrTail
from .stdio_process import Start
from .stdio_streams import open_stdio
from .unreadable import as_answer
from .watchdog import Watchdog

Incoming: TypeAlias = SessionMessage | Exception
Streams: TypeAlias = tuple[ReadStream[Incoming], WriteStream[SessionMessage]]

DEPTH = "STEPRELAY_DEPTH"
"""The variable that tells a child process how many runs stand above it."""

# Reading waits for as long as the call may take; each call has its own deadline.
_TIMEOUTS = httpx2.Timeout(30.0, read=None)


@dataclass(frozen=True)
class Surroundings:
    """What every way out of this process shares, and what is kept of one server's stderr and of the login at it."""

    watchdog: Watchdog
    tail: StderrTail
    access: Access | None = None


@asynccontextmanager
async def open_transport(
    server: ServerSettings, around: Surroundings, *, life: Life, on_change: Callable[[], None], mender: Mender
) -> AsyncGenerator[Streams]:
    """Streams to and from a server; `life` ends once it is gone, and `on_change` is called when its tools changed.

    Raises all kinds of errors.
    """
    refuse_ourselves(server)
    if server.transport == "stdio":
        opened = _open_stdio(server, around, life)
    elif server.transport == "http":
        opened = _open_http(server, around.access)
    else:
        opened = _open_sse(server, around.access, life)
    async with opened as (reading, writing):
        yield _Watched(reading, life.end, Sieve(on_change), mender), _Noted(writing, mender)


def refuse_ourselves(server: ServerSettings) -> None:
    """Raises ServerUnavailable for an entry that would start another steprelay."""
    words = {Path(word).stem for word in (server.command or "", *server.args)}
    if {"steprelay", "serve"} <= words:
        raise ServerUnavailable(server.name, "it is steprelay itself; take it out of mcpServers")


@asynccontextmanager
async def _open_stdio(server: ServerSettings, around: Surroundings, life: Life) -> AsyncGenerator[Streams]:
    env = {**server.env, DEPTH: str(_own_depth() + 1)}
    start = Start(around.watchdog.guarded(_executable(server), server.args), env, server.cwd)
    with around.tail.open_pipe() as stderr:
        async with open_stdio(start, stderr, life) as streams:
            yield streams


@asynccontextmanager
async def _open_http(server: ServerSettings, access: Access | None) -> AsyncGenerator[Streams]:
    url, auth = _url(server), access.header() if access else None
    async with (
        _http_client(server.headers, auth) as http,
        streamable_http_client(url, http_client=http, max_sse_event_size=LARGEST_ANSWER) as streams,
    ):
        yield streams


@asynccontextmanager
async def _open_sse(server: ServerSettings, access: Access | None, life: Life) -> AsyncGenerator[Streams]:
    url, auth = _url(server), access.header(life.end) if access else None
    async with _http_client(server.headers, auth, life.end) as http, open_sse(url, http, life) as streams:
        yield streams


def _http_client(
    headers: dict[str, str], auth: httpx2.Auth | None, on_failure: Callable[[], None] | None = None
) -> httpx2.AsyncClient:
    transport = ContainedTransport(httpx2.AsyncHTTPTransport(), on_failure, login=auth is not None)
    plain = httpx2.Headers(headers)
    plain["Accept-Encoding"] = "identity"
    return httpx2.AsyncClient(transport=transport, headers=plain, auth=auth, timeout=_TIMEOUTS)


def _url(server: ServerSettings) -> str:
    if server.url is None:
        raise ServerUnavailable(server.name, f"an entry of type {server.transport} needs a url")
    return server.url


def _executable(server: ServerSettings) -> str:
    """The command as a path; raises ServerUnavailable where the shell between could only say so on stderr."""
    command = server.command
    if command is None:
        raise ServerUnavailable(server.name, "an entry of type stdio needs a command")
    folder = server.cwd or Path.cwd()
    if not folder.is_dir():
        raise ServerUnavailable(server.name, f"its cwd {folder} is no folder")
    path = {**get_default_environment(), **server.env}.get("PATH", os.defpath)
    found = shutil.which(str(folder / command) if os.sep in command else command, path=path)
    if found is None:
        raise ServerUnavailable(server.name, f"command {command!r} was not found; install it or give its full path")
    return found


def _own_depth() -> int:
    depth = os.environ.get(DEPTH, "")
    return int(depth) if depth.isdecimal() else 0


class _Watched:
    """A stream of incoming messages that says when it has ended, also while nobody waits for an answer.

    A reply that cannot be read comes as an error for the request that it belongs to.
    """

    def __init__(self, inner: ReadStream[Incoming], on_end: Callable[[], None], sieve: Sieve, mender: Mender) -> None:
        self._inner = inner
        self._on_end = on_end
        self._sieve = sieve
        self._mender = mender

    @property
    def last_context(self) -> contextvars.Context | None:
        """What the SDK's own streams carry along; absent on plain ones."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Incoming:
        try:
            while True:
                item = await self._inner.receive()
                if self._sieve.keeps(item) and (read := bounded(as_answer(item))) is not None:
                    return self._mender.mended(read)
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._on_end()
            raise

    def __aiter__(self) -> ReadStream[Incoming]:
        return self

    async def __anext__(self) -> Incoming:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class _Noted:
    """A stream of outgoing messages that notes in the caller's exchange whether one was taken."""

    def __init__(self, inner: WriteStream[SessionMessage], mender: Mender) -> None:
        self._inner = inner
        self._mender = mender

    async def send(self, item: SessionMessage, /) -> None:
        exchange = current_exchange()
        sent_before = exchange.sent
        if not sent_before and not exchange.leave():
            raise CallFailed("the time to send the call was over, so it was not sent", may_have_run=False, lost=True)
        self._mender.note(item)
        exchange.reach("send.before")
        # Before the send: one that is cancelled may have handed its message over all the same.
        exchange.sent = True
        try:
            await self._inner.send(item)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            exchange.sent = sent_before
            raise
        exchange.reach("send.after")

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()
