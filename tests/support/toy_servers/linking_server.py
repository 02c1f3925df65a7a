"""A tool server whose results link to what it holds: `linking_server.py VERSION LOG`; what is read is added to LOG.

find KIND   a class read, whose result links to the notes of that kind: `near` ones, or a `far` one
By hand, in one version of the protocol. It holds more than it links to. Before `note://asked` it asks who is there.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any

from toy_servers.by_hand import ByHand

FIND = {
    "name": "find",
    "inputSchema": {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]},
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}
BYTES = base64.b64encode(b"\x89PNG").decode()
HELD: dict[str, list[dict[str, Any]]] = {
    "note://hours": [{"text": "nine to five"}],
    "note://long": [{"text": "".join(f"line {number:04d}\n" for number in range(2000))}],
    "note://album": [{"text": "Two pictures."}, {"mimeType": "image/png", "blob": BYTES}],
    "note://far": [{"text": "far away"}],
    "note://secret": [{"text": "not for you"}],
}
WHO: dict[str, Any] = {"message": "Who is there?", "requestedSchema": {"type": "object", "properties": {}}}
LINKS = {"near": ["note://hours", "note://long", "note://album", "note://gone"], "far": ["note://far"]}


class Linking(ByHand):
    """Answers `find` with links, and reads what it holds."""

    def __init__(self, version: str, log: Path) -> None:
        super().__init__(version)
        self.tools = [FIND]
        self._log = log

    def answer(self, message: Any) -> dict[str, Any] | None:
        """See ByHand."""
        match message.get("method"):
            case "tools/call":
                kind = message["params"]["arguments"]["kind"]
                links = [{"type": "resource_link", "uri": uri, "name": uri[7:]} for uri in LINKS[kind]]
                return {"result": self._sealed({"content": links})}
            case "resources/read":
                uri = message["params"]["uri"]
                with self._log.open("a", encoding="utf-8") as lines:
                    lines.write(f"{uri}\n")
                if uri == "note://asked":
                    asked = {"who": {"method": "elicitation/create", "params": WHO}}
                    return {"result": {"resultType": "input_required", "inputRequests": asked}}
                if uri not in HELD:
                    return {"error": {"code": -32002, "message": "Resource not found", "data": {"uri": uri}}}
                contents = [{"uri": uri, **part} for part in HELD[uri]]
                return {"result": self._sealed({"contents": contents}, cached=True)}
            case _:
                return super().answer(message)


def main() -> None:
    """Answer until end of input."""
    server = Linking(sys.argv[1], Path(sys.argv[2]))
    for line in sys.stdin:
        message = json.loads(line)
        if (said := server.answer(message)) is not None:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
