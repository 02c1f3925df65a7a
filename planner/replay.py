"""A recorded run, driven once more from its own record: every step is carried out anew, and nothing is ever sent."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import assert_never

from downstream.door import Waiting
from downstream.models.structured import Question
from executors.contract import Outcome
from journal.archive.record import Record, Unreadable, data_of
from journal.archive.rehearsal import KEPT_EPOCH, RecordEnds, Rehearsal
from journal.errors import MemoMismatch, SteprelayError
from journal.run_journal import RunJournal
from journal.values import Json, JsonObject

from .chronicle import Chronicle, Ended, Entry, Raised, Reopened, Widened, read_entry
from .desk import Desk
from .drive import RunDrive
from .endings import Close
from .plan import AnyStep, Plan
from .planning import recorded_plan
from .replay_compare import Findings, Sameness, compare, first_difference
from .revise import Standing
from .unended import WAITED
from .watch import watched

log = logging.getLogger(__name__)
_BROKE = "an unexpected error stopped the step"
_TOO_LATE = "the answer was put together without a model: it took too long"
_BY_FAULT = "The run ended by an internal error"
_NO_REPLAY = "The run cannot be replayed"
_UNLIKE = (LookupError, TypeError, ValueError, AttributeError, AssertionError, RecursionError, ExceptionGroup)
"""What comes of a row that is not what we write, wherever it is read: a record changed by hand may hold anything."""


class _Stop(Exception):
    """The rest follows from what could not be done again."""


async def replay(rehearsal: Rehearsal, desk: Desk, same: Sameness) -> Findings:
    """Drive the run of this rehearsal as far as its record goes, and compare what comes out with what is recorded."""
    return await _Replay(rehearsal, desk, same).run()


class _Replay:
    def __init__(self, rehearsal: Rehearsal, desk: Desk, same: Sameness) -> None:
        self.rehearsal = rehearsal
        self.record: Record = rehearsal.record
        self.journal: RunJournal = rehearsal.journal
        # What came too late stands in the record; all the time of the run must not count before its plan.
        self.journal.run = replace(self.journal.run, driven_seconds=0.0)
        self.same = same
        self.found = Findings()
        self.memo = self.record.memo()
        self.ended_at = self.record.ended_at
        self.desk = replace(desk, ask=self._ask_in_time(desk))
        self.drive = RunDrive(self.journal, self.desk)
        self.chronicle: Chronicle | None = None
        run = self.record.run
        self.cut = self.ended_at is None or run.stop_reason in ("cancelled", "deadline") or self._by_fault
        self.last = self.ended_at if self.ended_at is not None else run.updated_at

    @property
    def _by_fault(self) -> bool:
        return self._is_said(self.record.run.message, _BY_FAULT) or self._is_said(self.record.run.message, _NO_REPLAY)

    def _is_said(self, text: str | None, words: str) -> bool:
        """Whether a text has these words of ours, as far as it can be read."""
        return text is not None and self.same(words) in self.same(text)

    async def run(self) -> Findings:
        await self.rehearsal.move_to(self.record.run.created_at)
        said = set(map(self.same, self.record.run.warnings))
        # What the present settings have to say may be new; it is nothing that the run did.
        ours = [text for text in self.desk.warnings if self.same(text) in said]
        for text in (*self.record.run.options.get("warnings", ()), *ours):
            await self.journal.warn(text)
        try:
            close = await self._course()
            await self._end(close)
        except _Stop:
            self.found.whole = False
        except (SteprelayError, *_UNLIKE) as error:
            log.info("replay_ended", extra={"run": self.record.run.id}, exc_info=True)
            self.found.whole = False
            self._tell("", _bare(error))
        unended = [] if self.chronicle is None else [step.id for step in self.chronicle.progress.unended()]
        await compare(self.rehearsal, self.found, self.same, unended=unended)
        return self.found

    def _tell(self, where: str, error: Exception) -> None:
        if self._by_fault and isinstance(error, MemoMismatch):
            self.found.note(f"{where}{error.key} could not be replayed then either, which may be why the run ended")
        else:
            self.found.differs(f"{where}{_said(error)}")

    async def _course(self) -> Close | None:
        """What brings the run to its end; None where its record only says that it goes on."""
        plan = await self._plan()
        if not isinstance(plan, Plan):
            return plan
        self.chronicle = chronicle = Chronicle(self.journal, self.desk, plan)
        self.drive.progress = chronicle.progress
        await chronicle.replay()
        if self.record.run.options.get("review_plan") and not await self._plan_was_allowed():
            return Close("plan_refused") if "plan/reviewed" in self.memo else self._cut_short()
        await self._entries(chronicle)
        await self._unended(chronicle)
        return self._close(chronicle)

    async def _plan(self) -> Plan | Close | None:
        if (given := await recorded_plan(self.journal)) is not None:
            self.found.note("the run was forked; what it was given is taken from its record")
            return given
        try:
            made = await watched(self.journal, self.drive.plan, deadline=lambda: False)
        except RecordEnds:
            if self.cut and "plan" not in self.memo:
                return self._cut_short()
            raise
        assert isinstance(made, Plan | Close)
        return made

    async def _plan_was_allowed(self) -> bool:
        row = self.memo.get("plan/reviewed")
        if row is None:
            return False
        await self.rehearsal.move_to(row["at"])
        action = await self.journal.action("plan/review")
        said = action is not None and action.choice == "approve" and action.state != "withdrawn"
        if said != data_of(row, "value"):
            self.found.differs(f"plan/reviewed: recorded {row['value']}, and the decision on the plan says {said}")
        return said

    async def _entries(self, chronicle: Chronicle) -> None:
        for number in count(1):
            row = self.memo.get(f"order.{number}")
            if row is None:
                return
            await self.rehearsal.move_to(row["at"])
            entry = await self._again(chronicle, number, self._entry(row))
            looked = self.memo.get(f"trigger.{number}")
            await self.rehearsal.move_to(row["at"] if looked is None else looked["at"])
            chronicle.standing = self._standing(chronicle)
            try:
                await chronicle.add(entry)
            except RecordEnds as error:
                if not self.cut or f"order.{number + 1}" in self.memo:
                    raise
                self.found.note(f"the run stopped before {error.key} was answered")
                return

    def _entry(self, row: JsonObject) -> Entry:
        try:
            return read_entry(data_of(row, "value"))
        except _UNLIKE:
            raise Unreadable(row["key"]) from None

    async def _again(self, chronicle: Chronicle, number: int, entry: Entry) -> Entry:
        """The entry as it would be made now; where it differs, that is told, and the recorded one goes on."""
        match entry:
            case Ended():
                return await self._ended_again(chronicle, number, entry)
            case Widened(approved):
                pending = chronicle.progress.pending
                key = "" if pending is None else f"revise.{pending[0]}/widen"
                await self._as_decided(number, key, yes=approved)
            case Raised(limit):
                progress = chronicle.progress
                await self._as_decided(number, f"budget.{limit}.{progress.reopened}.{progress.raises + 1}", yes=True)
            case Reopened(generation):
                if generation > self.record.run.options.get("reopened", 0):
                    self.found.differs(f"order.{number}: the run was not opened again so often")
            case _:
                assert_never(entry)
        return entry

    async def _as_decided(self, number: int, key: str, *, yes: bool) -> None:
        action = await self.journal.action(key)
        said = action is not None and action.choice in ("approve", "raise") and action.state != "withdrawn"
        if said != yes:
            self.found.differs(f"order.{number}: it counts a {'yes' if yes else 'no'} that no decision of {key} gives")

    async def _ended_again(self, chronicle: Chronicle, number: int, entry: Ended) -> Ended:
        recorded, step = entry.outcome, chronicle.progress.every.get(entry.outcome.step)
        if step is None:
            self.found.differs(f"order.{number}: no plan has a step {recorded.step!r}")
            raise _Stop
        if self.memo[f"order.{number}"]["epoch"] == KEPT_EPOCH:
            self.found.kept.add(step.id)
            return entry
        if entry.limit is not None and self._reopened_after(number):
            self.found.note(f"step {step.id} was cut short under limits that are not kept; taken from the record")
            self.found.taken.add(step.id)
            return entry
        self.found.steps += 1
        made = await self._carried_out(chronicle, step)
        if isinstance(made, Exception) and self._is_said(recorded.problem, _BROKE):
            self.found.note(f"step {step.id} was stopped by an error of ours; its end is taken from the record")
        elif isinstance(made, Exception):
            self._tell(f"order.{number}: step {step.id}: ", made)
        elif isinstance(made, Waiting):
            self.found.differs(f"order.{number}: step {step.id} ended, and its record has it wait for {made.action}")
        elif (told := first_difference(recorded.to_json(), made.to_json(), self.same)) is not None:
            self.found.differs(f"order.{number}: step {step.id}: {told}")
        elif entry.limit not in (None, made.limit):
            self.found.differs(f"order.{number}: step {step.id} counts a limit {entry.limit} that it did not reach")
        else:
            return entry
        self.found.taken.add(step.id)
        return entry

    async def _carried_out(self, chronicle: Chronicle, step: AnyStep) -> Outcome | Waiting | Exception:
        """What becomes of the step now, or what stopped it: a record changed by hand may hold anything."""
        try:
            return await self.desk.execute(self.journal, chronicle.progress.assignment(step))
        except (SteprelayError, *_UNLIKE) as error:
            log.info("replay_stopped", extra={"run": self.record.run.id, "step": step.id}, exc_info=True)
            return _bare(error)

    async def _unended(self, chronicle: Chronicle) -> None:
        """Steps that had begun and not ended, as far as their record goes, shown as they stood."""
        await self.rehearsal.move_to(self.last)
        began = {row["id"]: row for row in self.record.tables["steps"] if row["started_at"] is not None}
        for step in chronicle.progress.unended():
            if (row := began.get(step.id)) is None:
                continue
            await self.journal.put_step_status(step.id, "running")
            # Whether it had come to wait for an action that was there is of the moment.
            if row["status"] == "waiting" or self._is_said(row["summary"], WAITED):
                await self.journal.put_step_status(step.id, "waiting")
            made = await self._carried_out(chronicle, step)
            match made:
                case RecordEnds():
                    self.found.note(f"step {step.id} had begun; its record goes as far as {made.key}")
                case Exception():
                    self._tell(f"step {step.id}: ", made)
                case Waiting():
                    self.found.note(f"step {step.id} waits for {made.action}")
                case Outcome():
                    self.found.note(f"step {step.id} has no recorded end; it was carried out as far as its record goes")

    def _close(self, chronicle: Chronicle) -> Close | None:
        if self.cut:
            return self._cut_short()
        progress = chronicle.progress
        if progress.halt is None and (left := progress.ready(())):
            names = ", ".join(step.id for step in left)
            self.found.differs(f"the record ends the run while there was more to do: {names}")
        return Close()

    def _cut_short(self) -> Close | None:
        """What ended or stopped the run from outside; that cannot be decided again."""
        run = self.record.run
        if self.ended_at is None:
            how = "waits for a decision" if run.status == "awaiting_approval" else "has not ended"
            self.found.note(f"the run {how}; it was replayed as far as its record goes")
            self.found.whole = False
            return None
        if self._by_fault:
            self.found.note("how the run ended is taken from the record: an error of ours, or a change of settings")
        else:
            self.found.note(f"when the run ended is taken from the record ({run.stop_reason})")
        if self._is_said(run.message, _BY_FAULT):
            self.found.whole = False
            return None
        return Close("no_replay" if self._by_fault else "cancelled" if run.status == "cancelled" else "deadline")

    async def _end(self, close: Close | None) -> None:
        if close is not None:
            await self.rehearsal.move_to(self.last)
            await self.drive.finish(close)

    def _standing(self, chronicle: Chronicle) -> "_Stood":
        """Which steps ran and which waited when the reviser was asked is of the moment; it stands in its snapshot."""
        row = self.memo.get(f"revise.{chronicle.progress.asks + 1}/snapshot")
        steps: list[Json] = [] if row is None else data_of(row, "value").get("steps", [])
        now = {status: {each["step"]["id"] for each in steps if each["status"] == status} for status in _OF_NOW}
        return _Stood(Standing(frozenset(now["running"]), frozenset(now["waiting"])))

    def _reopened_after(self, number: int) -> bool:
        later = (self.memo.get(f"order.{after}") for after in range(number + 1, len(self.memo) + 1))
        return any(row is not None and "reopened" in row["value"][:12] for row in later)

    def _ask_in_time(self, desk: Desk) -> "_Ask":
        late = self.record.run.warnings
        return _Ask(desk, late=any(self._is_said(text, _TOO_LATE) for text in late))


_OF_NOW = ("running", "waiting")


@dataclass(frozen=True)
class _Stood:
    standing: Standing

    def __call__(self) -> Standing:
        return self.standing


@dataclass(frozen=True)
class _Ask:
    """Asks as the desk does; an answer that came too late then comes too late now."""

    desk: Desk
    late: bool

    async def __call__(self, journal: RunJournal, key: str, question: Question[JsonObject]) -> JsonObject:
        try:
            return await self.desk.ask(journal, key, question)
        except RecordEnds:
            if self.late and key.startswith("answer."):
                raise TimeoutError from None
            raise


def _bare(error: Exception) -> Exception:
    """What a task group wrapped."""
    inner: Sequence[Exception] = getattr(error, "exceptions", ())
    return _bare(inner[0]) if inner else error


def _said(error: Exception) -> str:
    if isinstance(error, MemoMismatch):
        return f"{error.key}: it was recorded of something else than what is asked or called now"
    return str(error) if isinstance(error, SteprelayError) else f"its record cannot be used ({type(error).__name__})"
