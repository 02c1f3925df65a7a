"""A tool server over HTTP in the test's own process, whose calls of `look` are answered by the test, byte by byte."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
from anyio.abc import SocketAttribute, SocketStream
from toy_servers.by_hand import MODERN, ByHand

Answer: TypeAlias = Callable[["Asked"], Awaitable[None]]
_FIRST_WITH_HEADER = "2025-06-18"


@dataclass
class Asked:
    """One request; `stream` is where the answer goes."""

    server: "FaultyHttp"
    stream: SocketStream
    message: Any

    async def send(self, body: bytes, *, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        """A whole answer."""
        await self.head(status=status, kind=kind, length=len(body), **headers)
        await self.stream.send(body)

    async def head(self, *, status: int = 200, kind: str, length: int | None = None, **headers: str) -> None:
        """The beginning of an answer; without a length it goes on to the end of the connection."""
        lines = [f"HTTP/1.1 {status} Said", f"content-type: {kind}", "connection: close"]
        lines += [f"content-length: {length}"] if length is not None else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.stream.send("\r\n".join([*lines, "", ""]).encode())

    async def event(self, message: bytes, *, id_: str | None = None) -> None:
        """One event of a stream that was begun with `head(kind="text/event-stream")`."""
        await self.stream.send((f"id: {id_}\n" if id_ else "").encode() + b"data: " + message + b"\n\n")

    def reply(self, **parts: Any) -> bytes:
        """A JSON-RPC reply to this request: as the server answers, or with these parts."""
        said = parts or self.server.by_hand.answer(self.message) or {}
        return json.dumps({"jsonrpc": "2.0", "id": self.message["id"], **said}).encode()


async def well(asked: Asked) -> None:
    """The right answer."""
    await asked.send(asked.reply())


@dataclass
class FaultyHttp:
    """Counts what it was asked. `gets` answers GET requests, which over streamable HTTP may be refused."""

    by_hand: ByHand
    answer: Answer
    url: str = ""
    asked: list[str] = field(default_factory=list[str])
    gets: Callable[[Asked, str], Awaitable[None]] | None = None
    protocol: Answer | None = None
    """Answers what is no call, where that is to go wrong too."""
    listening: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Cancelled, nobody listens any more."""
    events: SocketStream | None = None
    """The one stream of HTTP+SSE, once it is open."""

    async def serve(self, stream: SocketStream) -> None:
        """One request, one answer, and the connection is closed."""
        async with stream:
            try:
                await self._serve(stream)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async def _serve(self, stream: SocketStream) -> None:
        head, rest = b"", b""
        while not rest and b"\r\n\r\n" not in head:
            head += await stream.receive()
        head, _, rest = head.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        while len(rest) < int(headers.get("content-length", 0)):
            rest += await stream.receive()
        method, path, _ = first.split(" ")
        if method == "POST":
            asked = Asked(self, stream, json.loads(rest))
            await self._post(asked, headers)
        elif method == "GET":
            self.asked.append(f"GET {headers.get('last-event-id', '')}".strip())
            await self._get(Asked(self, stream, None), path, headers)
        else:
            await Asked(self, stream, None).send(b"", status=405)

    async def _post(self, asked: Asked, headers: dict[str, str]) -> None:
        method = asked.message.get("method", "")
        self.asked.append(method)
        if self._insists(method) and headers.get("mcp-protocol-version") != self.by_hand.version:
            await asked.send(b'{"error": "which protocol?"}', status=400)
        elif "id" not in asked.message or not method:
            self.by_hand.answer(asked.message)
            await asked.send(b"", status=202)
        elif method == "tools/call":
            await self.answer(asked)
        elif self.events is not None:
            await well_by_events(asked)
        else:
            await (self.protocol or well)(asked)

    def _insists(self, method: str) -> bool:
        plain = self.events is None and method not in ("initialize", "server/discover")
        return plain and self.by_hand.version >= _FIRST_WITH_HEADER

    async def _get(self, asked: Asked, path: str, headers: dict[str, str]) -> None:
        if path.startswith("/sse"):
            self.events = asked.stream
            await asked.head(kind="text/event-stream")
            await asked.stream.send(b"event: endpoint\ndata: /messages\n\n")
            await anyio.sleep_forever()
        elif self.gets is not None:
            await self.gets(asked, headers.get("last-event-id", ""))
        else:
            await asked.send(b"", status=405)


async def well_by_events(asked: Asked) -> None:
    """The right answer over HTTP+SSE."""
    assert asked.server.events is not None
    await asked.send(b"", status=202)
    await asked.server.events.send(b"event: message\ndata: " + asked.reply() + b"\n\n")


@asynccontextmanager
async def open_faulty_http(answer: Answer, *, version: str = MODERN, path: str = "mcp") -> AsyncGenerator[FaultyHttp]:
    """The server on loopback; it is closed with all its connections at the end."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    server = FaultyHttp(ByHand(version), answer, f"http://127.0.0.1:{port}/{path}")

    async def listen() -> None:
        with server.listening:
            await listener.serve(server.serve)
        await listener.aclose()

    try:
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listen)
            yield server
            group.cancel_scope.cancel()
    except BaseExceptionGroup as raised:
        # The server raises nothing: this is what the test raised.
        raise raised.exceptions[0] from None
