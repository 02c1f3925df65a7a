"""Following a run from the command line: look at it at each change, show it, and have its actions decided."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import anyio

from journal.actions import Action
from journal.events import Event
from journal.ledger import Usage
from journal.runs import Run
from journal.steps import StepRow
from journal.store import Store

_TICK = 0.25
"""Seconds after which a run is looked at also when nothing rang: another process may drive it."""


@dataclass(frozen=True)
class Snapshot:
    """A run as it is at `now`; `actions` are those that wait, `events` those that came since the last look."""

    now: float
    run: Run
    steps: tuple[StepRow, ...]
    actions: tuple[Action, ...]
    usage: Usage
    events: tuple[Event, ...]


Show: TypeAlias = Callable[[Snapshot], None]
Decide: TypeAlias = Callable[[Action], Awaitable[None]]
"""Decides an action, or leaves it waiting; it is not offered again."""


async def leave_waiting(action: Action) -> None:
    """Decides nothing."""


async def follow(store: Store, run_id: str, *, show: Show, decide: Decide = leave_waiting, after: int = 0) -> Run:
    """Show the run until it has ended, or until only a decision that `decide` left open can move it on.

    Its events above number `after` are shown. Raises UnknownId.
    """
    offered: set[str] = set()
    seen = after
    while True:
        changed = store.bell.listen(run_id)
        now = await look(store, run_id, after=seen)
        seen = now.events[-1].seq if now.events else seen
        show(now)
        if now.run.ended:
            return now.run
        new = next((action for action in now.actions if action.id not in offered), None)
        if new is not None:
            offered.add(new.id)
            await decide(new)
        elif is_parked(now.run):
            return now.run
        else:
            with anyio.move_on_after(_TICK):
                await changed.wait()


async def look(store: Store, run_id: str, *, after: int = 0) -> Snapshot:
    """The run now as it may be shown, with its events above number `after`. Raises UnknownId."""
    run = await store.run(run_id)
    text = store.outlet.text
    actions = [action for action in await store.actions(run_id) if action.state == "waiting"]
    return Snapshot(
        now=store.world.now(),
        run=replace(run, goal=text(run.goal)),
        steps=tuple(replace(step, title=text(step.title)) for step in await store.steps(run_id)),
        actions=tuple(actions),
        usage=await store.usage(run),
        events=tuple(await store.events(run_id, after=after)),
    )


def is_parked(run: Run) -> bool:
    """Whether nothing goes on until somebody decides."""
    return run.status == "awaiting_approval" and run.driver is None and run.wake_at != 0
