"""When each thing was first shown to whom: what allows something counts only once it could have been read."""

from collections.abc import Iterable
from dataclasses import dataclass

from downstream.tools import Tool
from journal.actions import Action
from journal.errors import DecisionRefused


@dataclass(frozen=True)
class Mark:
    """What was shown: how it is called, and the hash of all that is shown of it."""

    name: str
    hash: str

    @classmethod
    def of(cls, shown: Action | Tool) -> "Mark":
        """An action's or a tool's."""
        if isinstance(shown, Action):
            return cls(f"action {shown.id}", shown.hash)
        return cls(f"tool {shown.full_name}", shown.pin)


class Seen:
    """What was shown since this process began; `by` names who looked, such as a session. Times are monotonic."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, Mark], float] = {}

    def note(self, shown: Iterable[Action | Tool], by: str, *, now: float) -> None:
        """All this stands before them from now on; what was shown before and is not there any more is forgotten."""
        there = {(by, Mark.of(each)) for each in shown}
        kept = {key: at for key, at in self._at.items() if key[0] != by or key in there}
        self._at = dict.fromkeys(there, now) | kept

    def check(self, shown: Action | Tool, by: str, *, now: float, least: float) -> None:
        """Raises DecisionRefused for a press that came before anybody could have read what it is about."""
        mark = Mark.of(shown)
        at = self._at.get((by, mark))
        if at is None or now - at < least:
            raise DecisionRefused(f"{mark.name} was shown less than {least:g} s ago; read it, then press again")
