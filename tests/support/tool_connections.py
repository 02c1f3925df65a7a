"""Settings of tool servers for tests, and stand-ins for servers over HTTP that answer as a test says."""

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketStream
from mcp.types import CallToolResult
from toys import HttpToy

from downstream.settings import ServerOptions, ServerSettings, Transport

_SUPPORT = Path(__file__).parent
ODD = _SUPPORT / "toy_servers" / "odd_server.py"
CUT = "cut"
"""As a body: an answer that ends after its first character."""
Answer = Callable[[str], tuple[int, Any] | None]
"""By JSON-RPC method: a status and a body to send, or None to break the connection off."""


def stdio(name: str, command: list[str], *, env: dict[str, str] | None = None, **options: Any) -> ServerSettings:
    """A server that is started by a command."""
    return ServerSettings(
        name=name,
        transport="stdio",
        command=command[0],
        args=tuple(command[1:]),
        env=env or {},
        options=ServerOptions(**options),
    )


def by_hand(name: str, fault: str, version: str, state: Path, **options: Any) -> ServerSettings:
    """A server on stdio that insists on a version of the protocol and has a fault of `toy_servers/faulty_server.py`."""
    command = [sys.executable, "-m", "toy_servers.faulty_server", fault, version, str(state)]
    return stdio(name, command, **options).model_copy(update={"cwd": _SUPPORT})


def remote(name: str, url: str, **options: Any) -> ServerSettings:
    """A server over streamable HTTP, or over HTTP+SSE where its address ends so."""
    transport: Transport = "sse" if url.endswith("/sse") else "http"
    return ServerSettings(name=name, transport=transport, url=url, options=ServerOptions(**options))


@asynccontextmanager
async def open_older_http(log: Path, *, port: int = 0, module: str = "legacy_http_server") -> AsyncGenerator[HttpToy]:
    """A ledger server over HTTP that speaks only the older protocol; at a port, it stands where another one stood."""
    await anyio.Path(log).touch()
    command = [sys.executable, "-m", f"toy_servers.{module}", str(log), str(port)]
    async with await anyio.open_process(command, stdin=None, stdout=subprocess.DEVNULL, cwd=_SUPPORT) as process:
        try:
            assert process.stderr is not None
            with anyio.fail_after(20):
                url = (await process.stderr.receive()).decode().strip()
            yield HttpToy(url, process)
        finally:
            if process.returncode is None:
                process.kill()


def text_of(result: CallToolResult) -> str:
    """All text parts of a result."""
    return "\n".join(part.text for part in result.content if part.type == "text")


@dataclass
class Stub:
    """A server over HTTP that lists one tool `look` and answers calls as `answer` says; it counts what it was asked."""

    answer: Answer
    url: str = ""
    asked: list[str] = field(default_factory=list[str])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    events: SocketStream | None = None
    """Where answers go over HTTP+SSE, once it is asked for."""

    async def serve(self, stream: SocketStream) -> None:
        """One connection, one request: read it, answer it, close."""
        async with stream:
            head, _, rest = (await _until_blank_line(stream)).partition(b"\r\n\r\n")
            lines = [line.partition(": ")[::2] for line in head.decode().split("\r\n")[1:]]
            self.headers = {name.lower(): value for name, value in lines}
            length = int(self.headers.get("content-length", 0))
            while len(rest) < length:
                rest += await stream.receive()
            if head.startswith(b"POST"):
                await self._reply(stream, json.loads(rest))
            elif head.startswith(b"GET /sse"):
                self.events = stream
                await stream.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
                await stream.send(b"event: endpoint\ndata: /messages\n\n")
                await anyio.sleep_forever()
            else:
                await _send(stream, 405, None)

    async def _reply(self, stream: SocketStream, message: Any) -> None:
        method = message["method"]
        self.asked.append(method)
        if "id" not in message:
            await _send(stream, 202, None)
        elif method == "tools/call":
            said = self.answer(method)
            if said == (200, CUT):
                await stream.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{")
            elif said is not None:
                await _send(stream, said[0], said[1], message["id"])
        elif self.events is not None:
            await self.events.send(b"data: " + _rpc(_protocol(method, message), message["id"]) + b"\n\n")
            await _send(stream, 202, None)
        else:
            await _send(stream, 200, _protocol(method, message), message["id"])


@asynccontextmanager
async def open_stub(answer: Answer) -> AsyncGenerator[Stub]:
    """A stub on loopback, of the older protocol."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    stub = Stub(answer, f"http://127.0.0.1:{port}/mcp")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, stub.serve)
        yield stub
        group.cancel_scope.cancel()


def _protocol(method: str, message: Any) -> Any:
    match method:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "stub", "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}}
        case _:
            return {"error": {"code": -32601, "message": f"no method {method}"}}


async def _until_blank_line(stream: SocketStream) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        head += await stream.receive()
    return head


async def _send(stream: SocketStream, status: int, body: Any, id_: Any = None) -> None:
    content_type = "text/html" if isinstance(body, str) else "application/json"
    content = b"" if body is None else body.encode() if isinstance(body, str) else _rpc(body, id_)
    head = f"HTTP/1.1 {status} Said\r\ncontent-type: {content_type}\r\ncontent-length: {len(content)}\r\n"
    await stream.send(f"{head}connection: close\r\n\r\n".encode() + content)


def _rpc(body: Any, id_: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, **body}).encode()
