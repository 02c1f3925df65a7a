"""Calls that can't be taken: each is an error with the way out, and a run that waits loses nothing by them."""

from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from bad_input import FOUND, LOOK, check_kept, check_words, kinds
from mcp_hosts import Era, open_host, text_of
from products import call_step, open_test_product, script

pytestmark = pytest.mark.e2e

ERAS: list[Era] = ["legacy", "modern"]
GOAL = "Write down that it ships."
POST = call_step("post", "ledger.add_item", key="note", value="ships")
Json = Any

REFUSED: dict[str, tuple[str, Json, tuple[str, ...]]] = {
    "unknown run": ("get_run", {"run_id": "r_none"}, ("no run 'r_none' is known here", "list_runs")),
    "an action's id for a run's": ("get_run", {"run_id": "ACTION"}, ("no run 'ACTION' is known here", "list_runs")),
    "an empty id to cancel": ("cancel_run", {"run_id": ""}, ("no run '' is known here", "list_runs")),
    "unknown action": (
        "approve_action",
        {"action_id": "a_none", "decision": "approve"},
        ("no action 'a_none' is known here",),
    ),
    "a choice it does not have": (
        "approve_action",
        {"action_id": "ACTION", "decision": "retry"},
        ("has no 'retry'", "its choices: approve, deny"),
    ),
    "no choice": ("approve_action", {"action_id": "ACTION"}, ("argument 'decision' is missing",)),
    "arguments as text": (
        "approve_action",
        {"action_id": "ACTION", "decision": "approve", "arguments": "{}"},
        ('arguments takes an object, not "{}"',),
    ),
    "unknown argument": (
        "plan_and_execute",
        {"goal": GOAL, "wait_secs": 3},
        ('unknown argument "wait_secs"', "wait_seconds"),
    ),
    "a negative wait": (
        "plan_and_execute",
        {"goal": GOAL, "wait_seconds": -1},
        ("wait_seconds takes a number from 0 to 600, not -1",),
    ),
    "a negative wait for a run": (
        "get_run",
        {"run_id": "RUN", "wait_seconds": -1},
        ("wait_seconds takes a number from 0 to 600, not -1",),
    ),
    "an empty goal": ("plan_and_execute", {"goal": ""}, ("goal is empty", "say what is to be achieved")),
    "a goal of 1 MB": (
        "plan_and_execute",
        {"goal": "é" * 500_000},
        ("goal has 500000 characters", "at most 20000"),
    ),
    "a context of 1 MB": (
        "plan_and_execute",
        {"goal": GOAL, "context": "c" * 1_000_000},
        ("context has 1000000 characters", "at most 200000", "file"),
    ),
    "a goal that is a list": ("plan_and_execute", {"goal": [GOAL]}, ("goal takes text, not a list",)),
    "unknown limit": (
        "plan_and_execute",
        {"goal": GOAL, "budget": {"euro": 3}},
        ('unknown argument "budget.euro"', "usd"),
    ),
    "unknown status": ("list_runs", {"status": "lost"}, ("status", "'awaiting_approval'")),
    "unknown tool": ("plan", {"goal": GOAL}, ("steprelay has no tool", "plan", "it has: plan_and_execute")),
}


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_cannot_be_taken_says_why_and_the_run_that_waits_is_kept(tmp_path: Path, era: Era) -> None:
    with anyio.fail_after(60):
        async with (
            open_test_product(tmp_path, script=script(LOOK, POST)) as (_, server),
            open_host(server, era=era) as host,
        ):
            before = await host.structured("plan_and_execute", {"goal": GOAL})
            (action,) = before["actions"]
            ids = {"ACTION": action["action_id"], "RUN": before["run_id"]}
            for tool, arguments, told in REFUSED.values():
                given = {
                    name: ids.get(value, value) if isinstance(value, str) else value
                    for name, value in arguments.items()
                }
                result = await host.call(tool, given, within=10)
                assert (result.is_error, result.structured_content) == (True, None), (tool, told)
                check_words(text_of(result).replace(ids["ACTION"], "ACTION"), *told)
                assert len(text_of(result)) < 600
            after = await host.structured("get_run", {"run_id": before["run_id"], "detail": True})
            assert (after["status"], after["actions"]) == ("awaiting_approval", before["actions"])
            assert len((await host.structured("list_runs"))["runs"]) == 1
            yes = {"decision": "approve", "tool": action["tool"], "arguments": action["arguments"]}
            view = await host.structured("approve_action", {"action_id": ids["ACTION"], **yes})
            again = await host.call("approve_action", {"action_id": ids["ACTION"], **yes}, within=10)
            assert again.is_error
            check_words(text_of(again), ids["ACTION"], "decided")
    assert (view["status"], kinds(view)) == ("succeeded", {"look": "succeeded", "post": "succeeded"})
    assert FOUND in view["step_list"][0]["summary"]
    assert len(toys.calls(tmp_path / "ledger.log", "add_item")) == 1
    await check_kept(tmp_path, view, "look", "post")


@pytest.mark.parametrize("era", ERAS)
async def test_the_longest_goal_and_context_that_are_allowed_are_taken(tmp_path: Path, era: Era) -> None:
    with anyio.fail_after(60):
        async with open_test_product(tmp_path, script=script(LOOK)) as (_, server), open_host(server, era=era) as host:
            given = {"goal": "ü" * 20_000, "context": "ü" * 200_000}
            view = await host.structured("plan_and_execute", given)
    assert view["status"] == "succeeded"
    await check_kept(tmp_path, view, "look")
