"""A whole product in this process, on a scripted model and real tool servers, for `mcp.Client` to connect to."""

import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import toys
from mcp.server.lowlevel import Server

from journal.world import World
from server.assembly import open_product
from server.host.mcp_server import build_host_server
from server.product import Product
from server.settings import Found, load_settings

STATE_KEY = bytes(range(32))


class Opened(NamedTuple):
    """The product, and the server in front of it."""

    product: Product
    server: Server[Any]


def write_settings(
    folder: Path,
    *,
    script: Mapping[str, Any],
    servers: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Settings with a ledger server, or these servers, and a scripted model; returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.json").write_text(json.dumps(script))
    path = folder / "steprelay.json"
    standing = {"ledger": toys.entry(toys.ledger(folder / "ledger.log", plan="Ship on Friday."))}
    whole = {
        "model": f"scripted:{folder / 'script.json'}",
        "store": f"sqlite:///{folder / 'store.db'}",
        "mcpServers": dict(standing if servers is None else servers),
        **(settings or {}),
    }
    path.write_text(json.dumps(whole))
    return path


@asynccontextmanager
async def open_test_product(
    folder: Path,
    *,
    script: Mapping[str, Any],
    servers: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    world: World | None = None,
) -> AsyncGenerator[Opened]:
    """The product as a `serve` process would open it; its store, and the ledger's `ledger.log`, lie in `folder`."""
    path = write_settings(folder, script=script, servers=servers, settings=settings)
    loaded = load_settings(Found(path, "option"), environ=os.environ, lenient=True)
    async with open_product(loaded, world=world or World()) as product:

        async def ready() -> Product:
            return product

        yield Opened(product, build_host_server(ready, state_key=STATE_KEY))


def call_step(id_: str, tool: str, *needs: str, **arguments: Any) -> dict[str, Any]:
    """A step that calls a tool."""
    step = {"id": id_, "kind": "call", "title": f"Do {id_}", "tool": tool, "arguments": arguments}
    return step | {"needs": list(needs)}


def script(*steps: Any, answer: str = "All is done.", **rest: Any) -> dict[str, Any]:
    """A scripted model with one plan."""
    return {"plan": list(steps), "answer": answer, **rest}
