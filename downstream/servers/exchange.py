"""What became of one call on its way out, as only the transport can see it."""

import codecs
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias, cast

import httpx2
from mcp_types import CONNECTION_CLOSED

log = logging.getLogger(__name__)

LARGEST_ANSWER = 16 * 1024 * 1024
"""Bytes of one answer over HTTP, or of one event in a stream of them."""

_BAD_REQUEST, _REFUSAL = 400, 2_000
_TOLD = 40
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


Leave: TypeAlias = Callable[[], bool]
"""Whether one call may still go out; looked at once more right before its bytes do."""

AskLeave: TypeAlias = Callable[[], Awaitable[Leave]]
"""Asks whoever drives the run for leave to send, once the server is open; what it raises reaches the caller."""


def always() -> bool:
    """Leave for a request that belongs to no run."""
    return True


async def free_leave() -> Leave:
    """Asks nobody."""
    return always


@dataclass
class Exchange:
    """`sent`: handed to the transport. `status`: of the HTTP answer. `broken`: the HTTP exchange ended too early.
    `left`: over HTTP, its bytes went out. `too_long`: the answer was not read to its end for its length. `refusal`: how
    an answer with status 400 begins.

    `reach` names the moments right before and after the transport takes the request, for tests.
    """

    leave: Leave = always
    reach: Callable[[str], None] = lambda point: None
    left: bool = False
    sent: bool = False
    status: int | None = None
    unreachable: bool = False
    broken: bool = False
    too_long: bool = False
    refusal: bytes = b""


_CURRENT: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
# The SDK's streams carry the caller's context to the transport, so concurrent calls do not meet in one exchange.


@contextmanager
def new_exchange(exchange: Exchange) -> Generator[Exchange]:
    """Note what the transport sees of the one request that is made within."""
    token = _CURRENT.set(exchange)
    try:
        yield exchange
    finally:
        _CURRENT.reset(token)


def current_exchange() -> Exchange:
    """The exchange of the request that is being made, else one that nobody reads."""
    return _CURRENT.get() or Exchange()


class ContainedTransport(httpx2.AsyncBaseTransport):
    """Turns a broken HTTP exchange into an error of that one request; raised, it would end the SDK's whole connection.

    So is an answer in an encoding, which nobody asked for: a few bytes of it could stand for any number.
    `on_failure` is told of each failed request, for the older transport, which would let its caller wait for ever;
    where there is a `login`, not of a 401, after which the request is made once more.
    """

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, on_failure: Callable[[], None] | None = None, *, login: bool = False
    ) -> None:
        self._inner = inner
        self._on_failure = on_failure
        self._login = login

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            response = await self._inner.handle_async_request(request)
            if encoding_of(response):
                _contain(response, Exchange())
            return response
        exchange = current_exchange()
        request.extensions["trace"] = _BeforeBytes(exchange)
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            exchange.unreachable = isinstance(error, _NEVER_SENT)
            exchange.broken = not exchange.unreachable
            response = _stand_in(request, error)
        else:
            exchange.status = response.status_code
            _contain(response, exchange)
        wants_login = self._login and response.status_code == 401
        if response.is_error and self._on_failure is not None and not wants_login:
            self._on_failure()
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BeforeBytes:
    """Looks at the leave once the HTTP connection is open, which may have taken long, right before the first byte."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def __call__(self, name: str, info: object) -> None:
        # What follows the call itself, as the note that nobody waits for it any more, needs no leave.
        if not name.endswith("send_request_headers.started") or self._exchange.left:
            return
        if not self._exchange.leave():
            raise httpx2.ConnectTimeout("the time to send it was over")
        self._exchange.left = True


def encoding_of(response: httpx2.Response) -> str:
    """What an answer is packed in, empty where it is in nothing."""
    encoding: str = response.headers.get("content-encoding", "").strip().lower()
    return "" if encoding == "identity" else encoding


def _contain(response: httpx2.Response, exchange: Exchange) -> None:
    # A stream of events has a bound for each event and none for all of them.
    events = response.headers.get("content-type", "").startswith("text/event-stream")
    most = math.inf if events else LARGEST_ANSWER
    inner = cast("httpx2.AsyncByteStream", response.stream)
    response.stream = _ContainedStream(inner, exchange, most=most, encoding=encoding_of(response))


class _ContainedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, exchange: Exchange, *, most: float, encoding: str) -> None:
        self._inner = inner
        self._encoding = encoding
        self._exchange = exchange
        self._left = most
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding:
            self._exchange.broken = True
            raise httpx2.StreamError(f"the answer is encoded as {self._encoding[:_TOLD]}, which was not asked for")
        try:
            async for part in self._inner:
                self._left -= len(part)
                if self._left < 0:
                    self._exchange.too_long = True
                    raise httpx2.StreamError("the answer is too long")
                if self._exchange.status == _BAD_REQUEST and len(self._exchange.refusal) < _REFUSAL:
                    self._exchange.refusal += part[:_REFUSAL]
                # What is no UTF-8 is to cost the character, not the answer.
                yield self._text.decode(part).encode()
        except httpx2.TransportError as error:
            self._exchange.broken = True
            log.debug("http_answer_broken", extra={"error": repr(error)})
            # The kind of error that the SDK answers with an error for this request only.
            raise httpx2.StreamError(f"{type(error).__name__}: {error}") from error

    async def aclose(self) -> None:
        await self._inner.aclose()


def _stand_in(request: httpx2.Request, error: httpx2.TransportError) -> httpx2.Response:
    said = {"code": CONNECTION_CLOSED, "message": f"{type(error).__name__}: {error}".rstrip(": ")}
    return httpx2.Response(503, json={"jsonrpc": "2.0", "id": None, "error": said}, request=request)
