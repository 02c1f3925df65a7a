"""The recorded order of a run: what happened is written down before it counts, and replayed in the same order."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias, assert_never

from executors.contract import Outcome
from journal.events import NewEvent
from journal.ledger import Limits
from journal.run_journal import Meaning, RunJournal
from journal.steps import StepNews, StepRow
from journal.values import Json, JsonObject

from .desk import Desk
from .markdown import plain_line
from .plan import AnyStep, Plan
from .progress import Halt, Progress
from .revise import Scene, Standing, StandingNow, decide, is_decided
from .triggers import Doubt, Rules, Trigger, doubt_left, doubt_of, look

_ENTRY = Meaning("order", None)


@dataclass(frozen=True)
class Ended:
    """A step has ended; `limit` if the run's own budget cut it short."""

    outcome: Outcome
    limit: str | None = None

    def to_json(self) -> JsonObject:
        outcome = self.outcome
        return {"step": outcome.step, "status": outcome.status, "limit": self.limit, "outcome": outcome.to_json()}


@dataclass(frozen=True)
class Widened:
    """A person decided on a revision that waited; `drop` is what it could still drop then."""

    approved: bool
    drop: tuple[str, ...]

    def to_json(self) -> JsonObject:
        return {"widen": self.approved, "drop": list(self.drop)}


@dataclass(frozen=True)
class Raised:
    """A person raised a limit of the budget."""

    limit: str
    amount: float

    def to_json(self) -> JsonObject:
        return {"raise": self.limit, "amount": self.amount}


@dataclass(frozen=True)
class Reopened:
    """The run went on after it had ended."""

    generation: int

    def to_json(self) -> JsonObject:
        return {"reopened": self.generation}


Entry: TypeAlias = Ended | Widened | Raised | Reopened


def read_entry(data: Json) -> Entry:
    """An entry as the journal holds it."""
    if "step" in data:
        outcome, limit = Outcome.from_json(data["outcome"]), data["limit"]
        # An entry of an earlier release says whose limit it was only here.
        return Ended(replace(outcome, over_budget=outcome.over_budget or limit is not None), limit)
    if "widen" in data:
        return Widened(data["widen"], tuple(data["drop"]))
    if "raise" in data:
        return Raised(data["raise"], data["amount"])
    return Reopened(data["reopened"])


class Chronicle:
    """The history of one run and its progress, which follows from it. Use `replay` once, then `add`."""

    def __init__(self, journal: RunJournal, desk: Desk, plan: Plan) -> None:
        self.journal = journal
        self.desk = desk
        self.progress = Progress(plan)
        self.standing: StandingNow = Standing
        self.began: set[str] = set()
        budget = desk.budget_of(journal.run)
        self._rules = Rules(desk.revise, budget.revisions)
        self._entries = 0
        self._replaying = False
        self._open: tuple[int, Doubt] | None = None

    async def replay(self) -> None:
        """Take in all that is recorded; nothing of it is done again, and nobody is asked."""
        self._replaying = True
        await self._show(self.progress.plan.steps)
        before = await self.journal.steps()
        self.standing = _as_shown(before)
        self.began = {row.id for row in before if row.started_at is not None}
        for number in count(1):
            found = await self.journal.recall(f"order.{number}", _ENTRY)
            if found is None:
                break
            self._entries = number
            await self._take(number, read_entry(found.value))
        shown = {row.id: row.status for row in await self.journal.steps()}
        for id_, outcome in self.progress.outcomes.items():
            if shown.get(id_) != outcome.status:
                await self.journal.put_step_status(id_, outcome.status, summary=summary_of(outcome))
        await self.clear_strays()
        self._replaying = False

    async def go_on(self) -> None:
        """Make the decision that the last drive did not come to, and note that an ended run was opened again."""
        if self._open is not None:
            (number, doubt), self._open = self._open, None
            await self._consider(number, doubt)
        generation: int = self.journal.run.options.get("reopened", 0)
        if generation > self.progress.reopened:
            await self.add(Reopened(generation))

    async def add(self, entry: Entry) -> None:
        """Write an entry down and let it count, with all that follows from it."""
        number = self._entries + 1
        outcome = entry.outcome if isinstance(entry, Ended) else None
        events = [] if outcome is None else [_ended_event(outcome)]
        news = None if outcome is None else StepNews(outcome.step, outcome.status, summary_of(outcome))
        await self.journal.record(f"order.{number}", _ENTRY, entry.to_json(), events=events, step=news)
        self._entries = number
        await self._take(number, entry)
        await self.clear_strays()

    async def clear_strays(self) -> None:
        """End the questions of steps that ended or were dropped, so that nobody answers in vain."""
        unended = {step.id for step in self.progress.unended()}
        for action in await self.journal.actions():
            own = action.kind in ("plan", "widen", "budget")
            if action.handled or own or action.step in unended:
                continue
            if action.state != "waiting":
                await self.journal.settle_action(action, expired=action.state == "expired")
            elif action.kind != "unknown":
                await self.journal.supersede_action(action)

    async def _take(self, number: int, entry: Entry) -> None:
        progress = self.progress
        match entry:
            case Ended(outcome, limit):
                progress.take(outcome, limit=limit)
                await self._consider(number, doubt_of(progress.every[outcome.step], outcome))
            case Widened(approved, drop):
                added = progress.pending[1].add if progress.pending is not None and approved else ()
                progress.release(approved=approved, drop=drop)
                await self._show(added, drop=drop)
            case Raised(limit, amount):
                self.journal.limits = raised(self.journal.limits, limit, amount)
                if progress.raise_limit():
                    await self._consider(number, doubt_left(progress))
            case Reopened(generation):
                progress.reopen(generation)
                await self._consider(number, doubt_left(progress))
            case _:
                assert_never(entry)

    async def _consider(self, number: int, doubt: Doubt) -> None:
        if self._replaying and not await is_decided(self.journal, number, self.progress):
            self._open = (number, doubt)
            return
        trigger = await look(self.journal, number, self.progress, doubt=doubt, rules=self._rules)
        match trigger.then:
            case "ask":
                await self._revise(trigger)
            case "no_progress" | "refused":
                self.progress.halt = Halt(trigger.then)
            case "go_on":
                pass

    async def _revise(self, trigger: Trigger) -> None:
        progress = self.progress
        change = await decide(self.journal, self.desk, Scene(progress, trigger, self.standing))
        if change.decision == "widen":
            progress.hold(change)
            return
        progress.apply(change)
        await self._show(change.add, drop=change.drop)

    async def _show(self, steps: Sequence[AnyStep], *, drop: Collection[str] = ()) -> None:
        """Show readers what the plan has gained and lost; shown again it changes nothing."""
        if not steps and not drop:
            return
        places = {id_: place for place, id_ in enumerate(self.progress.every)}
        rows = [_row(step, places[step.id], self.progress.version) for step in steps]
        await self.journal.put_plan(rows, drop=drop, events=())
        for id_ in drop:
            if id_ not in self.progress.outcomes:
                await self.journal.put_step_status(id_, "skipped", summary="dropped by a revision")


def summary_of(outcome: Outcome) -> str:
    """What readers are told of an outcome, on one line."""
    return plain_line(outcome.summary or outcome.problem or "", longest=200)


def _ended_event(outcome: Outcome) -> NewEvent:
    return NewEvent("step.ended", {"status": outcome.status, "summary": summary_of(outcome)}, step=outcome.step)


def _as_shown(rows: Sequence[StepRow]) -> StandingNow:
    """Before anything runs again, steps count as running or waiting as they did when the last drive ended."""
    running = {row.id for row in rows if row.status == "running"}
    waiting = {row.id for row in rows if row.status == "waiting"}
    return lambda: Standing(running, waiting)


def _row(step: AnyStep, position: int, version: int) -> StepRow:
    worker = step.worker if step.kind == "worker" else None
    return StepRow(
        id=step.id,
        position=position,
        version=version,
        kind=step.kind,
        title=step.title,
        worker=worker,
        optional=step.optional,
        dropped=False,
        status="pending",
        summary="",
        definition=step.model_dump(mode="json"),
        started_at=None,
        ended_at=None,
    )


def raised(limits: Limits, limit: str, amount: float) -> Limits:
    """The limits with one of them raised by so much."""
    return replace(limits, **{limit: getattr(limits, limit) + amount})
