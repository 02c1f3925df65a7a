"""The protocol by hand, in one version of it and no other: what a server with the tool `look` answers to a message.

For servers that import no SDK, since that would not let them misbehave, and starts slowly.
"""

from typing import Any

MODERN = "2026-07-28"
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN)
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NO_METHOD, _WRONG_VERSION, _REFUSED = -32601, -32022, -32600

LOOK: dict[str, Any] = {
    "name": "look",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False},
}


class ByHand:
    """One connection. It insists on its version: all else, and calls before the handshake, are refused."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.tools: list[dict[str, Any]] = [LOOK]
        self.tells_of_changes = False
        self.begun = version == MODERN

    def answer(self, message: Any) -> dict[str, Any] | None:
        """The reply to a message, without its envelope; None where there is none to give."""
        method = message.get("method")
        if method == "notifications/initialized":
            self.begun = True
        if "id" not in message or method is None:
            return None
        if method in ("server/discover", "initialize"):
            return self._handshake(message)
        if self.version == MODERN and message.get("params", {}).get("_meta", {}).get(_VERSION_KEY) != MODERN:
            return self._wrong_version()
        if not self.begun:
            return {"error": {"code": _REFUSED, "message": f"{method} before the handshake"}}
        if method == "tools/list":
            return {"result": self._sealed({"tools": self.tools}, cached=True)}
        if method == "tools/call":
            return {"result": self.text(f"looked, {self.version}")}
        return {"error": {"code": _NO_METHOD, "message": f"no method {method}"}}

    def text(self, said: str) -> dict[str, Any]:
        """The result of a call with one text."""
        return self._sealed({"content": [{"type": "text", "text": said}]})

    def _handshake(self, message: Any) -> dict[str, Any]:
        tools = {"listChanged": True} if self.tells_of_changes else {}
        modern = message["method"] == "server/discover"
        if modern != (self.version == MODERN):
            return self._wrong_version() if not modern else {"error": {"code": _NO_METHOD, "message": "what is that?"}}
        if modern:
            return {
                "result": self._sealed({"supportedVersions": [MODERN], "capabilities": {"tools": tools}}, cached=True)
            }
        info = {"name": "by-hand", "version": "1"}
        return {"result": {"protocolVersion": self.version, "capabilities": {"tools": tools}, "serverInfo": info}}

    def _wrong_version(self) -> dict[str, Any]:
        data = {"supported": [self.version], "requested": "another"}
        return {"error": {"code": _WRONG_VERSION, "message": "Unsupported protocol version", "data": data}}

    def _sealed(self, result: dict[str, Any], *, cached: bool = False) -> dict[str, Any]:
        if self.version != MODERN:
            return result
        return result | {"resultType": "complete"} | ({"ttlMs": 0, "cacheScope": "private"} if cached else {})
