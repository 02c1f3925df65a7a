"""The official host side of MCP Apps in a web page, next to a product's `/mcp`: for a browser to open."""

import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from third_party import Missing, modules_with

_PACKAGES = (
    "@modelcontextprotocol/ext-apps@2.0.4",
    "@modelcontextprotocol/client@^2.0.0",
    "@modelcontextprotocol/core@^2.0.0",
    "zod@^4.2.0",
    "esbuild@0.28.2",
)
_SOURCE = Path(__file__).with_name("app_bridge_host.js")
_PAGE = """<!doctype html><meta charset="utf-8"><title>host</title>
<style>:root { color-scheme: light dark } body { margin: 0 } iframe { width: 100%; border: 0; display: block }</style>
<script src="/host.js" defer></script>"""


@cache
def bundled() -> str | Missing:
    """The host's script with all that it imports, or why it can't be had here."""
    folder = modules_with("app-bridge", *_PACKAGES)
    if isinstance(folder, Missing):
        return folder
    source = folder / _SOURCE.name
    source.write_text(_SOURCE.read_text())
    command = [str(folder / "node_modules" / ".bin" / "esbuild"), str(source), "--bundle", "--log-level=error"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else Missing(f"the host can't be bundled: {done.stderr[-300:]}")


@asynccontextmanager
async def open_host_page(server: Server[Any], host_script: str) -> AsyncGenerator[str]:
    """Serve the host's page and the server on one origin of loopback; gives that origin."""

    async def page(request: Request) -> Response:
        return HTMLResponse(_PAGE)

    async def code(request: Request) -> Response:
        return Response(host_script, media_type="text/javascript")

    app = server.streamable_http_app(custom_starlette_routes=[Route("/", page), Route("/host.js", code)])
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    served = uvicorn.Server(config)
    # Who connects before the server is up waits in the listener's queue.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(served.serve, sockets=[listener]))
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                served.should_exit = True
