"""A tool server with the tools that it is given: `shelf_server.py TOOLS LOG`, where TOOLS has them as JSON.

Each call is written to LOG as a line of JSON and answered with `done`; arguments are not checked. It speaks the older
protocol by hand and needs no SDK, so that many can be started.
"""

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer until end of input."""
    tools = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with Path(sys.argv[2]).open("a", encoding="utf-8") as log:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if message.get("method") == "tools/call":
                called = {"tool": message["params"]["name"], "arguments": message["params"].get("arguments")}
                log.write(f"{json.dumps(called)}\n")
                log.flush()
            if "method" in message and "id" in message:
                answer = {"jsonrpc": "2.0", "id": message["id"], **_answer(message, tools)}
                sys.stdout.write(f"{json.dumps(answer)}\n")
                sys.stdout.flush()


def _answer(message: Any, tools: list[Any]) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "shelf", "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": tools}}
        case "tools/call":
            return {"result": {"content": [{"type": "text", "text": "done"}]}}
        case unknown:
            return {"error": {"code": -32601, "message": f"no method {unknown}"}}


if __name__ == "__main__":
    main()
