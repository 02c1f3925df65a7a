"""Tool servers of the older protocol, which ask while a call is open: whose question it is, and how long it waits."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from asking_shops import GOAL, ORDER, SETTINGS, log, open_shop, until_asked, until_logged, waiting, word
from mcp_hosts import open_host
from products import call_step, open_test_product, script
from tool_connections import open_older_http

from server.product import Request

pytestmark = pytest.mark.e2e


async def test_a_form_of_an_open_call_lapses_and_the_call_is_broken_off(tmp_path: Path) -> None:
    approvals: dict[str, Any] = {"approvals": {"min_answer_seconds": 0, "pending_hours": 0.5 / 3600}}
    async with open_shop(tmp_path, ORDER, older=True, **approvals) as (product, server), open_host(server) as host:
        view, action = await waiting(host)
        assert any("unanswered in time, it is broken off" in reason for reason in action["reasons"])
        with anyio.fail_after(20):
            while not view["actions"] or view["actions"][0]["kind"] != "unknown":
                view = await host.structured("get_run", {"run_id": view["run_id"], "wait_seconds": 1})
        form = await product.store.action(action["action_id"])
    assert (form.state, "cancelled" in log(tmp_path)) == ("expired", True)


async def test_cancelling_the_run_ends_the_open_call_and_its_form(tmp_path: Path) -> None:
    async with open_shop(tmp_path, ORDER, older=True) as (product, server), open_host(server) as host:
        view, action = await waiting(host)
        ended = await host.structured("cancel_run", {"run_id": view["run_id"]})
        form = await product.store.action(action["action_id"])
    assert (ended["status"], form.state) == ("cancelled", "superseded")
    assert "cancelled" in log(tmp_path)


async def test_an_older_server_is_called_again_once_an_address_was_opened(tmp_path: Path) -> None:
    step = call_step("see", "shop.visit_first")
    async with open_shop(tmp_path, step, older=True) as (_, server), open_host(server) as host:
        _, action = await waiting(host)
        assert action["arguments"]["url"] == "https://login.example/"
        done = await host.structured("approve_action", word(action))
    assert (done["status"], log(tmp_path)[-1]) == ("succeeded", "visited")


async def test_an_address_nobody_wants_to_open_fails_the_call(tmp_path: Path) -> None:
    step = call_step("see", "shop.visit_first")
    async with open_shop(tmp_path, step, older=True) as (_, server), open_host(server) as host:
        _, action = await waiting(host)
        done = await host.structured("approve_action", {"action_id": action["action_id"], "decision": "decline"})
    assert (done["status"], "visited" in log(tmp_path)) == ("failed", False)


async def test_a_question_that_belongs_to_no_call_is_declined(tmp_path: Path) -> None:
    step = call_step("tell", "shop.capabilities")
    async with open_shop(tmp_path, step, older=True) as (product, server), open_host(server) as host:
        view = await host.structured("plan_and_execute", GOAL)
        actions = await product.store.actions(view["run_id"])
    assert (view["status"], actions, log(tmp_path)[0]) == ("succeeded", [], "heard decline null")


async def test_of_two_runs_the_one_whose_call_is_left_is_asked(tmp_path: Path) -> None:
    async with open_shop(tmp_path, ORDER, older=True) as (product, server), open_host(server) as host:
        other = await product.start(Request("Hold on.", plan={"steps": [call_step("hold", "shop.hold")]}))
        await until_logged(tmp_path, "called hold")
        first = await host.structured("plan_and_execute", GOAL | {"wait_seconds": 0})
        await until_logged(tmp_path, "called order tea")
        (tmp_path / "go").touch()
        view, action = await until_asked(host, first["run_id"])
        assert 'shop writes: "order tea?"' in action["question"]
        done = await host.structured("approve_action", word(action, content={"size": "s"}))
        ended = await host.structured("get_run", {"run_id": other, "wait_seconds": 10})
    assert (done["status"], ended["status"]) == ("succeeded", "succeeded")
    assert view["warnings"] == ended["warnings"]


async def test_two_runs_that_ask_at_once_are_told_why_neither_was_answered(tmp_path: Path) -> None:
    hold = {"steps": [call_step("hold", "shop.hold", ask=True)]}
    async with open_shop(tmp_path, ORDER, older=True) as (product, server), open_host(server) as host:
        other = await product.start(Request("Hold on.", plan=hold))
        await until_logged(tmp_path, "called hold")
        view = await host.structured("plan_and_execute", GOAL)
        await until_logged(tmp_path, "hold heard decline null", "tea: decline null")
        (tmp_path / "go").touch()
        ended = await product.until(other, lambda run: run.ended)
        _, action = await waiting(host, context="Once more.")
    assert (view["status"], view["actions"], ended.status) == ("succeeded", [], "succeeded")
    assert all(any("did not say for which" in text for text in run) for run in (view["warnings"], ended.warnings))
    assert action["kind"] == "form"


async def test_over_http_each_of_two_runs_is_asked_its_own_question(tmp_path: Path) -> None:
    steps = {"steps": [call_step("buy", "shop.confirm", item="milk")]}
    said = script(call_step("buy", "shop.confirm", item="tea"))
    async with open_older_http(tmp_path / "shop.log", module="older_asking_http_server") as toy:
        servers = {"shop": {"type": "http", "url": toy.url}}
        async with (
            open_test_product(tmp_path, script=said, servers=servers, settings=SETTINGS) as (product, server),
            open_host(server) as host,
        ):
            other = await product.start(Request("Milk.", plan=steps))
            view, tea = await waiting(host)
            _, milk = await until_asked(host, other)
            assert ('"order tea?"' in tea["question"], '"order milk?"' in milk["question"]) == (True, True)
            await host.structured("approve_action", word(tea, content={"sure": True}))
            done = await host.structured("approve_action", {"action_id": milk["action_id"], "decision": "decline"})
            first = await host.structured("get_run", {"run_id": view["run_id"]})
    assert (first["status"], done["status"]) == ("succeeded", "succeeded")
    assert [line.strip() for line in log(tmp_path)] == ["tea: accept True", "milk: decline"]
