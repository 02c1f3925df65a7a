"""Eight workers at once against each kind of budget: nothing goes beyond it, every run ends with a true answer.

What was spent is counted by the model and the tools themselves, beside the ledger. Each kind is printed (`pytest -s`).
"""

import gc
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import model_server as m
import pytest
import toys
from bad_input import Asked, open_asked_product
from eight_workers import (
    CALLS,
    LOOK,
    MODEL,
    SPARE,
    WORKERS,
    Eight,
    Ended,
    function,
    open_eight,
    report,
    studious,
)
from journals import Clock

from downstream.model_port import FunctionUse, ModelReply, ModelRequest, Rate
from journal.world import World
from server.terminal.exit_codes import ExitCode, code_of_run

Json = Any
SUMMED = 1e-9
"""Dollars by which two sums of the same numbers may differ, for their order."""
PRICES = {MODEL: Rate(100.0, 500.0), SPARE: Rate(1_000.0, 5_000.0)}
WHOLE = 2 + WORKERS * (CALLS + 1)
"""The model calls of a run that nothing cuts short."""
ENOUGH: dict[str, Json] = {"steps": WORKERS, "revisions": 3, "retries": 1, "parallel": WORKERS}


def enough(**changes: Json) -> dict[str, Json]:
    return ENOUGH | changes


def check_end(eight: Eight, ended: Ended, limit: str) -> None:
    """An answer, a true end, true steps, and every finding that was handed in."""
    run, meter, statuses = ended.run, eight.meter, ended.statuses
    whole = bool(statuses) and set(statuses.values()) == {"succeeded"}
    expected = ("succeeded", "done") if whole else ("partial", "deadline" if limit == "seconds" else "budget")
    assert (ended.end, code_of_run(run)) == (expected, ExitCode.OK if whole else ExitCode.BUDGET)
    assert run.answer
    assert set(statuses.values()) <= {"succeeded", "partial", "failed", "skipped", "cancelled"}
    succeeded = {id_ for id_, status in statuses.items() if status == "succeeded"}
    kept = {finding["claim"] for finding in run.result["findings"] if finding["supported"]}
    if limit == "seconds":
        # What is said after the time is up is not heard any more.
        assert (succeeded - set(meter.done), kept - meter.claims) == (set(), set())
    else:
        assert (succeeded, kept) == (set(+meter.done), meter.claims)
    for step in ended.steps:
        assert step.status == "succeeded" or f"{step.id} (worker researcher): " in run.answer
        assert step.status != "partial" or limit in step.summary or meter.reported[step.id]
    assert {row["state"] for row in ended.ledger} <= {"settled", "lost"}
    if not whole:
        assert limit in ended.refused or limit == "seconds"
        said = "The time of the run was used up" if limit == "seconds" else "A limit of the budget was reached"
        assert f"{said} (budget.{limit})" in str(run.message)


def tell(limit: str, value: float, took: float, ended: Ended) -> None:
    told = ", ".join(f"{number} {status}" for status, number in sorted(Counter(ended.statuses.values()).items()))
    sys.stdout.write(f"{limit:12} {value:8g}  took {took:10g}  {ended.run.status} {ended.run.stop_reason}: {told}\n")


def all_at_once(request: ModelRequest) -> ModelReply:
    """A worker that makes its calls in one turn."""
    if is_last(request) or request.place.turn > 1:
        return report(request, status="partial" if is_last(request) else "done")
    asked = [f'{{"query": "{request.place.step} {number}"}}' for number in range(CALLS)]
    return ModelReply(MODEL, "", tuple(FunctionUse(f"u{n}", "notes__look", text) for n, text in enumerate(asked)))


def is_last(request: ModelRequest) -> bool:
    return [each.name for each in request.functions] == ["submit_report"]


async def test_nothing_is_cut_short_by_a_budget_that_reaches(tmp_path: Path) -> None:
    async with open_eight(tmp_path, worker=studious) as eight:
        ended = await eight.run(model_calls=WHOLE + 3, tool_calls=WORKERS * CALLS, **ENOUGH)
        assert (ended.end, ended.run.answer) == (("succeeded", "done"), "It is told.")
        assert (len(eight.meter.asked), len(eight.meter.sent)) == (WHOLE, WORKERS * CALLS)
        assert (eight.meter.crowd.most, eight.meter.tools.most) == (WORKERS, WORKERS)


def sample(values: Sequence[float], number: int) -> list[Json]:
    """All values; every n-th is in each run, the others in the slow one."""
    quick = values[number // 2 :: number]
    return [pytest.param(value, marks=() if value in quick else pytest.mark.slow) for value in values]


@pytest.mark.parametrize("limit", sample([*range(1, 31), WHOLE, WHOLE + 1, WHOLE + 2], 8))
async def test_model_calls(tmp_path: Path, limit: int) -> None:
    async with open_eight(tmp_path, worker=studious) as eight:
        ended = await eight.run(model_calls=limit, **ENOUGH)
        tell("model_calls", limit, len(eight.meter.asked), ended)
        check_end(eight, ended, "model_calls")
        answers = len(eight.meter.roles("answer"))
        assert ended.took("model_calls") == ended.usage.model_calls == len(eight.meter.asked) <= limit
        assert ended.took("model_calls", "work") <= limit - max(1, limit // 10)
        # Where nothing was found code writes the answer.
        assert answers == (1 if ended.run.result["findings"] else 0)
        assert limit < WORKERS + 3 or eight.meter.crowd.most == WORKERS


@pytest.mark.parametrize("worker", [studious, all_at_once], ids=["one by one", "at once"])
@pytest.mark.parametrize("limit", sample(range(1, WORKERS * CALLS + 2), 8))
async def test_tool_calls(tmp_path: Path, limit: int, worker: Callable[[ModelRequest], ModelReply]) -> None:
    async with open_eight(tmp_path, worker=worker) as eight:
        ended = await eight.run(tool_calls=limit, **ENOUGH)
        tell("tool_calls", limit, len(eight.meter.sent), ended)
        check_end(eight, ended, "tool_calls")
        assert ended.took("tool_calls") == ended.usage.tool_calls == len(eight.meter.sent)
        assert len(eight.meter.sent) == min(limit, WORKERS * CALLS)
        assert len(eight.meter.roles("answer")) == 1


@pytest.mark.parametrize("limit", sample([2_000, 4_000, 9_000, *range(10_000, 90_001, 5_000), 150_000], 6))
async def test_tokens(tmp_path: Path, limit: int) -> None:
    async with open_eight(tmp_path, worker=studious) as eight:
        ended = await eight.run(tokens=limit, **ENOUGH)
        tell("tokens", limit, eight.meter.tokens, ended)
        check_end(eight, ended, "tokens")
        assert ended.took("tokens") == ended.usage.input_tokens + ended.usage.output_tokens == eight.meter.tokens
        assert eight.meter.tokens <= limit
        assert ended.took("tokens", "work") <= 0.9 * limit


@pytest.mark.parametrize("limit", sample([0.05, 0.3, 0.8, *(n / 2 for n in range(2, 20)), 40.0], 6))
async def test_usd(tmp_path: Path, limit: float) -> None:
    async with open_eight(tmp_path, worker=studious, rates=PRICES) as eight:
        ended = await eight.run(usd=limit, **ENOUGH)
        tell("usd", limit, eight.meter.usd, ended)
        check_end(eight, ended, "usd")
        assert ended.took("usd") == pytest.approx(eight.meter.usd)
        assert ended.usage.cost_usd == pytest.approx(eight.meter.usd)
        assert eight.meter.usd <= limit
        assert ended.took("usd", "work") <= 0.9 * limit


@pytest.mark.parametrize("limit", sample([0.05, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 15.0, 100.0], 4))
async def test_usd_day_over_several_runs_at_once(tmp_path: Path, limit: float) -> None:
    runs, ends = 3, dict[int, Ended]()
    async with open_eight(tmp_path, worker=studious, rates=PRICES) as eight:
        ids = [await eight.begin(f"goal {number}") for number in range(runs)]

        async def go(number: int) -> None:
            ends[number] = await eight.drive(ids[number], usd_day=limit, **ENOUGH)

        async with anyio.create_task_group() as group:
            for number in range(runs):
                group.start_soon(go, number)
        total = sum(ended.took("usd") for ended in ends.values())
        sys.stdout.write(
            f"usd_day      {limit:8g}  took {total:10g}  {[ended.run.status for ended in ends.values()]}\n"
        )
        assert total == pytest.approx(eight.meter.usd)
        assert eight.meter.usd <= limit
        for ended in ends.values():
            whole = set(ended.statuses.values()) == {"succeeded"}
            assert ended.end == (("succeeded", "done") if whole else ("partial", "budget"))
            assert ended.run.answer
            assert whole or "(budget.usd_day)" in str(ended.run.message)


@pytest.mark.parametrize("limit", sample(range(1, 40, 2), 5))
async def test_no_model_is_asked_for_work_after_the_time_is_up(tmp_path: Path, limit: int) -> None:
    clock, late = Clock(), list[float]()
    began = clock.at

    def each_takes_a_second(model: str, request: ModelRequest) -> None:
        clock.at += 1
        if request.role != "answer" and clock.at - 1 - began > limit:
            late.append(clock.at - 1 - began - limit)

    world = World(now=clock, monotonic=clock)
    async with open_eight(tmp_path, world, worker=studious, before=each_takes_a_second) as eight:
        ended = await eight.run(seconds=float(limit), **ENOUGH)
        tell("seconds", limit, ended.usage.seconds, ended)
        check_end(eight, ended, "seconds")
        # Those that were let out together end one after the other by this clock.
        assert len(late) < WORKERS


@pytest.mark.parametrize("limit", range(1, WORKERS + 2))
async def test_steps(tmp_path: Path, limit: int) -> None:
    async with open_eight(tmp_path, worker=studious) as eight:
        ended = await eight.run(**enough(steps=limit))
        tell("steps", limit, len(ended.steps), ended)
        assert (ended.end, len(ended.steps)) == (("succeeded", "done"), WORKERS if limit >= WORKERS else 1)
        assert len(eight.meter.roles("planner")) == (1 if limit >= WORKERS else 3)


@pytest.mark.parametrize("limit", range(4))
async def test_retries(tmp_path: Path, limit: int) -> None:
    def failing(request: ModelRequest) -> ModelReply:
        if request.place.turn == 1 and not is_last(request):
            return function("notes__look", {"query": f"{request.place.step} {request.place.attempt}"})
        return report(request, status="failed")

    async with open_eight(tmp_path, worker=failing) as eight:
        ended = await eight.run(**enough(retries=limit))
        tell("retries", limit, sum(eight.meter.reported.values()), ended)
        assert set(ended.statuses.values()) == {"failed"}
        assert eight.meter.reported == {f"s{n}": limit + 1 for n in range(1, WORKERS + 1)}
        assert (ended.end, code_of_run(ended.run)) == (("partial", "error"), ExitCode.FAILED)
        assert len(ended.run.result["findings"]) == len(eight.meter.claims) == WORKERS * (limit + 1)


@pytest.mark.parametrize("limit", range(5))
async def test_revisions(tmp_path: Path, limit: int) -> None:
    def failing(request: ModelRequest) -> ModelReply:
        done = f"{request.place.step}" in ("s1", "r2", "r4")
        if request.place.turn == 1 and not is_last(request):
            return function("notes__look", {"query": f"{request.place.step} {request.place.attempt}"})
        return report(request, status="done" if done else "blocked")

    added = [{"decision": "revise", "add": [one(f"r{number}")]} for number in range(1, 9)]
    async with open_eight(tmp_path, worker=failing, revisions=added) as eight:
        ended = await eight.run(**enough(revisions=limit, steps=20, retries=0))
        made = [step.id for step in ended.steps if step.id.startswith("r")]
        tell("revisions", limit, len(made), ended)
        assert len(made) <= limit
        assert len(eight.meter.roles("reviser")) <= limit
        assert ended.end in (("partial", "no_progress"), ("partial", "error"))
        assert code_of_run(ended.run) is ExitCode.FAILED
        assert ended.run.answer


def one(id_: str) -> Json:
    return {"id": id_, "kind": "worker", "worker": "researcher", "task": f"Study {id_}.", "tools": [LOOK]}


@pytest.mark.parametrize("limit", range(1, WORKERS + 1))
async def test_parallel(tmp_path: Path, limit: int) -> None:
    async with open_eight(tmp_path, worker=studious) as eight:
        ended = await eight.run(**enough(parallel=limit))
        tell("parallel", limit, eight.meter.crowd.most, ended)
        assert (ended.end, len(eight.meter.asked)) == (("succeeded", "done"), WHOLE)
        assert eight.meter.tools.most <= eight.meter.crowd.most == limit


@pytest.mark.parametrize("at", [3, 9, 15, 22, 28])
async def test_a_drive_that_is_lost_pays_for_what_it_had_begun_and_the_next_one_stays_below(
    tmp_path: Path, at: int
) -> None:
    lost = anyio.Event()

    def lose(model: str, request: ModelRequest) -> None:
        if len(eight.meter.asked) >= at:
            lost.set()

    async with open_eight(tmp_path, worker=studious, rates=PRICES) as eight:
        eight.before = lose
        run_id = await eight.begin("goal")
        budget = enough(model_calls=33, tokens=150_000, usd=60.0)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: eight.drive(run_id, **budget))
                await lost.wait()
                group.cancel_scope.cancel()
            ended = await eight.drive(run_id, **budget)
        tell("two drives", at, len(eight.meter.asked), ended)
        assert len(eight.meter.asked) <= ended.took("model_calls") <= 33
        assert eight.meter.tokens <= ended.took("tokens") <= 150_000
        assert eight.meter.usd - SUMMED <= ended.took("usd") <= 60.0
        assert ended.run.answer
        assert ended.end in (("partial", "budget"), ("succeeded", "done"))


def rules() -> list[m.Rule]:
    """Eight workers that make calls and report, each taking a moment."""
    names = [f"s{n}" for n in range(1, WORKERS + 1)]
    said = m.planner([one(name) | {"tools": ["ledger.echo"]} for name in names]) + m.answer("It is told.")
    for name in names:
        texts = [f"{name} {n}" for n in range(CALLS)]
        turns: list[m.Reply] = [{"tool_calls": [m.call("ledger.echo", text=text)], "latency": 0.1} for text in texts]
        said += m.worker(name, turns, m.report(f"{name} is through.", {f"{name} saw it.": [0]}))
    # Where a slow machine plans for longer than planning may take, code plans one step; it does not end in time.
    slow: m.Reply = {"tool_calls": [m.call("ledger.echo", text="goal")], "latency": 2.0}
    return said + m.worker("goal", [slow], m.report("The goal is through."))


PRICE = {"price": {"input_per_million": 100.0, "output_per_million": 500.0}}


async def real_run(asked: Asked, limit: str, value: Json, **fields: Json) -> tuple[Json, dict[str, float]]:
    """A run under this limit, and what its model server and tool server counted."""
    requests, billed, sent = len(asked.model.requests), len(asked.model.billed), len(toys.calls(asked.log))
    asking = {"goal": f"{limit} {value}", "budget": {limit: value, "parallel": WORKERS}} | fields
    view = await asked.host.structured("plan_and_execute", asking, within=60)
    said = asked.model.billed[billed:]
    prompt, completion = sum(each.prompt for each in said), sum(each.completion for each in said)
    counted = {
        "model_calls": len(asked.model.requests) - requests,
        "tool_calls": len(toys.calls(asked.log)) - sent,
        "tokens": prompt + completion,
        "usd": (prompt * 100 + completion * 500) / 1e6,
        "seconds": view["usage"]["seconds"],
    }
    return view, counted


REAL: dict[str, list[Json]] = {
    "model_calls": [2, 9, 14, 25],
    "tool_calls": [1, 7, 18],
    "tokens": [12_000, 40_000, 70_000],
    "usd": [3.0, 8.0, 15.0],
    "usd_day": [4.0, 9.0],
    "seconds": [0.1, 0.5],
}


def check_view(view: Json, limit: str) -> None:
    """What a host is shown: a true end, an answer, and the name of each step that did not succeed."""
    bad = [step for step in view["step_list"] if step["status"] != "succeeded"]
    reason = "deadline" if limit == "seconds" else "budget"
    assert (view["status"], view["stop_reason"]) == (
        ("partial", reason) if bad or not view["step_list"] else ("succeeded", "done")
    )
    assert not bad or f"(budget.{limit})" in view["message"]
    assert view["answer"]
    # Where nothing was found, code tells what became of each.
    told = [(f"{step['id']} (worker ", f"**{step['title']}**") for step in bad]
    assert [names for names in told if not any(name in view["answer"] for name in names)] == []


@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("limit", REAL)
async def test_real_requests_and_calls_stay_within_every_limit(tmp_path: Path, limit: str) -> None:
    async with open_asked_product(
        tmp_path, rules(), options=PRICE, settings={"budget": {"usd_day": 1_000.0, "usd": 500.0}}
    ) as asked:
        view, counted = await real_run(asked, "model_calls", WHOLE + 3)
        assert (view["status"], asked.model.max_in_flight) == ("succeeded", WORKERS)
        day = counted["usd"]
        for value in REAL[limit]:
            # What was taken today counts as well.
            given = round(day, 6) + value if limit == "usd_day" else value
            view, counted = await real_run(asked, limit, given)
            usage, took, day = view["usage"], counted[limit.removesuffix("_day")], day + counted["usd"]
            sys.stdout.write(f"{limit:12} {value:8g}  took {took:10g}  {view['status']} {view['stop_reason']}\n")
            check_view(view, limit)
            assert took <= value + (1.0 if limit == "seconds" else 0)
            if limit != "seconds":
                assert usage["input_tokens"] + usage["output_tokens"] == counted["tokens"]
                assert usage["cost_usd"] == pytest.approx(counted["usd"], abs=1e-6)
                assert (usage["model_calls"], usage["tool_calls"]) == (counted["model_calls"], counted["tool_calls"])
            assert asked.model.unmatched == []
    # litellm leaves connections to the garbage collector, which would warn of them in another test.
    gc.collect()
