"""Where a worker is stopped, and what a drive that takes over finds."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from executing import (
    call_id,
    called,
    last_message,
    limited,
    open_bench,
    prose,
    report,
    texts,
    tool,
    turns,
    uses,
    worker_step,
)

from downstream.door import Called, ToolCall, ToolEnd
from downstream.model_port import ModelFailed, ModelReply, ModelRequest
from executors.contract import Source
from journal.errors import BudgetReached, Fenced
from journal.ledger import Spent

NOTES = frozenset({"private:notes"})
SEARCH = ("notes__search", {"query": "budget"})
READ = ("notes__read", {"path": "a.md"})
TOOLS = [tool("notes.search"), tool("notes.read")]
FIRST = "c_110"


async def test_one_hundred_calls_at_once_are_made_only_up_to_the_limit(tmp_path: Path) -> None:
    many = uses(*[("notes__search", {"query": str(number)}) for number in range(100)])
    say = turns(many, report(("x", [FIRST])))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=[limited(tool_calls=5)]) as bench:
        outcome = await bench.outcome(worker_step())
        assert len(bench.sent) == 5
        assert (outcome.status, outcome.limit, len(outcome.findings)) == ("partial", "tool_calls", 1)
        assert texts(bench.requests[1], "tool").count("the limit of 5 tool calls is reached") == 95


async def test_a_worker_that_never_reports_gets_one_last_turn_at_its_limit(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.force == "submit_report":
            return report(("x", [FIRST]))
        return uses(("notes__search", {"query": str(request.place.turn)}))

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=[limited(turns=3)]) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit, len(outcome.findings)) == ("partial", "turns", 1)
        assert outcome.problem == "stopped at its limit: turns"
        last = bench.requests[3]
        assert ([function.name for function in last.functions], len(bench.requests)) == (["submit_report"], 4)
        assert "You have reached a limit (turns)" in last_message(last).content


async def test_without_a_last_report_code_says_what_the_calls_gave(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        return uses(("notes__search", {"query": str(request.place.turn)}))

    def act(call: ToolCall) -> Called:
        return called(call, ok=call.arguments.data["query"] != "2")

    async with open_bench(tmp_path, say=say, act=act, tools=TOOLS, workers=[limited(turns=2)]) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.findings, outcome.value) == ("partial", (), None)
        stopped = "stopped at its limit: turns; the worker handed in no report"
        assert outcome.summary == f"{stopped}; 1 of 2 calls gave a result"
        assert outcome.problem == f'{stopped}; the last call that failed was notes.search: "found"'
        assert outcome.sources == (Source("study", "notes.search", FIRST),)


async def test_the_same_call_with_the_same_result_three_times_stops_the_loop(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=turns(uses(SEARCH)), act=called, tools=TOOLS) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit, len(bench.sent)) == ("partial", "repeated call", 3)


async def test_asking_for_a_tool_outside_the_list_again_and_again_stops_the_loop(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=turns(uses(("mail__send", {}))), tools=TOOLS) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit, len(bench.requests)) == ("partial", "repeated call", 4)


@pytest.mark.parametrize(("limits", "name"), [({"tokens": 1}, "tokens"), ({"seconds": 1e-9}, "seconds")], ids=str)
async def test_tokens_and_time_of_an_attempt_are_limited(tmp_path: Path, limits: dict[str, float], name: str) -> None:
    def say(request: ModelRequest) -> ModelReply:
        made = report(("x", [FIRST])) if request.force else uses(SEARCH)
        return ModelReply("test/model", "", made.uses, spent=Spent(10, 10))

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=[limited(**limits)]) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit) == ("partial", name)


async def test_a_budget_that_stops_a_call_leads_to_a_last_report(tmp_path: Path) -> None:
    def act(call: ToolCall) -> ToolEnd:
        if call.tool == "notes.read":
            raise BudgetReached("tool_calls", allowed=1, used=1)
        return called(call)

    say = turns(uses(SEARCH, READ), report(("x", [FIRST])))
    async with open_bench(tmp_path, say=say, act=act, tools=TOOLS) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit, len(outcome.findings)) == ("partial", "tool_calls", 1)
        assert bench.requests[1].force == "submit_report"


async def test_a_budget_that_allows_no_last_turn_leaves_what_the_calls_gave(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=turns(uses(SEARCH)), act=called, tools=TOOLS) as bench:
        bench.limits = replace(bench.limits, model_calls=2)
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit, len(outcome.sources)) == ("partial", "model_calls", 1)
        assert await bench.outcome(worker_step()) == outcome
        assert (len(bench.requests), len(bench.sent)) == (1, 1)
        bench.limits = replace(bench.limits, model_calls=80)
        bench.say = turns(uses(SEARCH), report(("x", [FIRST])))
        assert (await bench.outcome(worker_step())).status == "succeeded"
        assert (len(bench.requests), len(bench.sent)) == (2, 1)


class Interrupted(Exception):
    """The process ends here."""


@pytest.mark.parametrize("at", range(1, 9))
async def test_a_run_taken_over_at_any_point_makes_no_call_twice(tmp_path: Path, at: int) -> None:
    reached: list[str] = []
    ended: list[str] = []

    def pass_by(name: str) -> None:
        reached.append(name)
        if len(reached) == at:
            raise Interrupted
        ended.append(name)

    def say(request: ModelRequest) -> ModelReply:
        pass_by(f"turn {request.place.turn}.{request.place.repair}")
        if request.place.repair:
            return report(("x", [call_id("k/attempt.1/turn.1/call.0")]))
        return turns(uses(SEARCH, READ), prose("Hm."), uses(READ), report())(request)

    def act(call: ToolCall) -> ToolEnd:
        pass_by(call.key)
        return called(call, effect=True)

    async with open_bench(tmp_path, say=say, act=act, tools=TOOLS) as bench:
        with pytest.raises((Interrupted, ExceptionGroup)):
            await bench.outcome(worker_step())
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, len(outcome.effects)) == ("succeeded", 3)
        assert len(ended) == len(set(ended)) == 8
        assert await bench.outcome(worker_step()) == outcome
        assert len(ended) == 8


async def test_a_server_that_lets_no_function_be_forced_is_asked_unforced(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.force:
            raise ModelFailed("test/model", "bad_request", "no function can be forced while it thinks")
        return report(("x", [FIRST])) if len(request.functions) == 1 else uses(SEARCH)

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=[limited(turns=1)]) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit, len(outcome.findings)) == ("partial", "turns", 1)


@pytest.mark.parametrize(("kind", "asked"), [("bad_request", 3), ("auth", 2)])
async def test_a_model_that_fails_in_its_last_turn_leaves_what_there_is(
    tmp_path: Path, kind: Literal["bad_request", "auth"], asked: int
) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if len(request.functions) == 1:
            raise ModelFailed("test/model", kind, "it can't")
        return uses(SEARCH)

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=[limited(turns=1)]) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit, len(bench.requests)) == ("partial", "turns", asked)


async def test_a_budget_that_allows_no_repair_is_the_limit_that_cut_the_step_short(tmp_path: Path) -> None:
    say = turns(uses(SEARCH), report(("x", []), summary=""))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        bench.limits = replace(bench.limits, model_calls=3)
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit) == ("partial", "model_calls")
        assert outcome.problem is not None
        assert outcome.problem.startswith("stopped at its limit: model_calls; the report is not complete: summary:")


async def test_a_run_that_is_driven_elsewhere_ends_the_step_with_just_that(tmp_path: Path) -> None:
    def act(call: ToolCall) -> ToolEnd:
        if call.tool == "notes.search":
            raise Fenced(bench.run_id)
        return called(call)

    async with open_bench(tmp_path, say=turns(uses(SEARCH, READ)), act=act, tools=TOOLS) as bench:
        with pytest.raises(Fenced):
            await bench.outcome(worker_step())
        assert len(bench.sent) == 2


@pytest.mark.parametrize("at", [4, 5])
async def test_a_loop_that_was_stopped_stays_stopped_when_the_run_is_taken_over(tmp_path: Path, at: int) -> None:
    asked: list[ModelRequest] = []

    def say(request: ModelRequest) -> ModelReply:
        asked.append(request)
        if len(asked) == at:
            raise Interrupted
        return report(("x", [])) if request.force else uses(SEARCH)

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        if at == 4:
            with pytest.raises(Interrupted):
                await bench.outcome(worker_step())
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit, len(bench.sent)) == ("partial", "repeated call", 3)
        assert len([request for request in asked if request.force]) == (2 if at == 4 else 1)
