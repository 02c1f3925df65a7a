"""A tool server that gives what it is told to: `canned_server.py FILE`, where FILE has the result of each tool as JSON.

All of them are reads but `send`, which is a write; `bare` behind FILE leaves that unsaid. `progress` tells how far it
is before it answers, if it is asked to. It speaks the older protocol by hand, so that a result may be anything.
"""

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer until end of input."""
    results = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            if message["method"] == "tools/call" and message["params"]["name"] == "progress":
                _tell_progress(message["params"].get("_meta", {}).get("progressToken"))
            _say({"id": message["id"], **_answer(message, results)})


def _answer(message: Any, results: dict[str, Any]) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "canned", "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": [_listed(name) for name in results]}}
        case "tools/call":
            return {"result": results[message["params"]["name"]]}
        case unknown:
            return {"error": {"code": -32601, "message": f"no method {unknown}"}}


def _listed(name: str) -> dict[str, Any]:
    hints = {"readOnlyHint": name != "send", "destructiveHint": False, "openWorldHint": False}
    said = {} if sys.argv[2:] == ["bare"] else {"annotations": hints}
    return {"name": name, "description": f"Give {name}.", "inputSchema": {"type": "object"}, **said}


def _tell_progress(token: Any) -> None:
    for done in (1, 2) if token is not None else ():
        told = {"progressToken": token, "progress": done, "total": 2, "message": "words of the server"}
        _say({"method": "notifications/progress", "params": told})


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
