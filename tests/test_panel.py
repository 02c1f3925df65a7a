"""The panel: what a host is given of it, and every way in which its buttons could be pressed by somebody else."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp_hosts import Era, text_of
from page_visits import add_action
from panel_hosts import META, PanelHost, open_panel_host
from products import Opened, call_step, open_test_product, script

from journal.actions import Action
from journal.world import World
from server.page.approver import keep_approver, new_approver, totp
from server.panel.resource import PANEL_URI, panel_html
from server.panel.tools import PANEL_TOOLS
from server.product import Product

ERAS: list[Era] = ["legacy", "modern"]
WRITE = call_step("keep", "ledger.add_item", key="next", value="Ship on Monday.")
DROP = call_step("drop", "ledger.drop_item", key="plan")
APP_ONLY = {"panel_state", "panel_decide", "panel_edit", "panel_class"}


class Clock:
    """Time that a test moves on."""

    def __init__(self) -> None:
        self.ahead = 0.0
        real = World()
        self.world = World(now=lambda: real.now() + self.ahead, monotonic=lambda: real.monotonic() + self.ahead)


@asynccontextmanager
async def open_settled(
    folder: Path, *steps: Any, clock: Clock | None = None, **approvals: Any
) -> AsyncGenerator[Opened]:
    given = {"min_answer_seconds": 0, "trusted_hosts": ["trusted-host"]} | approvals
    world = clock.world if clock else None
    settings = {"approvals": given}
    async with open_test_product(folder, script=script(*steps), settings=settings, world=world) as opened:
        yield opened


async def shown(host: PanelHost) -> Any:
    """The one action of a run that was just begun, as the panel shows it."""
    await host.show("plan_and_execute", goal="Do what is needed.")
    (card,) = (await host.state())["run"]["actions"]
    return card


async def stored(product: Product, card: Any) -> Action:
    return await product.store.action(card["action_id"])


def model_sees(result: Any) -> str:
    """What hosts hand to a model of a result."""
    return json.dumps([[part.model_dump(mode="json") for part in result.content], result.structured_content])


@pytest.mark.parametrize("era", ERAS)
async def test_every_client_is_told_of_the_panel_and_models_are_spared_its_tools(tmp_path: Path, era: Era) -> None:
    lists: list[Any] = []
    async with open_settled(tmp_path, WRITE) as (_, server):
        for shows in (True, False):
            async with open_panel_host(server, era=era, shows=shows) as host:
                tools = {tool.name: tool.meta or {} for tool in (await host.client.list_tools()).tools}
                lists.append(tools)
                contents = (await host.client.read_resource(PANEL_URI)).contents
                extensions = (
                    (host.client.server_capabilities.extensions or {}) if host.client.server_capabilities else {}
                )
                assert extensions == ({EXTENSION_ID: {}} if era == "modern" else {})
    assert lists[0] == lists[1]
    panels = {name: meta["ui"] for name, meta in lists[0].items() if "ui" in meta}
    assert {name: ui["resourceUri"] for name, ui in panels.items()} == dict.fromkeys(
        ["plan_and_execute", "approve_action", "get_run", *APP_ONLY], PANEL_URI
    )
    assert {name for name, ui in panels.items() if ui.get("visibility") == ["app"]} == APP_ONLY
    assert lists[0]["get_run"]["ui/resourceUri"] == PANEL_URI
    assert [content.mime_type for content in contents] == [APP_MIME_TYPE]
    assert contents[0].meta == {"ui": {"csp": {}, "prefersBorder": True}}


def test_the_panels_tools_set_all_hints_and_describe_what_they_take() -> None:
    for tool in PANEL_TOOLS:
        listed = tool.listed()
        assert listed.annotations is not None
        assert None not in listed.annotations.model_dump(exclude={"title"}).values()
        assert listed.input_schema["additionalProperties"] is False
        assert all(said.get("description") for said in listed.input_schema["properties"].values())


def test_the_document_holds_all_it_needs_and_neither_markup_from_data_nor_words_for_the_model() -> None:
    html = panel_html()
    assert (html.count("<script>"), html.count("</script>"), html.count("<style>"), html.count("</style>")) == (
        1,
        1,
        1,
        1,
    )
    policy = re.findall(r'content="(default-src[^"]*)"', html)[0]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert re.findall(r"\bhttps?://(?!www\.w3\.org/2000/svg)", html) == []
    for word in (
        "innerHTML",
        "eval(",
        "fetch(",
        "ui/message",
        "ui/update-model-context",
        "registerTool",
        "localStorage",
    ):
        assert word not in html, word


@pytest.mark.parametrize("era", ERAS)
async def test_a_press_on_a_trusted_host_is_a_persons_yes_and_its_key_is_seen_by_no_model(
    tmp_path: Path, era: Era
) -> None:
    async with open_settled(tmp_path, DROP) as (product, server), open_panel_host(server, era=era) as host:
        result = await host.show("plan_and_execute", goal="Do what is needed.")
        assert host.key
        assert host.key not in model_sees(result)
        state = await host.state()
        (card,) = state["run"]["actions"]
        assert card["title"] == "Call ledger.drop_item (destructive) once, with exactly these arguments?"
        assert (card["level"], card["choices"][0]["name"]) == ("person", "approve")
        assert state["run"]["steps"][0]["status"] == "waiting"
        assert host.key not in json.dumps(state)
        done = await host.choose(card, "approve", note="Go on.")
        assert done.structured_content == {"message": "Recorded: approve."}
        run = await product.until(host.run_id, lambda run: run.ended)
        action = await stored(product, card)
        again = await host.choose(card, "approve")
        late = await host.state()
        listed = await host.client.call_tool("list_runs", {})
    assert META not in (listed.meta or {})
    assert (late["message"], listed.is_error) == (run.message, False)
    assert run.status == "succeeded"
    assert (action.choice, action.decided_level, action.via, action.note) == ("approve", "person", "panel", "Go on.")
    assert (again.is_error, "already, once and for all" in text_of(again)) == (True, True)
    assert (late["run"]["status"], late["run"]["actions"]) == ("succeeded", [])


async def test_no_press_counts_but_one_with_this_panels_key_for_what_it_shows(tmp_path: Path) -> None:
    async with (
        open_settled(tmp_path, WRITE) as (product, server),
        open_panel_host(server) as host,
        open_panel_host(server) as same,
        open_panel_host(server, name="another-host") as other,
        open_panel_host(server, shows=False) as silent,
    ):
        card = await shown(host)
        await same.show("plan_and_execute", goal="Something else.", idempotency_key="other")
        await other.show("get_run", run_id=host.run_id)
        bare = await silent.show("get_run", run_id=host.run_id)
        assert (META in (bare.meta or {}), silent.key, other.key == host.key) == (False, "", False)
        silent.key = host.key
        pressed = [
            await host.choose(card, "approve", view_key=""),
            await host.choose(card, "approve", view_key="guessed"),
            await host.choose(card, "approve", view_key="é"),
            await host.choose(card, "approve", view_key=same.key),
            await host.choose(card, "approve", view_key=other.key),
            await silent.choose(card, "approve"),
            await host.client.call_tool("panel_state", {"run_id": host.run_id, "view_key": "guessed"}),
            await silent.client.call_tool("panel_state", {"run_id": host.run_id, "view_key": host.key}),
        ]
        assert [result.is_error for result in pressed] == [True] * len(pressed)
        assert ["only steprelay's own panel may call this" in text_of(result) for result in pressed] == [True] * 8
        assert "has not declared" in text_of(pressed[5])
        without = await host.client.call_tool("panel_decide", {"action_id": card["action_id"], "choice": "approve"})
        assert "argument 'view_key' is missing" in text_of(without)
        foreign = await same.choose(card, "approve")
        changed = await host.choose(card, "approve", digest="0" * 64)
        unknown = await host.choose(card, "maybe")
        assert ["not what was shown in this panel" in text_of(each) for each in (foreign, changed)] == [True] * 2
        assert "has no 'maybe'" in text_of(unknown)
        assert (await stored(product, card)).state == "waiting"
        tried = await refusals(product)
    assert tried == [("panel_decide", "trusted-host")] * 6 + [("panel_state", "trusted-host")] * 2


async def refusals(product: Product) -> list[tuple[str, str]]:
    """What the audit says of calls that no panel made: tool and client of each."""
    sql = "SELECT data FROM audit WHERE type = 'panel.refused' ORDER BY seq"
    lines = [json.loads(row["data"]) for row in await product.store.database.read(lambda tx: tx.rows(sql))]
    return [(line["tool"], line["client"]) for line in lines]


async def test_an_edited_call_voids_what_the_panel_showed_and_is_shown_with_what_it_was(tmp_path: Path) -> None:
    async with open_settled(tmp_path, WRITE) as (_, server), open_panel_host(server) as host:
        card = await shown(host)
        edit = {"key": "next", "value": "Ship on Tuesday."}
        given = {"action_id": card["action_id"], "decision": "approve", "edited_arguments": edit}
        await host.client.call_tool("approve_action", given)
        assert "is superseded already" in text_of(await host.choose(card, "approve"))
        (now,) = (await host.state())["run"]["actions"]
    assert now["action_id"] != card["action_id"]
    assert [argument["before"] for argument in now["arguments"] if argument["changed"]] == ['"Ship on Monday."']


async def test_a_yes_counts_only_after_it_was_shown_long_enough_and_a_no_at_once(tmp_path: Path) -> None:
    clock = Clock()
    async with (
        open_settled(tmp_path, WRITE, clock=clock, min_answer_seconds=1.5) as (product, server),
        open_panel_host(server) as host,
    ):
        await host.show("plan_and_execute", goal="Do what is needed.")
        (action,) = await product.store.actions(host.run_id)
        unseen = {"action_id": action.id, "digest": action.hash}
        scripted = await host.choose(unseen, "approve")
        assert (await host.state())["min_seconds"] == 1.5
        soon = await host.choose(unseen, "approve")
        assert ["shown less than 1.5 s ago" in text_of(each) for each in (scripted, soon)] == [True, True]
        clock.ahead += 2
        assert not (await host.choose(unseen, "deny")).is_error
        run = await product.until(host.run_id, lambda run: run.ended)
    assert run.stop_reason == "refused"


@pytest.mark.parametrize(
    ("step", "approvals", "worth"),
    [(WRITE, {}, "host"), (WRITE, {"approve_action": "person"}, None), (DROP, {}, None)],
    ids=["a write", "a write where settings want a person", "a destructive call"],
)
async def test_on_a_host_that_is_not_trusted_the_panel_is_worth_what_approve_action_is(
    tmp_path: Path, step: Any, approvals: Any, worth: str | None
) -> None:
    async with (
        open_settled(tmp_path, step, **approvals) as (product, server),
        open_panel_host(server, name="another-host") as host,
    ):
        product.page.port = 20_001
        card = await shown(host)
        assert [choice["name"] for choice in card["choices"]] == (["approve", "deny"] if worth else ["deny"])
        pressed = await host.choose(card, "approve")
        action = await stored(product, card)
    assert (action.decided_level, pressed.is_error) == (worth, worth is None)
    if worth is None:
        assert "approvals.trusted_hosts in the settings does not name this client" in text_of(pressed)
        assert f"On the page: http://127.0.0.1:20001/a/{action.id} or in a terminal:" in card["told"][-1]


async def test_what_needs_a_passkey_is_refused_and_told_where_it_is_decided(tmp_path: Path) -> None:
    async with open_settled(tmp_path, WRITE) as (product, server), open_panel_host(server) as host:
        await host.show("plan_and_execute", goal="Do what is needed.")
        action = await add_action(product, host.run_id, level="passkey")
        pressed = await host.choose({"action_id": action.id, "digest": action.hash}, "approve")
        assert f"action {action.id} (level passkey) cannot be approved in this panel; get_run" in text_of(pressed)
        assert (await product.store.action(action.id)).state == "waiting"


async def test_with_an_authenticator_app_each_yes_needs_a_code_that_is_used_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "state" / "steprelay").mkdir(parents=True)
    approver = new_approver("132435", with_codes=True)
    keep_approver(approver)
    async with open_settled(tmp_path, DROP) as (product, server), open_panel_host(server) as host:
        card = await shown(host)
        assert (await host.state())["asks_codes"] is True
        leaked = await host.choose(card, "approve")
        assert "not the present code" in text_of(leaked)
        code = totp(approver.seed or "", int(product.store.world.now() // 30))
        assert not (await host.choose(card, "approve", code=code)).is_error
        action = await stored(product, card)
    assert action.decided_level == "person"
