"""A tool server that starts at once, since it imports no SDK: `quick_server.py LOG`; calls add synced lines to LOG.

read KEY        a class read
tell KEY        a read that answers with the key
fail TEXT       a read that fails
wait GATE       a read that lasts until the file GATE beside LOG is there
add KEY         a write
stuck KEY GATE  a write that takes effect at once and answers when the file GATE is there
drop KEY        a destructive call
It speaks the older protocol by hand, each call in a thread of its own. That a client cancelled a request adds the id
that it had to LOG with `.cancelled` in place of its suffix; nothing else comes of it.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

READ = {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}
WRITE = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
DROP = WRITE | {"destructiveHint": True}
TOOLS: dict[str, tuple[tuple[str, ...], dict[str, bool]]] = {
    "read": (("key",), READ),
    "tell": (("key",), READ),
    "fail": (("text",), READ),
    "wait": (("gate",), READ),
    "add": (("key",), WRITE),
    "stuck": (("key", "gate"), WRITE),
    "drop": (("key",), DROP),
}


def main() -> None:
    """Answer until end of input."""
    log, lock = Path(sys.argv[1]), threading.Lock()

    def answer(message: Any) -> None:
        said = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer_to(message, log)})
        with lock:
            sys.stdout.write(said + "\n")
            sys.stdout.flush()

    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            _append(log.with_suffix(".cancelled"), {"id": message["params"]["requestId"]})
        elif "method" in message and "id" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()


def answer_to(message: Any, log: Path) -> dict[str, Any]:
    """What stands beside `jsonrpc` and `id` in the answer to a request."""
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "quick", "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": [_listed(name) for name in TOOLS]}}
        case "tools/call":
            return {"result": _call(log, message["id"], message["params"]["name"], message["params"]["arguments"])}
        case unknown:
            return {"error": {"code": -32601, "message": f"no method {unknown}"}}


def _listed(name: str) -> dict[str, Any]:
    takes, hints = TOOLS[name]
    properties = {argument: {"type": "string"} for argument in takes}
    schema = {"type": "object", "properties": properties, "required": list(takes)}
    return {"name": name, "description": f"Do {name}.", "inputSchema": schema, "annotations": hints}


def _call(log: Path, id_: Any, tool: str, arguments: dict[str, str]) -> dict[str, Any]:
    _append(log, {"tool": tool, "arguments": arguments, "at": time.time(), "pid": os.getpid(), "id": id_})
    while "gate" in arguments and not (log.parent / arguments["gate"]).exists():
        time.sleep(0.01)  # no event reaches from a test into this process
    said = arguments["key"] if tool == "tell" else f"did {tool}"
    return {"content": [{"type": "text", "text": said}], "isError": tool == "fail"}


def _append(log: Path, line: dict[str, Any]) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    main()
