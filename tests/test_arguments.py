"""What the five tools take, and what they say of anything else."""

from typing import Any

import pytest
from mcp.server.mcpserver.exceptions import ToolError

from planner.settings import BudgetRequest
from server.host.arguments import ApproveAction, CancelRun, GetRun, ListRuns, PlanAndExecute, read_arguments

WRONG: list[tuple[type[Any], dict[str, Any], str]] = [
    (PlanAndExecute, {"goal": 5}, "tool: goal takes text, not 5"),
    (PlanAndExecute, {"goal": None}, "tool: argument 'goal' is missing"),
    (
        PlanAndExecute,
        {"goal": "g", "context": "c" * 200_001},
        "tool: context has 200001 characters; at most 200000 are taken, put the rest into a file or tool",
    ),
    (PlanAndExecute, {"goal": "g", "review_plan": "yes"}, 'tool: review_plan takes true or false, not "yes"'),
    (PlanAndExecute, {"goal": "g", "wait_seconds": 601}, "tool: wait_seconds takes a number from 0 to 600, not 601"),
    (PlanAndExecute, {"goal": "g", "wait_seconds": True}, "tool: wait_seconds takes a number from 0 to 600, not true"),
    (PlanAndExecute, {"goal": "g", "budget": [1]}, "tool: budget takes an object, not a list"),
    (
        PlanAndExecute,
        {"goal": "g", "budget": {"steps": 0, "usd": 0}},
        "tool: budget.steps takes a whole number of at least 1, not 0; budget.usd takes a number above 0, not 0",
    ),
    (
        PlanAndExecute,
        {"goal": "g", "budget": {"tokens": 2.5}},
        "tool: budget.tokens takes a whole number of at least 1, not 2.5",
    ),
    (
        PlanAndExecute,
        {"goal": "g", "budget": {"dollars": 1}},
        'tool: unknown argument "budget.dollars"; it takes: '
        "steps, revisions, retries, parallel, model_calls, tool_calls, tokens, usd, usd_day, seconds",
    ),
    (
        PlanAndExecute,
        {"goal": "g", "idempotency_key": ""},
        "tool: idempotency_key is empty; fill it in or leave it out",
    ),
    (
        PlanAndExecute,
        {"goal": "half \ud800"},
        "tool: goal holds half a character (a lone surrogate); send it again as whole text",
    ),
    (
        ApproveAction,
        {"action_id": "a", "decision": "no", "arguments": "{}"},
        'tool: arguments takes an object, not "{}"',
    ),
    (GetRun, {}, "tool: argument 'run_id' is missing"),
    (GetRun, {"run_id": "r", "wait_seconds": float("nan")}, "tool: wait_seconds takes a number from 0 to 600, not nan"),
    (ListRuns, {"limit": 0}, "tool: limit takes a whole number from 1 to 100, not 0"),
    (ListRuns, {"limit": 1.5}, "tool: limit takes a whole number from 1 to 100, not 1.5"),
    (CancelRun, {"run_id": "r", "why": None}, 'tool: unknown argument "why"; it takes: run_id, reason'),
]


@pytest.mark.parametrize(("kind", "given", "told"), WRONG, ids=[told[6:60] for _, _, told in WRONG])
def test_a_wrong_argument_is_named_with_what_it_may_be(kind: type[Any], given: dict[str, Any], told: str) -> None:
    with pytest.raises(ToolError) as raised:
        read_arguments("tool", kind, given)
    assert str(raised.value) == told


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ToolError) as raised:
        read_arguments("plan_and_execute", PlanAndExecute, {"goal": "", "wait_seconds": -1, "x": 1})
    told = str(raised.value)
    assert all(word in told for word in ("goal is empty", "not -1", 'unknown argument "x"'))


def test_what_is_left_out_has_the_defaults_of_the_contract() -> None:
    assert read_arguments("tool", PlanAndExecute, {"goal": "g"}) == PlanAndExecute(goal="g")
    left = PlanAndExecute(goal="g")
    assert (left.context, left.review_plan, left.wait_seconds, left.budget, left.idempotency_key) == (
        *(None, False, None),
        *(None, None),
    )
    assert read_arguments("tool", GetRun, {"run_id": "r"}) == GetRun(run_id="r", wait_seconds=0, detail=False)
    assert read_arguments("tool", ListRuns, {}) == ListRuns(status=None, limit=20)


def test_null_counts_as_left_out() -> None:
    nulls = {"wait_seconds": None, "detail": None}
    assert read_arguments("tool", GetRun, {"run_id": "r", **nulls}) == GetRun(run_id="r")


def test_a_whole_number_may_be_written_with_a_point() -> None:
    given = {"goal": "g", "wait_seconds": 3.0, "budget": {"steps": 2.0, "usd": 1, "usd_day": None}}
    taken = read_arguments("tool", PlanAndExecute, given)
    assert (taken.wait_seconds, taken.budget) == (3, BudgetRequest(steps=2, usd=1.0))
    assert read_arguments("tool", ListRuns, {"limit": 20.0}).limit == 20


def test_arguments_that_are_approved_stay_as_they_were_sent() -> None:
    given = {"action_id": "a", "decision": "approve", "arguments": {"amount": 1.0, "deep": [None, {"x": 2.0}]}}
    assert repr(read_arguments("tool", ApproveAction, given).arguments) == repr(given["arguments"])
