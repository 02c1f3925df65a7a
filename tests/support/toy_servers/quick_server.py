"""A tool server that starts at once, since it imports no SDK: `quick_server.py LOG`; calls add synced lines to LOG.

read KEY        a class read
fail TEXT       a read that fails
wait GATE       a read that lasts until the file GATE beside LOG is there
add KEY         a write
stuck KEY GATE  a write that takes effect at once and answers when the file GATE is there
drop KEY        a destructive call
It speaks the older protocol by hand, each call in a thread of its own.
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
        said = json.dumps({"jsonrpc": "2.0", "id": message["id"], **_answer(message, log)})
        with lock:
            sys.stdout.write(said + "\n")
            sys.stdout.flush()

    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()


def _answer(message: Any, log: Path) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "quick", "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": [_listed(name) for name in TOOLS]}}
        case "tools/call":
            return {"result": _call(log, message["params"]["name"], message["params"]["arguments"])}
        case unknown:
            return {"error": {"code": -32601, "message": f"no method {unknown}"}}


def _listed(name: str) -> dict[str, Any]:
    takes, hints = TOOLS[name]
    properties = {argument: {"type": "string"} for argument in takes}
    schema = {"type": "object", "properties": properties, "required": list(takes)}
    return {"name": name, "description": f"Do {name}.", "inputSchema": schema, "annotations": hints}


def _call(log: Path, tool: str, arguments: dict[str, str]) -> dict[str, Any]:
    line = {"tool": tool, "arguments": arguments, "at": time.time(), "pid": os.getpid()}
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
    while "gate" in arguments and not (log.parent / arguments["gate"]).exists():
        time.sleep(0.01)  # no event reaches from a test into this process
    return {"content": [{"type": "text", "text": f"did {tool}"}], "isError": tool == "fail"}


if __name__ == "__main__":
    main()
