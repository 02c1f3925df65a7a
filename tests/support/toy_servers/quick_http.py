"""The quick server over streamable HTTP, without sessions: `-m toy_servers.quick_http LOG PORT`.

It says its address on stderr once it listens; at a port, it stands where another one stood.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from toy_servers.quick_server import answer_to


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body of an answer go out as one.
    wbufsize = -1

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self._say(202, b"")
            return
        said = {"jsonrpc": "2.0", "id": message["id"], **answer_to(message, Path(sys.argv[1]))}
        self._say(200, json.dumps(said).encode())

    def do_GET(self) -> None:
        self._say(405, b"")

    do_DELETE = do_GET

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Nobody reads it."""

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve on loopback until the process is killed."""
    with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), _Answers) as server:
        sys.stderr.write(f"http://127.0.0.1:{server.server_port}/mcp\n")
        sys.stderr.flush()
        server.serve_forever()


if __name__ == "__main__":
    main()
