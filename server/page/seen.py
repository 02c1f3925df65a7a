"""When each action was first shown to whom: a yes counts only once it could have been read."""

from collections.abc import Iterable

from journal.actions import Action
from journal.errors import DecisionRefused


class Seen:
    """What was shown since this process began; `by` names who looked, such as a session. Times are monotonic."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, str, str], float] = {}

    def note(self, waiting: Iterable[Action], by: str, *, now: float) -> None:
        """All that waits stands before them from now on; what was shown before and waits no more is forgotten."""
        there = {(by, action.id, action.hash) for action in waiting}
        kept = {key: at for key, at in self._at.items() if key[0] != by or key in there}
        self._at = dict.fromkeys(there, now) | kept

    def check(self, action: Action, by: str, *, now: float, least: float) -> None:
        """Raises DecisionRefused for a yes that came before anybody could have read what it is about."""
        at = self._at.get((by, action.id, action.hash))
        if at is None or now - at < least:
            raise DecisionRefused(f"action {action.id} was shown less than {least:g} s ago; read it, then press again")
