"""The panel in a real browser, inside the official host side of MCP Apps: only a person's input decides."""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest
import toys
from app_bridge import bundled, open_host_page
from browser import Tab, needs_chromium, open_tab
from products import call_step, open_test_product, script
from third_party import Missing

from downstream.servers.confirmed import confirmed_classes
from journal.actions import Action
from server.product import Product

pytestmark = [pytest.mark.e2e, needs_chromium]

PICTURES = Path(__file__).parent.parent / "docs" / "images"
GOAL = "Replace the plan in the ledger by what is next."
STEPS = [
    call_step("read", "ledger.read_item", key="plan"),
    call_step("keep", "ledger.add_item", "read", key="next", value="Ship on Monday.\nSafe: file\u202egpj.exe"),
    call_step("drop", "ledger.drop_item", "keep", key="plan"),
]
READY = "document.querySelector('button.yes') && !document.querySelector('button.yes').disabled"


@dataclass
class Shown:
    """The host's tab, the panel's frame in it, and the product behind both."""

    product: Product
    tab: Tab
    panel: Tab
    run_id: str

    async def press(self, selector: str) -> None:
        """Press the mouse on an element of the panel, as a person does: the host's window takes the input."""
        # Until the host has made room for all of it, things move.
        await self.panel.until("document.documentElement.scrollHeight <= innerHeight")
        place = await self.panel.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        frame = await self.tab.run(
            "(() => { const b = document.querySelector('iframe').getBoundingClientRect(); return [b.x, b.y]; })()"
        )
        x, y = (one + other for one, other in zip(place, frame, strict=True))
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            await self.tab.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def actions(self) -> list[Action]:
        return await self.product.store.actions(self.run_id)


@asynccontextmanager
async def open_shown(folder: Path, *steps: Any, trusted: bool = True, **asked: str) -> AsyncGenerator[Shown]:
    """A run that waits for a call, shown in the panel of a host."""
    host_script = bundled()
    if isinstance(host_script, Missing):
        pytest.skip(host_script.reason)  # no npm or registry here: the reason says which
    approvals = {"min_answer_seconds": 0.5, "trusted_hosts": ["bridge-host"] if trusted else []}
    settings: dict[str, Any] = {"approvals": approvals, "policy": {"sinks": {"ledger.*": ["/key"]}}}
    async with (
        open_test_product(folder, script=script(*(steps or STEPS)), settings=settings) as (product, server),
        open_host_page(server, host_script) as origin,
        open_tab(folder) as tab,
    ):
        await tab.go(f"{origin}/?{urlencode({'goal': GOAL} | asked)}")
        await tab.until("window.T && (T.opened || T.error)")
        assert await tab.run("T.error") is None
        yield Shown(product, tab, await tab.frame(), await tab.run("T.run.run_id"))


async def test_in_the_official_host_a_scripts_click_is_ignored_and_a_persons_approves(tmp_path: Path) -> None:
    async with open_shown(tmp_path) as shown:
        await shown.panel.until(READY)
        assert await shown.tab.run("T.modelTools") == [
            "plan_and_execute",
            "approve_action",
            "get_run",
            "list_runs",
            "cancel_run",
        ]
        assert await shown.tab.run("T.key && !T.modelSaw.includes(T.key)")
        plan = await shown.panel.run("[...document.querySelectorAll('svg.plan g')].map((g) => g.getAttribute('class'))")
        assert plan == ["succeeded", "waiting", "pending"]
        await take_pictures(shown)
        await shown.panel.run("document.querySelector('button.yes').click()")
        await shown.panel.run("document.querySelector('button.yes').dispatchEvent(new MouseEvent('click'))")
        await shown.panel.run("document.querySelector('button.no').click()")
        await shown.panel.run("new Promise((done) => setTimeout(done, 300))")
        assert [action.state for action in await shown.actions()] == ["waiting"]
        await shown.press("button.yes")
        await shown.panel.until("document.querySelector('.badge.destructive')")
        first, second = await shown.actions()
        assert (first.choice, first.decided_level, first.via, second.level) == ("approve", "person", "panel", "person")
        await shown.panel.until(READY)
        await shown.press("button.yes")
        run = await shown.product.until(shown.run_id, lambda run: run.ended)
        await shown.panel.until("document.querySelectorAll('svg.plan g.succeeded').length === 3")
        assert await shown.tab.run("T.said") == []
        assert await shown.tab.run("T.close().then(() => 'closed')") == "closed"
    assert (run.status, run.stop_reason) == ("succeeded", "done")


async def take_pictures(shown: Shown) -> None:
    """What the documentation shows; written where it is asked for, since no two machines draw the same."""
    height = await shown.panel.run("Math.ceil(document.body.getBoundingClientRect().height)")
    for theme in ("dark", "light"):
        await shown.tab.run(f"T.theme('{theme}')")
        await shown.panel.until(f"document.documentElement.style.colorScheme === '{theme}'")
        picture = await shown.tab.picture(scheme=theme, height=height)
        assert picture.startswith(b"\x89PNG")
        if os.environ.get("WRITE_PICTURES"):
            await anyio.Path(PICTURES / f"panel-{theme}.png").write_bytes(picture)


@pytest.mark.slow
async def test_a_model_of_the_host_that_calls_the_panels_tools_decides_nothing(tmp_path: Path) -> None:
    async with open_shown(tmp_path) as shown:
        await shown.panel.until(READY)
        (action,) = await shown.actions()
        named = {"run_id": shown.run_id, "action_id": action.id, "choice": "approve", "digest": action.hash}
        for key in ("", "guessed", action.hash):
            given = json.dumps(named | {"view_key": key})
            refused = await shown.tab.run(
                f"T.call('panel_decide', {given}).then((r) => [r.isError, r.content[0].text])"
            )
            assert (refused[0], "only steprelay's own panel" in refused[1]) == (True, True)
        assert [each.state for each in await shown.actions()] == ["waiting"]


@pytest.mark.slow
async def test_a_host_that_keeps_the_key_from_the_view_shows_where_else_to_decide(tmp_path: Path) -> None:
    async with open_shown(tmp_path, keeps_meta="1") as shown:
        await shown.panel.until("document.querySelector('#notice').textContent.includes('In a terminal: ')")
        assert await shown.panel.run("document.querySelectorAll('button').length") == 0


@pytest.mark.slow
async def test_on_a_host_that_is_not_trusted_a_person_decides_writes_and_nothing_worse(tmp_path: Path) -> None:
    async with open_shown(tmp_path, trusted=False) as shown:
        await shown.panel.until(READY)
        await shown.press("button.yes")
        await shown.panel.until("document.querySelector('.badge.destructive')")
        assert await shown.panel.run("document.querySelector('button.yes')") is None
        assert await shown.panel.run("document.querySelectorAll('button.open-editor').length") == 0
        elsewhere = await shown.panel.run("document.querySelector('#elsewhere:not([hidden])').textContent")
        assert elsewhere.startswith("Only on the page are calls edited: ")
        assert "A yes counts only elsewhere." in await shown.panel.run("document.querySelector('.told').textContent")
        await shown.press("button.no")
        run = await shown.product.until(shown.run_id, lambda run: run.ended)
        first, _ = await shown.actions()
    assert (first.decided_level, first.via, run.stop_reason) == ("host", "panel", "refused")


@pytest.mark.slow
async def test_a_person_edits_a_call_in_the_official_host_and_approves_what_then_waits(tmp_path: Path) -> None:
    typed = {"key": "next", "value": "Ship on Tuesday."}
    async with open_shown(tmp_path) as shown:
        await shown.panel.until(READY)
        await shown.press("button.open-editor")
        await shown.panel.run(f"(() => {{ document.querySelector('textarea').value = '{json.dumps(typed)}' }})()")
        await shown.panel.run("document.querySelector('button.edit').click()")
        await shown.panel.run("new Promise((done) => setTimeout(done, 300))")
        assert [action.state for action in await shown.actions()] == ["waiting"]
        await shown.press("button.edit")
        await shown.panel.until("document.querySelector('pre.before')?.textContent.includes('Monday')")
        old, new = await shown.actions()
        digest = await shown.panel.run("document.querySelector('.action .facts').textContent")
        assert new.hash[:8] in digest
        await shown.panel.until(READY)
        await shown.press("button.yes")
        await shown.panel.until("document.querySelector('.badge.destructive')")
        decided = await shown.product.store.action(new.id)
        assert await shown.tab.run("T.said") == []
    assert (old.state, new.edit_of, decided.arguments) == ("superseded", old.id, typed)
    assert (decided.choice, decided.decided_level, decided.via) == ("approve", "person", "panel")
    assert [call["arguments"] for call in toys.calls(tmp_path / "ledger.log", "add_item")] == [typed]


@pytest.mark.slow
async def test_a_person_classes_a_tool_in_the_official_host_and_the_run_goes_on(tmp_path: Path) -> None:
    confirm = ".tools article:has(select[aria-label$='ledger.unlabelled may do']) "
    async with open_shown(tmp_path, call_step("do", "ledger.unlabelled", x="it")) as shown:
        await shown.panel.until(f'document.querySelector("{confirm}button.yes:not(:disabled)")')
        assert await shown.panel.run(f'document.querySelector("{confirm}select").value') == "unknown"
        await shown.panel.run(f'(() => {{ document.querySelector("{confirm}select").value = "read" }})()')
        await shown.panel.run(f'document.querySelector("{confirm}button.yes").click()')
        # Once the panel has drawn all anew, what was chosen is still there.
        await shown.panel.run("(() => { document.querySelector('.run > .facts').textContent = 'old' })()")
        await shown.panel.until("document.querySelector('.run > .facts').textContent !== 'old'")
        assert await confirmed_classes(shown.product.store.remembered) == {}
        await shown.press(f"{confirm}button.yes")
        run = await shown.product.until(shown.run_id, lambda run: run.ended)
        await shown.panel.until(f'!document.querySelector("{confirm}")')
        classes = await confirmed_classes(shown.product.store.remembered)
    assert (run.status, list(classes.values())) == ("succeeded", ["read"])
