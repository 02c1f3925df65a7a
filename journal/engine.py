"""The seam behind which an engine decides who drives which run, and when."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from .run_journal import RunJournal

Drive: TypeAlias = Callable[[RunJournal], Awaitable[None]]
"""Run or continue a run until it has ended or is parked. Idempotent; raises Fenced when another drive took over."""


class Engine(Protocol):
    """What the floors above know of an engine."""

    async def wake(self, run_id: str) -> None:
        """Have the run driven soon by whoever may: after it was created, decided upon, cancelled or reopened."""
        ...
