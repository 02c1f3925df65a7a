"""After which outcomes a plan is looked at again, and when it is not: by code, written down before it is acted on."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from executors.contract import Outcome
from journal.actions import Action
from journal.run_journal import Meaning, RunJournal
from journal.values import Json, JsonObject

from .plan import AnyStep
from .progress import Progress
from .settings import Revise

Then: TypeAlias = Literal["go_on", "ask", "no_progress", "refused"]
LOW_CONFIDENCE = 0.5
REFUSALS = 3
"""So many refusals by a person in a row end the run with what it has."""
FRUITLESS = 2
"""After so many revisions without a new success the run goes to its answer."""
_BAD = frozenset({"failed", "partial"})


@dataclass(frozen=True)
class Comment:
    """What a person wrote beside a decision."""

    action: str
    text: str


@dataclass(frozen=True)
class Trigger:
    """Why the plan may have to change, and what follows from that: go on, ask the reviser, or stop starting steps."""

    reasons: tuple[str, ...]
    comments: tuple[Comment, ...]
    then: Then

    def to_json(self) -> JsonObject:
        comments = [{"action": comment.action, "text": comment.text} for comment in self.comments]
        return {"reasons": list(self.reasons), "comments": comments, "then": self.then}

    @classmethod
    def from_json(cls, data: Json) -> "Trigger":
        return cls(tuple(data["reasons"]), tuple(Comment(**comment) for comment in data["comments"]), data["then"])


@dataclass(frozen=True)
class Doubt:
    """What puts a plan into doubt; `refused` if it is a refusal."""

    reasons: tuple[str, ...] = ()
    refused: bool = False


@dataclass(frozen=True)
class Rules:
    """When a reviser is asked: the setting `revise`, and how many revisions the budget allows."""

    revise: Revise
    revisions: int


def doubt_of(step: AnyStep, outcome: Outcome) -> Doubt:
    """What about this outcome puts the plan into doubt; nothing for most."""
    reasons: list[str] = []
    if outcome.status in _BAD and not step.optional:
        reasons.append(f"required step {step.id} {'failed' if outcome.status == 'failed' else 'is partial'}")
    if outcome.status == "refused":
        reasons.append(f"step {step.id} was refused")
    if outcome.confidence < LOW_CONFIDENCE:
        reasons.append(f"step {step.id} has a confidence of {outcome.confidence:g}")
    if not outcome.plan_holds:
        reasons.append(f"step {step.id} reports that the plan no longer holds")
    return Doubt(tuple(reasons), refused=outcome.status == "refused")


def doubt_left(progress: Progress) -> Doubt:
    """The doubt that a run has left when it goes on after a halt: its required steps that ended badly."""
    ended = [(step, outcome) for step, outcome in progress.required() if outcome is not None]
    return Doubt(tuple(reason for step, outcome in ended for reason in doubt_of(step, outcome).reasons))


async def look(journal: RunJournal, number: int, progress: Progress, *, doubt: Doubt, rules: Rules) -> Trigger:
    """The trigger after entry `number` of the run's order, as recorded or as it is found now."""

    async def make() -> Json:
        comments = _comments(await journal.actions(), known=progress.notes)
        found = (*doubt.reasons, *(["a person left a comment"] if comments else []))
        if doubt.refused and await journal.refusals_in_a_row() >= REFUSALS:
            return Trigger(found, comments, "refused").to_json()
        return Trigger(found, comments, _then(progress, found, rules)).to_json()

    trigger = Trigger.from_json(await journal.memo(f"trigger.{number}", _meaning(number), make))
    progress.notes |= {comment.action for comment in trigger.comments}
    return trigger


async def recorded_look(journal: RunJournal, number: int) -> Trigger | None:
    """The trigger that was found after entry `number`, if the run came so far."""
    found = await journal.recall(f"trigger.{number}", _meaning(number))
    return None if found is None else Trigger.from_json(found.value)


def _meaning(number: int) -> Meaning:
    return Meaning("trigger", number)


def _comments(actions: Iterable[Action], *, known: set[str]) -> tuple[Comment, ...]:
    return tuple(Comment(action.id, action.note) for action in actions if action.note and action.id not in known)


def _then(progress: Progress, reasons: tuple[str, ...], rules: Rules) -> Then:
    wanted = rules.revise == "always" or (rules.revise == "on_trigger" and bool(reasons))
    if not wanted or progress.halt is not None or progress.pending is not None:
        return "go_on"
    if reasons and progress.unrewarded >= FRUITLESS:
        return "no_progress"
    return "ask" if progress.revisions < rules.revisions else "go_on"
