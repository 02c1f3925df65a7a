"""Hosts that show the panel: an MCP client that declares the extension, as the panel and as a model would use it."""

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
        result = await self.client.call_tool("panel_state", {"run_id": self.run_id, "view_key": self.key} | other)
        assert not result.is_error, text_of(result)
        return result.structured_content

    async def choose(self, card: dict[str, Any], choice: str, **other: Any) -> CallToolResult:
        """Press a button of an action's card."""
        named = {"action_id": card["action_id"], "digest": card["digest"], "choice": choice}
        mine = {"run_id": self.run_id, "view_key": self.key}
        return await self.client.call_tool("panel_decide", mine | named | other)


@asynccontextmanager
async def open_panel_host(
    server: Any, *, era: Era = "modern", name: str = "trusted-host", shows: bool = True
) -> AsyncGenerator[PanelHost]:
    """Connect to a server in this process; without `shows` the client does not declare the extension."""
    mode = "legacy" if era == "legacy" else "auto"
    info, extensions = Implementation(name=name, version="1"), [SHOWS] if shows else []
    async with Client(server, mode=mode, client_info=info, extensions=extensions) as client:
        yield PanelHost(client)
