"""Requests to models as they were sent, byte for byte: a relay in front of the model server keeps their bodies."""

import http.client
import json
import re
import socket
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias
from urllib.parse import urlsplit

from model_wire import ModelRequest, Wire, read_request, wire_of

_MARK = r'"cache_control":\s*\{[^{}]*\}'
_MARKS = re.compile(rf",\s*{_MARK}|{_MARK},\s*")
_SYSTEM = {"anthropic": "system", "gemini": "system_instruction"}
_REFUSAL = (
    400,
    "application/json",
    b'{"error": {"type": "invalid_request_error", "message": "it takes none of these"}}',
)
_DECODER = json.JSONDecoder()
Raw: TypeAlias = str


@dataclass(frozen=True)
class Sent:
    """A request as it was sent; `read` is what the model server makes of it.

    Its parts are slices of the body, without the marks of prefixes to keep: what stands around them is another matter.
    """

    wire: Wire
    body: bytes
    read: ModelRequest

    @cached_property
    def marks(self) -> int:
        """How many prefixes the provider is asked to keep."""
        return self.body.count(b'"cache_control"')

    @cached_property
    def parts(self) -> Mapping[str, Raw]:
        """What stands at the top of the body, by name."""
        return members(_MARKS.sub("", self.body.decode()))

    @property
    def tools(self) -> Raw:
        return self.parts.get("tools", "")

    @property
    def system(self) -> Raw:
        """The instructions, which on OpenAI's wire are the first message."""
        return self.parts[_SYSTEM[self.wire]] if self.wire in _SYSTEM else self._spoken[0]

    @property
    def messages(self) -> Sequence[Raw]:
        """All messages but the instructions, in order."""
        return self._spoken if self.wire in _SYSTEM else self._spoken[1:]

    @property
    def manner(self) -> Mapping[str, Raw]:
        """All that is neither tools nor words: the model, limits and the like."""
        words = {"tools", "system", "system_instruction", "messages", "contents"}
        return {name: part for name, part in self.parts.items() if name not in words}

    @cached_property
    def _spoken(self) -> Sequence[Raw]:
        return elements(self.parts["contents" if self.wire == "gemini" else "messages"])

    def begins_as(self, earlier: "Sent") -> bool:
        """Whether all of an earlier request stands at the beginning of this one, as providers put it together."""
        same = (self.tools, self.system, self.manner) == (earlier.tools, earlier.system, earlier.manner)
        return same and self.messages[: len(earlier.messages)] == earlier.messages


def members(text: Raw) -> dict[str, Raw]:
    """The members of a JSON object by name, each as it is written."""
    found: dict[str, Raw] = {}
    at = _after(text, "{", 0)
    while text[at] != "}":
        name, end = _DECODER.raw_decode(text, at)
        start = _after(text, ":", end)
        _, end = _DECODER.raw_decode(text, start)
        found[name] = text[start:end]
        at = _after(text, ",", end) if text[_blank(text, end)] == "," else _blank(text, end)
    return found


def elements(text: Raw) -> list[Raw]:
    """The items of a JSON list, each as it is written."""
    found: list[Raw] = []
    at = _after(text, "[", 0)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        found.append(text[at:end])
        at = _after(text, ",", end) if text[_blank(text, end)] == "," else _blank(text, end)
    return found


def _after(text: Raw, sign: str, at: int) -> int:
    """Where the next thing begins behind this sign."""
    at = _blank(text, at)
    assert text[at] == sign, text[at : at + 20]
    return _blank(text, at + 1)


def _blank(text: Raw, at: int) -> int:
    while text[at].isspace():
        at += 1
    return at


@dataclass
class Relay:
    """Passes requests on to a model server and keeps them, in the order in which they came."""

    url: str = ""
    kept: list[Sent] = field(default_factory=list[Sent])


@contextmanager
def open_relay(target: str, *, refuses: Callable[[ModelRequest], bool] = lambda _: False) -> Generator[Relay]:
    """A relay on loopback in front of the server at `target`; what it refuses is kept too, and gets status 400."""
    relay = Relay()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except ConnectionError:
                self.close_connection = True  # the one who asked went away

        def do_POST(self) -> None:
            body, path = self.rfile.read(int(self.headers["content-length"])), urlsplit(self.path).path
            wire = wire_of(path)
            assert wire is not None, path
            read = read_request(wire, json.loads(body), path=path, headers=dict(self.headers.items()))
            relay.kept.append(Sent(wire, body, read))
            status, kind, answer = _REFUSAL if refuses(read) else _ask(target, self.path, body)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    server = _Server(("127.0.0.1", 0), Handler)
    relay.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="relay")
    thread.start()
    try:
        yield relay
    finally:
        server.shutdown()
        server.drop_connections()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        assert isinstance(request, socket.socket)
        self._open.add(request)
        super().process_request(request, client_address)

    def drop_connections(self) -> None:
        """End what clients keep open for a next request."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it is closed


def _ask(target: str, path: str, body: bytes) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection(urlsplit(target).netloc)
    try:
        connection.request("POST", path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.headers["content-type"], answer.read()
    except (OSError, http.client.HTTPException):
        return 502, "text/plain", b"the model server went away"
    finally:
        connection.close()
