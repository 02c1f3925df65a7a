"""An outcome says whether the limit that cut its step short was the run's own."""

from dataclasses import replace
from pathlib import Path

import pytest
from executing import call_step, called, limited, open_bench, report, tool, turns, uses, worker, worker_step

from downstream.door import ToolCall, ToolEnd
from downstream.model_port import ModelReply, ModelRequest
from executors.contract import Outcome
from executors.settings import REVIEWER, WorkerLimits
from journal.errors import BudgetReached
from journal.ledger import Spent

SEARCH = ("notes__search", {"query": "budget"})
TOOLS = [tool("notes.search")]


def test_an_outcome_is_written_down_as_by_earlier_releases_where_no_budget_was_reached() -> None:
    outcome = Outcome("a", "partial", limit="tokens")
    assert "over_budget" not in outcome.to_json()
    assert Outcome.from_json(outcome.to_json()) == outcome
    over = replace(outcome, over_budget=True)
    assert Outcome.from_json(over.to_json()) == over


async def test_a_call_that_the_runs_budget_does_not_allow_is_over_budget_also_when_it_is_read_again(
    tmp_path: Path,
) -> None:
    def refused(call: ToolCall) -> ToolEnd:
        raise BudgetReached("tool_calls", allowed=1, used=1)

    async with open_bench(tmp_path, act=refused, tools=TOOLS) as bench:
        for _ in range(2):
            outcome = await bench.outcome(call_step())
            assert (outcome.limit, outcome.over_budget) == ("tool_calls", True)


async def test_a_workers_own_limit_is_none_of_the_runs(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        return ModelReply("test/model", "", uses(SEARCH).uses, spent=Spent(10, 10))

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=[limited(tokens=1)]) as bench:
        for _ in range(2):
            outcome = await bench.outcome(worker_step())
            assert (outcome.status, outcome.limit, outcome.over_budget) == ("partial", "tokens", False)


@pytest.mark.parametrize("limits", [WorkerLimits(tokens=1), WorkerLimits(tokens=1_000_000)], ids=["small", "large"])
async def test_the_runs_budget_counts_beside_a_workers_own_limit_of_that_name(
    tmp_path: Path, limits: WorkerLimits
) -> None:
    def say(request: ModelRequest) -> ModelReply:
        raise BudgetReached("tokens", allowed=1, used=1)

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=[worker(limits=limits)]) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.limit, outcome.over_budget) == ("tokens", True)


async def test_a_reviewers_own_limit_is_none_of_the_runs(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.role == "reviewer":
            return ModelReply("test/model", "", uses(SEARCH).uses, spent=Spent(10, 10))
        return turns(uses(SEARCH), report(("There is one.", ["c_110"])))(request)

    workers = [worker(), worker(REVIEWER.name, limits=WorkerLimits(tokens=1), tools=("notes.*",))]
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=workers) as bench:
        outcome = await bench.outcome(worker_step(review=True))
        assert (outcome.status, outcome.limit, outcome.over_budget) == ("partial", "tokens", False)
