"""Models that refuse, fail, hang or say nothing, through real litellm: runs end honestly and keep what they have."""

from pathlib import Path
from typing import Any

import anyio
import model_server as m
import pytest
from bad_input import (
    ANSWER,
    FOUND,
    LOOK,
    STUDIED,
    STUDY,
    Asked,
    check_kept,
    check_words,
    kinds,
    open_asked_product,
)

# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore")]

REST = m.planner([LOOK, STUDY]) + STUDIED + m.reviser([{"decision": "continue"}]) + m.answer(ANSWER)
KEY = "its server refused the key"
Fault = tuple[m.Reply, int, tuple[str, ...]]
FAULTS: dict[str, Fault] = {
    "401": ({"status": 401, "error": "bad key sk-canary"}, 1, (KEY, "model_options.api_key", "HTTP 401")),
    "429": ({"status": 429, "retry_after": 0.01}, 4, ("asks to slow down", "HTTP 429")),
    "500": ({"status": 500}, 4, ("its server failed", "HTTP 500")),
    "times out": ({"fault": "hang"}, 4, ("no answer within 0.5 s", "model_options.timeout")),
    "says nothing": ({"fault": "null"}, 4, ("its reply is empty",)),
}
"""The reply, how often it is asked for before it is given up, and what is said of it."""


async def faulty(folder: Path, role: str, fault: Fault, *, times: int | None = None) -> tuple[Any, Asked]:
    """A run in which the model has this fault in one role, and who was asked."""
    said, _, _ = fault
    limit = {"timeout": 0.5} if said.get("fault") == "hang" else {}
    with anyio.fail_after(60):
        async with open_asked_product(folder, m.on(said, role=role, times=times) + REST, options=limit) as asked:
            return await asked.run(), asked


@pytest.mark.parametrize("fault", [FAULTS[name] for name in FAULTS if name != "says nothing"], ids=lambda f: f[2][0])
async def test_a_planner_that_cannot_be_asked_ends_the_run_and_says_what_to_do(tmp_path: Path, fault: Fault) -> None:
    view, asked = await faulty(tmp_path, "planner", fault)
    assert (view["status"], view["stop_reason"], view["steps"]["total"]) == ("failed", "error", 0)
    assert view["message"] == "There is no plan for this goal. The planner's model gave no reply; `warnings` says why."
    (warning,) = view["warnings"]
    check_words(warning, "the planner gave no plan: model openai/scripted: ", *fault[2])
    assert "canary" not in str(view)
    assert view["answer"] == "Nothing was found: no step gave a result."
    assert [request.role for request in asked.model.requests] == ["planner"] * fault[1]
    await check_kept(tmp_path, view)


async def test_a_planner_that_says_nothing_leaves_the_goal_to_one_worker(tmp_path: Path) -> None:
    rules = m.worker("goal", [[m.call("ledger.read_item", key="plan")]], m.report("On Friday.", {FOUND: [0]}))
    said = m.on({"fault": "null"}, role="planner")
    with anyio.fail_after(60):
        async with open_asked_product(tmp_path, said + rules + m.answer(ANSWER)) as asked:
            view = await asked.run()
    assert (view["status"], kinds(view), view["answer"]) == ("succeeded", {"goal": "succeeded"}, ANSWER)
    told, instead = view["warnings"]
    check_words(told, "the planner gave no plan", "its reply is empty")
    check_words(instead, "worker 'operator' works on the goal as one step")
    await check_kept(tmp_path, view, "goal")


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_a_worker_whose_model_fails_costs_its_step_and_says_why(tmp_path: Path, fault: Fault) -> None:
    view, asked = await faulty(tmp_path, "worker", fault)
    assert (view["status"], view["stop_reason"]) == ("partial", "error")
    assert kinds(view) == {"look": "succeeded", "study": "failed"}
    look, study = view["step_list"]
    assert FOUND in look["summary"]
    check_words(study["summary"], "model openai/scripted", *fault[2])
    assert "canary" not in str(view)
    assert view["answer"].startswith(ANSWER)
    assert "study (worker researcher): failed" in view["answer"]
    attempts = 1 if "401" in str(fault[2]) else 2
    assert len(asked.asked("worker")) == attempts * fault[1]
    await check_kept(tmp_path, view, "look")


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_where_the_answers_model_fails_code_answers_from_what_was_found(tmp_path: Path, fault: Fault) -> None:
    view, asked = await faulty(tmp_path, "answer", fault)
    assert (view["status"], view["stop_reason"]) == ("succeeded", "done")
    assert "**Study it** (done): It ships on Friday." in view["answer"]
    assert FOUND in view["answer"]
    (warning,) = view["warnings"]
    check_words(warning, "the answer was put together without a model", *fault[2])
    assert len(asked.asked("answer")) == fault[1]
    await check_kept(tmp_path, view, "look", "study")


@pytest.mark.parametrize("name", ["429", "500", "says nothing"])
async def test_a_fault_that_passes_is_no_failure_of_the_step(tmp_path: Path, name: str) -> None:
    view, asked = await faulty(tmp_path, "worker", FAULTS[name], times=2)
    assert (view["status"], view["stop_reason"], view["answer"]) == ("succeeded", "done", ANSWER)
    assert (len(asked.asked("worker")), view["warnings"]) == (4, [])
    assert view["usage"]["model_calls"] == len(asked.model.requests)
    await check_kept(tmp_path, view, "look", "study")


async def test_a_model_that_nobody_serves_is_said_to_be_unreachable(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with open_asked_product(tmp_path, REST, options={"api_base": "http://127.0.0.1:9/v1"}) as asked:
            view = await asked.run()
    assert (view["status"], view["stop_reason"]) == ("failed", "error")
    check_words(view["warnings"][0], "the connection to its server failed", "model_options.api_base")
    await check_kept(tmp_path, view)
