"""Work that a cancelled run or a passed deadline cuts short, and that hears of decisions while it goes on."""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, TypeVar

import anyio
from anyio.abc import TaskGroup

from journal.errors import SteprelayError
from journal.run_journal import RunJournal

T = TypeVar("T")
Interrupted: TypeAlias = Literal["cancelled", "deadline"]
Glance: TypeAlias = Callable[[], Awaitable[None]]
LOOK_SECONDS = 0.5
"""Another process rings no bell of ours, so the run is looked at this often at least."""


async def nothing() -> None:
    """A glance that sees nothing."""


async def watched(
    journal: RunJournal,
    work: Callable[[TaskGroup], Awaitable[T]],
    *,
    glance: Glance = nothing,
    deadline: Callable[[], bool] = lambda: True,
) -> T | Interrupted:
    """What `work` returns; its tasks end with it. `glance` is called whenever others changed something about the run.

    Cut short when the run is to be cancelled or, while `deadline` says so, when its driven time is used up. Errors come
    out bare.
    """
    watcher = _Watcher(journal, glance, deadline=deadline)
    result: list[T] = []
    problem: SteprelayError | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(watcher.run, group)
        try:
            result.append(await work(group))
        except SteprelayError as error:
            problem = error
        group.cancel_scope.cancel()
    if problem is None and result:
        return result[0]
    if (problem := problem or watcher.problem) is not None:
        raise problem
    assert watcher.interrupted is not None
    return watcher.interrupted


class _Watcher:
    def __init__(self, journal: RunJournal, glance: Glance, *, deadline: Callable[[], bool]) -> None:
        self.journal = journal
        self.glance = glance
        self.deadline = deadline
        self.interrupted: Interrupted | None = None
        self.problem: SteprelayError | None = None

    async def run(self, group: TaskGroup) -> None:
        try:
            self.interrupted = await self._until_interrupted()
        except SteprelayError as error:
            self.problem = error
        group.cancel_scope.cancel()

    async def _until_interrupted(self) -> Interrupted:
        journal = self.journal
        while True:
            ring = journal.bell.listen_to_others(journal.run.id)
            if await journal.cancel_reason() is not None:
                return "cancelled"
            left = journal.limits.seconds - journal.driven_seconds if self.deadline() else LOOK_SECONDS
            if left <= 0:
                return "deadline"
            await self.glance()
            with anyio.move_on_after(min(left, LOOK_SECONDS)):
                await ring.wait()
