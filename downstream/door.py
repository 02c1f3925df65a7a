"""The way out for tool calls as executors see it: what they hand in, and the three ways in which it can end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from journal.run_journal import RunJournal
from journal.values import Json, JsonObject, Label, Value, join

Origin: TypeAlias = Literal["plan", "worker", "retry", "revision"]
"""Who made a call: the first plan, a worker's model, a second attempt, or a step that a revision added."""


@dataclass(frozen=True)
class Arguments:
    """Resolved arguments. `label` is that of the literals, `parts` that of substituted values, by JSON pointer."""

    data: JsonObject
    label: Label
    parts: Mapping[str, Label] = field(default_factory=dict[str, Label])

    def label_at(self, pointer: str) -> Label:
        """The label of what stands at or below `pointer`."""
        above = [label for place, label in self.parts.items() if pointer == place or pointer.startswith(f"{place}/")]
        if above:
            return join(above)
        below = [label for place, label in self.parts.items() if place.startswith(f"{pointer}/")]
        return join([self.label, *below])

    @property
    def joined(self) -> Label:
        return join([self.label, *self.parts.values()])


@dataclass(frozen=True)
class ToolCall:
    """A call as an executor wants it. `key` is its memo key, `allowed` the full names that its step lists.

    `read` is the label of everything that the model which made the call has read (for a plan's call: clean).
    """

    key: str
    step: str
    tool: str
    arguments: Arguments
    allowed: frozenset[str]
    origin: Origin
    read: Label
    fresh: bool = False
    """Never answered from the cache (the reviewer's calls)."""


@dataclass(frozen=True)
class Called:
    """The call was made (or a person said what became of it). `ok` false means that the tool said or was an error.

    `value` is the structured content, else the text; `text` is what a model is shown of it (without the `[c_…]` line),
    with large results already replaced by head, tail and a handle; `empty` marks a result with nothing in it.
    """

    call: str
    tool: str
    ok: bool
    value: Value
    text: str
    empty: bool = False
    effect: bool = False
    """Whether it changed something, or may have, and may not be made again: then neither may the attempt."""
    artifacts: tuple[str, ...] = ()
    repeated: bool = False
    """Whether it was sent a second time already, since what became of the first was not known."""
    session: str | None = None
    """Names what its server may hold from one call to the next; another name means that all of that is gone."""
    links: tuple[str, ...] = ()
    """The addresses of resources that it only names."""
    changed: bool = False
    """Whether it changed something, or may have, which `effect` leaves out where it may be made again."""
    lapsed: bool = False
    """Whether it gave nothing because a person did not answer in time, or would not: another would only ask again."""

    def to_json(self) -> JsonObject:
        sometimes: JsonObject = {"session": self.session} if self.session else {}
        sometimes |= {"links": list(self.links)} if self.links else {}
        sometimes |= {name: True for name in ("changed", "lapsed") if getattr(self, name)}
        return sometimes | {
            "call": self.call,
            "tool": self.tool,
            "ok": self.ok,
            "value": self.value.to_json(),
            "text": self.text,
            "empty": self.empty,
            "effect": self.effect,
            "artifacts": list(self.artifacts),
            "repeated": self.repeated,
        }

    @classmethod
    def from_json(cls, data: Json) -> "Called":
        fields: JsonObject = dict(data)
        fields["value"], fields["artifacts"] = Value.from_json(data["value"]), tuple(data["artifacts"])
        fields["links"] = tuple(data.get("links", ()))
        return cls(**fields)


@dataclass(frozen=True)
class Refused:
    """The gate or a person did not let the call out. `by` is `gate` or `person`; the reason is for people and models.

    `correctable` marks a mistake in the call itself (unknown tool, arguments that do not fit): the worker may try
    again, and its step is not refused by it.
    """

    tool: str
    reason: str
    by: Literal["gate", "person"]
    correctable: bool = False


@dataclass(frozen=True)
class Waiting:
    """The call waits for a person; nothing was sent. `until` is when the action lapses (Unix seconds)."""

    action: str
    until: float | None


ToolEnd: TypeAlias = Called | Refused | Waiting


class CallTool(Protocol):
    """Send a call through the gate. Raises BudgetReached, Fenced, MemoMismatch; everything else is a ToolEnd."""

    async def __call__(self, journal: RunJournal, call: ToolCall) -> ToolEnd: ...
