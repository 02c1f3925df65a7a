"""A tool server that writes every call to a log: `ledger_server.py LOGFILE [--item KEY=VALUE] [--http PORT]`.

The log, one synced JSON line per call, is also where its items are kept. `--legacy-sse PORT` serves HTTP+SSE.
"""

import argparse
import base64
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import anyio
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations

READ = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
OPEN_READ = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=True)
WRITE = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
DESTROY = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


class Item(TypedDict):
    """One kept item."""

    key: str
    value: str


class Ledger:
    """The log and the tools that write to it."""

    def __init__(self, log: Path, seeded: dict[str, str]) -> None:
        self._log = log
        self._seeded = seeded

    def read_item(self, key: str) -> Item:
        """Read one item by its key."""
        self._record("read_item", key=key)
        items = self._items()
        if key not in items:
            raise ToolError(f"nothing is kept under {key!r}")
        return {"key": key, "value": items[key]}

    async def meet(self, name: str, parties: int, timeout: float = 5) -> str:  # noqa: ASYNC109 - the caller's argument
        """Wait until so many calls of this name are waiting at the same time, here or in another process."""
        self._record("meet", name=name, parties=parties, timeout=timeout)
        folder = self._log.parent / "meetings" / name
        folder.mkdir(parents=True, exist_ok=True)
        mine = _arrive(folder)
        first = mine // parties * parties
        group = [folder / str(number) for number in range(first, first + parties)]
        with anyio.move_on_after(timeout):
            # No event reaches from another process into this one.
            while not (all(path.exists() for path in group) or (folder / "open").exists()):  # noqa: ASYNC110
                await anyio.sleep(0.01)
            return f"{parties} met at {name}"
        here = sum(path.exists() for path in group)
        (folder / str(mine)).unlink()
        raise ToolError(f"only {here} of {parties} came to {name} within {timeout:g} s")

    def add_item(self, key: str, value: str) -> str:
        """Keep a value under a key."""
        self._record("add_item", key=key, value=value)
        return f"kept {key}"

    def drop_item(self, key: str) -> str:
        """Delete the value under a key for good."""
        self._record("drop_item", key=key)
        return f"dropped {key}"

    def unlabelled(self, x: str) -> str:
        """Do something that nobody described."""
        self._record("unlabelled", x=x)
        return f"did {x}"

    async def slow(self, seconds: float) -> str:
        """Take so many seconds."""
        self._record("slow", seconds=seconds)
        try:
            await anyio.sleep(seconds)
        except anyio.get_cancelled_exc_class():
            self._record("slow.cancelled", seconds=seconds)
            raise
        return f"took {seconds:g} s"

    def fail(self, text: str) -> str:
        """Fail with this text."""
        self._record("fail", text=text)
        raise ToolError(text)

    def crash(self) -> str:
        """End the server in the middle of the call."""
        self._record("crash")
        os._exit(3)

    def big(self, kilobytes: int) -> str:
        """Return so many kilobytes of numbered lines."""
        self._record("big", kilobytes=kilobytes)
        return "".join(f"line {number:09d} of a larger text\n" for number in range(kilobytes * 32))

    def image(self) -> Image:
        """Return a picture of one pixel."""
        self._record("image")
        return Image(data=base64.b64decode(PIXEL), format="png")

    def empty(self) -> CallToolResult:
        """Return nothing at all."""
        self._record("empty")
        return CallToolResult(content=[])

    def echo(self, text: str) -> str:
        """Return the text, and no structured content."""
        self._record("echo", text=text)
        return text

    def look_up_web(self, query: str) -> str:
        """Look something up out in the world."""
        self._record("look_up_web", query=query)
        return f"the world says of {query}: {self._items().get('web', 'nothing new')}"

    def _record(self, tool: str, **arguments: Any) -> None:
        line = {"tool": tool, "arguments": arguments, "at": time.time(), "pid": os.getpid()}
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
            log.flush()
            os.fsync(log.fileno())

    def _items(self) -> dict[str, str]:
        items = dict(self._seeded)
        for call in self._calls():
            if call["tool"] == "add_item":
                items[call["arguments"]["key"]] = call["arguments"]["value"]
            elif call["tool"] == "drop_item":
                items.pop(call["arguments"]["key"], None)
        return items

    def _calls(self) -> Iterator[Any]:
        with self._log.open(encoding="utf-8") as log:
            yield from map(json.loads, log)


def build_server(ledger: Ledger) -> MCPServer:
    """The server with every tool and its annotations."""
    server = MCPServer("ledger", version="1", instructions="Keeps items and writes down every call.")
    for structured in (ledger.read_item, ledger.meet):
        server.add_tool(structured, annotations=READ)
    for plain in (ledger.slow, ledger.fail, ledger.crash, ledger.big, ledger.image, ledger.empty, ledger.echo):
        server.add_tool(plain, annotations=READ, structured_output=False)
    server.add_tool(ledger.look_up_web, annotations=OPEN_READ)
    server.add_tool(ledger.add_item, annotations=WRITE)
    server.add_tool(ledger.drop_item, annotations=DESTROY)
    server.add_tool(ledger.unlabelled)
    return server


def main() -> None:
    """Serve on stdio, or on loopback over HTTP; port 0 takes a free one, which stderr tells."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--item", action="append", default=[])
    parser.add_argument("--http", type=int)
    parser.add_argument("--legacy-sse", type=int)
    options = parser.parse_args()
    server = build_server(Ledger(options.log, dict(item.split("=", 1) for item in options.item)))
    if options.http is not None:
        server.run("streamable-http", port=options.http)
    elif options.legacy_sse is not None:
        server.run("sse", port=options.legacy_sse)
    else:
        server.run()


def _arrive(folder: Path) -> int:
    """Take the lowest free number, so that groups fill up in order, also across processes."""
    number = 0
    while True:
        try:
            (folder / str(number)).touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return number


if __name__ == "__main__":
    main()
