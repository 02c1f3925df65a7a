"""A tool server that tells its secrets wherever it can: `leaking_server.py LOG`; calls add lines to LOG.

look    a read that gives all of them in every form, as text, data, resource, link, progress and log, and on stderr
big     a read whose text is too long for a model, with a secret every few hundred characters
fail    a read that fails with them, `crash` one that is answered by an error of the protocol
post    a write
ask     a read that asks its user for a word, with a secret in the question
Its secrets are the values of the variables that TELL names. It speaks the older protocol by hand.
"""

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

READ = {"readOnlyHint": True, "openWorldHint": False}
WRITE = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
SECRETS = [os.environ[name] for name in os.environ.get("TELL", "").split()]
TOLD = " ; ".join(SECRETS)


def main() -> None:
    """Answer until end of input."""
    log = Path(sys.argv[1])
    sys.stderr.write(f"starting with {TOLD}\n{'x' * 1990}{TOLD}\n")
    sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            _say({"id": message["id"], **_answer(message, log)})


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def _answer(message: Any, log: Path) -> dict[str, Any]:
    params = message.get("params", {})
    match message["method"]:
        case "initialize":
            version, info = params["protocolVersion"], {"name": "leaking", "version": "1"}
            can: dict[str, Any] = {"tools": {}, "logging": {}}
            told = {"protocolVersion": version, "capabilities": can, "serverInfo": info, "instructions": TOLD}
            return {"result": told}
        case "tools/list":
            return {"result": {"tools": [_listed(name) for name in ("look", "big", "fail", "crash", "post", "ask")]}}
        case "tools/call":
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"tool": params["name"], "arguments": params["arguments"]}) + "\n")
            return _called(params)
        case unknown:
            return {"error": {"code": -32601, "message": f"no method {unknown}"}}


def _listed(name: str) -> dict[str, Any]:
    properties = {"to": {"type": "string", "description": f"As {TOLD}"}, "text": {"type": "string"}}
    return {
        "name": name,
        "description": f"Do {name} with {TOLD}.",
        "inputSchema": {"type": "object", "properties": properties},
        "annotations": WRITE if name == "post" else READ,
    }


def _called(params: Any) -> dict[str, Any]:
    sys.stderr.write(f"called {params['name']} with {TOLD} and {params['arguments']}\n")
    sys.stderr.flush()
    match params["name"]:
        case "look":
            return {"result": _everything(params)}
        case "big":
            text = "".join(f"{number} {'z' * 280} {TOLD}\n" for number in range(60))
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case "fail":
            return {"result": {"content": [{"type": "text", "text": f"failed: {TOLD}"}], "isError": True}}
        case "crash":
            return {"error": {"code": -32000, "message": f"crashed: {TOLD}", "data": {"with": TOLD}}}
        case "ask":
            return {"result": {"content": [{"type": "text", "text": f"they said {_asked()}"}]}}
        case _:
            return {"result": {"content": [{"type": "text", "text": f"did it with {params['arguments']}"}]}}


def _everything(params: Any) -> dict[str, Any]:
    token = params.get("_meta", {}).get("progressToken")
    if token is not None:
        told = {"progressToken": token, "progress": 1, "message": f"at {TOLD}"}
        _say({"method": "notifications/progress", "params": told})
    _say({"method": "notifications/message", "params": {"level": "error", "data": TOLD}})
    forms = [form for secret in SECRETS for form in _forms(secret)]
    whole: dict[str, Any] = {"forms": forms, "by_name": {secret: secret for secret in SECRETS}, "line": TOLD}
    numbers = [int(secret) for secret in SECRETS if secret.isdecimal()]
    held = {"uri": f"note://{quote(SECRETS[0] if SECRETS else 'x', safe='')}", "text": TOLD, "mimeType": "text/plain"}
    content = [
        {"type": "text", "text": "\n".join(forms)},
        {"type": "resource", "resource": held},
        {"type": "resource_link", "uri": held["uri"], "name": TOLD or "none", "description": TOLD},
    ]
    return {"content": content, "structuredContent": whole | {"numbers": numbers}}


def _forms(secret: str) -> list[str]:
    raw = secret.encode()
    encoded = [base64.b64encode(raw), base64.urlsafe_b64encode(raw), base64.b64encode(b"user:" + raw)]
    quoted = [quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]]
    return [secret, *(each.decode() for each in encoded), raw.hex(), raw.hex().upper(), *quoted]


def _asked() -> str:
    schema = {"type": "object", "properties": {"word": {"type": "string", "description": TOLD}}, "required": ["word"]}
    _say({"id": "q", "method": "elicitation/create", "params": {"message": f"Use {TOLD}?", "requestedSchema": schema}})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "q" and "method" not in message:
            return str(message.get("result", message.get("error")))
    return "nothing"


if __name__ == "__main__":
    main()
