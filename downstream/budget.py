"""A budget that was reached is a decision of the run: written down once, so that every replay decides the same."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from journal.errors import BudgetReached
from journal.events import NewEvent
from journal.run_journal import Meaning, RunJournal

T = TypeVar("T")


async def within_budget(
    journal: RunJournal, key: str, meaning: Meaning, act: Callable[[], Awaitable[T]], *, step: str | None = None
) -> T:
    """What `act` returns; a BudgetReached of it is recorded under `key/budget`, and every replay raises it again."""
    refusal = f"{key}/budget"
    if (found := await journal.recall(refusal, meaning)) is not None:
        raise BudgetReached(**found.value)
    try:
        return await act()
    except BudgetReached as error:
        value = {"limit": error.limit, "allowed": error.allowed, "used": error.used}
        await journal.record(refusal, meaning, value, events=[NewEvent("budget.refused", value, step=step)])
        raise
