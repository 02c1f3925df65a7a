"""Between the product and a model's server: passes everything on, and notes what was asked in which way."""

import json
import select
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, TypeAlias

from model_wire import read_request

Way: TypeAlias = Literal["schema", "function", "text"]
"""The rungs of the ladder; `function` is also a worker's native way."""
_SECONDS = 3_600.0


@dataclass(frozen=True)
class Asked:
    """One request: who asked, in which way, how its server answered (0: it was given up), and how long that took."""

    role: str
    way: Way
    status: int
    seconds: float


@dataclass
class Tap:
    """Where the product finds the model, and what it has asked so far."""

    url: str
    asked: list[Asked] = field(default_factory=list[Asked])
    noted: threading.Event = field(default_factory=threading.Event)
    """Set once there is any."""

    def since(self, number: int) -> list[Asked]:
        """What was asked after the first so many requests."""
        return self.asked[number:]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream.removeprefix("http://")
        self.tap = Tap(f"http://127.0.0.1:{self.server_port}")


class _Handler(BaseHTTPRequestHandler):
    @property
    def _own(self) -> _Server:
        assert isinstance(self.server, _Server)
        return self.server

    def do_GET(self) -> None:
        self._pass_on(b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        began = time.monotonic()
        status = self._pass_on(body)
        data = json.loads(body)
        role, tap = read_request("openai", data, headers={}).role, self._own.tap
        tap.asked.append(Asked(role, _way(data), status, time.monotonic() - began))
        tap.noted.set()

    def _pass_on(self, body: bytes) -> int:
        connection = HTTPConnection(self._own.upstream, timeout=_SECONDS)
        try:
            connection.request(self.command, self.path, body or None, {"Content-Type": "application/json"})
            if not _answers_first(connection.sock, self.connection):
                return 0
            return self._stream(connection.getresponse())
        except (OSError, HTTPException):
            return 0
        finally:
            # Where the product has gone away, that is how its server learns of it.
            connection.close()

    def _stream(self, response: HTTPResponse) -> int:
        self.send_response(response.status)
        self.send_header("Content-Type", response.getheader("Content-Type", "application/json"))
        self.end_headers()
        while piece := response.read1(1 << 16):
            self.wfile.write(piece)
        return response.status

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def open_tap(upstream: str) -> Generator[Tap]:
    """A tap in front of a server, until the block ends."""
    with _Server(upstream) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,))
        thread.start()
        try:
            yield server.tap
        finally:
            server.shutdown()
            thread.join()


def _answers_first(server: socket.socket, client: socket.socket) -> bool:
    """Whether the server says something before its client goes away."""
    ready, _, _ = select.select([server, client], [], [], _SECONDS)
    return server in ready


def _way(body: dict[str, object]) -> Way:
    if body.get("response_format"):
        return "schema"
    return "function" if body.get("tools") else "text"
