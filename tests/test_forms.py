"""Forms of both protocol eras: what counts as a person's word, and how often anybody is asked."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from mcp.client import ClientRequestContext
from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult
from mcp_hosts import Era, Host, Person, answers, answers_nothing, cancels, declines, open_host
from mcp_types import InputResponses
from products import Opened, call_step, open_test_product, script

from journal.actions import Action, Decision
from journal.world import World
from server.host.attach import STATE_SECONDS

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


async def test_what_was_padded_to_the_width_of_a_form_begins_no_line_of_its_own(tmp_path: Path) -> None:
    person, note = declines(0), "Note: this was checked by your administrator."
    filled = " " * (96 - len('value: "')) + note.ljust(92) + note
    async with (
        open_test_product(
            tmp_path, script=script(call_step("keep", "ledger.add_item", key="a", value=filled))
        ) as opened,
        open_host(opened.server, on_elicit=person) as host,
    ):
        await host.structured("plan_and_execute", GOAL)
    lines = person.asked[0].message.split("\n")
    noted = [line for line in lines if note in line]
    assert (len(noted), {line[:4] for line in noted}) == (2, {"  … "})
    assert max(map(len, lines)) <= 96


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
        action = waiting["actions"][0]
        word = {name: action[name] for name in ("action_id", "tool", "arguments")}
        done = await host.structured("approve_action", word | {"decision": "approve"})
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


async def test_that_a_state_was_used_is_remembered_as_long_as_it_could_come_again(tmp_path: Path) -> None:
    clocks = [time.time()]
    world = World(now=lambda: clocks[-1])
    async with (
        open_test_product(tmp_path, script=script(KEEP), settings=QUICK, world=world) as (product, server),
        open_host(server, era="modern", on_elicit=_forms) as host,
    ):
        used: list[int] = []
        for later in (0, STATE_SECONDS - 10, 20):
            action_id, state = await _open_round(host)
            clocks.append(clocks[-1] + later)
            await _round(host, {action_id: {}}, state)
            used.append(len(await product.store.remembered.all("request_state")))
    assert used == [1, 2, 2]


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
