"""Decisions that come through hosts: what a model may pass on, what a form may say, and what neither can."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from mcp.client import ClientRequestContext
from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult
from mcp_hosts import Era, Host, Person, answers, answers_nothing, cancels, declines, open_host, text_of
from mcp_types import InputResponses
from products import Opened, call_step, open_test_product, script

from journal.actions import Action, Decision
from journal.errors import DecisionRefused
from server.edits import edit_action

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
        assert f"action {plan['action_id']} (plan, waiting) cannot be edited" in text_of(refused)
        (call,) = (await host.structured("approve_action", exact(plan)))["actions"]
        before = await product.store.action(call["action_id"])
        await host.structured("approve_action", exact(call))
        with pytest.raises(DecisionRefused, match="has been decided in the meantime"):
            await edit_action(product, before, {"key": "a", "value": "c"}, decision="approve")


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
    assert toys.calls(tmp_path / "ledger.log", "add_item")[0]["arguments"]["value"] == "it is s3cret-value-1"


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


# Forms


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_answered_by_a_person_lets_the_run_go_on_within_the_call(tmp_path: Path, era: Era) -> None:
    person = answers(0, decision="approve", note="Fine.")
    async with (
        open_test_product(tmp_path, script=script(KEEP), settings=QUICK) as (product, server),
        open_host(server, era=era, on_elicit=person) as host,
    ):
        view = await host.structured("plan_and_execute", GOAL)
        (action,) = await product.store.actions(view["run_id"])
    assert (view["status"], len(toys.calls(tmp_path / "ledger.log", "add_item"))) == ("succeeded", 1)
    assert (action.via, action.decided_level, action.note) == ("form", "host", "Fine.")
    (asked,) = person.asked
    assert isinstance(asked, ElicitRequestFormParams)
    assert asked.message == action.question
    schema: Any = asked.requested_schema
    assert schema["required"] == ["decision"]
    assert schema["properties"]["decision"]["enum"] == ["approve", "deny"]
    assert "default" not in schema["properties"]["decision"]
    assert sorted(schema["properties"]) == ["decision", "note"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_no_in_a_form_is_a_persons(tmp_path: Path, era: Era) -> None:
    async with (
        open_test_product(tmp_path, script=script(KEEP), settings=QUICK) as (product, server),
        open_host(server, era=era, on_elicit=answers(0, decision="deny")) as host,
    ):
        view = await host.structured("plan_and_execute", GOAL)
        (action,) = await product.store.actions(view["run_id"])
    assert (view["stop_reason"], action.state, action.choice) == ("refused", "decided", "deny")


NOT_BY_A_PERSON: dict[str, Callable[[], Person]] = {
    "empty": lambda: answers_nothing(0),
    "declined": lambda: declines(0),
    "cancelled": cancels,
    "another choice": lambda: answers(0, decision="yes"),
    "no text": lambda: answers(0, decision=["approve"]),
    "a note that is no text": lambda: answers(0, decision="approve", note=5),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("how", NOT_BY_A_PERSON)
async def test_a_form_that_holds_no_decision_leaves_the_action_waiting(tmp_path: Path, era: Era, how: str) -> None:
    person = NOT_BY_A_PERSON[how]()
    async with (
        open_test_product(tmp_path, script=script(KEEP), settings=QUICK) as (_, server),
        open_host(server, era=era, on_elicit=person) as host,
    ):
        view = await start(host)
    assert (len(view["actions"]), len(person.asked)) == (1, 1)
    assert toys.calls(tmp_path / "ledger.log", "add_item") == []


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_faster_than_a_person_leaves_the_action_waiting(tmp_path: Path, era: Era) -> None:
    async with (
        open_test_product(tmp_path, script=script(KEEP)) as (_, server),
        open_host(server, era=era, on_elicit=answers(0, decision="approve")) as host,
    ):
        assert len((await start(host))["actions"]) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_is_shown_once_for_each_action_and_call(tmp_path: Path, era: Era) -> None:
    steps = [KEEP, call_step("more", "ledger.add_item", key="c", value="d"), DROP]
    person = declines(0)
    async with (
        open_test_product(tmp_path, script=script(*steps), settings=QUICK) as (_, server),
        open_host(server, era=era, on_elicit=person) as host,
    ):
        view = await start(host)
        messages = [asked.message for asked in person.asked]
        assert len(view["actions"]) == 3
        # That of level person is decided elsewhere.
        assert (len(messages), len(set(messages)), any("drop_item" in text for text in messages)) == (2, 2, False)
        again = await host.structured(
            "approve_action", {"action_id": view["actions"][0]["action_id"], "decision": "approve"}
        )
        assert (len(person.asked), len(again["actions"])) == (4, 3)


@pytest.mark.parametrize("era", ERAS)
async def test_a_bare_yes_shows_the_form_again_where_the_host_has_one(tmp_path: Path, era: Era) -> None:
    replies = [ElicitResult(action="cancel"), ElicitResult(action="accept", content={"decision": "approve"})]

    async def second_time(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return replies.pop(0)

    async with (
        open_test_product(tmp_path, script=script(KEEP), settings=QUICK) as (_, server),
        open_host(server, era=era, on_elicit=second_time) as host,
    ):
        (action,) = (await start(host))["actions"]
        done = await host.structured("approve_action", {"action_id": action["action_id"], "decision": "approve"})
    assert (done["status"], replies) == ("succeeded", [])


async def test_a_plan_is_shown_in_its_form(tmp_path: Path) -> None:
    person = answers(0, decision="approve")
    say: dict[str, Any] = {"id": "say", "kind": "compose", "title": "Say", "task": "Say it."}
    said = script(say, steps={"say": {"text": "Said."}})
    async with (
        open_test_product(tmp_path, script=said, servers={}, settings=QUICK) as (_, server),
        open_host(server, on_elicit=person) as host,
    ):
        view = await host.structured("plan_and_execute", GOAL | {"review_plan": True})
    assert view["status"] == "succeeded"
    assert '"Say it."' in person.asked[0].message


async def test_a_form_is_taken_away_once_somebody_decides_elsewhere(tmp_path: Path) -> None:
    shown, closed = anyio.Event(), anyio.Event()

    async def open_for_ever(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        shown.set()
        try:
            await anyio.sleep_forever()
        finally:
            closed.set()
        raise AssertionError

    async def decide_elsewhere(opened: Opened) -> None:
        await shown.wait()
        (action,) = await opened.product.store.waiting_actions()
        await opened.product.decide(action, Decision("approve", "person", "terminal"))

    async with open_test_product(tmp_path, script=script(KEEP)) as opened, anyio.create_task_group() as group:
        group.start_soon(decide_elsewhere, opened)
        async with open_host(opened.server, era="legacy", on_elicit=open_for_ever) as host:
            view = await host.structured("plan_and_execute", GOAL)
            assert view["status"] == "succeeded"
            with anyio.fail_after(5):
                await closed.wait()


async def test_an_older_host_that_never_shows_the_form_is_answered_in_time(tmp_path: Path) -> None:
    async def never(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        await anyio.sleep_forever()
        raise AssertionError

    async with (
        open_test_product(tmp_path, script=script(KEEP)) as (_, server),
        open_host(server, era="legacy", on_elicit=never) as host,
    ):
        waiting = await host.structured("plan_and_execute", GOAL | {"wait_seconds": 6})
        assert (waiting["status"], len(waiting["actions"])) == ("awaiting_approval", 1)
        done = await host.structured("approve_action", exact(waiting["actions"][0]))
    assert done["status"] == "succeeded"


# Rounds of protocol 2026-07-28, one by one


async def _round(host: Host, answer: Mapping[str, Any] | None = None, state: str | None = None) -> Any:
    """One raw request of `plan_and_execute`, with the answers to the round before."""
    responses: InputResponses = {
        key: ElicitResult(action="accept", content=dict(said)) for key, said in (answer or {}).items()
    }
    return await host.client.session.call_tool(
        "plan_and_execute", GOAL, input_responses=responses or None, request_state=state, allow_input_required=True
    )


async def _open_round(host: Host) -> tuple[str, str]:
    result = await _round(host)
    (action_id,) = result.input_requests
    return action_id, result.request_state


async def _forms(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    raise AssertionError("the rounds are done by hand")


async def test_a_state_is_used_once_and_a_stale_answer_gets_the_run_as_it_is(tmp_path: Path) -> None:
    async with (
        open_test_product(tmp_path, script=script(KEEP), settings=QUICK) as (product, server),
        open_host(server, era="modern", on_elicit=_forms) as host,
    ):
        action_id, state = await _open_round(host)
        nothing = await _round(host, {action_id: {}}, state)
        assert nothing.structured_content["status"] == "awaiting_approval"
        stale = await _round(host, {action_id: {"decision": "approve"}}, state)
        assert [each["action_id"] for each in stale.structured_content["actions"]] == [action_id]
        assert (await product.store.action(action_id)).state == "waiting"


async def test_a_state_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    async with (
        open_test_product(tmp_path, script=script(KEEP), settings=QUICK) as (_, server),
        open_host(server, era="modern", on_elicit=_forms) as host,
    ):
        action_id, state = await _open_round(host)
    async with (
        open_test_product(tmp_path, script=script(KEEP), settings=QUICK) as (_, server),
        open_host(server, era="modern", on_elicit=_forms) as host,
    ):
        done = await _round(host, {action_id: {"decision": "approve"}}, state)
    assert done.structured_content["status"] == "succeeded"
    assert len(toys.calls(tmp_path / "ledger.log", "add_item")) == 1


async def test_there_are_at_most_eight_rounds_of_questions(tmp_path: Path) -> None:
    steps = [
        call_step(
            f"keep{number}", "ledger.add_item", *([f"keep{number - 1}"] if number else []), key=str(number), value="v"
        )
        for number in range(9)
    ]
    person = answers(0, decision="approve")
    async with (
        open_test_product(tmp_path, script=script(*steps), settings=QUICK) as (_, server),
        open_host(server, era="modern", on_elicit=person) as host,
    ):
        view = await start(host)
    assert (view["steps"]["succeeded"], len(view["actions"]), len(person.asked)) == (8, 1, 8)


async def test_an_answer_for_an_action_that_was_not_asked_about_counts_for_nothing(tmp_path: Path) -> None:
    steps = [KEEP, DROP]
    async with (
        open_test_product(tmp_path, script=script(*steps), settings=QUICK) as (product, server),
        open_host(server, era="modern", on_elicit=_forms) as host,
    ):
        asked, state = await _open_round(host)
        run_id = (await product.store.action(asked)).run
        other: Action = next(action for action in await product.store.actions(run_id) if action.id != asked)
        await _round(host, {other.id: {"decision": "approve"}}, state)
        assert (await product.store.action(other.id)).state == "waiting"
    assert toys.calls(tmp_path / "ledger.log", "drop_item") == []
