"""Hosts that show the panel: an MCP client that declares the extension, as the panel and as a model would use it."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp import Client
from mcp.client import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp.types import CallToolResult, Implementation
from mcp_hosts import Era, text_of

SHOWS = advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})
META = "steprelay/panel"


@dataclass
class PanelHost:
    """An open client; `key` is the view key of the last run that it asked for, if it was given one."""

    client: Client
    run_id: str = ""
    key: str = ""

    async def show(self, tool: str, **given: Any) -> CallToolResult:
        """Call a tool whose result opens the panel."""
        result = await self.client.call_tool(tool, given)
        assert not result.is_error, text_of(result)
        self.run_id = (result.structured_content or {})["run_id"]
        meta: dict[str, Any] = dict(result.meta or {})
        self.key = meta.get(META, {}).get("key", "")
        return result

    async def state(self, **other: Any) -> Any:
        """What the panel shows."""
        result = await self.client.call_tool("panel_state", self._mine | other)
        assert not result.is_error, text_of(result)
        return result.structured_content

    async def choose(self, card: dict[str, Any], choice: str, **other: Any) -> CallToolResult:
        """Press a button of an action's card."""
        named = {"action_id": card["action_id"], "digest": card["digest"], "choice": choice}
        return await self.client.call_tool("panel_decide", self._mine | named | other)

    async def edit(self, card: dict[str, Any], arguments: object, **other: Any) -> CallToolResult:
        """Ask again with other arguments; those that are no text as JSON."""
        typed = arguments if isinstance(arguments, str) else json.dumps(arguments)
        named = {"action_id": card["action_id"], "digest": card["digest"], "arguments": typed}
        return await self.client.call_tool("panel_edit", self._mine | named | other)

    async def class_tool(self, card: dict[str, Any], class_: str, **other: Any) -> CallToolResult:
        """Confirm what a tool may do."""
        named = {"tool": card["tool"], "pin": card["pin"], "tool_class": class_}
        return await self.client.call_tool("panel_class", self._mine | named | other)

    @property
    def _mine(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "view_key": self.key}


@asynccontextmanager
async def open_panel_host(
    server: Any, *, era: Era = "modern", name: str = "trusted-host", shows: bool = True
) -> AsyncGenerator[PanelHost]:
    """Connect to a server in this process; without `shows` the client does not declare the extension."""
    mode = "legacy" if era == "legacy" else "auto"
    info, extensions = Implementation(name=name, version="1"), [SHOWS] if shows else []
    async with Client(server, mode=mode, client_info=info, extensions=extensions) as client:
        yield PanelHost(client)
