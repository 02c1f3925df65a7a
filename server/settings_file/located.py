"""Data read from a text, with the line where each part stands."""

from dataclasses import dataclass, field
from typing import TypeGuard

from journal.errors import SteprelayError
from journal.values import Json, JsonObject

Place = tuple[str | int, ...]
"""The way from the root to a part: keys and indexes."""

DEEPEST = 64
"""Lists and maps may be nested this deep; settings need six."""


class TextError(SteprelayError):
    """A text that can't be read at all."""

    def __init__(self, text: str, *, line: int) -> None:
        self.text, self.line = text, line
        super().__init__(f"line {line}: {text}")


def is_map(node: Json) -> TypeGuard[JsonObject]:
    """Whether this is a map of keys."""
    return isinstance(node, dict)


def is_list(node: Json) -> TypeGuard[list[Json]]:
    """Whether this is a list."""
    return isinstance(node, list)


@dataclass
class Located:
    """The data of a text; of a key that stands twice in one map, the first counts and `repeated` says so."""

    data: Json = None
    lines: dict[Place, int] = field(default_factory=dict[Place, int])
    repeated: list[tuple[Place, int]] = field(default_factory=list[tuple[Place, int]])

    def put(self, place: Place, *, line: int, seen: dict[str, Json]) -> bool:
        """Note where a key stands; False where the map has it already."""
        if place[-1] in seen:
            self.repeated.append((place, line))
            return False
        # Below a key that stands twice, the first place counts too.
        self.lines.setdefault(place, line)
        return True

    def line_of(self, place: Place) -> int:
        """The line of a part, or of the nearest part around it that has one."""
        for length in range(len(place), 0, -1):
            if place[:length] in self.lines:
                return self.lines[place[:length]]
        return 1
