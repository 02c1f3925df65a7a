"""What stops a run from starting steps: budgets that were reached, and revisions that a person has to allow."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from executors.contract import Outcome
from journal.ledger import Limits
from journal.run_journal import RunJournal

from .chronicle import Chronicle, Ended, Raised, Widened
from .progress import Halt
from .questions import budget_key, budget_question, settled, widen_question

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

    def hold(self, outcome: Outcome, limit: str) -> None:
        """Keep a step's cut-short end back until a person has said whether the limit is raised."""
        self._held[outcome.step] = (outcome, limit)

    async def settle(self) -> Halted:
        """With nothing running: whether the run is halted for good, waits for a person's word, or goes on by it."""
        self.untils.pop("budget", None)
        desk, progress = self.chronicle.desk, self.chronicle.progress
        number, halt = f"{progress.reopened}.{progress.raises + 1}", progress.halt
        limit = await self._limit(number)
        if limit is None and halt is None:
            return "none"
        if limit is None or not self.may_raise or (halt is not None and halt.reason != "budget"):
            return await self._end_held()
        amount = float(getattr(desk.budget, limit))
        asked = budget_question(self.journal.run.id, number, limit, amount=amount, seconds=desk.pending_seconds)
        match await settled(self.journal, asked):
            case "yes":
                await self.chronicle.add(Raised(limit, amount))
                self.out_of_time = False
                self._held.clear()
                return "on"
            case "no":
                await self._end_held()
                progress.halt = progress.halt or Halt("budget", limit)
                return "end"
            case action:
                self.untils["budget"] = action.expires_at
                return "wait"

    async def _end_held(self) -> Literal["end"]:
        """The steps that were kept back have ended after all."""
        while self._held:
            outcome, limit = self._held.pop(next(iter(self._held)))
            await self.chronicle.add(Ended(outcome, limit))
        return "end"

    async def _limit(self, number: str) -> str | None:
        """The limit to ask about: one that a person was asked about, since another may be reached first this time."""
        reached = self._reached()
        actions = await self.journal.actions() if self.may_raise else []
        for action in (action for action in actions if action.kind == "budget"):
            limit: str = action.arguments["limit"]
            # What was said counts also where that limit is reached no more; a question that lapsed does not.
            said = action.state not in ("waiting", "expired", "superseded")
            if action.key == budget_key(limit, number) and (said or limit in reached):
                return limit
        return reached[0] if reached else None

    def _reached(self) -> list[str]:
        halt = self.chronicle.progress.halt
        reached = ["seconds"] if self.out_of_time else []
        reached += [limit for _, limit in self._held.values()]
        return [*reached, halt.limit] if halt is not None and halt.limit is not None else reached

    async def settle_revision(self) -> None:
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
                # Of now: steps were resumed while the answer was looked up. From here on none of these is.
                drop = self._droppable(change.drop)
                progress.leaving = frozenset(drop) if choice == "yes" else frozenset()
                await self.chronicle.add(Widened(choice == "yes", drop))
            case action:
                self.untils["widen"] = action.expires_at

    def _droppable(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """What of this can still be dropped: it has neither begun nor succeeded, and nothing that stays needs it."""
        progress, standing = self.chronicle.progress, self.chronicle.standing()
        steps = progress.plan.by_id
        drop = {id_ for id_ in wanted if id_ in steps and id_ not in standing.running}
        drop -= {id_ for id_, outcome in progress.outcomes.items() if outcome.status == "succeeded"}
        while needed := {need for step in steps.values() if step.id not in drop for need in step.needs} & drop:
            drop -= needed
        return tuple(sorted(drop))


def limit_of(outcome: Outcome) -> str | None:
    """The limit of the run's budget that cut a step short; None where it was one of its worker's own."""
    return outcome.limit if outcome.over_budget and outcome.limit in _LIMITS else None
