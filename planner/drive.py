"""One drive: plan, carry out, revise and answer, from wherever the journal says that the run stands."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from downstream.gate.unknown import ask_what_became
from downstream.model_port import ModelFailed
from downstream.models.door import NoModel
from executors.contract import Outcome
from journal.engine import Drive
from journal.errors import MemoMismatch
from journal.events import NewEvent
from journal.run_journal import Ending, Meaning, RunJournal
from journal.steps import StepStatus
from journal.values import Json, JsonObject, Label, is_clean

from .answer import SECONDS, Picture, Result, by_code, written
from .chronicle import Chronicle
from .desk import Desk
from .dispatch import dispatch
from .endings import Close, cut_short, end_of
from .halts import Halts
from .markdown import plain_line
from .plan import Plan, PlanError
from .planning import NoRoom, make_plan, recorded_plan
from .progress import Progress
from .questions import plan_question, settled
from .salvage import salvaged
from .unended import Unended, unended_steps
from .watch import LOOK_SECONDS, watched

log = logging.getLogger(__name__)
_LATE_SECONDS = 60.0
"""An answer after the deadline may take so long at most."""


def make_drive(desk: Desk) -> Drive:
    """The drive of every run at this desk."""

    async def drive(journal: RunJournal) -> None:
        await RunDrive(journal, desk).drive()

    return drive


class RunDrive:
    """One drive of one run. A Close says what brings the run to its end, None that it was parked."""

    def __init__(self, journal: RunJournal, desk: Desk) -> None:
        self.journal = journal
        self.desk = desk
        self.budget = desk.budget_of(journal.run)
        self.progress: Progress | None = None

    async def drive(self) -> None:
        for warning in self.desk.warnings:
            await self.journal.warn(warning)
        try:
            close = await self._course()
        except MemoMismatch as error:
            log.exception("no_replay", extra={"run": self.journal.run.id, "key": error.key})
            await self.journal.warn(str(error))
            close = Close("no_replay")
            if self.progress is None:
                self.progress = await salvaged(self.journal)
        if close is not None:
            await self.finish(close)

    async def _course(self) -> Close | None:
        plan = await recorded_plan(self.journal)
        if plan is None:
            made = await watched(self.journal, self.plan)
            if not isinstance(made, Plan):
                return made if isinstance(made, Close) else Close(made)
            plan = made
        chronicle = Chronicle(self.journal, self.desk, plan)
        await chronicle.replay()
        self.progress = chronicle.progress
        if self.journal.run.options.get("review_plan"):
            answered = await watched(self.journal, self._review, deadline=lambda: False)
            if answered != "yes":
                return answered if isinstance(answered, Close) or answered is None else Close(answered)
        return await self._carry_out(chronicle)

    async def plan(self, group: TaskGroup) -> Plan | Close:
        try:
            return await make_plan(self.journal, self.desk)
        except NoRoom as error:
            return Close(limit=error.limit, why=str(error))
        except PlanError as error:
            await self.journal.warn(f"the given plan is not valid: {'; '.join(error.errors[:10])}")
            return Close("no_plan", why="The given plan is not valid.")
        except NoModel as error:
            await self.journal.warn(str(error))
            return Close("no_plan", why="No model is set for the planner.")
        except ModelFailed:
            return Close("no_plan", why="The planner's model gave no reply; `warnings` says why.")

    async def _review(self, group: TaskGroup) -> Literal["yes"] | Close | None:
        """Whether a person lets the plan run, remembered from the first answer on."""
        assert self.progress is not None
        meaning = Meaning("review", None)
        if (found := await self.journal.recall("plan/reviewed", meaning)) is not None:
            return "yes" if found.value else Close("plan_refused")
        asked = plan_question(self.journal.run.id, self.progress.plan.steps, seconds=self.desk.pending_seconds)
        while not isinstance(choice := await settled(self.journal, asked), str):
            ring = self.journal.bell.listen(self.journal.run.id)
            if await self.journal.park(choice.expires_at):
                return None
            with anyio.move_on_after(LOOK_SECONDS):
                await ring.wait()
        await self.journal.record("plan/reviewed", meaning, choice == "yes")
        return "yes" if choice == "yes" else Close("plan_refused")

    async def _carry_out(self, chronicle: Chronicle) -> Close | None:
        halts = Halts(chronicle)
        while True:
            match await dispatch(chronicle, halts, parallel=self.budget.parallel):
                case "parked":
                    return None
                case "ended":
                    return Close("deadline") if halts.out_of_time else Close()
                case "cancelled":
                    return Close("cancelled")
                case "deadline" if not halts.may_raise:
                    return Close("deadline")
                case "deadline":
                    await self._note_unknowns()
                    await self._show_stopped()
                    halts.out_of_time = True

    async def finish(self, close: Close) -> None:
        await self._note_unknowns()
        unended = {} if self.progress is None else await unended_steps(self.journal, self.progress)
        said = "" if close.cause == "cancelled" else cut_short(self.progress, close)
        picture = Picture.of(self.journal.run.goal, self.progress, unended=unended, cut_short=said)
        result = await self._answer(close, picture)
        if result is None:
            close, result = Close("cancelled"), by_code(picture)
        await self._show_unended(close, unended)
        end = end_of(self.progress, close, revisions=self.budget.revisions)
        await self.journal.finish(Ending(end.status, end.stop_reason, end.message, result.text, _kept(picture, result)))

    async def _note_unknowns(self) -> None:
        """Calls with an effect that were cut short: nobody knows whether they ran, so a person is asked."""
        for intent in await self.journal.intents():
            if intent.past:
                continue
            if intent.state == "begun":
                await self.journal.lose_call(intent.key)
            if intent.state in ("begun", "unknown"):
                await ask_what_became(self.journal, replace(intent, state="unknown"))

    async def _show_stopped(self) -> None:
        """Steps that the deadline stopped wait for a word about it, which may take a day."""
        for row in await self.journal.steps():
            if row.status == "running":
                await self.journal.put_step_status(row.id, "waiting")

    async def _answer(self, close: Close, picture: Picture) -> Result | None:
        """The answer; None if the run was cancelled meanwhile."""
        if not picture.holds_something or close.cause in ("cancelled", "no_replay", "plan_refused"):
            return by_code(picture)
        seconds = _LATE_SECONDS if close.cause == "deadline" else SECONDS

        async def write(group: TaskGroup) -> Result:
            return await written(self.journal, self.desk, picture, seconds=seconds)

        try:
            result = await watched(self.journal, write, deadline=lambda: False)
        except MemoMismatch as error:
            await self.journal.warn(str(error))
            return by_code(picture)
        return result if isinstance(result, Result) else None

    async def _show_unended(self, close: Close, unended: Mapping[str, Unended]) -> None:
        """Show readers what becomes of steps that did not end."""
        rows = {row.id: row for row in await self.journal.steps()}
        for id_, step in unended.items():
            status: StepStatus = "cancelled" if close.cause == "cancelled" or step.began else "skipped"
            # What may have run must not count as left out.
            status = "failed" if step.lost else status
            if rows[id_].status != status:
                ended = NewEvent("step.ended", {"status": status, "summary": step.said}, step=id_)
                await self.journal.put_step_status(id_, status, summary=step.said, events=[ended])


def _kept(picture: Picture, result: Result) -> JsonObject:
    """What readers of the run want besides the answer."""
    outcomes = [outcome for _, outcome in picture.steps if outcome is not None]
    findings: list[Json] = [
        {"step": step, "claim": plain_line(found.claim), "evidence": list(found.evidence), "supported": found.supported}
        for step, found in picture.findings
    ]
    sources = dict.fromkeys(source for outcome in outcomes for source in outcome.sources)
    labels = [label for outcome in outcomes if (label := _words_of(outcome))]
    return {
        "findings": findings,
        "sources": [source.to_json() for source in sources],
        "caveats": list(result.caveats),
        "contains_untrusted": not all(map(is_clean, labels)) or bool(findings) or bool(sources),
    }


def _words_of(outcome: Outcome) -> Label:
    """Where all comes from that an answer may take from an outcome."""
    own = outcome.label - {"model"}
    return own if outcome.value is None else own | outcome.value.label
