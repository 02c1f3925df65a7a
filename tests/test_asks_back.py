"""Tool servers that ask a person: a form of the run, answered by its user and by nobody else, in both eras."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from asking_shops import GOAL, ORDER, log, open_shop, waiting, word
from mcp_hosts import Era, answers, open_host
from products import call_step

from journal.actions import Decision
from server.replaying import replay_run

pytestmark = pytest.mark.e2e

ERAS: list[Era] = ["legacy", "modern"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("older", [False, True], ids=["newer-server", "older-server"])
async def test_a_servers_form_is_filled_in_by_the_hosts_user(tmp_path: Path, era: Era, older: bool) -> None:
    filled: dict[str, Any] = {"size": "m"} if older else {"sure": True}
    person = answers(0, decision="submit", **filled)
    async with (
        open_shop(tmp_path, ORDER, older=older) as (product, server),
        open_host(server, era=era, on_elicit=person) as host,
    ):
        view = await host.structured("plan_and_execute", GOAL)
        (action,) = await product.store.actions(view["run_id"])
        events = json.dumps([event.data for event in await product.store.events(view["run_id"])])
    assert (view["status"], action.kind, action.via, action.content) == ("succeeded", "form", "form", filled)
    (asked,) = person.asked
    schema: Any = getattr(asked, "requested_schema", None)
    assert set(schema["properties"]) == {"decision", *filled}
    assert schema["required"] == ["decision", *filled]
    assert asked.message.startswith("shop asks for input before it goes on with shop.order.")
    assert 'shop writes: "order tea?"' in asked.message
    assert '"size": "m"' not in events
    last = log(tmp_path)[-1]
    assert last == ('tea: accept {"size": "m"}' if older else "tea: True")


@pytest.mark.parametrize("older", [False, True], ids=["newer-server", "older-server"])
async def test_without_forms_in_the_host_its_model_passes_on_what_the_user_filled_in(
    tmp_path: Path, older: bool
) -> None:
    filled: dict[str, Any] = {"size": "m"} if older else {"sure": True}
    async with open_shop(tmp_path, ORDER, older=older) as (_, server), open_host(server) as host:
        view, action = await waiting(host)
        assert view["status"] == ("running" if older else "awaiting_approval")
        assert (action["kind"], action["choices"], action["level"]) == ("form", ["submit", "decline"], "host")
        assert "content as they filled it in, and arguments as in actions[0]" in view["next_actions"][0]
        bare = await host.structured(
            "approve_action", {"action_id": action["action_id"], "decision": "submit", "content": filled}
        )
        assert "`arguments` repeated exactly" in bare["message"]
        none = await host.structured("approve_action", word(action))
        wrong = await host.structured("approve_action", word(action, content={"size": 5, "sure": "x", "more": 1}))
        assert (" is missing" in none["message"], len(wrong["actions"])) == (True, 1)
        assert ("takes" in wrong["message"], 'no field "more"' in wrong["message"]) == (True, True)
        done = await host.structured("approve_action", word(action, content=filled))
    assert done["status"] == "succeeded"


@pytest.mark.parametrize(
    "older", [pytest.param(False, marks=pytest.mark.slow), True], ids=["newer-server", "older-server"]
)
async def test_a_declined_form_is_declined_to_the_server(tmp_path: Path, older: bool) -> None:
    step = ORDER if older else call_step("join", "shop.sign_up")
    async with open_shop(tmp_path, step, older=older) as (_, server), open_host(server) as host:
        _, action = await waiting(host)
        done = await host.structured("approve_action", {"action_id": action["action_id"], "decision": "decline"})
    assert done["status"] == "succeeded"
    assert log(tmp_path)[-1] == ("tea: decline null" if older else '{"action": "decline"}')


@pytest.mark.parametrize("era", [pytest.param("legacy", marks=pytest.mark.slow), "modern"])
async def test_fields_are_checked_and_shown_in_quotes_with_the_servers_name(tmp_path: Path, era: Era) -> None:
    person = answers(0, decision="submit", mail="ann@example.org", age=17, plan="b")
    async with (
        open_shop(tmp_path, call_step("join", "shop.sign_up")) as (_, server),
        open_host(server, era=era, on_elicit=person) as host,
    ):
        view, action = await waiting(host)
        assert view["message"].endswith('what was filled in does not fit: "age" takes a whole number from 18 to 120.')
        assert any("api_key" in reason and "secret" in reason for reason in action["reasons"])
        person.content = {"decision": "submit", "mail": "ann@example.org", "age": 18.0, "plan": "b", "api_key": None}
        done = await host.structured("approve_action", {"action_id": action["action_id"], "decision": "submit"})
    schema: Any = getattr(person.asked[0], "requested_schema", None)
    assert schema["properties"]["mail"]["title"] == '"Your e-mail"'
    assert schema["properties"]["mail"]["description"] == 'shop writes: "[Click](http://x)"'
    assert schema["properties"]["plan"]["description"] == 'shop writes: "a" is "Small"; "b" is "Large"'
    assert (schema["required"], "\x1b" in person.asked[0].message) == (["decision", "mail", "age"], False)
    assert done["status"] == "succeeded", done
    said = {"action": "accept", "content": {"mail": "ann@example.org", "age": 18, "plan": "b"}}
    assert json.loads(log(tmp_path)[-1]) == said


async def test_an_address_is_shown_whole_and_never_opened(tmp_path: Path) -> None:
    step = call_step("see", "shop.visit")
    async with open_shop(tmp_path, step) as (_, server), open_host(server) as host:
        view, action = await waiting(host)
        assert "http://me@bücher.example/pay?n=1" in action["question"]
        assert "Its host is xn--bcher-kva.example." in action["question"]
        assert len(action["reasons"]) == 3
        assert "no content, and arguments" in view["next_actions"][0]
        with_content = await host.structured("approve_action", word(action, content={"x": 1}))
        assert "nothing to fill in" in with_content["message"]
        done = await host.structured("approve_action", word(action))
    assert (done["status"], log(tmp_path)) == ("succeeded", ['{"action": "accept"}'])


async def test_what_is_no_form_is_declined_with_a_warning(tmp_path: Path) -> None:
    async with open_shop(tmp_path, call_step("see", "shop.nested")) as (_, server), open_host(server) as host:
        view = await host.structured("plan_and_execute", GOAL)
    assert (view["status"], log(tmp_path)) == ("succeeded", ['{"action": "decline"}'])
    assert any("cannot be shown; it was declined" in warning for warning in view["warnings"])


@pytest.mark.parametrize(
    "older", [pytest.param(False, marks=pytest.mark.slow), True], ids=["newer-server", "older-server"]
)
async def test_a_server_that_asks_for_ever_is_given_up(tmp_path: Path, older: bool) -> None:
    person = answers(0, decision="submit", size="m")
    async with (
        open_shop(tmp_path, call_step("nag", "shop.pester"), older=older) as (product, server),
        open_host(server, on_elicit=person) as host,
    ):
        view = await host.structured("plan_and_execute", GOAL)
        with anyio.fail_after(20):
            while view["status"] == "running":
                view = await host.structured("get_run", {"run_id": view["run_id"], "wait_seconds": 1})
        steps = await product.store.steps(view["run_id"])
    kinds = [action["kind"] for action in view["actions"]]
    if older:
        # Its call was under way all the time.
        assert (kinds, len(person.asked)) == (["unknown"], 8)
    else:
        assert "asked for input 8 times in one call and then again" in steps[0].summary


async def test_a_form_waits_through_a_restart_and_the_call_is_made_once(tmp_path: Path) -> None:
    asking: dict[str, Any] = {"policy": {"rules": [{"ask": "shop.*"}]}}
    async with open_shop(tmp_path, ORDER, **asking) as (product, server), open_host(server) as host:
        view, action = await waiting(host)
        assert action["kind"] == "call"
        yes = word(action, "approve", tool=action["tool"])
        view = await host.structured("approve_action", yes)
        (action,) = view["actions"]
        assert (action["kind"], log(tmp_path)) == ("form", [])
        usage = view["usage"]["tool_calls"]
    async with open_shop(tmp_path, ORDER, **asking) as (product, server), open_host(server) as host:
        done = await host.structured("approve_action", word(action, content={"sure": False}))
        intents = await product.store.intents(view["run_id"])
        replayed = await replay_run(product.store, product.settings, view["run_id"])
    assert (done["status"], done["actions"], log(tmp_path)) == ("succeeded", [], ["tea: False"])
    assert [(intent.state, intent.sends) for intent in intents] == [("done", 2)]
    assert (usage, list(replayed.differences)) == (1, [])


@pytest.mark.slow
async def test_a_form_nobody_fills_in_fails_its_step_after_the_pending_time(tmp_path: Path) -> None:
    approvals: dict[str, Any] = {"approvals": {"min_answer_seconds": 0, "pending_hours": 0.5 / 3600}}
    async with open_shop(tmp_path, ORDER, **approvals) as (product, server), open_host(server) as host:
        view = await host.structured("plan_and_execute", GOAL)
        with anyio.fail_after(20):
            while view["stop_reason"] is None:
                view = await host.structured("get_run", {"run_id": view["run_id"], "wait_seconds": 1})
        steps = await product.store.steps(view["run_id"])
    assert (view["status"], log(tmp_path)) == ("failed", [])
    assert "about what shop asked" in steps[0].summary


@pytest.mark.parametrize("older", [False, True], ids=["newer-server", "older-server"])
async def test_a_server_is_offered_forms_and_addresses_and_nothing_else(tmp_path: Path, older: bool) -> None:
    step = call_step("tell", "shop.capabilities")
    async with open_shop(tmp_path, step, older=older) as (product, server), open_host(server) as host:
        view = await host.structured("plan_and_execute", GOAL)
        rows = await product.store.database.read(
            lambda tx: tx.rows("SELECT value FROM memo WHERE run = ? AND name = 'tool'", (view["run_id"],))
        )
    said = json.loads(json.loads(rows[0]["value"])["called"]["text"])
    assert said == {"elicitation": {"form": {}, "url": {}}}


async def test_an_answer_that_came_another_way_and_does_not_fit_is_asked_for_again(tmp_path: Path) -> None:
    async with open_shop(tmp_path, ORDER) as (product, server), open_host(server) as host:
        view, action = await waiting(host)
        kept = await product.store.action(action["action_id"])
        await product.decide(kept, Decision("submit", "person", "page", content={"sure": "perhaps"}))
        with anyio.fail_after(20):
            while action["action_id"] in [each["action_id"] for each in view["actions"]] or not view["actions"]:
                view = await host.structured("get_run", {"run_id": view["run_id"], "wait_seconds": 1})
        kept = await product.store.action(action["action_id"])
    assert (kept.state, view["actions"][0]["arguments"]) == ("superseded", action["arguments"])
