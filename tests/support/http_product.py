"""The product serving HTTP in a process of its own, with a client connected to it."""

import os
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from mcp.client.session import ElicitationFnT
from mcp_hosts import Era, Host, open_http_host, serve


@asynccontextmanager
async def open_http_product(
    config: Path, *, era: Era = "legacy", on_elicit: ElicitationFnT | None = None
) -> AsyncGenerator[Host]:
    """Serve these settings on a free port of loopback, with the bearer token of the state folder."""
    port = free_port()
    command = serve(config, "--http", f"127.0.0.1:{port}")
    async with await anyio.open_process(command, stdin=None, stdout=None, stderr=None, env=dict(os.environ)) as process:
        try:
            await _listening(port)
            token = (Path(os.environ["XDG_STATE_HOME"]) / "steprelay" / "http-token").read_text()
            url = f"http://127.0.0.1:{port}/mcp"
            async with open_http_host(url, token=token, era=era, on_elicit=on_elicit) as host:
                host.pid = process.pid
                yield host
        finally:
            process.send_signal(signal.SIGTERM)
            with anyio.fail_after(15):
                await process.wait()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


async def _listening(port: int) -> None:
    with anyio.fail_after(20):
        while True:
            try:
                stream = await anyio.connect_tcp("127.0.0.1", port)
            except OSError:
                # No event tells when another process begins to listen.
                await anyio.sleep(0.05)
            else:
                await stream.aclose()
                return
