"""`python many_tools.py FIRST COUNT`: a tool server on stdio with so many of 120 tools, to be counted."""

import sys
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_VERBS = ("list", "get", "count", "compare", "export", "check", "summarise", "trace", "rank", "forecast")
_NOUNS = (
    "berths",
    "cranes",
    "pilots",
    "cargo manifests",
    "customs files",
    "tide tables",
    "crew lists",
    "fuel orders",
    "repairs",
    "permits",
    "invoices",
    "weather reports",
)
NAMES = tuple(f"{verb}_{noun.replace(' ', '_')}" for noun in _NOUNS for verb in _VERBS)

Reference = Annotated[str, Field(description="The record's number, as it stands on its label, or a * for all")]
Since = Annotated[str, Field(description="Only what changed since this day, as YYYY-MM-DD")]
Order = Annotated[str, Field(description="The field that the result is ordered by")]
Limit = Annotated[int, Field(description="At most so many records", ge=1, le=500)]


def build(first: int, count: int) -> MCPServer:
    """A server with these tools of the catalogue."""
    server = MCPServer("catalogue", log_level="WARNING")
    for name in NAMES[first : first + count]:
        verb, _, noun = name.partition("_")
        text = f"{verb.capitalize()} the {noun.replace('_', ' ')} of the harbour by number, day and state. "
        more = "Gives number, state, day and remarks of each record, newest first unless ordered otherwise."
        server.add_tool(_look, name=name, description=text + more, annotations=_READS)
    return server


def _look(reference: Reference, since: Since = "", order: Order = "number", limit: Limit = 50) -> str:
    return f"3 records for {reference}"


if __name__ == "__main__":
    build(int(sys.argv[1]), int(sys.argv[2])).run()
