"""The ledger server over HTTP in the older protocol only: `-m toy_servers.legacy_http_server LOGFILE PORT`."""

import socket
import sys
from pathlib import Path

import uvicorn
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from toy_servers.ledger_server import Ledger, build_server


def main() -> None:
    """Serve the ledger."""
    serve_older(build_server(Ledger(Path(sys.argv[1]), {})).streamable_http_app(), int(sys.argv[2]))


def serve_older(app: ASGIApp, port: int) -> None:
    """Serve on loopback, refusing newer protocols; port 0 takes a free one, which stderr tells."""
    serve(refusing_newer(app), port)


def refusing_newer(app: ASGIApp) -> ASGIApp:
    """The same for clients of the older protocols alone."""

    async def older(scope: Scope, receive: Receive, send: Send) -> None:
        versions = [value.decode() for name, value in scope.get("headers", []) if name == b"mcp-protocol-version"]
        if any(version in MODERN_PROTOCOL_VERSIONS for version in versions):
            await PlainTextResponse("unknown protocol version", 400)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return older


def serve(app: ASGIApp, port: int) -> None:
    """Serve on loopback; port 0 takes a free one, which stderr tells."""
    listener = socket.create_server(("127.0.0.1", port))
    sys.stderr.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stderr.flush()
    uvicorn.Server(uvicorn.Config(app=app, log_level="critical", lifespan="on")).run(sockets=[listener])


if __name__ == "__main__":
    main()
