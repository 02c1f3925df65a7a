"""The ledger server once more, without an SDK, to start at once: `quick_ledger.py LOGFILE [--item KEY=VALUE]`.

On stdio it lists the same tools (`ledger_tools.json`) and answers as the other does, by hand, in the modern protocol
and the older one; a test holds the two side by side. Only arguments are not checked. Each call has a thread.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = Any

MODERN = "2026-07-28"
TOOLS = Path(__file__).with_name("ledger_tools.json")
PLAIN = {"slow", "fail", "crash", "big", "echo"}
"""Tools whose text is not given as data too."""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


class Failed(Exception):
    """The tool says that it failed."""


class Cancelled(Exception):
    """Nobody waits for the answer any more."""


class Ledger:
    """The log and the tools that write to it; `cancelled` tells a call that nobody waits for it any more."""

    def __init__(self, log: Path, seeded: dict[str, str]) -> None:
        self._log = log
        self._seeded = seeded
        tools: list[Callable[..., str | list[Json] | dict[str, str]]] = [self.read_item, self.add_item, self.drop_item]
        tools += [self.unlabelled, self.fail, self.crash, self.big, self.image, self.empty, self.echo, self.look_up_web]
        self._tools = {tool.__name__: tool for tool in tools}

    def call(self, tool: str, arguments: dict[str, Any], cancelled: threading.Event) -> Json:
        """The result of the call, as it goes over the wire; raises Cancelled."""
        self.record(tool, **arguments)
        said: str | list[Json] | dict[str, str]
        try:
            match tool:
                case "meet":
                    said = self.meet(cancelled, **arguments)
                case "slow":
                    said = self.slow(cancelled, **arguments)
                case _:
                    said = self._tools[tool](**arguments)
        except Failed as error:
            return {"content": [_text(f"Error executing tool {tool}: {error}")], "isError": True}
        if isinstance(said, list):
            return {"content": said, "isError": False}
        if isinstance(said, dict):
            return {"content": [_text(json.dumps(said, indent=2))], "isError": False, "structuredContent": said}
        data = {} if tool in PLAIN else {"structuredContent": {"result": said}}
        return {"content": [_text(said)], "isError": False, **data}

    def read_item(self, key: str) -> dict[str, str]:
        items = self._items()
        if key not in items:
            raise Failed(f"nothing is kept under {key!r}")
        return {"key": key, "value": items[key]}

    def meet(self, cancelled: threading.Event, name: str, parties: int, timeout: float = 5) -> str:
        folder = self._log.parent / "meetings" / name
        folder.mkdir(parents=True, exist_ok=True)
        mine = _arrive(folder)
        first = mine // parties * parties
        group = [folder / str(number) for number in range(first, first + parties)]
        until = time.monotonic() + timeout
        # No event reaches from another process into this one.
        while not (all(path.exists() for path in group) or (folder / "open").exists()):
            if time.monotonic() > until:
                here = sum(path.exists() for path in group)
                (folder / str(mine)).unlink()
                raise Failed(f"only {here} of {parties} came to {name} within {timeout:g} s")
            if cancelled.wait(0.01):
                raise Cancelled
        return f"{parties} met at {name}"

    def add_item(self, key: str, value: str) -> str:
        return f"kept {key}"

    def drop_item(self, key: str) -> str:
        return f"dropped {key}"

    def unlabelled(self, x: str) -> str:
        return f"did {x}"

    def slow(self, cancelled: threading.Event, seconds: float) -> str:
        if cancelled.wait(seconds):
            self.record("slow.cancelled", seconds=seconds)
            raise Cancelled
        return f"took {seconds:g} s"

    def fail(self, text: str) -> str:
        raise Failed(text)

    def crash(self) -> str:
        os._exit(3)

    def big(self, kilobytes: int) -> str:
        return "".join(f"line {number:09d} of a larger text\n" for number in range(kilobytes * 32))

    def image(self) -> list[Json]:
        return [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]

    def empty(self) -> list[Json]:
        return []

    def echo(self, text: str) -> str:
        return text

    def look_up_web(self, query: str) -> str:
        return f"the world says of {query}: {self._items().get('web', 'nothing new')}"

    def record(self, tool: str, **arguments: Any) -> None:
        line = {"tool": tool, "arguments": arguments, "at": time.time(), "pid": os.getpid()}
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
            log.flush()
            os.fsync(log.fileno())

    def _items(self) -> dict[str, str]:
        items = dict(self._seeded)
        for line in self._log.read_text(encoding="utf-8").splitlines():
            call = json.loads(line)
            if call["tool"] == "add_item":
                items[call["arguments"]["key"]] = call["arguments"]["value"]
            elif call["tool"] == "drop_item":
                items.pop(call["arguments"]["key"], None)
        return items


class Server:
    """Answers the requests of one client."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._running: dict[Any, threading.Event] = {}
        self._writing = threading.Lock()

    def take(self, message: Json) -> None:
        """Begin what the message asks for."""
        if message.get("method") == "notifications/cancelled":
            if (running := self._running.get(message["params"]["requestId"])) is not None:
                running.set()
        elif "method" in message and "id" in message:
            self._running[message["id"]] = threading.Event()
            threading.Thread(target=self._answer, args=(message,), daemon=True).start()

    def _answer(self, message: Json) -> None:
        is_modern = MODERN in message.get("params", {}).get("_meta", {}).values()
        try:
            result = self._result(message)
        except Cancelled:
            return
        except (KeyError, TypeError) as error:
            result = {"error": {"code": -32602, "message": f"what is that? {error!r}"}}
        finally:
            cancelled = self._running.pop(message["id"])
        if cancelled.is_set():
            return
        if "result" in result and is_modern:
            result["result"]["resultType"] = "complete"
            if message["method"] != "tools/call":
                result["result"] |= {"ttlMs": 0, "cacheScope": "private"}
        with self._writing:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **result}) + "\n")
            sys.stdout.flush()

    def _result(self, message: Json) -> dict[str, Json]:
        about: dict[str, Json] = {
            "capabilities": {"tools": {}},
            "instructions": "Keeps items and writes down every call.",
        }
        info = {"name": "ledger", "version": "1"}
        match message["method"]:
            case "server/discover":
                meta = {"io.modelcontextprotocol/serverInfo": info}
                return {"result": about | {"supportedVersions": [MODERN], "_meta": meta}}
            case "initialize":
                version = message["params"]["protocolVersion"]
                return {"result": about | {"protocolVersion": version, "serverInfo": info}}
            case "ping":
                return {"result": {}}
            case "tools/list":
                return {"result": {"tools": json.loads(TOOLS.read_text())}}
            case "tools/call":
                called = message["params"]
                running = self._running[message["id"]]
                return {"result": self._ledger.call(called["name"], called.get("arguments") or {}, running)}
            case unknown:
                return {"error": {"code": -32601, "message": "Method not found", "data": unknown}}


def main() -> None:
    """Answer until end of input."""
    log, *words = sys.argv[1:]
    server = Server(Ledger(Path(log), dict(word.split("=", 1) for word in words if word != "--item")))
    for line in sys.stdin:
        server.take(json.loads(line))


def _text(said: str) -> Json:
    return {"type": "text", "text": said}


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
