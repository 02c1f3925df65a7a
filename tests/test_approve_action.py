"""Decisions that come through hosts: what a model may pass on, what a form may say, and what neither can."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import toys
from mcp_hosts import Era, Host, open_host, text_of
from products import call_step, open_test_product, script

from journal.actions import Decision
from journal.errors import DecisionRefused
from server.host.edits import Editor, edit_action

pytestmark = pytest.mark.e2e

ERAS: list[Era] = ["legacy", "modern"]
KEEP = call_step("keep", "ledger.add_item", key="a", value="b")
DROP = call_step("drop", "ledger.drop_item", key="plan")
QUICK = {"approvals": {"min_answer_seconds": 0}}
GOAL = {"goal": "Do what is needed."}


async def start(host: Host, **given: Any) -> Any:
    """Have a run begin and come to its question; the view."""
    view = await host.structured("plan_and_execute", GOAL | given)
    assert view["status"] == "awaiting_approval", view
    return view


def exact(action: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
    """What passes on a yes, repeating tool and arguments."""
    names = {"action_id": action["action_id"], "decision": "approve"}
    return {**names, "tool": action["tool"], "arguments": action["arguments"], **changed}


async def test_a_yes_counts_only_if_it_repeats_exactly_what_is_approved(tmp_path: Path) -> None:
    log = tmp_path / "ledger.log"
    async with open_test_product(tmp_path, script=script(KEEP)) as (_, server), open_host(server) as host:
        (action,) = (await start(host))["actions"]
        short = [
            {"action_id": action["action_id"], "decision": "approve"},
            exact(action, tool=None),
            exact(action, tool="ledger__add_item"),
            exact(action, arguments={"key": "a", "value": "c"}),
            exact(action, arguments={"key": "a"}),
        ]
        for word in short:
            view = await host.structured("approve_action", word)
            assert [each["action_id"] for each in view["actions"]] == [action["action_id"]]
            assert "`tool` and `arguments` repeated exactly" in view["message"]
        assert toys.calls(log, "add_item") == []
        done = await host.structured("approve_action", exact(action))
        assert (done["status"], done["stop_reason"]) == ("succeeded", "done")
        again = await host.call("approve_action", exact(action))
    assert again.is_error
    assert "decided (approve) already" in text_of(again)
    assert len(toys.calls(log, "add_item")) == 1


@pytest.mark.parametrize(
    ("plan", "settings"),
    [([KEEP], {"approvals": {"approve_action": "person"}}), ([DROP], {})],
    ids=["settings want a person", "destructive"],
)
async def test_what_needs_a_person_is_not_moved_by_any_yes_of_a_host(
    tmp_path: Path, plan: list[Any], settings: dict[str, Any]
) -> None:
    async with (
        open_test_product(tmp_path, script=script(*plan), settings=settings) as (_, server),
        open_host(server) as host,
    ):
        (action,) = (await start(host))["actions"]
        view = await host.structured("approve_action", exact(action))
        assert [each["action_id"] for each in view["actions"]] == [action["action_id"]]
        assert "needs a yes of level person" in view["message"]
        assert f"approve {action['action_id']} --config {tmp_path}/steprelay.json" in view["message"]
        assert toys.calls(tmp_path / "ledger.log", "add_item", "drop_item") == []


async def test_a_persons_yes_lets_a_destructive_call_run_once(tmp_path: Path) -> None:
    async with open_test_product(tmp_path, script=script(DROP)) as (product, server), open_host(server) as host:
        view = await start(host)
        action = await product.store.action(view["actions"][0]["action_id"])
        await product.decide(action, Decision("approve", "person", "terminal"))
        done = await host.structured("get_run", {"run_id": view["run_id"], "wait_seconds": 30})
        while done["stop_reason"] is None:
            done = await host.structured("get_run", {"run_id": view["run_id"], "wait_seconds": 30})
    assert (done["status"], len(toys.calls(tmp_path / "ledger.log", "drop_item"))) == ("succeeded", 1)


@pytest.mark.parametrize("step", [KEEP, DROP], ids=["host", "person"])
async def test_a_no_needs_no_level_and_only_withdraws(tmp_path: Path, step: dict[str, Any]) -> None:
    async with open_test_product(tmp_path, script=script(step)) as (product, server), open_host(server) as host:
        (action,) = (await start(host))["actions"]
        word = {"action_id": action["action_id"], "decision": "deny", "note": "Not today."}
        view = await host.structured("approve_action", word)
        recorded = await product.store.action(action["action_id"])
    assert (view["status"], view["stop_reason"]) == ("partial", "refused") or view["stop_reason"] == "refused"
    assert (recorded.state, recorded.via, recorded.note) == ("withdrawn", "approve_action", "Not today.")
    assert toys.calls(tmp_path / "ledger.log", "add_item", "drop_item") == []


async def test_a_choice_that_the_action_does_not_have_is_an_error_that_names_its_choices(tmp_path: Path) -> None:
    async with open_test_product(tmp_path, script=script(KEEP)) as (_, server), open_host(server) as host:
        view = await start(host)
        action_id = view["actions"][0]["action_id"]
        wrong = await host.call("approve_action", {"action_id": action_id, "decision": "yes"})
        assert wrong.is_error
        assert f"action {action_id} (call) has no 'yes'; its choices: approve, deny" in text_of(wrong)
        assert len((await host.structured("get_run", {"run_id": view["run_id"]}))["actions"]) == 1


async def test_edited_arguments_run_nothing_and_wait_as_a_new_action_that_runs_as_edited(tmp_path: Path) -> None:
    log = tmp_path / "ledger.log"
    async with open_test_product(tmp_path, script=script(KEEP)) as (product, server), open_host(server) as host:
        (old,) = (await start(host))["actions"]
        edited = {"key": "a", "value": "edited"}
        view = await host.structured("approve_action", exact(old, edited_arguments=edited))
        (new,) = view["actions"]
        # Nobody knows where a host's model has the new words from.
        assert (new["arguments"], new["level"], view["status"]) == (edited, "person", "awaiting_approval")
        assert new["action_id"] != old["action_id"]
        gone = await host.call("approve_action", exact(old))
        assert gone.is_error
        assert toys.calls(log, "add_item") == []
        action = await product.store.action(new["action_id"])
        sql = "SELECT data FROM audit WHERE type = 'action.edited'"
        (line,) = await product.store.database.read(lambda tx: tx.rows(sql))
        told = json.loads(line["data"])
        assert (told["edit_of"], told["via"], told["client"]) == (old["action_id"], "approve_action", "test-host")
        await product.decide(action, Decision("approve", "person", "terminal"))
        run = await product.until(view["run_id"], lambda run: run.ended)
    assert run.status == "succeeded"
    assert [call["arguments"] for call in toys.calls(log, "add_item")] == [edited]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"decision": "deny"}, "go with decision 'approve'"),
        ({"edited_arguments": {"key": "a"}}, "value"),
        ({"edited_arguments": {"key": "a", "value": "\ud800"}}, "not plain JSON"),
    ],
    ids=["with a no", "that do not fit the tool", "that are no JSON"],
)
async def test_an_edit_that_cannot_be_asked_for_leaves_the_action_waiting(
    tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    async with open_test_product(tmp_path, script=script(KEEP)) as (product, server), open_host(server) as host:
        view = await start(host)
        (action,) = view["actions"]
        edit = {"edited_arguments": {"key": "a", "value": "c"}, **changed}
        refused = await host.call("approve_action", exact(action, **edit))
        assert refused.is_error
        assert told in text_of(refused)
        assert (await product.store.action(action["action_id"])).state == "waiting"


async def test_only_a_call_that_still_waits_is_edited(tmp_path: Path) -> None:
    async with open_test_product(tmp_path, script=script(KEEP)) as (product, server), open_host(server) as host:
        view = await start(host, review_plan=True)
        (plan,) = view["actions"]
        refused = await host.call("approve_action", exact(plan, edited_arguments={"steps": []}))
        assert f"action {plan['action_id']} (plan, waiting) cannot be edited: only calls" in text_of(refused)
        (call,) = (await host.structured("approve_action", exact(plan)))["actions"]
        before = await product.store.action(call["action_id"])
        await host.structured("approve_action", exact(call))
        editor = Editor("page", None)
        with pytest.raises(DecisionRefused, match="has been decided in the meantime"):
            await edit_action(product, before, {"key": "a", "value": "c"}, decision="approve", editor=editor)


async def test_what_is_too_long_to_be_shown_is_decided_elsewhere(tmp_path: Path) -> None:
    say: dict[str, Any] = {"id": "say", "kind": "compose", "title": "Say", "task": "Say it. " * 600}
    async with (
        open_test_product(tmp_path, script=script(say), servers={}) as (product, server),
        open_host(server) as host,
    ):
        (plan,) = (await start(host, review_plan=True))["actions"]
        assert plan["arguments"] is None
        whole = (await product.store.action(plan["action_id"])).arguments
        view = await host.structured("approve_action", exact(plan, arguments=whole))
    assert "what it does is too long to be shown here" in view["message"]
    assert len(view["actions"]) == 1


async def test_arguments_that_are_no_json_repeat_nothing(tmp_path: Path) -> None:
    async with open_test_product(tmp_path, script=script(KEEP)) as (_, server), open_host(server) as host:
        (action,) = (await start(host))["actions"]
        view = await host.structured("approve_action", exact(action, arguments={"key": "a", "value": "\ud800"}))
    assert len(view["actions"]) == 1


async def test_a_secret_in_the_arguments_is_approved_as_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret-value-1")
    step = call_step("keep", "ledger.add_item", key="a", value="it is s3cret-value-1")
    settings: dict[str, Any] = {"secrets": ["MY_TOKEN"], "policy": {"sinks": {"ledger.add_item": ["/key"]}}}
    async with (
        open_test_product(tmp_path, script=script(step), settings=settings) as (_, server),
        open_host(server) as host,
    ):
        (action,) = (await start(host))["actions"]
        assert action["arguments"] == {"key": "a", "value": "it is [secret:MY_TOKEN]"}
        done = await host.structured("approve_action", exact(action))
    assert done["status"] == "succeeded"
    assert toys.calls(tmp_path / "ledger.log", "add_item")[0]["arguments"]["value"] == "it is [secret:MY_TOKEN]"


async def test_three_refusals_in_a_row_end_the_run_with_what_it_has(tmp_path: Path) -> None:
    steps = [call_step(f"keep{number}", "ledger.add_item", key=str(number), value="b") for number in range(4)]
    async with open_test_product(tmp_path, script=script(*steps)) as (product, server), open_host(server) as host:
        view = await start(host)
        actions = [await product.store.action(action["action_id"]) for action in view["actions"]]
        for action in actions[:3]:
            await product.decide(action, Decision("deny", "person", "form"))
        ended = await product.until(view["run_id"], lambda run: run.ended)
        last = await product.store.action(actions[3].id)
    assert (ended.stop_reason, last.state) == ("refused", "withdrawn")
    assert toys.calls(tmp_path / "ledger.log", "add_item") == []
