"""Whose limit it was that cut a step short, and how a run waits for a word about several of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from planner_rig import LIMITS, Steps, asks_first, call, ending, failed, open_rig, succeeded

from executors.contract import Assignment, Outcome
from executors.settings import WorkerLimits, WorkerSettings
from journal.actions import Decision
from journal.run_journal import RunJournal
from planner.chronicle import Ended, read_entry

Json = Any
WORKER: Json = {"id": "w", "kind": "worker", "worker": "mine", "task": "t"}
RAISE, FINISH = Decision("raise", "person", "form"), Decision("finish", "person", "form")


def cut_short(limit: str, *, over_budget: bool) -> Outcome:
    return Outcome("w", "partial", limit=limit, over_budget=over_budget)


@pytest.mark.parametrize("limit", ["tokens", "seconds", "tool_calls", "turns"])
async def test_a_limit_of_a_worker_or_of_its_reviewer_does_not_end_the_run(tmp_path: Path, limit: str) -> None:
    async with open_rig(tmp_path) as rig:
        rig.revise = "never"
        rig.workers = (WorkerSettings(name="mine"),)
        rig.limits = replace(LIMITS, tool_calls=0)
        rig.steps = Steps({"w": ending(cut_short(limit, over_budget=False))})
        run = await rig.run([WORKER, call("b", "w")])
        assert (run.stop_reason, rig.steps.calls) == ("error", ["w", "b"])


@pytest.mark.parametrize("limit", ["tokens", "seconds", "tool_calls", "usd"])
async def test_the_runs_own_limit_ends_it_also_where_its_worker_has_one_of_that_name(
    tmp_path: Path, limit: str
) -> None:
    async with open_rig(tmp_path) as rig:
        rig.workers = (WorkerSettings(name="mine", limits=WorkerLimits(tokens=10_000, seconds=60.0)),)
        rig.steps = Steps({"w": ending(cut_short(limit, over_budget=True))})
        run = await rig.run([WORKER, call("b", "w")])
        assert (run.status, rig.steps.calls) == ("partial", ["w"])
        assert run.stop_reason == ("deadline" if limit == "seconds" else "budget")


async def test_the_runs_own_limit_is_asked_about_where_somebody_is_there(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.workers = (WorkerSettings(name="mine", limits=WorkerLimits(tokens=10_000)),)
        rig.steps = Steps({"w": ending(cut_short("tokens", over_budget=True))})
        run = await rig.run([WORKER], interactive=True)
        [action] = await rig.store.waiting_actions()
        assert (run.status, action.kind, action.arguments["limit"]) == ("awaiting_approval", "budget", "tokens")


async def test_steps_that_the_deadline_stopped_wait_while_a_person_is_asked(tmp_path: Path) -> None:
    async def never_ends(journal: RunJournal, assignment: Assignment) -> Outcome:
        await anyio.sleep_forever()
        raise AssertionError

    async with open_rig(tmp_path) as rig:
        rig.limits = replace(LIMITS, seconds=0.4)
        rig.steps = Steps({"b": never_ends, "w": asks_first("w")})
        with anyio.fail_after(10):
            run = await rig.run([call("b"), call("w"), call("c", "b")], interactive=True)
        assert run.status == "awaiting_approval"
        assert await rig.statuses(run.id) == {"b": "waiting", "w": "waiting", "c": "pending"}
        budget = next(action for action in await rig.store.waiting_actions() if action.kind == "budget")
        await rig.store.decide(budget, FINISH)
        run = await rig.drive(run.id)
        assert run.stop_reason == "deadline"
        assert "b: cut short by the end of the run, w: not run: it waited for a decision, c: " in str(run.answer)


async def two_limits(rig: Json, first: str) -> Json:
    """A run whose steps reach a limit each; that of `first` is held first."""
    ended = {"t": anyio.Event(), "u": anyio.Event()}
    limits = {"t": "tokens", "u": "usd"}

    async def reaches(journal: RunJournal, assignment: Assignment) -> Outcome:
        step = assignment.step.id
        if getattr(journal.limits, limits[step]) > getattr(LIMITS, limits[step]):
            return succeeded(step)
        if step != first:
            with anyio.fail_after(5):
                changed = journal.bell.listen(journal.run.id)
                while (await rig.statuses(journal.run.id))[first] != "waiting":
                    await changed.wait()
                    changed = journal.bell.listen(journal.run.id)
        ended[step].set()
        return failed(step, limit=limits[step], over_budget=True)

    return Steps({"t": reaches, "u": reaches})


@pytest.mark.parametrize(
    ("choice", "then", "calls"),
    [(RAISE, ("awaiting_approval", None), ["t", "t", "u", "u"]), (FINISH, ("partial", "budget"), ["t", "u"])],
    ids=["raise", "finish"],
)
async def test_the_answer_about_one_limit_counts_where_another_is_reached_first_the_next_time(
    tmp_path: Path, choice: Decision, then: Json, calls: list[str]
) -> None:
    async with open_rig(tmp_path) as rig:
        # One of the steps may have failed before the other's limit ends the run.
        rig.models.revisions = [{"decision": "continue"}]
        rig.steps = await two_limits(rig, "t")
        run = await rig.run([call("t"), call("u")], interactive=True)
        [action] = await rig.store.waiting_actions()
        assert action.arguments["limit"] == "tokens"
        await rig.store.decide(action, choice)
        rig.steps = await two_limits(rig, "u")
        with anyio.fail_after(10):
            run = await rig.drive(run.id)
        assert (run.status, run.stop_reason, sorted(rig.steps.calls)) == (*then, calls)
        assert [each.arguments["limit"] for each in await rig.store.waiting_actions()] == (
            ["usd"] if choice is RAISE else []
        )


@pytest.mark.parametrize(
    ("choice", "then"),
    [(RAISE, ("awaiting_approval", None)), (FINISH, ("partial", "budget"))],
    ids=["raise", "finish"],
)
async def test_an_answer_about_a_limit_that_is_no_longer_reached_keeps_no_run_awake(
    tmp_path: Path, choice: Decision, then: Json
) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"d": ending(failed("d", limit="usd_day", over_budget=True)), "w": asks_first("w")})
        run = await rig.run([call("d"), call("w")], interactive=True)
        budget = next(action for action in await rig.store.waiting_actions() if action.kind == "budget")
        await rig.store.decide(budget, choice)
        rig.steps = Steps({"w": asks_first("w")})
        with anyio.fail_after(5):
            run = await rig.drive(run.id)
        assert (run.status, run.stop_reason, (await rig.statuses(run.id))["d"]) == (*then, "succeeded")


def test_an_entry_of_an_earlier_release_says_whose_limit_it_was_beside_its_outcome() -> None:
    outcome = Outcome("w", "partial", limit="tokens")
    recorded = {"step": "w", "status": "partial", "limit": "tokens", "outcome": outcome.to_json()}
    assert read_entry(recorded) == Ended(replace(outcome, over_budget=True), "tokens")
    assert read_entry(recorded | {"limit": None}) == Ended(outcome, None)
