"""The streams of the older HTTP+SSE: one stream of events from the server, and a POST for each message to it.

Unlike the SDK's, it reads events of up to 16 MiB, and a POST that hangs holds up no other.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

import anyio
import httpx2
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError

from .exchange import LARGEST_ANSWER
from .life import Life

_HEADERS = {"accept": "text/event-stream", "cache-control": "no-store"}
_REDIRECTS = 3


@asynccontextmanager
async def open_sse(
    url: str, http: httpx2.AsyncClient, life: Life
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[SessionMessage | Exception], "Posts"]]:
    """Streams to and from the server at `url`; `life` ends with the stream of events.

    Raises httpx2.HTTPError where it cannot be opened, ValueError where it wants messages at another origin.
    """
    response = await _sent(http, http.build_request("GET", url, headers=_HEADERS))
    try:
        response.raise_for_status()
        events = httpx2.EventSource(response, max_event_size=LARGEST_ANSWER)
        inbox, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        async with anyio.create_task_group() as group:
            with inbox, incoming:
                address = await group.start(_read, events, inbox, life)
                yield incoming, Posts(http, address, group)
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(1):
            await response.aclose()


async def _read(
    events: httpx2.EventSource,
    inbox: MemoryObjectSendStream[SessionMessage | Exception],
    life: Life,
    *,
    task_status: TaskStatus[httpx2.URL],
) -> None:
    opened_at, told = events.response.request.url, False
    try:
        async for event in events:
            if event.event == "endpoint" and not told:
                address, told = opened_at.join(event.data), True
                if not _same_origin(address, opened_at):
                    raise ValueError(f"it wants its messages at another origin, {address}")
                task_status.started(address)
            elif event.event == "message" and event.data:
                await inbox.send(_message(event.data))
    except (httpx2.TransportError, httpx2.StreamError) as error:
        life.end(f"its stream of events broke off: {error}")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return
    finally:
        inbox.close()


def _message(text: str) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValidationError as error:
        return error


class Posts:
    """The way to the server. Requests go out side by side; what is no request goes out before `send` returns."""

    def __init__(self, http: httpx2.AsyncClient, address: httpx2.URL, group: TaskGroup) -> None:
        self._http = http
        self._address = address
        self._group = group
        self._under_way: dict[int | str, anyio.CancelScope] = {}

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest):
            scope = self._under_way[message.id] = anyio.CancelScope()
            # Within the caller's context, in which the transport finds the call's exchange.
            self._group.start_soon(self._request, item, message.id, scope)
            return
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            given_up = self._under_way.get((message.params or {}).get("requestId", ""))
            if given_up is not None:
                given_up.cancel()
        await self._post(item)

    async def _request(self, item: SessionMessage, id_: int | str, scope: anyio.CancelScope) -> None:
        with scope:
            await self._post(item)
        self._under_way.pop(id_, None)

    async def _post(self, item: SessionMessage) -> None:
        body = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        # What the status says is read by the transport below, which also ends the connection over an error.
        with suppress(httpx2.StreamError):
            response = await _sent(self._http, self._http.build_request("POST", self._address, json=body))
            await response.aclose()

    async def aclose(self) -> None:
        """Nothing is held but what the group ends."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


async def _sent(http: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
    """The answer, unread; a redirect is followed only within the origin and if it stays the same request."""
    for _ in range(_REDIRECTS):
        response = await http.send(request, stream=True)
        other = response.next_request
        if other is None or other.method != request.method or not _same_origin(other.url, request.url):
            return response
        await response.aclose()
        request = other
    return await http.send(request, stream=True)


def _same_origin(one: httpx2.URL, other: httpx2.URL) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)
