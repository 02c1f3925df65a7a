"""What is known of a tool: its definition as the server gave it, and the class that decides how careful to be."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from journal.canonical import digest
from journal.values import JsonObject

ToolClass: TypeAlias = Literal["read", "egress", "write", "destructive", "unknown"]
"""What a call may do: read within the user's own data, read an open world, write, destroy, or nobody knows."""

HAS_EFFECT: frozenset[str] = frozenset({"write", "destructive", "unknown"})


@dataclass(frozen=True)
class Tool:
    """A tool of one server. `wire` is its name for models; schemas and annotations are as listed, not simplified."""

    server: str
    name: str
    wire: str
    title: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None
    annotations: JsonObject
    class_: ToolClass
    idempotent: bool = False
    cache: bool = True

    @property
    def full_name(self) -> str:
        """`server.tool`, as settings, plans and people write it."""
        return f"{self.server}.{self.name}"

    @property
    def pin(self) -> str:
        """SHA-256 over the definition; a call is bound to it."""
        shown = [self.name, self.title, self.description, self.input_schema, self.output_schema, self.annotations]
        return digest(shown)
