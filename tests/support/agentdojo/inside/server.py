"""An AgentDojo suite as an MCP server on stdio: `-m inside.server SUITE DESK LOG`. Runs in AgentDojo's own environment.

DESK names the room to work in ({"number", "user", "injection"}) and may change between calls; a new number means a
new room. LOG gets a line for each call before it is answered.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

from .classes import annotations
from .suites import Room, suite_of


class Desk:
    """The room that the desk's file names now."""

    def __init__(self, suite: str, desk: Path, log: Path) -> None:
        self._suite, self._desk, self._log = suite, desk, log
        self._number = -1
        self._room: Room | None = None

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        wanted = json.loads(self._desk.read_text(encoding="utf-8"))
        if self._room is None or wanted["number"] != self._number:
            self._room, self._number = Room(self._suite, wanted["user"], wanted["injection"]), wanted["number"]
        line = {"number": self._number, "tool": tool, "arguments": arguments}
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
        text, is_error = self._room.call(tool, arguments)
        return text, is_error


def build_server(suite: str, call: Callable[[str, dict[str, Any]], tuple[str, bool]]) -> Server[Any]:
    """The suite's tools, carried out by `call`."""
    tools = [
        Tool(
            name=tool.name,
            description=tool.description,
            input_schema={"type": "object", **tool.parameters.model_json_schema()},
            annotations=ToolAnnotations.model_validate(annotations(suite, tool.name)),
        )
        for tool in suite_of(suite).tools
    ]

    async def list_tools(context: object, params: object) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(context: object, params: CallToolRequestParams) -> CallToolResult:
        text, is_error = call(params.name, params.arguments or {})
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)

    return Server(f"agentdojo-{suite}", on_list_tools=list_tools, on_call_tool=call_tool)


async def main(*words: str) -> None:
    suite, desk, log = words
    server = build_server(suite, Desk(suite, Path(desk), Path(log)).call)
    async with stdio_server() as (receive, send):
        await server.run(receive, send, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
