"""What a tool call carries with it on its way through the door, and how it is written down where that ends."""

from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from downstream.door import Called, Refused, ToolCall
from downstream.servers.asking import NOT_RESUMED, Resumed
from journal.actions import Action
from journal.errors import BudgetReached
from journal.events import NewEvent
from journal.ledger import Amount, Reservation
from journal.run_journal import Meaning, RunJournal

from .approvals import approval_key
from .cache import ReadCache, Slot
from .call_record import call_ended, end_to_json
from .policy import Verdict
from .prompt_text import argument_lines
from .recovery import Closed
from .stages import Case

_Kept = TypeVar("_Kept", Called, Refused)


@dataclass
class Drive:
    """What the calls of one drive share. `turns` lets one of several equal effects at a time pass from the gate to its
    intent, so that of two made at once the second sees the first."""

    cache: ReadCache = field(default_factory=ReadCache)
    turns: dict[tuple[str, str], anyio.Lock] = field(default_factory=dict[tuple[str, str], anyio.Lock])
    told: set[str] = field(default_factory=set[str])

    def turn_of(self, case: Case) -> AbstractAsyncContextManager[None]:
        if not case.has_effect:
            return nullcontext()
        return self.turns.setdefault((case.tool.full_name, case.hash), anyio.Lock())


@dataclass(frozen=True)
class Pending:
    """A call that has no end yet."""

    journal: RunJournal
    call: ToolCall
    meaning: Meaning
    drive: Drive


@dataclass(frozen=True)
class Begun:
    """A call that is written down and may be sent, or is about to be."""

    case: Case
    id: str
    slot: Slot
    verdict: Verdict
    repeated: bool = False
    resumed: Resumed = NOT_RESUMED


async def reserved_again(pending: Pending) -> bool:
    """Whether the budget lets the call be sent a second time. Raises Fenced where another process drives the run."""
    reservation = Reservation(pending.call.key, Amount(tool_calls=2), step=pending.call.step)
    try:
        await pending.journal.begin_call(reservation)
    except BudgetReached:
        return False
    return True


def changed_by_a_person(case: Case) -> str:
    """What the model that made the call is told where other arguments were sent."""
    sent = "\n".join(argument_lines(case.call.arguments.data))
    return f"A person changed the arguments of this call; do not send it again. It was sent with:\n{sent}\n"


async def edited_in(pending: Pending) -> Action | None:
    """The action in which somebody changed the arguments of the call."""
    action = await pending.journal.action(approval_key(pending.call.key))
    return action if action is not None and action.edit_of is not None else None


async def kept_as(pending: Pending, end: _Kept, *events: NewEvent) -> _Kept:
    """Write down the end of a call that was not sent."""
    await pending.journal.record(pending.call.key, pending.meaning, end_to_json(end), events=events)
    return end


async def closed_as(pending: Pending, closed: Closed) -> Called:
    """Write down what a call without an answer counts as."""
    called, event = closed.called, call_ended(closed.called, pending.call.step, ms=0)
    value = end_to_json(called)
    await pending.journal.end_call(pending.call.key, pending.meaning, value, intent=closed.state, events=[event])
    return called
