"""What a person accepted of a server, what the server lists now, and the difference as a person is shown it."""

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Protocol

from downstream.gate.prompt_text import escaped
from journal.canonical import digest
from journal.values import Json, JsonObject

from .listing import Definition, Difference, Listing, compare

_AROUND = 2
"""Unchanged lines shown before and after each changed one."""

_COMPARED = 2_000
"""Texts of more lines could be written such that to compare them takes hours."""


@dataclass(frozen=True)
class Pins:
    """What counts of a server, and what it lists now."""

    pinned: Listing
    found: Listing

    # Every call of every tool asks for it.
    @cached_property
    def difference(self) -> Difference:
        return compare(self.pinned, self.found)

    @property
    def differs(self) -> bool:
        """Whether there is anything that a person could accept."""
        return bool(self.difference.quarantined or self.difference.reworded or self.difference.instructions)

    def reworded_lines(self, tool: str) -> list[str]:
        """The difference of a tool that is new in words only, or of the instructions where it is empty."""
        if tool:
            return difference_lines(*(definition_lines(listing.tool(tool)) for listing in (self.pinned, self.found)))
        before, now = (text_lines("instructions", listing.instructions) for listing in (self.pinned, self.found))
        return difference_lines(before, now)

    def to_json(self) -> JsonObject:
        return {"pinned": self.pinned.to_json(), "found": self.found.to_json()}

    @classmethod
    def from_json(cls, data: Json) -> "Pins":
        return cls(Listing.from_json(data["pinned"]), Listing.from_json(data["found"]))


@dataclass(frozen=True)
class Change:
    """A tool that may not be used before a person accepts it as its server lists it `now`; `before` is what counts."""

    server: str
    why: str
    before: Definition | None
    now: Definition

    @property
    def full_name(self) -> str:
        return f"{self.server}.{self.now.name}"

    @cached_property
    def id(self) -> str:
        """The same for the same change in whichever run or process."""
        return digest([None if self.before is None else self.before.pin, self.now.pin])

    @property
    def lines(self) -> list[str]:
        """The difference, escaped: lines that went begin with `-`, new ones with `+`."""
        return difference_lines(definition_lines(self.before), definition_lines(self.now))


class Accepting(Protocol):
    """What the gate asks of the catalogue about tools that changed; see `Catalogue`."""

    def change(self, name: str) -> Change | None: ...

    def news(self, server: str) -> Sequence[str]: ...

    async def accept(self, change: Change) -> None: ...


class Refusals:
    """Which tools of a listing may not be called, by what is pinned at the time of asking."""

    def __init__(self, pinned: Callable[[], Listing], found: Listing) -> None:
        self._pinned = pinned
        self._last = Pins(pinned(), found)

    def __call__(self) -> Mapping[str, str]:
        if (pinned := self._pinned()) is not self._last.pinned:
            self._last = Pins(pinned, self._last.found)
        return self._last.difference.quarantined


def definition_lines(tool: Definition | None) -> list[str]:
    """A definition as text, without what it leaves empty."""
    if tool is None:
        return []
    parts = [("name", tool.name), ("title", tool.title), ("description", tool.description)]
    lines = [line for part, text in parts if text for line in text_lines(part, text)]
    schemas = [("arguments", tool.input_schema), ("result", tool.output_schema), ("annotations", tool.annotations)]
    return [*lines, *(line for part, data in schemas if data for line in _json_lines(part, data))]


def text_lines(part: str, text: str) -> list[str]:
    """A text line by line, each escaped and behind the name of what it is."""
    # By line feeds alone: other ends of lines are shown escaped.
    return [f"{part}: {escaped(line)}" for line in text.split("\n")]


def difference_lines(before: list[str], now: list[str]) -> list[str]:
    """Lines that went with `-`, new ones with `+`, those around them with a blank, `…` for the rest."""
    if max(len(before), len(now)) > _COMPARED:
        return _ends_apart(before, now)
    found = list(difflib.unified_diff(before, now, lineterm="", n=_AROUND))[2:]
    return ["…" if line.startswith("@@") else line for line in found]


def _ends_apart(before: list[str], now: list[str]) -> list[str]:
    """All between what both begin and end with, as gone and as new."""
    head = _alike(before, now)
    tail = _alike(before[head:][::-1], now[head:][::-1])
    gone, new = before[head : len(before) - tail], now[head : len(now) - tail]
    first = [f" {line}" for line in before[:head][-_AROUND:]]
    last = [f" {line}" for line in before[len(before) - tail :][:_AROUND]]
    return ["…", *first, *(f"-{line}" for line in gone), *(f"+{line}" for line in new), *last] if gone or new else []


def _alike(one: list[str], other: list[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _json_lines(part: str, data: JsonObject) -> Iterator[str]:
    return (
        f"{part}: {escaped(line)}"
        for line in json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False).split("\n")
    )
