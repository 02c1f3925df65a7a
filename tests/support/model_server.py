"""A scripted model server on loopback, in a thread of this process or as `python model_server.py PORT SCRIPT.json`.

It speaks OpenAI chat completions, Anthropic messages, Gemini and Ollama chat, whole and streaming, and can fail on
purpose.
It has a thread of its own because some of litellm's calls block the event loop they are made from.
"""

import json
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseServer
from typing import cast
from urllib.parse import urlsplit

from model_gemini import error_body
from model_reply import Said, said, streamed, whole
from model_script import (
    Reply,
    Rule,
    answer,
    call,
    check_script,
    compose,
    fits,
    host,
    load_script,
    on,
    planner,
    report,
    reviewer,
    reviser,
    worker,
)
from model_wire import Json, ModelRequest, Wire, markers_in, read_request, wire_of

__all__ = [
    "ModelRequest",
    "ModelServer",
    "Reply",
    "Rule",
    "answer",
    "call",
    "compose",
    "host",
    "markers_in",
    "on",
    "planner",
    "report",
    "reviewer",
    "reviser",
    "serve_model",
    "worker",
]

_MODEL = "scripted"
_CONTEXT = 32_768
_ERROR_TYPES = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}


class ModelServer:
    """The server as its test sees it: where it listens, what it was asked, what it holds back."""

    def __init__(self, script: Sequence[Rule], port: int) -> None:
        self._script = check_script(script)
        self._used: Counter[int] = Counter()
        self._changed = threading.Condition()
        self._requests: list[ModelRequest] = []
        self._unmatched: list[ModelRequest] = []
        self._billed: list[Said] = []
        self._released: set[str] = set()
        self._in_flight = 0
        self._max_in_flight = 0
        self.stopped = threading.Event()
        self.http = _Http(self, port)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    @property
    def requests(self) -> list[ModelRequest]:
        """Every request so far, in order of arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def unmatched(self) -> list[ModelRequest]:
        """The requests that no rule answered."""
        with self._changed:
            return list(self._unmatched)

    @property
    def billed(self) -> list[Said]:
        """What was said to the end; nobody was told what the others took."""
        with self._changed:
            return list(self._billed)

    def bill(self, spoken: Said) -> None:
        """Note what is about to be said to the end."""
        with self._changed:
            self._billed.append(spoken)

    @property
    def max_in_flight(self) -> int:
        """How many requests were open at the same time, at most."""
        with self._changed:
            return self._max_in_flight

    def release(self, name: str) -> None:
        """Let the replies that hold for this name go, now and later."""
        with self._changed:
            self._released.add(name)
            self._changed.notify_all()

    def wait_for(self, wanted: Callable[[ModelRequest], bool], *, timeout: float = 10) -> ModelRequest:
        """Block until such a request has come; raises TimeoutError. From async code call it in a thread."""
        with self._changed:
            self._changed.wait_for(lambda: any(map(wanted, self._requests)), timeout)
            found = next(filter(wanted, self._requests), None)
        if found is None:
            raise TimeoutError(
                f"no such request within {timeout:g} s; last: {[r.describe() for r in self.requests][-3:]}"
            )
        return found

    def hold(self, name: str) -> None:
        """Block until the name is released or the server stops."""
        with self._changed:
            self._changed.wait_for(lambda: name in self._released or self.stopped.is_set())

    def pick(self, request: ModelRequest) -> Reply:
        """Record the request and choose its reply."""
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()
            for index, rule in enumerate(self._script):
                if self._used[index] < rule.get("times", sys.maxsize) and fits(rule.get("when", {}), request):
                    self._used[index] += 1
                    return rule["reply"]
            self._unmatched.append(request)
        return {"status": 400, "error": f"no rule of the script answers {request.describe()}", "code": "unscripted"}

    @contextmanager
    def in_flight(self) -> Generator[None]:
        """Count one open request."""
        with self._changed:
            self._in_flight += 1
            self._max_in_flight = max(self._max_in_flight, self._in_flight)
        try:
            yield
        finally:
            with self._changed:
                self._in_flight -= 1

    def stop(self) -> None:
        """End what hangs or holds, drop all connections and wait for their threads."""
        self.stopped.set()
        with self._changed:
            self._changed.notify_all()
        self.http.shutdown()
        self.http.drop_connections()
        self.http.server_close()


@contextmanager
def serve_model(script: Sequence[Rule] = (), *, port: int = 0) -> Generator[ModelServer]:
    """Serve the script on loopback from a thread; `server.url` is the base of all wires but OpenAI's, with its /v1."""
    server = ModelServer(script, port)
    thread = threading.Thread(target=server.http.serve_forever, args=(0.02,), name="model-server")
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, model: ModelServer, port: int) -> None:
        self.model = model
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Json) -> None:
        self._open.add(cast("socket.socket", request))
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        self._open.discard(cast("socket.socket", request))
        super().shutdown_request(request)

    def drop_connections(self) -> None:
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed by its own thread in the meantime


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, request: socket.socket, client_address: Json, server: BaseServer) -> None:
        self.model = cast("_Http", server).model
        super().__init__(request, client_address, server)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing; a test looks at `requests`."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, ValueError):
            self.close_connection = True  # the client went away, or this end was reset on purpose

    def do_GET(self) -> None:
        self._send(self._about(urlsplit(self.path).path))

    def do_HEAD(self) -> None:
        self._send(b"")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        path = urlsplit(self.path).path
        wire = wire_of(path)
        if path.endswith("/count_tokens"):
            self._send({"input_tokens": len(json.dumps(body)) // 4})
        elif wire is None:
            self._send(self._about(path))
        else:
            request = read_request(wire, body, path=path, headers=dict(self.headers.items()))
            with self.model.in_flight():
                self._reply(self.model.pick(request), request)

    def _about(self, path: str) -> Json:
        """What the server says of itself: its models, and what it was asked."""
        if path.endswith("/api/show"):
            return {
                "capabilities": ["completion", "tools"],
                "model_info": {"x.context_length": _CONTEXT},
                "details": {},
            }
        if path.endswith("/requests"):
            return [{"role": each.role, "step": each.step, "body": each.body} for each in self.model.requests]
        listed = [{"id": _MODEL, "object": "model"}]
        return {"object": "list", "data": listed, "models": [{"name": _MODEL, "model": _MODEL}]}

    def _reply(self, reply: Reply, request: ModelRequest) -> None:
        if "hold" in reply:
            self.model.hold(reply["hold"])
        self.model.stopped.wait(reply.get("latency", 0))
        if "raw" in reply:
            kind, more = reply.get("kind", "application/json"), reply.get("headers", {})
            self._send(reply["raw"].encode(), status=reply.get("status", 200), kind=kind, headers=more)
        elif "status" in reply:
            self._send_error(reply, reply["status"], request.wire)
        elif reply.get("fault") in ("reset", "hang"):
            if reply.get("fault") == "hang":
                self.model.stopped.wait()
            self._reset()
        elif reply.get("fault") == "html":
            self._send(b"<html><body>502 Bad Gateway</body></html>", kind="text/html")
        elif request.stream:
            self._stream(reply, request)
        elif reply.get("fault") == "truncate":
            self._send_half(json.dumps(whole(reply, request)).encode())
        else:
            self.model.bill(said(reply, request))
            self._send(whole(reply, request))

    def _send(
        self,
        data: Json,
        *,
        status: int = 200,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        content = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _send_error(self, reply: Reply, status: int, wire: Wire) -> None:
        kind = _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
        message = reply.get("error", f"scripted status {status}")
        error = {"type": kind, "message": message, "code": reply.get("code")}
        body = {"type": "error", "error": error} if wire != "gemini" else error_body(status, message, reply.get("code"))
        pause = reply.get("retry_after")
        self._send(body, status=status, headers={} if pause is None else {"retry-after": f"{pause:g}"})

    def _send_half(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True

    def _stream(self, reply: Reply, request: ModelRequest) -> None:
        chunks = list(streamed(reply, request))
        half = len(chunks) // 2 if reply.get("fault") == "truncate" else None
        dropped = reply.get("drop_after", reply.get("stall_after", half))
        if dropped is None:
            self.model.bill(said(reply, request))
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson" if request.wire == "ollama" else "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for chunk in chunks[:dropped]:
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            self.model.stopped.wait(reply.get("chunk_delay", 0))
        if "stall_after" in reply:
            self.model.stopped.wait()
        if dropped is not None:
            self._reset()
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _reset(self) -> None:
        """Close with a reset instead of an orderly end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.rfile.close()
        self.connection.close()


def main() -> None:
    """Serve a script file until the process is ended; the first line on stdout is the address."""
    server = ModelServer(load_script(Path(sys.argv[2])), int(sys.argv[1]))
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    server.http.serve_forever()


if __name__ == "__main__":
    main()
