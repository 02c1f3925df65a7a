"""Where a run stands, as its recorded history tells it: changed by entries of that history only, without any I/O."""

from collections.abc import Collection
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Literal, TypeAlias

from executors.contract import Assignment, Outcome
from journal.values import WORST, Json, JsonObject, Label

from .plan import AnyStep, Plan
from .planning import read_steps

Decision: TypeAlias = Literal["continue", "revise", "finish", "widen"]
BLOCKING: frozenset[str] = frozenset({"failed", "refused", "skipped", "cancelled"})
"""What needs a required step that ended so can't run; a partial one gives what it has."""


@dataclass(frozen=True)
class Halt:
    """Why no new step is started; `limit` names the budget that was reached."""

    reason: Literal["budget", "refused", "no_progress", "finish"]
    limit: str | None = None


@dataclass(frozen=True)
class Change:
    """What a reviser decided; `widens` are tools that a person has to allow first, `asks` how often it was asked.

    `limit` names the budget for which it could not be asked.
    """

    decision: Decision
    reason: str = ""
    drop: tuple[str, ...] = ()
    add: tuple[AnyStep, ...] = ()
    widens: tuple[str, ...] = ()
    asks: int = 1
    limit: str | None = None

    def to_json(self) -> JsonObject:
        fields: JsonObject = {name: getattr(self, name) for name in self.__dataclass_fields__}
        added = [step.model_dump(mode="json") for step in self.add]
        return fields | {"drop": list(self.drop), "add": added, "widens": list(self.widens)}

    @classmethod
    def from_json(cls, data: Json) -> "Change":
        lists = {"drop": tuple(data["drop"]), "add": read_steps(data["add"]), "widens": tuple(data["widens"])}
        return cls(**(data | lists))


@dataclass
class Progress:
    """The plan as revised so far and what became of its steps.

    `every` are all steps that the run's plan ever had, in the order of their positions; `dropped` are the required ones
    that a revision took out, each with the steps that came for it; `pending` is a revision (with its number) that waits
    for a person; `leaving` are steps about to be dropped.
    """

    plan: Plan
    every: dict[str, AnyStep] = field(default_factory=dict[str, AnyStep])
    first: frozenset[str] = frozenset()
    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    dropped: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    version: int = 1
    asks: int = 0
    revisions: int = 0
    unrewarded: int = 0
    raises: int = 0
    reopened: int = 0
    limited: set[str] = field(default_factory=set[str])
    halt: Halt | None = None
    pending: tuple[int, Change] | None = None
    notes: set[str] = field(default_factory=set[str])
    leaving: frozenset[str] = frozenset()
    _order: tuple[str, ...] = ()
    _words: dict[str, Label] = field(default_factory=dict[str, Label])

    def __post_init__(self) -> None:
        self.every = dict(self.plan.by_id)
        self.first = frozenset(self.every)
        self._sort()

    def _sort(self) -> None:
        self._order = tuple(TopologicalSorter({step.id: step.needs for step in self.plan.steps}).static_order())

    def take(self, outcome: Outcome, *, limit: str | None) -> None:
        """A step has ended; `limit` if the run's own budget cut it short."""
        self.outcomes[outcome.step] = outcome
        if outcome.status == "succeeded":
            self.unrewarded = 0
        if limit is not None:
            self.limited.add(outcome.step)
            self.halt = Halt("budget", limit)

    def raise_limit(self) -> bool:
        """A person raised a limit; true if the run had halted for one."""
        self.raises += 1
        halted = self.halt is not None and self.halt.reason == "budget"
        if halted:
            self.halt = None
        return halted

    def reopen(self, generation: int) -> None:
        """The run goes on after its end: what a budget cut short is tried again."""
        self.reopened, self.halt, self.unrewarded = generation, None, 0
        for id_ in self.limited.intersection(self.plan.by_id):
            self.outcomes.pop(id_, None)
        self.limited.clear()

    def apply(self, change: Change) -> None:
        """A revision counts from now on."""
        self.asks += change.asks
        self.leaving = frozenset()
        if change.limit is not None:
            self.halt = Halt("budget", change.limit)
        if change.decision == "finish":
            self.halt = Halt("finish")
        if change.decision == "revise":
            self.revisions += 1
            self.unrewarded += 1
        if change.drop or change.add:
            self._rebuild(change)

    def hold(self, change: Change) -> None:
        """A revision that waits for a person: it draws on the budget, and changes nothing yet."""
        self.pending = (self.asks + 1, change)
        self.asks += change.asks
        self.revisions += 1
        self.unrewarded += 1

    def release(self, *, approved: bool, drop: tuple[str, ...]) -> None:
        """A person decided on the revision that waits; `drop` is what may still be dropped of what it drops."""
        assert self.pending is not None
        change, self.pending = self.pending[1], None
        self.leaving = frozenset()
        if approved:
            self._rebuild(Change("revise", drop=drop, add=change.add))

    def _rebuild(self, change: Change) -> None:
        required = [self.every[id_] for id_ in change.drop if not self.every[id_].optional]
        self.dropped |= {step.id: tuple(new.id for new in change.add if _may_replace(new, step)) for step in required}
        kept = [step for step in self.plan.steps if step.id not in change.drop]
        # Of now, not of when the step starts: a replay has to find the same.
        self._words |= dict.fromkeys((step.id for step in change.add), self._read_so_far())
        self.every |= {step.id: step for step in change.add}
        self.version += 1
        self.plan = Plan((*kept, *change.add))
        self._sort()

    def unended(self) -> list[AnyStep]:
        """The plan's steps that have not ended, in its order."""
        return [step for step in self.plan.steps if step.id not in self.outcomes]

    def ready(self, busy: Collection[str]) -> list[AnyStep]:
        """The steps that may start now, in the order of the plan; `busy` ones have."""
        if self.halt is not None:
            return []
        held = self.pending[1].drop if self.pending is not None else ()
        blocked = self._blocked()
        return [
            step
            for step in self.unended()
            if step.id not in busy
            and step.id not in blocked
            and step.id not in held
            and all(need in self.outcomes or (need in blocked and self.every[need].optional) for need in step.needs)
        ]

    def _blocked(self) -> set[str]:
        """The steps that will never run, since a required step that they need ended badly or will never run."""
        steps, blocked = self.plan.by_id, set[str]()
        for id_ in self._order:
            if id_ not in self.outcomes and any(self._blocks(steps[need], blocked) for need in steps[id_].needs):
                blocked.add(id_)
        return blocked

    def _blocks(self, need: AnyStep, blocked: Collection[str]) -> bool:
        outcome = self.outcomes.get(need.id)
        bad = need.id in blocked if outcome is None else outcome.status in BLOCKING
        return bad and not need.optional

    def why_not_run(self, step: AnyStep) -> str:
        """One sentence about a step that never ran."""
        blocked = self._blocked()
        bad = [need for need in step.needs if self._blocks(self.plan.by_id[need], blocked)]
        return f"not run: it needs {', '.join(bad)}" if bad else "not run before the run ended"

    def assignment(self, step: AnyStep) -> Assignment:
        """The step with the values that it needs, as far as there are any."""
        ended = ((need, self.outcomes.get(need)) for need in step.needs)
        inputs = {need: outcome.value for need, outcome in ended if outcome is not None and outcome.value is not None}
        if step.id in self.first:
            return Assignment(step, inputs)
        return Assignment(step, inputs, "revision", self._words[step.id])

    def _read_so_far(self) -> Label:
        """The label of a revision's own words: its model has read of every outcome, and of earlier revisions."""
        origins = (self._origins(outcome) for outcome in self.outcomes.values())
        return frozenset({"model"}).union(*origins, *self._words.values())

    def _origins(self, outcome: Outcome) -> Label:
        """Of a worker's words nothing may be unknown; what a reviser sees of another step's failure is ours."""
        unknown = not outcome.origins and self.every[outcome.step].kind == "worker"
        return WORST if unknown else outcome.origins

    @property
    def counting(self) -> dict[str, AnyStep]:
        """Dropped required steps whose bad end still counts, since nothing that could do their work came for them."""
        return {id_: self.every[id_] for id_ in self.dropped if id_ in self.outcomes and not self._is_replaced(id_)}

    @property
    def left_out(self) -> list[AnyStep]:
        """Required steps that were dropped before they ended, with nothing in their place."""
        return [self.every[id_] for id_ in self.dropped if id_ not in self.outcomes and not self._is_replaced(id_)]

    def _is_replaced(self, id_: str) -> bool:
        """Whether a step that came for a dropped one is still there, or has ended, so that its own end counts."""
        there = self.plan.by_id.keys() | self.outcomes.keys()
        return any(new in there or self._is_replaced(new) for new in self.dropped[id_])

    def required(self) -> list[tuple[AnyStep, Outcome | None]]:
        """The steps that decide how the run ends, with what became of them."""
        counted = (*self.counting.values(), *(step for step in self.plan.steps if not step.optional))
        return [(step, self.outcomes.get(step.id)) for step in counted]


def _may_replace(new: AnyStep, dropped: AnyStep) -> bool:
    """Whether a new step could do the work of a required one. A text finds and changes nothing: it replaces texts."""
    return not new.optional and (new.kind != "compose" or dropped.kind == "compose")
