"""How long a run may spend on its plan: a third of its time, so that somebody gets to work on the goal."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from journal.errors import SteprelayError
from journal.run_journal import Meaning, RunJournal
from journal.values import Json

T = TypeVar("T")
_SHARE = 1 / 3
_AGAIN_SECONDS = 5.0
"""What is recorded is read again, however late it is; whatever else that takes has so long at least."""
_KEY, _OVER = "plan/over", Meaning("planning_over", None)


class PlanningOver(SteprelayError):
    """Planning has taken the part of the run's time that it may, so many `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"planning used up its third of budget.seconds ({seconds:g} s); the planner is asked no more")


class Patience:
    """Made when a drive comes to ask for a plan: what this drive did before does not count, earlier drives do."""

    def __init__(self, journal: RunJournal) -> None:
        self.journal = journal
        self._opening = journal.driven_seconds - journal.run.driven_seconds

    async def within(self, key: str, meaning: Meaning, ask: Callable[[], Awaitable[T]]) -> T:
        """What `ask` returns, whose first reply is recorded under `key`.

        Raises PlanningOver where the time is used up, before the question or under it; that is recorded, and every
        replay raises it at the same question.
        """
        journal = self.journal
        found = await journal.recall(_KEY, _OVER)
        if found is not None and found.value["at"] == key:
            raise PlanningOver(found.value["seconds"])
        seconds = journal.limits.seconds * _SHARE
        left = seconds - (journal.driven_seconds - self._opening)
        if await journal.recall(key, meaning) is not None:
            left = max(left, _AGAIN_SECONDS)
        if left > 0:
            with anyio.move_on_after(left):
                return await ask()

        async def over() -> Json:
            return {"at": key, "seconds": round(seconds, 3)}

        raise PlanningOver((await journal.memo(_KEY, _OVER, over))["seconds"])
