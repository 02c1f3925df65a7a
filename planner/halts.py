"""What stops a run from starting steps: budgets that were reached, and revisions that a person has to allow."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from executors.contract import Outcome
from executors.step import WorkerStep
from journal.ledger import Limits
from journal.run_journal import RunJournal

from .chronicle import Chronicle, Ended, Raised, Widened
from .plan import AnyStep
from .questions import budget_question, settled, widen_question
from .revise import Standing

Halted: TypeAlias = Literal["none", "end", "wait", "on"]
_LIMITS = frozenset(Limits.__dataclass_fields__)


class Halts:
    """The halts of one drive. `untils` tells when the questions that wait lapse."""

    def __init__(self, chronicle: Chronicle) -> None:
        self.chronicle = chronicle
        self.journal: RunJournal = chronicle.journal
        self.out_of_time = False
        self.untils: dict[str, float | None] = {}
        self._held: dict[str, tuple[Outcome, str]] = {}

    @property
    def may_raise(self) -> bool:
        """Whether somebody is there to ask for a higher limit."""
        return bool(self.journal.run.options.get("interactive"))

    @property
    def stopped(self) -> bool:
        return self.out_of_time or bool(self._held) or self.chronicle.progress.halt is not None

    async def limit_of(self, step: AnyStep, outcome: Outcome) -> str | None:
        """The limit of the run's budget that cut a step short; None where it was one of its worker's own."""
        limit = outcome.limit
        if limit not in _LIMITS or not isinstance(step, WorkerStep):
            return limit if limit in _LIMITS else None
        worker = next((worker for worker in self.chronicle.desk.workers if worker.name == step.worker), None)
        if limit == "tool_calls":
            used = (await self.journal.usage()).tool_calls
            return limit if used >= self.journal.limits.tool_calls else None
        return None if worker is not None and getattr(worker.limits, limit, None) is not None else limit

    def hold(self, outcome: Outcome, limit: str) -> None:
        """Keep a step's cut-short end back until a person has said whether the limit is raised."""
        self._held[outcome.step] = (outcome, limit)

    async def settle(self) -> Halted:
        """With nothing running: whether the run is halted for good, waits for a person's word, or goes on by it."""
        self.untils.pop("budget", None)
        limit, halt = self._limit(), self.chronicle.progress.halt
        if limit is None and halt is None:
            return "none"
        if limit is None or not self.may_raise or (halt is not None and halt.reason != "budget"):
            return await self._end_held()
        desk, progress = self.chronicle.desk, self.chronicle.progress
        amount = float(getattr(desk.budget, limit))
        number = f"{progress.reopened}.{progress.raises + 1}"
        asked = budget_question(self.journal.run.id, number, limit, amount=amount, seconds=desk.pending_seconds)
        match await settled(self.journal, asked):
            case "yes":
                await self.chronicle.add(Raised(limit, amount))
                self.out_of_time = False
                self._held.clear()
                return "on"
            case "no":
                return await self._end_held()
            case action:
                self.untils["budget"] = action.expires_at
                return "wait"

    async def _end_held(self) -> Literal["end"]:
        """The steps that were kept back have ended after all."""
        while self._held:
            outcome, limit = self._held.pop(next(iter(self._held)))
            await self.chronicle.add(Ended(outcome, limit))
        return "end"

    def _limit(self) -> str | None:
        halt = self.chronicle.progress.halt
        if self.out_of_time:
            return "seconds"
        if self._held:
            return next(iter(self._held.values()))[1]
        return halt.limit if halt is not None and halt.reason == "budget" else None

    async def settle_revision(self, standing: Standing) -> None:
        """Let a revision that wants more tools count once a person has decided on it."""
        progress, desk = self.chronicle.progress, self.chronicle.desk
        if progress.pending is None:
            return
        number, change = progress.pending
        asked = widen_question(
            self.journal.run.id, number, change.add, tools=change.widens, seconds=desk.pending_seconds
        )
        self.untils.pop("widen", None)
        match await settled(self.journal, asked):
            case "yes" | "no" as choice:
                await self.chronicle.add(Widened(choice == "yes", self._droppable(change.drop, standing)))
            case action:
                self.untils["widen"] = action.expires_at

    def _droppable(self, wanted: Iterable[str], standing: Standing) -> tuple[str, ...]:
        """What of this can still be dropped: it has neither begun nor succeeded, and nothing that stays needs it."""
        progress = self.chronicle.progress
        steps = progress.plan.by_id
        drop = {id_ for id_ in wanted if id_ in steps and id_ not in standing.running}
        drop -= {id_ for id_, outcome in progress.outcomes.items() if outcome.status == "succeeded"}
        while needed := {need for step in steps.values() if step.id not in drop for need in step.needs} & drop:
            drop -= needed
        return tuple(sorted(drop))
