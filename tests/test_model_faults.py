"""Every fault of a model through real litellm, on three wires: what the run did, what it kept, and its exact bill.

Each row is printed (`pytest -s`): the requests, the tokens and dollars that were billed, and how the run ended.
"""

import gc
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import model_server as m
import pytest
from bad_input import ANSWER, FOUND, LOOK, READ, STUDIED, STUDY, Asked, check_kept, check_words, kinds
from bad_input import open_asked_product as open_product

from downstream.model import open_models
from downstream.settings import ModelSettings
from journal.outlet import Outlet

# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
pytestmark = pytest.mark.filterwarnings("ignore")

MODELS = {"openai": "openai/scripted", "anthropic": "anthropic/claude-sonnet-4-5", "gemini": "gemini/gemini-2.5-flash"}
WIRES = tuple(MODELS)
SPARES = {"openai": "openai/spare", "anthropic": "anthropic/claude-haiku-4-5", "gemini": "gemini/gemini-2.5-pro"}
IN, OUT = 3.0, 15.0
GOAL = m.worker("goal", [[READ]], m.report("On Friday.", {FOUND: [0]}))
REST = m.planner([LOOK, STUDY]) + STUDIED + GOAL + m.reviser([{"decision": "continue"}]) + m.answer(ANSWER)
WELL, FAILED, DEAD = ("succeeded", "done"), ("partial", "error"), ("failed", "error")
BOTH = {"look": "succeeded", "study": "succeeded"}
LOST = {"look": "succeeded", "study": "failed"}
HALF = {"look": "succeeded", "study": "partial"}
ALONE = {"goal": "succeeded"}
NONE: dict[str, str] = {}
SLOW: dict[str, Any] = {"timeout": 1.0}
HOUR = 3600
DOWN: m.Reply = {"status": 500, "retry_after": 0.01}


@dataclass(frozen=True)
class Row:
    """A fault in front of a script that is well otherwise; what became of the run and its steps, what was said of it.

    `asked` is how often the faulty role was asked. The end of `unseen` requests was not seen, so that their bill is an
    estimate. `quick` rows are in every run on this wire, the rest is for the slow run.
    """

    name: str
    fault: list[m.Rule]
    end: tuple[str, str] = WELL
    steps: dict[str, str] = field(default_factory=lambda: BOTH)
    asked: tuple[str, int] | None = None
    said: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    spare: bool = False
    unseen: int = 0
    quick: str | None = None
    wires: tuple[str, ...] = WIRES


def worker(said: m.Reply, *, times: int | None = None, turn: int | None = 1, **when: Any) -> list[m.Rule]:
    """A fault of the worker's model, once it has read what it needs."""
    return m.on(said, role="worker", step="study", times=times, **({} if turn is None else {"turn": turn}), **when)


def planner(said: m.Reply, *, times: int | None = None) -> list[m.Rule]:
    return m.on(said, role="planner", times=times)


def calls(*made: Any) -> m.Reply:
    return {"tool_calls": list(made)}


ECHOES = calls(*(m.call("ledger.echo", value=f"n{number}") for number in range(100)))
LOOK_TEXT = '{"id": "look", "kind": "call", "tool": "ledger.read_item", "arguments_json": "{\\"key\\": \\"plan\\"}",},'
PLAN = f'{{"steps": [{LOOK_TEXT}'
STUDY_TEXT = '{"id": "study", "kind": "worker", "worker": "researcher", "task": "Find out when it ships.",},],}'

ROWS = [
    Row(
        "429 with Retry-After",
        worker({"status": 429, "retry_after": 0.01}, times=2),
        asked=("worker", 4),
        quick="openai",
    ),
    Row("429 without", worker({"status": 429}, times=1), asked=("worker", 3)),
    Row(
        "429 for ever",
        worker({"status": 429, "retry_after": 0.01}),
        *(FAILED, LOST, ("worker", 10), ("asks to slow down", "HTTP 429")),
    ),
    Row(
        "429 for an hour",
        worker({"status": 429, "retry_after": HOUR}),
        *(FAILED, LOST, ("worker", 2), ("asks for a pause, which lasts",)),
        quick="anthropic",
    ),
    Row("500 twice", worker(DOWN, times=2), asked=("worker", 4)),
    Row(
        "500 for ever",
        worker(DOWN),
        FAILED,
        LOST,
        ("worker", 10),
        ("its server failed", "HTTP 500"),
    ),
    Row("503 once", worker({"status": 503, "retry_after": 0.01}, times=1), asked=("worker", 3)),
    Row("529 overload", worker({"status": 529, "retry_after": 0.01}, times=1), asked=("worker", 3)),
    Row("a reset", worker({"fault": "reset"}, times=1), asked=("worker", 3), unseen=1),
    Row("half an answer", worker({"fault": "truncate", "text": "x" * 900}, times=1), asked=("worker", 3), unseen=1),
    Row("a page of HTML", worker({"fault": "html"}, times=1), asked=("worker", 3), unseen=1),
    Row("no answer once", worker({"fault": "hang"}, times=1), asked=("worker", 3), options=SLOW, unseen=1),
    Row(
        "no answer ever",
        worker({"fault": "hang"}),
        *(FAILED, LOST, None, ("no answer", "model_options.timeout")),
        options=SLOW,
        unseen=8,
    ),
    Row(
        "429 to the planner's stream",
        planner({"status": 429, "retry_after": 0.01}, times=2),
        asked=("planner", 3),
        quick="gemini",
    ),
    Row("500 to the planner's stream", planner(DOWN, times=2), asked=("planner", 3)),
    Row(
        "no answer to the planner once",
        planner({"fault": "hang"}, times=1),
        asked=("planner", 2),
        options=SLOW,
        unseen=1,
    ),
    Row(
        "a stream that ends early", planner({"drop_after": 3}, times=1), asked=("planner", 2), unseen=1, quick="gemini"
    ),
    Row(
        "a stream that stalls once",
        planner({"stall_after": 3}, times=1),
        asked=("planner", 2),
        options=SLOW,
        unseen=1,
        quick="anthropic",
    ),
    Row(
        "a stream that stalls for ever",
        planner({"stall_after": 3}),
        *(DEAD, NONE, None, ("1 s (model_options.timeout)",)),
        options=SLOW,
        unseen=4,
    ),
    Row(
        "a slow stream",
        planner({"json": {"steps": [LOOK, STUDY]}, "name": "submit_plan", "chunk_delay": 0.05}),
        asked=("planner", 1),
        options=SLOW,
    ),
    Row("empty choices", worker({"fault": "empty"}, times=1), asked=("worker", 3), quick="openai"),
    Row("null content", worker({"fault": "null"}, times=1), asked=("worker", 3)),
    Row(
        "null content of the planner", planner({"fault": "null"}), WELL, ALONE, ("planner", 4), ("its reply is empty",)
    ),
    Row(
        "a refusal",
        worker({"text": "I can't.", "finish": "content_filter"}),
        FAILED,
        LOST,
        ("worker", 2),
        ("refused to go on",),
        quick="openai",
    ),
    Row(
        "a refused plan",
        planner({"text": "I can't.", "finish": "content_filter"}),
        WELL,
        ALONE,
        ("planner", 1),
        ("it refused to answer",),
    ),
    Row(
        "a content filter",
        worker({"status": 400, "error": "blocked by our content policy", "code": "content_policy_violation"}),
        *(FAILED, LOST, ("worker", 2), ("its provider refused the content",)),
    ),
    Row(
        "cut by its length",
        worker({"text": "I found that", "finish": "length"}, times=1),
        asked=("worker", 3),
    ),
    Row(
        "a plan cut by its length",
        planner({"text": '{"steps": [{"id": "lo', "finish": "length"}, times=1),
        asked=("planner", 2),
    ),
    Row(
        "wrong function names",
        worker(calls(m.call("ledger.read_everything")), times=1),
        asked=("worker", 3),
        said=("does not list",),
        quick="gemini",
    ),
    Row(
        "arguments that are no JSON",
        worker(calls(m.call("ledger.read_item", '{"key": "pl')), times=1),
        asked=("worker", 3),
    ),
    Row("a hundred calls at once", worker(ECHOES), ("partial", "error"), HALF, ("worker", 3), quick="openai"),
    Row(
        "prose twice, then an action",
        worker({"text": "I would read the plan."}, turn=None, times=2) + worker(calls(READ), turn=2),
        asked=("worker", 4),
        quick="anthropic",
    ),
    Row(
        "prose for ever",
        worker({"text": "Let me see."}, turn=None),
        FAILED,
        LOST,
        ("worker", 8),
        ("never called a tool",),
    ),
    Row("the same call for ever", worker(calls(READ), turn=None, must=None), FAILED, HALF, None),
    Row(
        "a promise, not a report",
        worker({"json": m.report("I will look into it."), "name": "submit_report"}, turn=None),
        FAILED,
        LOST,
        None,
        quick="openai",
    ),
    Row(
        "a prompt over its context",
        worker({"status": 400, "error": "prompt is too long: 300000 tokens > 200000 maximum"}),
        *(FAILED, HALF, ("worker", 3), ("stopped at its limit: context",)),
        quick="gemini",
    ),
    Row(
        "a goal over the planner's context",
        planner({"status": 400, "error": "prompt is too long: 300000 tokens > 200000 maximum"}),
        *(WELL, ALONE, ("planner", 1), ("longer than it can take",)),
    ),
    Row(
        "a plan with commas too many",
        planner({"text": f"Here it is:\n```json\n{PLAN} {STUDY_TEXT}\n```"}),
        asked=("planner", 1),
    ),
    Row("a plan that breaks off", planner({"text": PLAN}, times=1), asked=("planner", 2)),
    Row(
        "never a plan",
        planner({"text": "First I would look."}),
        WELL,
        ALONE,
        ("planner", 9),
        ("no JSON for submit_plan",),
    ),
    Row(
        "a model that is down, and a spare one",
        [rule for name in MODELS.values() for rule in m.on(DOWN, model=name.partition("/")[2])],
        asked=("worker", 10),
        spare=True,
        quick="openai",
    ),
    Row(
        "no answer at the end",
        m.on(DOWN, role="answer"),
        said=("put together without a model",),
        asked=("answer", 4),
    ),
]


def case(row: Row, wire: str) -> object:
    mark = pytest.mark.e2e if row.quick == wire else pytest.mark.slow
    return pytest.param(row, wire, id=f"{row.name}-{wire}", marks=mark)


@pytest.mark.parametrize(("row", "wire"), [case(row, wire) for row in ROWS for wire in row.wires])
async def test_a_fault_of_a_model(tmp_path: Path, row: Row, wire: str) -> None:
    async with open_models(ModelSettings(model="openai/m"), Outlet()) as models:
        await models.warm_up()
    with anyio.fail_after(100):
        view, asked = await run(tmp_path, row, wire)
    tell(row, wire, view, asked)
    assert ((view["status"], view["stop_reason"]), kinds(view)) == (row.end, row.steps), view
    if row.asked is not None:
        assert len(asked.asked(row.asked[0])) == row.asked[1]
    told = " ".join([*view["warnings"], *(step["summary"] for step in view["step_list"])])
    check_words(told, *row.said)
    if row.steps:
        kept = FOUND if "look" in row.steps else "On Friday."
        assert kept in str(view["answer"]) + str(view["step_list"])
    check_bill(view["usage"], asked, row)
    await check_kept(tmp_path, view, *(name for name, status in row.steps.items() if status == "succeeded"))


async def run(folder: Path, row: Row, wire: str) -> tuple[Any, Asked]:
    options = {"price": {"input_per_million": IN, "output_per_million": OUT}, **row.options}
    rules = row.fault + REST
    settings = {"model": MODELS[wire], "models": {"fallbacks": [SPARES[wire]] if row.spare else []}}
    async with open_product(folder, rules, options=options, settings=settings, root=wire != "openai") as asked:
        view = await asked.run(within=80)
    # litellm leaves connections of streams to the garbage collector.
    gc.collect()
    return view, asked


def tell(row: Row, wire: str, view: Any, asked: Asked) -> None:
    usage, steps = view["usage"], ", ".join(f"{name} {status}" for name, status in kinds(view).items())
    sys.stdout.write(
        f"{row.name:36} {wire:10} {len(asked.model.requests):3} requests {usage['input_tokens']:7} in"
        f" {usage['output_tokens']:5} out ${usage['cost_usd']:.6f}  {view['status']} {view['stop_reason']}: {steps}\n"
    )


def check_bill(usage: Any, asked: Asked, row: Row) -> None:
    """What the server said that it took, to the token, and an estimate of requests whose end nobody saw."""
    billed = asked.model.billed
    taken = (sum(each.prompt for each in billed), sum(each.completion for each in billed))
    counted = (usage["input_tokens"], usage["output_tokens"])
    # What was given up at once may never have come to the server.
    assert usage["model_calls"] - len(asked.model.requests) in range(row.unseen + 1)
    assert usage["cost_known"]
    paid = (counted[0] * IN + counted[1] * OUT) / 1_000_000
    # What nobody saw may have gone into Claude's cache, for a quarter more.
    dearer = (counted[0] - taken[0]) * IN / 4e6 if asked.model.requests[0].wire == "anthropic" else 0.0
    assert paid - 1e-8 <= usage["cost_usd"] <= paid + dearer + (1e-6 if dearer else 1e-8)
    if row.unseen:
        assert counted[0] > taken[0]
        assert counted[1] >= taken[1]
    else:
        assert counted == taken


def test_the_table_has_every_fault_on_some_wire_in_each_run() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {row.quick for row in ROWS if row.quick} == set(WIRES)
