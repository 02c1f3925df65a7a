"""A tool server of the older protocol, on stdio, that asks in the middle of a call: `older_asking_server.py LOG`.

Every tool but `hold` and `capabilities` asks first. What it did and heard goes to LOG, a line for each.
`hold` is answered once the file `go` stands beside LOG; told to with `ask`, it asks as soon as `order` is called too.
"""

import json
import select
import sys
from pathlib import Path
from typing import Any

LOG = Path(sys.argv[1])
FORM = {"type": "object", "properties": {"size": {"type": "string", "enum": ["s", "m"]}}, "required": ["size"]}
URL = {"mode": "url", "message": "Log in.", "url": "https://login.example/", "elicitationId": "e1"}
TOOLS = {"order": False, "pester": False, "hold": True, "visit_first": False, "capabilities": True}
opened: dict[str, Any] = {}
held: list[Any] = []
visited: list[Any] = []
client: dict[str, Any] = {}
# Unbuffered, so that `select` sees every line that is not read yet.
incoming = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115


def main() -> None:
    """Serve until the end of input."""
    while True:
        readable, _, _ = select.select([incoming], [], [], 0.02)
        if held and (LOG.parent / "go").exists():
            answer(held.pop()["id"], "held")
        if readable:
            line = incoming.readline()
            if not line:
                return
            take(json.loads(line))


def take(message: Any) -> None:
    method = message.get("method")
    if method is None:
        heard(message)
    elif method == "notifications/cancelled":
        note("cancelled")
    elif method == "initialize":
        client.update(message["params"]["capabilities"])
        info = {"name": "older", "version": "1"}
        version = message["params"]["protocolVersion"]
        send(
            {
                "id": message["id"],
                "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info},
            }
        )
    elif method == "tools/list":
        ask("unasked")
        schema = {"type": "object", "properties": {"item": {"type": "string"}, "ask": {"type": "boolean"}}}
        hints = {name: {"readOnlyHint": read, "destructiveHint": False} for name, read in TOOLS.items()}
        tools = [{"name": name, "inputSchema": schema, "annotations": hint} for name, hint in hints.items()]
        send({"id": message["id"], "result": {"tools": tools}})
    elif method == "tools/call":
        call(message)
    elif "id" in message:
        send({"id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})


def call(message: Any) -> None:
    name, arguments = message["params"]["name"], message["params"].get("arguments", {})
    if name == "capabilities":
        answer(message["id"], json.dumps(client))
    elif name == "visit_first" and not visited:
        visited.append(message)
        wanted = {"code": -32042, "message": "log in first", "data": {"elicitations": [URL]}}
        send({"id": message["id"], "error": wanted})
    elif name == "visit_first":
        done(message["id"], "visited")
    else:
        note(f"called {name} {arguments.get('item', '')}")
        if name == "hold":
            held.append(message)
            return
        for each in [*(other for other in held if other["params"]["arguments"].get("ask")), message]:
            asked = each["params"]
            opened[ask(f"{asked['name']} {asked['arguments'].get('item', '')}?")] = each


def heard(message: Any) -> None:
    """An answer to a question of ours."""
    result = message.get("result", {})
    asked_for = opened.pop(str(message["id"]), None)
    said = f"{result.get('action')} {json.dumps(result.get('content'))}"
    if asked_for is None:
        note(f"heard {said}")
    elif asked_for["params"]["name"] == "pester" and result.get("action") == "accept":
        opened[ask("and now?")] = asked_for
    elif asked_for["params"]["name"] == "hold":
        note(f"hold heard {said}")
    else:
        done(asked_for["id"], f"{asked_for['params'].get('arguments', {}).get('item')}: {said}")


def ask(text: str) -> str:
    ask.count = getattr(ask, "count", 0) + 1  # type: ignore[attr-defined]
    number = f"q{ask.count}"  # type: ignore[attr-defined]
    send({"id": number, "method": "elicitation/create", "params": {"message": text, "requestedSchema": FORM}})
    return number


def done(id_: Any, text: str) -> None:
    note(text)
    answer(id_, text)


def answer(id_: Any, text: str) -> None:
    send({"id": id_, "result": {"content": [{"type": "text", "text": text}]}})


def note(text: str) -> None:
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"{text}\n")


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
