"""Steps run by dependency: at once, side by side, and around those that wait for a person."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from planner_rig import Steps, approval, asks_first, call, ending, failed, open_rig, succeeded

from downstream.door import Waiting
from executors.contract import Assignment, Outcome, Source
from journal.actions import Decision, NewAction
from journal.errors import MemoMismatch
from journal.run_journal import RunJournal
from planner.settings import BudgetSettings

Json = Any
APPROVE, DENY = Decision("approve", "person", "terminal"), Decision("deny", "person", "terminal")


async def test_independent_steps_run_at_the_same_time(tmp_path: Path) -> None:
    met = {"a": anyio.Event(), "b": anyio.Event()}

    async def meet(journal: RunJournal, assignment: Assignment) -> Outcome:
        mine, other = assignment.step.id, "b" if assignment.step.id == "a" else "a"
        met[mine].set()
        with anyio.fail_after(5):
            await met[other].wait()
        return succeeded(mine)

    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": meet, "b": meet})
        run = await rig.run([call("a"), call("b"), call("c", "a", "b")])
        assert (run.status, rig.steps.calls[2:], rig.steps.inputs["c"]) == ("succeeded", ["c"], {"a": "a", "b": "b"})


async def test_a_step_starts_when_its_own_needs_have_ended_not_when_a_layer_has(tmp_path: Path) -> None:
    late = anyio.Event()

    async def slow(journal: RunJournal, assignment: Assignment) -> Outcome:
        with anyio.fail_after(5):
            await late.wait()
        return succeeded("slow")

    async def after_quick(journal: RunJournal, assignment: Assignment) -> Outcome:
        late.set()
        return succeeded("next")

    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"slow": slow, "next": after_quick})
        run = await rig.run([call("slow"), call("quick"), call("next", "quick")])
        assert (run.status, await rig.order(run.id)) == (
            "succeeded",
            [("quick", "succeeded"), ("next", "succeeded"), ("slow", "succeeded")],
        )


async def test_no_more_steps_run_at_once_than_the_budget_says(tmp_path: Path) -> None:
    running, most, begun = 0, 0, 0
    meetings = [anyio.Event() for _ in range(3)]

    async def counted(journal: RunJournal, assignment: Assignment) -> Outcome:
        nonlocal running, most, begun
        running, most, begun = running + 1, max(most, running + 1), begun + 1
        meeting = meetings[(begun - 1) // 3]
        if begun % 3 == 0:
            meeting.set()
        await meeting.wait()
        running -= 1
        return succeeded(assignment.step.id)

    async with open_rig(tmp_path) as rig:
        names = [f"s{number}" for number in range(9)]
        rig.steps = Steps(dict.fromkeys(names, counted))
        rig.budget = BudgetSettings(parallel=3)
        run = await rig.run([call(name) for name in names])
        assert (run.status, most) == ("succeeded", 3)


async def test_a_broken_step_is_a_failed_outcome_and_its_sibling_keeps_its_result(tmp_path: Path) -> None:
    async def breaks(journal: RunJournal, assignment: Assignment) -> Outcome:
        raise KeyError("typo")

    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": breaks})
        rig.revise = "never"
        run = await rig.run([call("a"), call("b"), call("c", "a")])
        steps = {row.id: (row.status, row.summary) for row in await rig.store.steps(run.id)}
        assert (run.status, run.stop_reason) == ("partial", "error")
        assert steps["a"] == ("failed", "an unexpected error stopped the step (KeyError); see the log")
        assert (steps["b"][0], steps["c"]) == ("succeeded", ("skipped", "not run: it needs a"))


async def test_what_ends_the_drive_does_so_also_from_inside_a_group_and_is_no_broken_step(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def mismatch(journal: RunJournal, assignment: Assignment) -> Outcome:
        error = MemoMismatch("step.a/call", recorded="call(1)", now="call(2)")
        raise ExceptionGroup("several", [ValueError("other"), ExceptionGroup("inner", [error])])

    async def breaks(journal: RunJournal, assignment: Assignment) -> Outcome:
        raise ExceptionGroup("several", [KeyError("typo")])

    async with open_rig(tmp_path) as rig:
        rig.revise = "never"
        rig.steps = Steps({"a": mismatch, "b": breaks})
        run = await rig.run([call("a", "b", "c", optional=True), call("b", optional=True), call("c")])
        assert str(run.message).startswith("The run cannot be replayed")
        broken = [record for record in caplog.records if record.message == "step_broke"]
        assert [record.__dict__["step"] for record in broken] == ["b"]
        assert [record.exc_info is not None for record in broken] == [True]


async def test_a_run_that_called_no_tool_says_so_whatever_its_steps_claim(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        run = await rig.run([call("a")])
        assert run.message == "No tool was called, so nothing was looked up or changed. 1 of 1 step succeeded."
    async with open_rig(tmp_path / "other") as rig:
        source = Source("b", "notes.read", "c_1")
        rig.steps = Steps({"b": ending(replace(succeeded("b"), sources=(source,)))})
        assert (await rig.run([call("b")])).message == "1 of 1 step succeeded."


async def test_a_failed_optional_step_blocks_nothing_and_its_value_is_absent(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a"))})
        run = await rig.run([call("a", optional=True), call("b", "a")])
        assert (run.status, run.stop_reason, rig.steps.inputs["b"]) == ("succeeded", "done", {})
        assert run.message == "No tool was called, so nothing was looked up or changed. 1 of 2 steps succeeded."


async def test_an_optional_step_that_never_runs_blocks_nothing_either(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a"))})
        rig.revise = "never"
        run = await rig.run([call("a"), call("o", "a", optional=True), call("c", "o"), call("d", "a")])
        assert await rig.statuses(run.id) == {"a": "failed", "o": "skipped", "c": "succeeded", "d": "skipped"}


async def test_a_partial_step_gives_what_it_has_to_the_steps_that_need_it(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(Outcome("a", "partial", value=succeeded("a").value))})
        rig.revise = "never"
        run = await rig.run([call("a"), call("b", "a")])
        assert (run.status, run.stop_reason, rig.steps.inputs["b"]) == ("partial", "error", {"a": "a"})


async def test_a_run_whose_steps_all_wait_is_parked_and_holds_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": asks_first("a", expires_in=3600.0)})
        run = await rig.run([call("a"), call("b"), call("c", "a")])
        assert (run.status, run.driver, run.stop_reason) == ("awaiting_approval", None, None)
        assert await rig.statuses(run.id) == {"a": "waiting", "b": "succeeded", "c": "pending"}
        [action] = await rig.store.actions(run.id)
        assert run.wake_at == action.expires_at
        await rig.store.decide(action, APPROVE)
        run = await rig.drive(run.id)
        assert (run.status, rig.steps.calls) == ("succeeded", ["a", "b", "a", "c"])


async def test_a_decided_step_goes_on_at_once_while_its_sibling_runs(tmp_path: Path) -> None:
    finished = anyio.Event()

    async def until_then(journal: RunJournal, assignment: Assignment) -> Outcome:
        with anyio.fail_after(5):
            await finished.wait()
        return succeeded("sibling")

    async def waits(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
        end = await approval(journal, "a")
        if isinstance(end, Outcome):
            finished.set()
        return end

    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": waits, "sibling": until_then})
        rig.models.plans = [{"steps": [call("a"), call("sibling")]}]
        run_id = await rig.new_run()
        async with anyio.create_task_group() as group:
            group.start_soon(rig.drive, run_id)
            with anyio.fail_after(5):
                await rig.store.decide((await rig.waiting(run_id))[0], APPROVE)
        assert await rig.order(run_id) == [("a", "succeeded"), ("sibling", "succeeded")]


async def test_waiting_steps_do_not_count_as_running(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.budget = BudgetSettings(parallel=1)
        rig.steps = Steps({"a": asks_first("a"), "b": asks_first("b")})
        run = await rig.run([call("a"), call("b"), call("c")])
        assert await rig.statuses(run.id) == {"a": "waiting", "b": "waiting", "c": "succeeded"}


async def test_an_answer_that_comes_right_before_parking_is_not_missed(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:

        async def decided_meanwhile(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
            end = await approval(journal, "a")
            if isinstance(end, Waiting):
                await rig.store.decide(await rig.store.action(end.action), APPROVE)
            return end

        rig.steps = Steps({"a": decided_meanwhile})
        with anyio.fail_after(5):
            run = await rig.run([call("a")])
        assert (run.status, rig.steps.calls) == ("succeeded", ["a", "a"])


async def test_three_refusals_by_a_person_in_a_row_end_the_run_with_what_it_has(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.revise = "never"
        names = ["a", "b", "c"]
        rig.steps = Steps({name: asks_first(name) for name in names})
        run = await rig.run([*(call(name) for name in names), call("later", "d"), call("d", "e"), call("e")])
        for action in await rig.store.waiting_actions():
            await rig.store.decide(action, DENY)
        rig.steps.calls.clear()
        run = await rig.drive(run.id)
        assert (run.status, run.stop_reason) == ("partial", "refused")
        assert set(rig.steps.calls) == {"a", "b", "c"}


async def test_a_lapsed_wait_is_looked_at_by_its_step(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:

        async def lapses(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
            action = await journal.action("a/approval")
            if action is None:
                end = await approval(journal, "a", expires_in=0.0)
                assert isinstance(end, Waiting)
                return end
            await journal.settle_action(action, expired=True)
            return failed("a")

        rig.revise = "never"
        rig.steps = Steps({"a": lapses})
        with anyio.fail_after(5):
            run = await rig.run([call("a")])
            while run.status == "awaiting_approval":
                run = await rig.drive(run.id)
        assert await rig.statuses(run.id) == {"a": "failed"}


async def test_the_question_of_a_step_that_ended_is_taken_back(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:

        async def asks_and_ends(journal: RunJournal, assignment: Assignment) -> Outcome:
            await approval(journal, "a")
            return succeeded("a")

        rig.steps = Steps({"a": asks_and_ends, "b": asks_first("b")})
        await rig.run([call("a"), call("b")])
        assert [action.step for action in await rig.store.waiting_actions()] == ["b"]


@pytest.mark.parametrize("steps", [120])
async def test_a_long_chain_runs_to_its_end(tmp_path: Path, steps: int) -> None:
    async with open_rig(tmp_path) as rig:
        rig.budget = BudgetSettings(steps=steps)
        plan = [call("s0"), *(call(f"s{number}", f"s{number - 1}") for number in range(1, steps))]
        with anyio.fail_after(60):
            run = await rig.run(plan)
        assert (run.status, len(rig.steps.calls)) == ("succeeded", steps)


async def test_events_tell_of_each_step_once_and_name_its_worker(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": asks_first("a")})
        run = await rig.run([call("a"), {"id": "w", "kind": "worker", "worker": "researcher", "task": "t"}])
        await rig.store.decide((await rig.store.waiting_actions())[0], APPROVE)
        await rig.drive(run.id)
        assert await rig.events(run.id, "step.started") == [
            ("a", {"kind": "call", "worker": None}),
            ("w", {"kind": "worker", "worker": "researcher"}),
        ]
        assert await rig.events(run.id, "step.ended") == [
            ("w", {"status": "succeeded", "summary": "w done"}),
            ("a", {"status": "succeeded", "summary": "a done"}),
        ]


async def test_a_decided_question_that_belongs_to_no_step_keeps_no_run_awake(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:

        async def asks_twice(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
            login = NewAction("login", "login", "person", "Log in?", {}, {}, "login")
            if await journal.action("login") is None:
                await rig.store.decide(await journal.ask(login), Decision("cancel", "person", "terminal"))
            return await approval(journal, "a")

        rig.steps = Steps({"a": asks_twice})
        with anyio.fail_after(5):
            run = await rig.run([call("a")])
        assert run.status == "awaiting_approval"
