"""What a day's budget cut short is tried again when the run is reopened another day, under the limits it had."""

from pathlib import Path

import pytest
from executing import Bench, called, open_bench, prose, report, tool, turns, uses, worker_step
from planner_rig import call, open_rig

from downstream.model_port import ModelReply, ModelRequest
from executors.step import ComposeStep, WorkerStep
from journal.errors import BudgetReached
from journal.run_journal import Ending

SPENT = BudgetReached("usd_day", allowed=10.0, used=10.0)
SEARCH = ("notes__search", {"query": "budget"})
DRAFT = ComposeStep(id="draft", kind="compose", task="Write.")


def at_its_second_turn(request: ModelRequest) -> ModelReply:
    if request.place.turn == 1:
        return uses(SEARCH)
    raise SPENT


def refused(request: ModelRequest) -> ModelReply:
    raise SPENT


async def end_and_reopen(bench: Bench, generation: int) -> None:
    await (await bench.drive()).finish(Ending("partial", "budget", "Budget.", "", {}))
    run = await bench.store.run(bench.run_id)
    await bench.store.reopen(run, options=run.options | {"reopened": generation})


@pytest.mark.parametrize("step", [DRAFT, worker_step()], ids=["compose", "worker"])
async def test_a_step_is_cut_short_anew_each_day_and_ends_once_there_is_room(
    tmp_path: Path, step: ComposeStep | WorkerStep
) -> None:
    refuses = refused if step is DRAFT else at_its_second_turn
    async with open_bench(tmp_path, say=refuses, act=called, tools=[tool("notes.search")]) as bench:
        first = await bench.outcome(step)
        asked = len(bench.requests)
        assert first.limit == "usd_day"
        assert (await bench.outcome(step), len(bench.requests)) == (first, asked)
        await end_and_reopen(bench, 1)
        assert (await bench.outcome(step)).limit == "usd_day"
        assert len(bench.requests) > asked
        await end_and_reopen(bench, 2)
        bench.say = (lambda _: prose("Written.")) if step is DRAFT else turns(uses(SEARCH), report(("x", ["c_110"])))
        ended = await bench.outcome(step)
        assert (ended.status, ended.limit, len(bench.sent)) == ("succeeded", None, 0 if step is DRAFT else 1)
        assert await bench.outcome(step) == ended


async def test_a_plan_is_asked_for_again(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.plans = [SPENT]
        run = await rig.drive(await rig.new_run())
        assert run.stop_reason == "budget"
        await rig.store.reopen(run, options=run.options | {"reopened": 1})
        rig.models.plans = [{"steps": [call("a")]}]
        assert (await rig.drive(run.id)).status == "succeeded"
