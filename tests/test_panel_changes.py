"""In the panel of a trusted host a person changes a call's arguments and says what a tool is, as on the page."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import toys
from mcp_hosts import Era, text_of
from page_visits import add_action, open_visit
from panel_hosts import PanelHost, open_panel_host
from products import Opened, call_step, open_test_product, script

from downstream.servers.confirmed import confirmed_classes
from journal.world import World
from server.page.approver import keep_approver, new_approver, totp
from server.product import Product

pytestmark = pytest.mark.e2e

ERAS: list[Era] = ["legacy", "modern"]
WRITE = call_step("keep", "ledger.add_item", key="next", value="Ship on Monday.")
DO = call_step("do", "ledger.unlabelled", x="it")
TUESDAY = {"key": "next", "value": "Ship on Tuesday."}
CANNED = Path(__file__).parent / "support" / "toy_servers" / "canned_server.py"
UNTRUSTED = "approvals.trusted_hosts in the settings does not name this client"


@asynccontextmanager
async def open_settled(folder: Path, *steps: Any, world: World | None = None, **other: Any) -> AsyncGenerator[Opened]:
    seconds = 0 if world is None else 1.5
    given = {"approvals": {"min_answer_seconds": seconds, "trusted_hosts": ["trusted-host"]}}
    settings = given | {"policy": other.pop("policy", {})}
    async with open_test_product(folder, script=script(*steps), settings=settings, world=world, **other) as opened:
        yield opened


async def shown(host: PanelHost, goal: str = "Do what is needed.") -> Any:
    """What the panel shows of a run that was just begun."""
    await host.show("plan_and_execute", goal=goal)
    return await host.state()


def only(state: Any) -> Any:
    """The card of the one action that waits."""
    (card,) = state["run"]["actions"]
    return card


async def audited(product: Product, type_: str) -> list[Any]:
    sql = "SELECT data FROM audit WHERE type = ? ORDER BY seq"
    rows: Any = await product.store.database.read(lambda tx: tx.rows(sql, (type_,)))
    return [json.loads(row["data"]) for row in rows]


@pytest.mark.parametrize("era", ERAS)
async def test_an_edit_runs_nothing_and_what_then_is_approved_is_what_was_edited(tmp_path: Path, era: Era) -> None:
    async with open_settled(tmp_path, WRITE) as (product, server), open_panel_host(server, era=era) as host:
        first = only(await shown(host))
        assert json.loads(first["editable"]) == {"key": "next", "value": "Ship on Monday."}
        done = await host.edit(first, TUESDAY)
        assert done.structured_content == {"message": "Nothing has run. The call with your arguments waits now."}
        assert toys.calls(tmp_path / "ledger.log", "add_item") == []
        assert "is superseded already" in text_of(await host.choose(first, "approve"))
        second = only(await host.state())
        assert {
            each["name"]: (each["value"], each["before"], each["from"][0]["text"]) for each in second["arguments"]
        } == {
            "key": ('"next"', None, "written by hand"),
            "value": ('"Ship on Tuesday."', '"Ship on Monday."', "written by hand"),
        }
        assert "its arguments were edited" in second["reasons"]
        old_digest = await host.choose(second | {"digest": first["digest"]}, "approve")
        assert "is not what was shown in this panel" in text_of(old_digest)
        assert not (await host.choose(second, "approve")).is_error
        run = await product.until(host.run_id, lambda run: run.ended)
        before, after = await product.store.actions(host.run_id)
        edited = await audited(product, "action.edited")
    (called,) = toys.calls(tmp_path / "ledger.log", "add_item")
    assert (run.status, called["arguments"]) == ("succeeded", TUESDAY)
    assert (before.state, after.state, after.edit_of) == ("superseded", "consumed", before.id)
    assert (after.hash, after.arguments) == (second["digest"], TUESDAY)
    assert (after.choice, after.decided_level, after.via) == ("approve", "person", "panel")
    assert [(each["action_id"], each["via"], each["client"]) for each in edited] == [
        (after.id, "panel", "trusted-host")
    ]


async def test_what_the_page_and_the_panel_show_of_an_edited_call_is_the_same(tmp_path: Path) -> None:
    async with (
        open_settled(tmp_path, WRITE) as (product, server),
        open_panel_host(server) as host,
        open_visit(product) as visit,
    ):
        assert not (await host.edit(only(await shown(host)), TUESDAY)).is_error
        await visit.sign_in()
        (on_the_page,) = await visit.actions()
        assert only(await host.state()) == on_the_page


async def test_an_edit_that_does_not_hold_leaves_the_call_waiting_as_it_is(tmp_path: Path) -> None:
    denied = {"rules": [{"deny": "ledger.add_item", "when": {"/key": {"prefix": "root"}}}]}
    async with (
        open_settled(tmp_path, WRITE, policy=denied) as (product, server),
        open_panel_host(server) as host,
        open_panel_host(server) as same,
    ):
        card = only(await shown(host))
        await same.show("plan_and_execute", goal="Something else.", idempotency_key="other")
        for typed, told in (
            ("{", "the arguments are no JSON"),
            ("[1]", "the arguments are no JSON object"),
            ({"key": 1}, "do not fit"),
            ({"key": "root", "value": "x"}, "may not be called so"),
        ):
            assert told in text_of(await host.edit(card, typed)), typed
        no_call = await add_action(product, host.run_id, kind="widen", level="person", key="w", subject="w")
        state = await host.state()
        widen = next(each for each in state["run"]["actions"] if each["kind"] == "widen")
        assert widen["editable"] is None
        for refused, told in (
            (await host.edit(card, TUESDAY, digest="0" * 64), "is not what was shown in this panel"),
            (await same.edit(card, TUESDAY), "is not what was shown in this panel"),
            (await host.edit({"action_id": no_call.id, "digest": no_call.hash}, {}), "only calls that wait can be"),
            (await host.edit(card, TUESDAY, view_key="guessed"), "only steprelay's own panel may call this"),
            (await host.edit(card, " " * 2**20 + "{}"), "at most 1048576 are taken"),
        ):
            assert told in text_of(refused)
        first = (await product.store.actions(host.run_id))[0]
        assert (first.id, first.state, await audited(product, "action.edited")) == (card["action_id"], "waiting", [])


async def test_where_the_host_is_not_trusted_no_call_is_edited_and_no_edit_is_approved(tmp_path: Path) -> None:
    async with (
        open_settled(tmp_path, WRITE) as (product, server),
        open_panel_host(server, name="another-host") as host,
    ):
        state = await shown(host)
        card = only(state)
        assert (card["editable"], [choice["name"] for choice in card["choices"]]) == (None, ["approve", "deny"])
        assert state["elsewhere"].startswith("Only on the page are calls edited: `")
        assert " ui --config " in state["elsewhere"]
        product.page.port = 20_001
        assert (await host.state())["elsewhere"] == "Only on the page are calls edited: http://127.0.0.1:20001/"
        refused = text_of(await host.edit(card, TUESDAY))
        where = f"http://127.0.0.1:20001/a/{card['action_id']}"
        assert (
            refused == f"action {card['action_id']} cannot be edited in this panel: {UNTRUSTED}; the page can: {where}"
        )
        by_host = {"action_id": card["action_id"], "decision": "approve", "edited_arguments": TUESDAY}
        await host.client.call_tool("approve_action", by_host)
        edited = only(await host.state())
        assert [choice["name"] for choice in edited["choices"]] == ["deny"]
        pressed = text_of(await host.choose(edited, "approve"))
        assert f"cannot be approved in this panel: {UNTRUSTED}" in pressed
        assert (await product.store.action(edited["action_id"])).state == "waiting"
        assert not (await host.choose(edited, "deny")).is_error
        await product.until(host.run_id, lambda run: run.ended)
        assert (await host.state())["elsewhere"] is None


async def test_what_needs_a_passkey_can_be_edited_and_needs_one_still(tmp_path: Path) -> None:
    passkey = {"rules": [{"ask": "ledger.add_item", "via": "passkey"}]}
    async with open_settled(tmp_path, WRITE, policy=passkey) as (_, server), open_panel_host(server) as host:
        assert not (await host.edit(only(await shown(host)), TUESDAY)).is_error
        edited = only(await host.state())
        assert (edited["level"], [choice["name"] for choice in edited["choices"]]) == ("passkey", ["deny"])
        assert "(level passkey) cannot be approved in this panel" in text_of(await host.choose(edited, "approve"))


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_is_classed_once_for_all_runs_and_the_call_that_waits_goes_on(tmp_path: Path, era: Era) -> None:
    async with open_settled(tmp_path, DO) as (product, server), open_panel_host(server, era=era) as host:
        state = await shown(host)
        card = next(each for each in state["tools"] if each["tool"] == "ledger.unlabelled")
        assert (card["words"], card["takes"]) == ('"Do something that nobody described."', ["x"])
        assert (card["proposed"], state["elsewhere"]) == ("unknown", None)
        assert state["classes"] == ["read", "egress", "write", "destructive", "unknown"]
        for refused, told in (
            (await host.class_tool(card | {"pin": "other"}, "read"), "no tool of this definition waits to be classed"),
            (await host.class_tool(card | {"tool": "ledger.other"}, "read"), "waits to be classed"),
            (await host.class_tool(card, "safe"), "tool_class takes one of"),
            (await host.class_tool(card, "read", view_key="guessed"), "only steprelay's own panel may call this"),
        ):
            assert told in text_of(refused)
        assert await confirmed_classes(product.store.remembered) == {}
        done = await host.class_tool(card, "read")
        assert done.structured_content == {
            "message": "ledger.unlabelled is read from now on, as long as its definition stays."
        }
        run = await product.until(host.run_id, lambda run: run.ended)
        (asked,) = await product.store.actions(host.run_id)
        assert (run.status, asked.state) == ("succeeded", "superseded")
        left = (await host.state())["tools"]
        assert "ledger.unlabelled" not in [each["tool"] for each in left]
        assert len(left) == len(state["tools"]) - 1
        again = await host.show("plan_and_execute", goal="Do it again.")
        classed = await audited(product, "tool.classed")
    assert (again.structured_content or {})["status"] == "succeeded"
    assert [(each["tool"], each["class"], each["level"], each["client"]) for each in classed] == [
        ("ledger.unlabelled", "read", "person", "trusted-host")
    ]


async def test_the_page_and_the_panel_propose_the_same_and_one_word_counts_at_both(tmp_path: Path) -> None:
    async with (
        open_settled(tmp_path, DO) as (product, server),
        open_panel_host(server) as host,
        open_visit(product) as visit,
    ):
        state = await shown(host)
        await visit.sign_in()
        on_the_page = (await visit.get("/api/tools")).json()
        assert on_the_page == {"tools": state["tools"], "classes": state["classes"]}
        card = state["tools"][0]
        assert not (await host.class_tool(card, "unknown")).is_error
        assert card not in (await visit.get("/api/tools")).json()["tools"]
        late = await visit.post("/api/classes", {"tool": card["tool"], "pin": card["pin"], "class": "read"})
        assert "no tool of this definition waits to be classed" in late.text


async def test_a_panel_classes_tools_of_servers_that_its_run_asked_about_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "canned.json").write_text(json.dumps({"give": {"content": []}}))
    canned = toys.entry([sys.executable, str(CANNED), str(tmp_path / "canned.json"), "bare"])
    servers = {"ledger": toys.entry(toys.ledger(tmp_path / "ledger.log")), "canned": canned}
    async with (
        open_settled(tmp_path, WRITE, DO, servers=servers) as (product, server),
        open_panel_host(server) as host,
        open_visit(product) as visit,
    ):
        state = await shown(host)
        assert {each["tool"].partition(".")[0] for each in state["tools"]} == {"ledger"}
        await visit.sign_in()
        listed = (await visit.get("/api/tools")).json()["tools"]
        other = next(each for each in listed if each["tool"] == "canned.give")
        assert "no tool of this definition waits" in text_of(await host.class_tool(other, "read"))
        sql = "UPDATE runs SET origin = '{\"import\": {}}' WHERE id = ?"
        await product.store.database.write("test", lambda tx: tx.change(sql, (host.run_id,)))
        brought_along = await host.state()
        assert (brought_along["run"]["actions"], brought_along["tools"]) == ([], [])
        assert "no tool of this definition waits" in text_of(await host.class_tool(state["tools"][0], "read"))
        assert await confirmed_classes(product.store.remembered) == {}


async def test_a_run_that_asked_about_no_unknown_tool_has_none_to_be_classed(tmp_path: Path) -> None:
    async with open_settled(tmp_path, WRITE) as (_, server), open_panel_host(server) as host:
        assert (await shown(host))["tools"] == []


async def test_where_the_host_is_not_trusted_no_tool_is_classed_and_the_panel_says_where(tmp_path: Path) -> None:
    async with (
        open_settled(tmp_path, DO) as (product, server),
        open_panel_host(server) as trusted,
        open_panel_host(server, name="another-host") as host,
    ):
        product.page.port = 20_001
        card = (await shown(trusted))["tools"][0]
        await host.show("get_run", run_id=trusted.run_id)
        state = await host.state()
        where = "http://127.0.0.1:20001/"
        assert (state["tools"], state["elsewhere"]) == (
            [],
            f"Only on the page are calls edited and tools classed: {where}",
        )
        refused = text_of(await host.class_tool(card, "read"))
        assert refused == f"no tool can be classed in this panel: {UNTRUSTED}; the page can: {where}"
        assert await confirmed_classes(product.store.remembered) == {}


async def test_an_edit_and_a_class_count_only_after_they_were_shown_long_enough(tmp_path: Path) -> None:
    real, ahead = World(), [0.0]
    world = World(now=lambda: real.now() + ahead[0], monotonic=lambda: real.monotonic() + ahead[0])
    async with (
        open_settled(tmp_path, DO, world=world) as (product, server),
        open_panel_host(server) as host,
        open_visit(product) as visit,
    ):
        await visit.sign_in()
        await host.show("plan_and_execute", goal="Do what is needed.")
        (action,) = await product.store.actions(host.run_id)
        card = {"action_id": action.id, "digest": action.hash}
        assert "shown less than 1.5 s ago" in text_of(await host.edit(card, {"x": "other"}))
        tool = (await host.state())["tools"][0]
        soon = "was shown less than 1.5 s ago; read it, then press again"
        assert text_of(await host.class_tool(tool, "read")) == f"tool {tool['tool']} {soon}"
        on_the_page = {"tool": tool["tool"], "pin": tool["pin"], "class": "read"}
        assert soon in (await visit.post("/api/classes", on_the_page)).json()["error"]
        await visit.get("/api/tools")
        ahead[0] += 2
        assert not (await host.edit(card, {"x": "other"})).is_error
        assert (await visit.post("/api/classes", on_the_page)).status_code == 200


async def test_with_an_authenticator_app_a_class_needs_a_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "state" / "steprelay").mkdir(parents=True)
    approver = new_approver("132435", with_codes=True)
    keep_approver(approver)
    async with open_settled(tmp_path, DO) as (product, server), open_panel_host(server) as host:
        card = (await shown(host))["tools"][0]
        assert "not the present code" in text_of(await host.class_tool(card, "read"))
        assert await confirmed_classes(product.store.remembered) == {}
        code = totp(approver.seed or "", int(product.store.world.now() // 30))
        assert not (await host.class_tool(card, "read", code=code)).is_error
