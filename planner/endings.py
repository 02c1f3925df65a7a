"""How a run ends: its status, why, and one or two sentences of ours about it (DESIGN section 9)."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from journal.runs import RunStatus, StopReason

from .plan import AnyStep
from .progress import Progress

Cause: TypeAlias = Literal["course", "cancelled", "deadline", "plan_refused", "no_plan", "no_replay"]
_DEADLINE = "seconds"


@dataclass(frozen=True)
class Close:
    """What brought a run to its end: its course, or something from outside. `limit` names a budget that was reached.

    `why` is a sentence of ours for a run that got no plan.
    """

    cause: Cause = "course"
    limit: str | None = None
    why: str = ""


@dataclass(frozen=True)
class End:
    """A row of the table of endings, with its message."""

    status: RunStatus
    stop_reason: StopReason
    message: str


def end_of(progress: Progress | None, close: Close, *, revisions: int) -> End:
    """The first row that fits, in the order cancelled, budget or deadline, refused, no_progress, error, done.

    `revisions` is how many the budget allows.
    """
    cancelled_or_limit = _from_outside(progress, close)
    if cancelled_or_limit is not None:
        return cancelled_or_limit
    if close.cause == "plan_refused":
        return End("partial", "refused", "The plan was refused, so nothing was run.")
    statuses = _statuses(progress)
    if "refused" in statuses or _halted_by(progress) == "refused":
        return _end(progress, "partial", "refused", "A step that was needed was refused.")
    if close.cause == "course" and progress is not None and _is_stuck(progress, statuses, revisions):
        return _end(progress, "partial", "no_progress", "Revising the plan brought nothing new.")
    if close.cause == "course" and all(status == "succeeded" for status in statuses):
        return _end(progress, "succeeded", "done", _done(progress))
    status: RunStatus = "partial" if progress is not None and _has_something(progress) else "failed"
    lacks = _NOT_ALL if progress is None or progress.required() else _NONE
    return _end(progress, status, "error", f"{_ERRORS.get(close.cause, lacks)} {close.why}")


def cut_short(progress: Progress | None, close: Close) -> str:
    """One sentence about the limit that brought the run to its end; empty where none did."""
    limit = _limit(progress, close)
    if limit == _DEADLINE:
        return "The time of the run was used up (budget.seconds)."
    return f"A limit of the budget was reached (budget.{limit})." if limit is not None else ""


def _done(progress: Progress | None) -> str:
    outcomes = [] if progress is None else list(progress.outcomes.values())
    # Whatever the models of such a run say that they did.
    if not any(outcome.sources or outcome.effects for outcome in outcomes):
        called = any(outcome.failed_calls for outcome in outcomes)
        return _NO_RESULT if called else "No tool was called, so nothing was looked up or changed."
    whole = all(outcome.status == "succeeded" for outcome in outcomes)
    return "" if whole else "Every step that was needed succeeded."


def _from_outside(progress: Progress | None, close: Close) -> End | None:
    if close.cause == "cancelled":
        return _end(progress, "cancelled", "cancelled", "The run was cancelled.")
    limit = _limit(progress, close)
    if limit is None:
        return None
    said = f"{cut_short(progress, close)} {close.why}"
    return _end(progress, "partial", "deadline" if limit == _DEADLINE else "budget", said)


def _end(progress: Progress | None, status: RunStatus, stop_reason: StopReason, said: str) -> End:
    return End(status, stop_reason, " ".join(filter(None, (said.strip(), _count(progress)))))


_NOT_ALL = "Not every step that was needed succeeded."
_NONE = "Every step was optional, and none succeeded."
_NO_RESULT = "No call of a tool gave a result."
_ERRORS: dict[Cause, str] = {
    "no_plan": "There is no plan for this goal.",
    "no_replay": "The run cannot be replayed with the present settings and release, so it ended with what it had.",
}


def _statuses(progress: Progress | None) -> list[str | None]:
    """What became of each step that counts. Where all are optional, one that succeeded is needed all the same."""
    if progress is None:
        return [None]
    required: list[str | None] = [None if outcome is None else outcome.status for _, outcome in progress.required()]
    return required or ["succeeded" if _succeeded(progress.plan.steps, progress) else None]


def _halted_by(progress: Progress | None) -> str | None:
    return None if progress is None or progress.halt is None else progress.halt.reason


def _limit(progress: Progress | None, close: Close) -> str | None:
    if close.cause == "deadline":
        return _DEADLINE
    if close.limit is not None:
        return close.limit
    halt = None if progress is None else progress.halt
    return halt.limit if halt is not None and halt.reason == "budget" else None


def _is_stuck(progress: Progress, statuses: Collection[str | None], revisions: int) -> bool:
    """Two revisions without a success, or the last of them made and nothing gained since."""
    if _halted_by(progress) == "no_progress":
        return True
    used_up = 0 < revisions <= progress.revisions and progress.unrewarded > 0
    return used_up and any(status != "succeeded" for status in statuses)


def _has_something(progress: Progress) -> bool:
    return any(outcome.status == "succeeded" or outcome.findings for outcome in progress.outcomes.values())


def _count(progress: Progress | None) -> str:
    if progress is None:
        return ""
    steps = (*progress.counting.values(), *progress.plan.steps)
    return f"{_succeeded(steps, progress)} of {len(steps)} {'step' if len(steps) == 1 else 'steps'} succeeded."


def _succeeded(steps: Iterable[AnyStep], progress: Progress) -> int:
    """How many of these steps did."""
    return sum(1 for step in steps if (o := progress.outcomes.get(step.id)) is not None and o.status == "succeeded")
