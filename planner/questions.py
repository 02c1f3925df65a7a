"""Questions of this floor to a person: whether a plan runs, a revision widens, a budget is raised."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from journal.actions import Action, NewAction
from journal.run_journal import RunJournal
from journal.values import JsonObject

from .plan import AnyStep

Choice: TypeAlias = Literal["yes", "no"]
_YES = frozenset({"approve", "raise"})


async def settled(journal: RunJournal, new: NewAction) -> Choice | Action:
    """The answer to a question, asked if it is not yet; the action while it waits. No answer in time is a no."""
    action = await journal.action(new.key)
    if action is None or action.state == "superseded":
        action = await journal.ask(new)
    if action.state == "waiting":
        if action.expires_at is None or journal.world.now() <= action.expires_at:
            return action
        await journal.settle_action(action, expired=True)
        return "no"
    if not action.handled:
        await journal.settle_action(action)
    return "yes" if action.state != "withdrawn" and action.choice in _YES else "no"


def plan_question(run_id: str, steps: Sequence[AnyStep], *, seconds: float) -> NewAction:
    """Whether a plan may run (`review_plan`)."""
    arguments: JsonObject = {"steps": [step.model_dump(mode="json", exclude_defaults=True) for step in steps]}
    return NewAction(
        key="plan/review",
        kind="plan",
        level="host",
        question=f"Run this plan of {len(steps)} {'step' if len(steps) == 1 else 'steps'}?",
        arguments=arguments,
        binding={"run": run_id, "kind": "plan", "arguments": arguments},
        subject="plan",
        expires_in=seconds,
    )


def widen_question(
    run_id: str, number: int, steps: Sequence[AnyStep], *, tools: Sequence[str], seconds: float
) -> NewAction:
    """Whether a revision may use tools that the plan did not name."""
    planned = [step.model_dump(mode="json", exclude_defaults=True) for step in steps]
    arguments: JsonObject = {"steps": planned, "tools": list(tools)}
    return NewAction(
        key=f"revise.{number}/widen",
        kind="widen",
        level="person",
        question="A revision of the plan wants tools that the plan did not name. Allow these steps?",
        arguments=arguments,
        binding={"run": run_id, "kind": "widen", "number": number, "arguments": arguments},
        subject=f"widen {number}",
        expires_in=seconds,
    )


def budget_key(limit: str, number: str) -> str:
    """The key of the question about a limit; `number` counts what was raised so far."""
    return f"budget.{limit}.{number}"


def budget_question(run_id: str, number: str, limit: str, *, amount: float, seconds: float) -> NewAction:
    """Whether a limit that was reached is raised once by the settings' amount."""
    arguments: JsonObject = {"limit": limit, "add": amount}
    return NewAction(
        key=budget_key(limit, number),
        kind="budget",
        level="person",
        question=f"The budget {limit} is used up. Add {amount:g} once, or finish with what there is?",
        arguments=arguments,
        binding={"run": run_id, "kind": "budget", "number": number, "arguments": arguments},
        subject=f"budget {limit} {number}",
        expires_in=seconds,
    )
