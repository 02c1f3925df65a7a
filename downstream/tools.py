"""What is known of a tool: its definition as the server gave it, and the class that decides how careful to be."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, TypeAlias

from journal.canonical import digest
from journal.values import Json, JsonObject

from .tool_words import Words, choices_of, prose_of

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
    filled: str | None = None
    """The argument that the gate fills in, whoever makes the call."""
    private: bool = False
    """Whether the settings say that what its server holds is private, whatever the tool says of itself."""
    entry: str = ""
    """The fingerprint of its server's entry in the settings; another server can have the same name elsewhere."""

    @property
    def full_name(self) -> str:
        """`server.tool`, as settings, plans and people write it."""
        return f"{self.server}.{self.name}"

    @property
    def open_schema(self) -> JsonObject:
        """The input schema without what the gate fills in: what plans and models are shown and held to."""
        if self.filled is None:
            return self.input_schema
        properties = {name: part for name, part in self._part("properties", {}).items() if name != self.filled}
        required = [name for name in self._part("required", []) if name != self.filled]
        return self.input_schema | {"properties": properties, "required": required}

    def _part(self, keyword: str, absent: Json) -> Json:
        return self.input_schema.get(keyword) or absent

    # These are made once, since each call asks for them: two for its own tool, the others for all.
    @cached_property
    def binding(self) -> str:
        """The hash of the part of the definition that a call relies on, as its server listed it."""
        return binding_of(self)

    @cached_property
    def pin(self) -> str:
        """SHA-256 over the definition; a call is bound to it."""
        shown = [self.name, self.title, self.description, self.input_schema, self.output_schema, self.annotations]
        return digest(shown)

    @cached_property
    def words(self) -> str:
        """All the free text of the definition: what a model may have picked up from there."""
        return "\n".join([self.title, self.description, *prose_of(self.input_schema)])

    @cached_property
    def told(self) -> Words:
        """The free text of the definition, as it is searched for a value."""
        return Words.of([self.title, self.description, *prose_of(self.input_schema)])

    @cached_property
    def offered(self) -> Words:
        """The names in the definition and what it lets one choose from, as they are searched for a value."""
        return Words.of([self.name, *choices_of(self.input_schema)])


class Defined(Protocol):
    """What a call relies on in a tool; the rest is wording."""

    @property
    def name(self) -> str: ...
    @property
    def input_schema(self) -> JsonObject: ...
    @property
    def output_schema(self) -> JsonObject | None: ...
    @property
    def annotations(self) -> JsonObject: ...


def binding_of(tool: Defined) -> str:
    """SHA-256 over what a call relies on."""
    return digest([tool.name, tool.input_schema, tool.output_schema, tool.annotations])
