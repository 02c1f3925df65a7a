"""What a tool server says it offers, what changed since it was pinned, and how careful each tool asks to be."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

from downstream.settings import ServerOptions, ServerSettings
from downstream.tools import ToolClass, binding_of
from journal.canonical import NotCanonical, digest
from journal.values import Json, JsonObject

from .look_alikes import tool_troubles


@dataclass(frozen=True)
class Definition:
    """A tool as its server listed it."""

    name: str
    title: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None
    annotations: JsonObject

    @cached_property
    def binding(self) -> str:
        """The hash of the part that a call relies on; the rest is wording."""
        return binding_of(self)

    @property
    def has_binding(self) -> bool:
        """Whether there is such a hash: numbers without end have none, so nobody could tell this from another tool."""
        try:
            return bool(self.binding)
        except NotCanonical:
            return False

    @property
    def pin(self) -> str:
        """SHA-256 over all of it."""
        return digest(asdict(self))


@dataclass(frozen=True)
class Listing:
    """All tools of one server, by name, and its instructions; `notes` say what of it could not be read."""

    instructions: str
    tools: tuple[Definition, ...]
    notes: tuple[str, ...] = ()

    @property
    def pin(self) -> str:
        """SHA-256 over every definition and the instructions."""
        return digest(self._offered())

    def tool(self, name: str) -> Definition | None:
        return next((tool for tool in self.tools if tool.name == name), None)

    def with_tool(self, accepted: Definition) -> "Listing":
        """The listing with this definition in place of the one of its name."""
        others = (tool for tool in self.tools if tool.name != accepted.name)
        return replace(self, tools=tuple(sorted((*others, accepted), key=lambda tool: tool.name)))

    def first_pins(self) -> "Listing":
        """What may be used of a listing that is the first of its server: tools whose names can be told from others."""
        troubled = tool_troubles([tool.name for tool in self.tools], ())
        return replace(self, tools=tuple(tool for tool in self.tools if tool.name not in troubled))

    def to_json(self) -> JsonObject:
        return self._offered() | ({"notes": list(self.notes)} if self.notes else {})

    def _offered(self) -> JsonObject:
        return {"instructions": self.instructions, "tools": [asdict(tool) for tool in self.tools]}

    @classmethod
    def from_json(cls, data: Json) -> "Listing":
        """What was kept, save tools that have no binding: `read_listing` did not always leave those out."""
        tools = (Definition(**tool) for tool in data["tools"])
        return cls(
            data["instructions"], tuple(tool for tool in tools if tool.has_binding), tuple(data.get("notes", ()))
        )


@dataclass(frozen=True)
class Difference:
    """How a listing differs from the pinned one: reasons by tool, and where only the wording is new."""

    quarantined: dict[str, str] = field(default_factory=dict[str, str])
    reworded: tuple[str, ...] = ()
    instructions: bool = False


def compare(pinned: Listing, found: Listing) -> Difference:
    """What a person has to accept before it may be used, and what is new in words only."""
    known = {tool.name: tool for tool in pinned.tools}
    troubles = tool_troubles([tool.name for tool in found.tools], known)
    quarantined: dict[str, str] = {}
    reworded: list[str] = []
    for tool in found.tools:
        before = known.get(tool.name)
        if before is None:
            quarantined[tool.name] = troubles.get(tool.name, "it was added since the server was first listed")
        elif before.binding != tool.binding:
            quarantined[tool.name] = f"its {_changed(before, tool)} changed since it was first listed"
        elif before != tool:
            reworded.append(tool.name)
    return Difference(quarantined, tuple(reworded), pinned.instructions != found.instructions)


def shown(pinned: Listing, found: Listing) -> Iterable[Definition]:
    """The pinned definitions of what the server still has: what models see, also of tools that changed since."""
    there = {tool.name for tool in found.tools}
    return [tool for tool in pinned.tools if tool.name in there]


def class_of(tool: Definition, options: ServerOptions) -> ToolClass:
    """By the user's `effects`, an exact name first, then the longest glob; else by the tool's own annotations."""
    if (effect := options.effect_of(tool.name)) is not None:
        return effect
    said = _said(tool.annotations)
    return said if options.trust == "annotations" or said == "destructive" else "unknown"


def fingerprint_of(server: ServerSettings | None) -> str:
    """What makes it this server: how it is started or reached, with the names of its variables and no values.

    Empty for one that the settings no longer have.
    """
    if server is None:
        return ""
    cwd = str(server.cwd) if server.cwd else None
    started = [server.transport, server.command, list(server.args), cwd, server.url]
    return digest([*started, sorted(server.env), sorted(server.headers)])


def _said(annotations: JsonObject) -> ToolClass:
    hints = {name: value for name, value in annotations.items() if name.endswith("Hint") and value is not None}
    if not hints:
        return "unknown"
    if hints.get("readOnlyHint") is True:
        return "egress" if hints.get("openWorldHint") is True else "read"
    # An explicit false only: a server that says nothing of destruction has not denied it.
    return "write" if hints.get("destructiveHint") is False else "destructive"


def _changed(before: Definition, now: Definition) -> str:
    parts = [
        ("arguments", before.input_schema, now.input_schema),
        ("result", before.output_schema, now.output_schema),
        ("annotations", before.annotations, now.annotations),
    ]
    return " and ".join(name for name, was, is_ in parts if was != is_)
