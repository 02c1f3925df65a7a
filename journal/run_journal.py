"""One run under one epoch: all that a drive may read and write. Every write fails once another drive has taken over."""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from .actions import (
    Action,
    NewAction,
    actions_of,
    create_action,
    latest_action,
    refusals_in_a_row,
    refused_before,
    settle_action,
    void,
)
from .audit import AuditLine, append_audit
from .audit_intents import begun_line, ended_line
from .canonical import digest
from .database import Row, Transaction
from .errors import Fenced, KeyReused, MemoMismatch, SteprelayError
from .events import NewEvent, append_event
from .grants import Grants, tell_unused, use_leave
from .intents import Intent, IntentState, NewIntent, end_intent, get_intent, insert_intent, intents_of, same_effect
from .known import KnownKeys
from .ledger import NOTHING_SPENT, Limits, Reservation, Spent, Usage, release, reserve, settle, settle_lost, usage
from .runs import Run, RunStatus, StopReason, run_from_row
from .seals import seal_of, sealed
from .sending import Sending
from .shared import Shared
from .steps import StepNews, StepRow, StepStatus, drop_step, put_step, set_step, steps_of
from .values import Json, JsonObject

T = TypeVar("T")


class ApprovalGone(SteprelayError):
    """The approval that a call was to use up has been used, voided or has lapsed; the call must be asked for again."""


@dataclass(frozen=True)
class Recorded:
    """A memo row that was found; `value` is what was recorded."""

    value: Json


@dataclass(frozen=True)
class Meaning:
    """What a memo row stands for: the function's name and the data that gives it its sense, compared by hash."""

    name: str
    data: Json

    @cached_property
    def hash(self) -> str:
        return digest(self.data)


@dataclass(frozen=True)
class Ending:
    """How a run ends: `message` is our own sentence, `answer` is Markdown, `result` what readers may want besides."""

    status: RunStatus
    stop_reason: StopReason
    message: str
    answer: str
    result: JsonObject


class RunJournal:
    """Made by `Store.take`. `run` is the row as it was then; `limits` may be raised during the drive by a person."""

    def __init__(self, shared: Shared, run: Run, limits: Limits) -> None:
        self.run = run
        self.limits = limits
        self.world = shared.world
        self.outlet = shared.outlet
        self.artifacts = shared.artifacts.guarded(self._hold)
        self.sending = Sending(shared.database, run, shared.world, guard=self._hold)
        self.grants = Grants(shared.database, run.id)
        self.bell = shared.bell
        self.taken_at = shared.world.now()
        self._database = shared.database
        self._began = shared.world.monotonic()
        self._known = KnownKeys(shared.database, run.id)

    @property
    def driven_seconds(self) -> float:
        """Driven time of the run so far; waiting for a person does not count."""
        return self.run.driven_seconds + self.world.monotonic() - self._began

    async def recall(self, key: str, meaning: Meaning) -> Recorded | None:
        """What was recorded under `key`, if anything. Raises MemoMismatch if it meant something else."""
        if key not in await self._known.of("memo"):
            return None
        sql = "SELECT name, hash, value FROM memo WHERE run = ? AND key = ?"
        row = await self._database.read(lambda tx: tx.row(sql, (self.run.id, key)))
        if row is None:
            return None
        if (row["name"], row["hash"]) != (meaning.name, meaning.hash):
            was, now = f"{row['name']}({row['hash'][:8]})", f"{meaning.name}({meaning.hash[:8]})"
            raise MemoMismatch(key, recorded=was, now=now)
        return Recorded(json.loads(row["value"]))

    async def records(self, name: str) -> dict[str, Json]:
        """By key the values of all records of this name, whatever they meant: for a run that cannot be replayed."""
        sql = "SELECT key, value FROM memo WHERE run = ? AND name = ?"
        rows = await self._database.read(lambda tx: tx.rows(sql, (self.run.id, name)))
        return {row["key"]: json.loads(row["value"]) for row in rows}

    async def record(
        self,
        key: str,
        meaning: Meaning,
        value: Json,
        *,
        events: Sequence[NewEvent] = (),
        step: StepNews | None = None,
        line: AuditLine | None = None,
    ) -> None:
        """Write a result down, with what tells of it. Raises Fenced, or KeyReused where there is one."""

        def change(tx: Transaction, run: Row) -> None:
            self._put_memo(tx, key, meaning, value=value, events=events)
            if step is not None:
                self._show_step(tx, step)
            if line is not None:
                self._audit(tx, line)

        await self._write("memo", change)

    async def memo(self, key: str, meaning: Meaning, make: Callable[[], Awaitable[Json]]) -> Json:
        """What is recorded under `key`, else what `make` returns, recorded before it is used."""
        if (found := await self.recall(key, meaning)) is not None:
            return found.value
        value = await make()
        await self.record(key, meaning, value)
        return value

    async def begin_call(
        self, reservation: Reservation, *, event: NewEvent | None = None, intent: NewIntent | None = None
    ) -> None:
        """Reserve and, for a call with an effect, write its intent, audit line and used-up approval down: one commit.

        Raises BudgetReached, ApprovalGone or Fenced; then nothing was written and nothing may be sent.
        """

        def change(tx: Transaction, run: Row) -> None:
            reserve(tx, run, reservation, limits=self.limits, at=self.world.now())
            if intent is not None:
                self._put_intent(tx, run, reservation.key, intent)
            if event is not None:
                self._append(tx, (event,))

        await self._write("intent" if intent is not None else "begin", change)

    async def end_call(
        self,
        key: str,
        meaning: Meaning,
        value: Json,
        *,
        spent: Spent = NOTHING_SPENT,
        intent: IntentState | None = None,
        events: Sequence[NewEvent] = (),
    ) -> None:
        """Write a call's result down, settle its reservation and end its intent: one commit. Raises Fenced."""

        def change(tx: Transaction, run: Row) -> None:
            settle(tx, run, key, spent)
            if intent is not None:
                self._end_intent(tx, key, intent, result=value)
            self._put_memo(tx, key, meaning, value=value, events=events)

        await self._write("result", change)

    async def lose_call(self, key: str, *, state: IntentState = "unknown", events: Sequence[NewEvent] = ()) -> None:
        """Note that a call with an effect was sent and that nobody knows whether it ran; or its `state`."""

        def change(tx: Transaction, run: Row) -> None:
            settle(tx, run, key, NOTHING_SPENT)
            self._end_intent(tx, key, state, result=None)
            self._append(tx, events)

        await self._write(state, change)

    async def abandon_call(self, key: str, spent: Spent | None = None, *, events: Sequence[NewEvent] = ()) -> None:
        """A call that gave no result to keep: settled with `spent`, or given back where nothing was taken."""

        def change(tx: Transaction, run: Row) -> None:
            if spent is None:
                release(tx, run, key)
            else:
                settle(tx, run, key, spent)
            self._append(tx, events)

        await self._write("abandon", change)

    async def ask(self, new: NewAction) -> Action:
        """The action waiting under this key, or a new one; creating it is one commit with its event."""

        def change(tx: Transaction, run: Row) -> Action:
            found = latest_action(tx, self.run.id, new.key)
            if found is not None and found.state == "waiting":
                return found
            self._known.note("actions", new.key)
            return create_action(tx, self.run.id, new, world=self.world, outlet=self.outlet)

        return await self._write("action", change)

    async def action(self, key: str) -> Action | None:
        """The latest action under this key, in whatever state."""
        if key not in await self._known.of("actions"):
            return None
        return await self._database.read(lambda tx: latest_action(tx, self.run.id, key))

    async def actions(self) -> list[Action]:
        if not await self._known.of("actions"):
            return []
        return await self._database.read(lambda tx: actions_of(tx, self.run.id))

    async def settle_action(self, action: Action, *, expired: bool = False) -> None:
        """Note that the drive has acted on a decision (or on the lapse) of this action."""
        await self._write(
            "action.handled", lambda tx, run: settle_action(tx, action, now=self.world.now(), expired=expired)
        )

    async def supersede_action(self, action: Action) -> bool:
        """End an action that may be asked again under its key; false, and nothing done, where a no came meanwhile."""
        return await self._write("action.superseded", lambda tx, run: void(tx, action))

    async def refused_before(self, subject: str) -> bool:
        return await self._database.read(lambda tx: refused_before(tx, self.run.id, subject))

    async def refusals_in_a_row(self) -> int:
        return await self._database.read(lambda tx: refusals_in_a_row(tx, self.run.id))

    async def intent(self, key: str) -> Intent | None:
        if key not in await self._known.of("intents"):
            return None
        return await self._database.read(lambda tx: get_intent(tx, self.run.id, key))

    async def intents(self) -> list[Intent]:
        return await self._database.read(lambda tx: intents_of(tx, self.run.id))

    async def same_effect(self, *, tool: str, arguments_hash: str, besides: str) -> Intent | None:
        """A call of this run other than `besides` that did, or may have done, exactly this."""
        return await self._database.read(
            lambda tx: same_effect(tx, self.run.id, tool=tool, arguments_hash=arguments_hash, besides=besides)
        )

    async def say(self, *events: NewEvent) -> None:
        """Add lines to the run's history."""
        await self._write("event", lambda tx, run: self._append(tx, events))

    async def warn(self, text: str) -> None:
        """Add one of our own sentences to the run's warnings, once."""

        def change(tx: Transaction, run: Row) -> None:
            known: list[str] = json.loads(run["warnings"])
            if (said := self.outlet.text(text)) not in known:
                tx.change("UPDATE runs SET warnings = ? WHERE id = ?", (json.dumps([*known, said]), self.run.id))
                self._append(tx, (NewEvent("warning", {"text": said}),))

        await self._write("warning", change)

    async def put_plan(self, steps: Iterable[StepRow], *, drop: Iterable[str] = (), events: Sequence[NewEvent]) -> None:
        """Show the steps of a plan or a revision to readers; steps that are there already stay as they are."""

        def change(tx: Transaction, run: Row) -> None:
            tx.change("UPDATE runs SET status = 'running' WHERE id = ?", (self.run.id,))
            for step in steps:
                put_step(tx, run, step)
            for step_id in drop:
                drop_step(tx, self.run.id, step_id)
            self._append(tx, events)

        await self._write("plan", change)

    async def put_step_status(
        self, step: str, status: StepStatus, *, summary: str = "", events: Sequence[NewEvent] = ()
    ) -> None:
        """Show readers what became of a step."""

        def change(tx: Transaction, run: Row) -> None:
            self._show_step(tx, StepNews(step, status, summary))
            self._append(tx, events)

        await self._write("step", change)

    def _show_step(self, tx: Transaction, news: StepNews) -> None:
        shown = replace(news, summary=self.outlet.text(news.summary)[:200])
        set_step(tx, self.run.id, shown, at=self.world.now())

    async def steps(self) -> list[StepRow]:
        return await self._database.read(lambda tx: steps_of(tx, self.run.id))

    async def usage(self) -> Usage:
        return await self._database.read(lambda tx: usage(tx, self.run.id, seconds=self.driven_seconds))

    async def cancel_reason(self) -> str | None:
        """Why the run is to be cancelled, if somebody asked for it. Raises Fenced."""
        sql = "SELECT cancel_reason, epoch FROM runs WHERE id = ?"
        row = (await self._database.read(lambda tx: tx.rows(sql, (self.run.id,))))[0]
        if row["epoch"] != self.run.epoch:
            raise Fenced(self.run.id)
        return None if row["cancel_reason"] is None else str(row["cancel_reason"])

    async def park(self, wake_at: float | None) -> bool:
        """Let go of the run until a decision or `wake_at`. False, and nothing done, if a decision came meanwhile."""

        def change(tx: Transaction, run: Row) -> bool:
            new = "SELECT 1 FROM actions WHERE run = ? AND handled = 0 AND state IN ('decided', 'withdrawn', 'expired')"
            if tx.row(new, (self.run.id,)) is not None or run["cancel_reason"] is not None:
                return False
            sql = "UPDATE runs SET status = 'awaiting_approval', driver = NULL, wake_at = ? WHERE id = ?"
            tx.change(sql, (wake_at, self.run.id))
            return True

        return await self._write("park", change)

    async def finish(self, ending: Ending) -> None:
        """End the run; waiting actions are withdrawn except `unknown` ones, which stay decidable for the record."""

        def change(tx: Transaction, run: Row) -> None:
            now = self.world.now()
            withdrawn = "UPDATE actions SET state = 'withdrawn', handled = 1 WHERE run = ? AND state = 'waiting'"
            tx.change(f"{withdrawn} AND kind != 'unknown'", (self.run.id,))
            # Of calls that a cancellation or a deadline cut short.
            settle_lost(tx, self.run.id, before=self.run.epoch + 1)
            data: JsonObject = {"status": ending.status, "stop_reason": ending.stop_reason, "message": ending.message}
            self._append(tx, (*tell_unused(tx, self.run.id), NewEvent("run.ended", data)))
            said = (ending.message, ending.answer, json.dumps(ending.result, ensure_ascii=False))
            tx.change(
                "UPDATE runs SET status = ?, stop_reason = ?, message = ?, answer = ?, result = ?, ended_at = ?,"
                " driver = NULL, wake_at = NULL WHERE id = ?",
                (ending.status, ending.stop_reason, *map(self.outlet.text, said), now, self.run.id),
            )
            self._audit(tx, AuditLine("run.ended", data | {"sealed": sealed(tx, self.run.id)}, run=self.run.id))

        await self._write("finish", change)

    async def fresh(self) -> Run:
        """The run's row as it is now."""
        return run_from_row((await self._database.read(self._rows))[0])

    def _rows(self, tx: Transaction) -> list[Row]:
        return tx.rows("SELECT * FROM runs WHERE id = ?", (self.run.id,))

    async def _write(self, point: str, change: Callable[[Transaction, Row], T]) -> T:
        def fenced(tx: Transaction) -> T:
            self._hold(tx)
            return change(tx, self._rows(tx)[0])

        result = await self._database.write(point, fenced)
        self.bell.ring(self.run.id, by_drive=True)
        return result

    def _hold(self, tx: Transaction) -> None:
        """Raises Fenced unless this drive still has the run."""
        sql = "UPDATE runs SET driven_seconds = ?, updated_at = ? WHERE id = ? AND epoch = ? AND ended_at IS NULL"
        if tx.change(sql, (self.driven_seconds, self.world.now(), self.run.id, self.run.epoch)) != 1:
            raise Fenced(self.run.id)

    def _audit(self, tx: Transaction, line: AuditLine) -> None:
        append_audit(tx, line, owner=self.run.owner, at=self.world.now(), outlet=self.outlet)

    def _append(self, tx: Transaction, events: Iterable[NewEvent]) -> None:
        for event in events:
            append_event(tx, self.run.id, event, at=self.world.now(), outlet=self.outlet)

    def _put_memo(
        self, tx: Transaction, key: str, meaning: Meaning, *, value: Json, events: Sequence[NewEvent]
    ) -> None:
        self._known.note("memo", key)
        # JSON in ASCII gives back whatever it was given, half a surrogate pair too.
        text = json.dumps(value)
        row = (self.run.id, self.run.owner, key, meaning.name, meaning.hash, text, self.run.epoch, self.world.now())
        sql = (
            "INSERT OR IGNORE INTO memo (run, owner, key, name, hash, value, epoch, at, seal)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
        if tx.change(sql, (*row, seal_of(self.run.id, key, meaning.name, meaning.hash, text))) != 1:
            raise KeyReused(key)
        self._append(tx, events)

    def _put_intent(self, tx: Transaction, run: Row, key: str, intent: NewIntent) -> None:
        if not use_leave(tx, run, intent, at=self.world.now()):
            raise ApprovalGone(f"{intent.leave} no longer allows {intent.tool}; it is asked for again")
        self._known.note("intents", key)
        insert_intent(tx, run, key, intent, at=self.world.now())
        self._audit(tx, begun_line(self.run.id, key, intent))

    def _end_intent(self, tx: Transaction, key: str, state: IntentState, *, result: Json) -> None:
        end_intent(tx, self.run.id, key, state, at=self.world.now())
        self._audit(tx, ended_line(tx, self.run.id, key, state, at=self.world.now(), result=result))
