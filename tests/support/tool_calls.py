"""One call of a tool of an in-memory server, as a client sees it."""

from typing import Any

import anyio
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent, Tool

ERAS = ("legacy", "2026-07-28")


async def call(server: MCPServer, tool: str, arguments: dict[str, Any], *, mode: str = "auto") -> CallToolResult:
    with anyio.fail_after(30):
        async with Client(server, mode=mode) as client:
            return await client.call_tool(tool, arguments)


async def value_of(server: MCPServer, tool: str, arguments: dict[str, Any], *, mode: str = "auto") -> Any:
    """The structured content of a call that succeeds."""
    result = await call(server, tool, arguments, mode=mode)
    assert not result.is_error, text_of(result)
    return result.structured_content


async def refusal_of(server: MCPServer, tool: str, arguments: dict[str, Any], *, mode: str = "auto") -> str:
    """The text of a call that is refused, without what the SDK puts before it."""
    result = await call(server, tool, arguments, mode=mode)
    assert result.is_error, text_of(result)
    return text_of(result).removeprefix(f"Error executing tool {tool}: ")


async def tools_of(server: MCPServer, *, mode: str = "auto") -> dict[str, Tool]:
    with anyio.fail_after(10):
        async with Client(server, mode=mode) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}


def hints_of(tool: Tool) -> tuple[bool | None, ...]:
    """Read-only, destructive, idempotent, open world."""
    assert tool.annotations is not None
    hints = tool.annotations
    return hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint


def text_of(result: CallToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, TextContent))
