"""What a tool's result links to, as the gate sees it: reading it is one more read of that server.

It goes under the protocol's own name, `SERVER.resources/read`, in policies, events and results. No plan can name it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from journal.values import JsonObject

from .tools import Tool, ToolClass

READ = "resources/read"
"""In place of a tool's name; no tool that a server lists under it is used."""

_SCHEMA: JsonObject = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}

Find: TypeAlias = Callable[[str], Tool | None]


def reading_of(server: str) -> str:
    """The full name under which what a server linked to is read."""
    return f"{server}.{READ}"


def reading_tool(server: str, tools: Iterable[Tool]) -> Tool | None:
    """The tool that stands for it: of class egress where all that the server reads is open to the world, else read.

    None for a server without any tool among these.
    """
    classes = {tool.class_ for tool in tools if tool.server == server}
    if not classes:
        return None
    class_: ToolClass = "egress" if "egress" in classes and "read" not in classes else "read"
    about = "Reads what a result of this server linked to."
    return Tool(server, READ, "read_resource", "", about, _SCHEMA, None, {"readOnlyHint": True}, class_)


def with_reading(find: Find, tools: Callable[[], Sequence[Tool]]) -> Find:
    """Finds what `find` does, and for each server of `tools` the reading of what it linked to."""

    def found(name: str) -> Tool | None:
        server, _, tool = name.partition(".")
        return reading_tool(server, tools()) if tool == READ else find(name)

    return found
