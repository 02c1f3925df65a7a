"""A tool server of the older protocol with one tool `look` that answers oddly: `odd_server.py MODE`.

env         its depth variable and the `_meta` of the call
shape       a result that is none
raw LINE    this line instead of a reply, with the request's id where it says ID
schema      structured content that does not fit the tool's own schema
rpc CODE    a JSON-RPC error with that code
boundless   a second tool, whose schema holds a number that no JSON has
asks        first asks the client for a form, and answers with what came of it
named NAME  says that this is its name
pages       two pages of tools, one name twice
endless     a next page after every page
malformed   six tools, of which one is listed as it should be, and one has a name of the protocol's own
once        lists its tools once, then fails to
toolless    knows no `tools/list`
quits       ends as soon as it has listed its tools
"""

import json
import os
import sys
from typing import Any

LOOK = {"name": "look", "inputSchema": {"type": "object"}}
MALFORMED: list[Any] = [
    {"name": "typeless", "inputSchema": {"properties": {"n": {"type": "integer"}}}, "outputSchema": {"title": "Out"}},
    {"name": "hinted", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "yes, sir"}},
    {"name": "listed", "inputSchema": ["n"]},
    {"name": 3},
    {"name": "resources/read", "inputSchema": {"type": "object"}},
]


def main() -> None:
    """Behave as the mode says until end of input."""
    mode = sys.argv[1]
    listed = False
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message or "id" not in message:
            continue
        if mode == "raw" and message["method"] == "tools/call":
            print(sys.argv[2].replace("ID", str(message["id"])), flush=True)  # noqa: T201 - the protocol is on stdout
            continue
        _write({"id": message["id"], **_answer(message, mode, listed=listed)})
        listed = listed or message["method"] == "tools/list"
        if mode == "quits" and message["method"] == "tools/list":
            return


def _answer(message: Any, mode: str, *, listed: bool) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            info = {"name": sys.argv[2] if mode == "named" else "odd", "version": "1"}
            version = message["params"]["protocolVersion"]
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list" if mode == "toolless":
            return {"error": {"code": -32601, "message": "no tools here"}}
        case "tools/list" if mode == "malformed":
            return {"result": {"tools": [*MALFORMED, LOOK]}}
        case "tools/list" if mode == "boundless":
            wide = {"type": "object", "properties": {"n": {"type": "number", "maximum": 1e999}}}
            return {"result": {"tools": [LOOK, {"name": "wide", "inputSchema": wide}]}}
        case "tools/list" if mode == "endless":
            return {"result": {"tools": [LOOK], "nextCursor": "on"}}
        case "tools/list" if mode == "once" and listed:
            return {"error": {"code": -32603, "message": "the list is lost"}}
        case "tools/list" if mode == "pages":
            first = "cursor" not in message.get("params", {})
            tools = [LOOK, LOOK | {"name": "a"}] if first else [LOOK | {"description": "again"}, LOOK | {"name": "b"}]
            return {"result": {"tools": tools, "nextCursor": "2"} if first else {"tools": tools}}
        case "tools/list":
            promised = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
            return {"result": {"tools": [LOOK | ({"outputSchema": promised} if mode == "schema" else {})]}}
        case "tools/call":
            return _call(message, mode)
        case unknown:
            return {"error": {"code": -32601, "message": f"no method {unknown}"}}


def _call(message: Any, mode: str) -> dict[str, Any]:
    match mode:
        case "env":
            said = {"depth": os.environ.get("STEPRELAY_DEPTH"), "meta": message["params"].get("_meta")}
            return {"result": {"content": [], "structuredContent": said}}
        case "shape":
            return {"result": {"content": "not a list"}}
        case "schema":
            return {"result": {"content": [], "structuredContent": {"n": "three"}}}
        case "rpc":
            return {"error": {"code": int(sys.argv[2]), "message": "so it is"}}
        case "asks":
            return {"result": {"content": [{"type": "text", "text": json.dumps(_ask())}]}}
        case _:
            return {"result": {"content": [{"type": "text", "text": "seen"}]}}


def _ask() -> Any:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    _write({"id": "q", "method": "elicitation/create", "params": {"message": "sure?", "requestedSchema": schema}})
    return json.loads(sys.stdin.readline())


def _write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
