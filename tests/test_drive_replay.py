"""A drive that ends anywhere is taken up again: same order, nothing done twice, no mismatch."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from planner_rig import Models, Rig, Steps, approval, asks_first, call, ending, failed, open_rig, succeeded

from downstream.door import Waiting
from downstream.models.door import NoModel
from executors.contract import Assignment, Outcome
from journal.actions import Decision
from journal.errors import Fenced, MemoMismatch
from journal.run_journal import RunJournal
from journal.runs import Run
from planner.drive import make_drive

Json = Any
PLAN = [
    call("a"),
    call("b"),
    call("bad"),
    call("c", "a", "b"),
    call("w", "b"),
    call("after", "bad"),
    call("last", "c", "w"),
]
REVISION = {
    "decision": "revise",
    "reason": "another way",
    "drop": ["bad", "after"],
    "add": [call("good"), call("after_2", "good", "a")],
}


@dataclass
class Crash:
    """Ends the process, so to speak, at the n-th boundary that a drive reaches."""

    at: int
    reached: int = 0
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def here(self) -> None:
        self.reached += 1
        if self.reached == self.at:
            self.scope.cancel()
            await anyio.sleep_forever()


@dataclass
class Machine:
    """Models and steps with boundaries around all that they do; `ends` logs each step carried out to its end."""

    rig: Rig
    seed: int
    ends: list[str] = field(default_factory=list[str])
    crash: Crash = field(default_factory=lambda: Crash(0))

    def set_up(self) -> None:
        chance = Random(self.seed)

        async def before(journal: RunJournal, key: str) -> None:
            await self.crash.here()

        async def carry_out(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
            step = assignment.step.id
            await self.crash.here()
            for _ in range(chance.randrange(12)):
                await anyio.lowlevel.checkpoint()
            end = await approval(journal, step) if step == "w" else failed(step) if step == "bad" else succeeded(step)
            if isinstance(end, Outcome):
                self.ends.append(step)
            await self.crash.here()
            return end

        everything = ("a", "b", "bad", "c", "w", "after", "last", "good", "after_2")
        asked = self.rig.models.asked
        self.rig.models = Models([{"steps": PLAN}], [REVISION], "All of it.", asked=asked, before=before)
        self.rig.steps = Steps(dict.fromkeys(everything, carry_out))

    async def drive(self, run_id: str, *, crash_at: int) -> Run:
        """One drive that ends at that boundary, or by itself."""
        self.crash = Crash(crash_at)
        with self.crash.scope:
            await make_drive(self.rig.desk)(await self.rig.take(run_id))
        return await self.rig.store.run(run_id)

    async def finish(self, run_id: str) -> Run:
        """Drive until the end, approving what waits."""
        while not (run := await self.rig.store.run(run_id)).ended:
            for action in await self.rig.store.waiting_actions():
                await self.rig.store.decide(action, Decision("approve", "person", "terminal"))
            run = await self.drive(run_id, crash_at=0)
        return run


@asynccontextmanager
async def open_machine(folder: Path, *, seed: int = 1) -> AsyncGenerator[Machine]:
    async with open_rig(folder) as rig:
        machine = Machine(rig, seed)
        machine.set_up()
        yield machine


def memo_questions(rig: Rig) -> list[str]:
    return [f"{question.form.name}.{question.request.place.number}" for question in rig.models.asked]


async def boundaries(folder: Path) -> int:
    """How many boundaries a run without any crash reaches."""
    async with open_machine(folder) as machine:
        run_id = await machine.rig.new_run()
        await machine.drive(run_id, crash_at=0)
        first = machine.crash.reached
        run = await machine.finish(run_id)
        assert (run.status, run.stop_reason) == ("succeeded", "done")
        return first + machine.crash.reached


async def check(machine: Machine, run: Run, before: list[tuple[str, str]]) -> None:
    """The run ended as it does without a crash, kept its recorded order, and asked no model twice for one thing."""
    rig = machine.rig
    order = await rig.order(run.id)
    dropped = "- Steps that did not succeed and that a revision dropped: bad: failed."
    assert (run.status, run.stop_reason, run.warnings) == ("succeeded", "done", ())
    assert run.answer == f"All of it.\n\n**Please note**\n\n{dropped}"
    assert order[: len(before)] == before
    assert sorted(order) == sorted(
        [*((step, "succeeded") for step in ("a", "b", "c", "w", "last", "good", "after_2")), ("bad", "failed")]
    )
    assert sorted(memo_questions(rig)) == ["revise_plan.1", "submit_answer.1", "submit_plan.1"]
    assert len(await rig.events(run.id, "step.started")) == 8
    assert len(await rig.events(run.id, "revision.made")) == 1
    assert len(await rig.events(run.id, "plan.accepted")) == 1


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_drive_that_dies_at_any_boundary_is_taken_up_with_the_same_order(tmp_path: Path, seed: int) -> None:
    total = await boundaries(tmp_path / "whole")
    assert total > 18
    for crash_at in range(1, total + 1):
        async with open_machine(tmp_path / f"crash{crash_at}", seed=seed) as machine:
            with anyio.fail_after(20):
                run_id = await machine.rig.new_run()
                run = await machine.drive(run_id, crash_at=crash_at)
                before = await machine.rig.order(run_id)
                done = {step for step, _ in before}
                machine.seed, already = seed + 17, list(machine.ends)
                machine.set_up()
                run = await machine.finish(run_id)
            await check(machine, run, before)
            repeated = [step for step in machine.ends[len(already) :] if step in done]
            assert repeated == [], f"crash at {crash_at} repeated steps whose end was recorded"


async def test_a_second_crash_while_it_is_taken_up_changes_nothing(tmp_path: Path) -> None:
    total = await boundaries(tmp_path / "whole")
    for crash_at in range(2, total, 3):
        async with open_machine(tmp_path / f"crash{crash_at}") as machine:
            with anyio.fail_after(20):
                run_id = await machine.rig.new_run()
                await machine.drive(run_id, crash_at=crash_at)
                await machine.drive(run_id, crash_at=2) if not (await machine.rig.store.run(run_id)).ended else None
                before = await machine.rig.order(run_id)
                run = await machine.finish(run_id)
            await check(machine, run, before)


async def test_a_finished_run_in_the_journal_is_told_the_same_way_whatever_the_timing(tmp_path: Path) -> None:
    orders: set[tuple[tuple[str, str], ...]] = set()
    for seed in range(6):
        async with open_machine(tmp_path / str(seed), seed=seed) as machine:
            run_id = await machine.rig.new_run()
            with anyio.fail_after(20):
                run = await machine.finish(run_id)
            await check(machine, run, [])
            orders.add(tuple(await machine.rig.order(run_id)))
    assert len(orders) > 1


async def test_a_decision_made_while_nobody_drove_is_found(tmp_path: Path) -> None:
    async with open_machine(tmp_path) as machine:
        run_id = await machine.rig.new_run()
        run = await machine.drive(run_id, crash_at=0)
        assert run.status == "awaiting_approval"
        with anyio.fail_after(20):
            run = await machine.finish(run_id)
        await check(machine, run, [])


async def test_a_drive_that_was_taken_over_stops_and_says_so(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        begun = anyio.Event()

        async def hang(journal: RunJournal, assignment: Assignment) -> Outcome:
            begun.set()
            await anyio.sleep_forever()
            raise AssertionError

        rig.steps = Steps({"a": hang})
        rig.models.plans = [{"steps": [call("a")]}]
        run_id = await rig.new_run()
        old = await rig.take(run_id)
        fenced: list[Fenced] = []

        async def old_drive() -> None:
            try:
                await make_drive(rig.desk)(old)
            except Fenced as error:
                fenced.append(error)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(old_drive)
                await begun.wait()
                rig.steps = Steps()
                await rig.drive(run_id)
        assert ([error.run_id for error in fenced], (await rig.store.run(run_id)).status) == ([run_id], "succeeded")


async def test_two_runs_at_one_desk_know_nothing_of_each_other(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.plans = [{"steps": [call("a")]}]
        first = await rig.drive(await rig.new_run("one"))
        second = await rig.drive(await rig.new_run("two"))
        assert (first.status, second.status, rig.steps.calls) == ("succeeded", "succeeded", ["a", "a"])


async def test_a_drive_that_dies_while_it_plans_keeps_what_it_was_told(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        crash = Crash(2)

        async def before(journal: RunJournal, key: str) -> None:
            await crash.here()

        rig.models.plans = [{"steps": [call("a", tool="x.y")]}, {"steps": [call("a")]}]
        rig.models.before = before
        run_id = await rig.new_run()
        with crash.scope:
            await rig.drive(run_id)
        run = await rig.drive(run_id)
        assert (run.status, rig.models.count("submit_plan")) == ("succeeded", 2)
        assert len(await rig.events(run_id, "plan.rejected")) == 1


async def test_a_reopened_run_is_taken_up_like_any_other(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"b": ending(failed("b")), "w": asks_first("w")})
        rig.models.revisions = [{"decision": "continue"}, {"decision": "revise", "drop": ["b"], "add": [call("w")]}]
        run = await rig.run([call("b")])
        assert run.status == "failed"
        await rig.store.reopen(run, options={"reopened": 1})
        run = await rig.drive(run.id)
        assert run.status == "awaiting_approval"
        await rig.store.decide((await rig.store.waiting_actions())[0], Decision("approve", "person", "terminal"))
        run = await rig.drive(run.id)
        assert (run.status, rig.models.count("revise_plan")) == ("succeeded", 2)


async def test_an_answer_that_cannot_be_replayed_is_put_together_by_code(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.answer = MemoMismatch("answer.0", recorded="x", now="y")
        run = await rig.run([call("a")])
        assert (run.status, run.answer) == ("succeeded", "**a** (done): a done")


async def test_an_error_that_ends_the_drive_is_found_inside_a_group(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:

        async def grouped(journal: RunJournal, assignment: Assignment) -> Outcome:
            raise ExceptionGroup("tasks", [ValueError("x"), Fenced(journal.run.id)])

        rig.steps = Steps({"a": grouped})
        with pytest.raises(Fenced):
            await rig.run([call("a")])


async def test_no_model_at_all_is_said_with_the_way_out(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.plans = [NoModel("planner")]
        run = await rig.drive(await rig.new_run())
        assert (run.status, run.message) == (
            "failed",
            "There is no plan for this goal. No model is set for the planner.",
        )
        assert "ANTHROPIC_API_KEY" in run.warnings[0]
