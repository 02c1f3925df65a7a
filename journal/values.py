"""Values and where they came from: data never travels without its label."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""Data that came from or goes to JSON; parsed into a type where it enters."""

JsonObject: TypeAlias = dict[str, Any]

Label: TypeAlias = frozenset[str]
"""The origins of a value: user, host, config, plan, model, open:SERVER, private:SERVER. Joining keeps all."""

CLEAN: Label = frozenset({"user", "host", "config", "plan"})
WORST: Label = frozenset({"open:*", "private:*"})
"""The label of data whose origin is not known."""


@dataclass(frozen=True)
class Value:
    """Data with its label; an empty label reads as the worst."""

    data: Json
    label: Label

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", WORST)

    def to_json(self) -> JsonObject:
        return {"data": self.data, "label": sorted(self.label)}

    @classmethod
    def from_json(cls, recorded: JsonObject) -> "Value":
        return cls(recorded["data"], frozenset(recorded.get("label", ())))


def join(labels: Iterable[Label]) -> Label:
    """The label of something made from all of these: every origin is kept. Nothing at all is the worst."""
    joined = frozenset[str]().union(*labels)
    return joined or WORST


def is_clean(label: Label) -> bool:
    """Whether every origin is a person, the host, the settings or the first plan."""
    return bool(label) and label <= CLEAN


def has_private(label: Label) -> bool:
    """Whether any origin is a tool that reads something not open to the world."""
    return any(origin.startswith("private:") for origin in label)
