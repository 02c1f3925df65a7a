"""The page in a real browser: a person's input decides, and nothing that a script or another site does."""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from browser import Tab, needs_chromium, open_tab
from page_visits import add_action
from products import call_step, open_test_product, script

from journal.actions import Action
from server.page.approver import keep_approver, new_approver
from server.page.opening import signed_in_address
from server.page.serving import open_page
from server.product import Product, Request

pytestmark = [pytest.mark.e2e, needs_chromium]

PICTURES = Path(__file__).parent.parent / "docs" / "images"
ITEM = "Ship on Monday, not on Friday.\nSafe: file\u202egpj.exe"
STEPS = [
    call_step("read", "ledger.read_item", key="plan"),
    call_step("keep", "ledger.add_item", "read", key="next", value=ITEM),
    call_step("drop", "ledger.drop_item", "keep", key="plan"),
]
SETTINGS: dict[str, Any] = {"approvals": {"min_answer_seconds": 0.5}, "policy": {"sinks": {"ledger.*": ["/key"]}}}
READY = "document.querySelector('button.yes') && !document.querySelector('button.yes').disabled"

FRAME = """(address) => (done) => {
    const frame = document.createElement("iframe");
    frame.src = address;
    frame.onload = () => done();
    document.body.append(frame);
}"""


@asynccontextmanager
async def open_waiting(folder: Path) -> AsyncGenerator[tuple[Product, str, str]]:
    """A run that waits for a call, its page served; with the run, and an address that signs in."""
    goal = Request("Replace the plan in the ledger by what is next.")
    async with open_test_product(folder, script=script(*STEPS), settings=SETTINGS) as (product, _):
        run_id = await product.start(goal)
        await product.until(run_id, lambda run: run.status == "awaiting_approval")
        async with open_page(product) as place:
            assert place is not None
            assert product.page.port is not None
            yield product, run_id, signed_in_address(place, product.page.port, product.store.world)


async def first_action(product: Product, run_id: str) -> Action:
    return (await product.store.actions(run_id))[0]


async def enter(tab: Tab, address: str) -> None:
    await tab.go(address)
    await tab.until(READY)
    assert await tab.run("location.href") == address.partition("#")[0]


async def test_a_scripts_click_is_ignored_and_a_persons_approves(tmp_path: Path) -> None:
    async with open_waiting(tmp_path) as (product, run_id, address), open_tab(tmp_path) as tab:
        await enter(tab, address)
        assert await tab.run("document.querySelector('pre:last-of-type').isConnected")
        shown = await tab.run("[...document.querySelectorAll('.arguments pre')].map((e) => e.textContent)")
        assert shown == ['"next"', "Ship on Monday, not on Friday.\nSafe: file\\u202egpj.exe"]
        await take_pictures(tab)
        await tab.run("document.querySelector('button.yes').click()")
        await tab.run("document.querySelector('button.yes').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
        await tab.run("document.querySelector('button.no').click()")
        await tab.run(
            "fetch('/api/decide', {method: 'POST', headers: {'content-type': 'application/json'}, body: '{}'})"
        )
        await tab.run("new Promise((done) => setTimeout(done, 300))")
        assert (await first_action(product, run_id)).state == "waiting"
        await tab.press("button.yes")
        await tab.until("document.querySelector('.badge.destructive')")
        decided = await first_action(product, run_id)
        assert (decided.choice, decided.decided_level, decided.via) == ("approve", "person", "page")
        await tab.press("button.no")
        run = await product.until(run_id, lambda run: run.ended)
        await tab.until("document.querySelector('#headline').textContent === 'Nothing waits for a decision.'")
    assert run.stop_reason == "refused"


async def take_pictures(tab: Tab) -> None:
    """What the documentation shows; written where it is asked for, since no two machines draw the same."""
    for scheme in ("light", "dark"):
        picture = await tab.picture(scheme=scheme, height=760)
        assert picture.startswith(b"\x89PNG")
        if os.environ.get("WRITE_PICTURES"):
            await anyio.Path(PICTURES).mkdir(exist_ok=True)
            await anyio.Path(PICTURES / f"page-{scheme}.png").write_bytes(picture)


async def test_another_origin_and_nobodys_browser_reach_nothing(tmp_path: Path) -> None:
    async with open_waiting(tmp_path) as (product, run_id, address), open_tab(tmp_path) as tab:
        base = address.partition("/#")[0]
        await tab.go(f"{base}/a/{(await first_action(product, run_id)).id}")
        await tab.until("document.querySelector('#how-in')?.textContent.includes('steprelay ui')")
        assert await tab.run("document.querySelectorAll('.action').length") == 0
        await enter(tab, address)
        # The same browser, signed in, at another site: the page can be neither read, framed nor written to.
        await tab.go("data:text/html,<title>evil</title>")
        await tab.until("document.title === 'evil'")
        tried = f"fetch('{base}/api/state', {{credentials: 'include'}}).then((a) => a.status, (e) => 'refused')"
        assert await tab.run(tried) == "refused"
        post = "{method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}'}"
        sent = f"fetch('{base}/api/session/end', {post})"
        assert await tab.run(f"{sent}.then((a) => a.type, (e) => 'refused')") in ("opaque", "refused")
        await tab.run(f"new Promise(({FRAME})({json.dumps(f'{base}/')}))")
        # What stands in the frame is the browser's own page that says so.
        assert await (await tab.frame()).run("location.href") == "chrome-error://chromewebdata/"
        await tab.go(f"{base}/")
        await tab.until(READY)
        assert (await first_action(product, run_id)).state == "waiting"


async def test_calls_of_a_plan_that_a_person_ticks_go_out_without_a_question(tmp_path: Path) -> None:
    plan = script(*STEPS[:2])
    async with open_test_product(tmp_path, script=plan, settings=SETTINGS) as (product, _), open_tab(tmp_path) as tab:
        run_id = await product.start(Request("Replace the plan by what is next.", review_plan=True))
        await product.until(run_id, lambda run: run.status == "awaiting_approval")
        async with open_page(product) as place:
            assert place is not None
            assert product.page.port is not None
            await enter(tab, signed_in_address(place, product.page.port, product.store.world))
            await tab.press(".grants input[value=keep]")
            await tab.press("button.yes")
            run = await product.until(run_id, lambda run: run.ended)
        asked = [action.kind for action in await product.store.actions(run_id)]
    assert (run.status, asked) == ("succeeded", ["plan"])


@pytest.mark.slow
async def test_a_person_signs_in_by_pin_edits_a_call_and_approves_what_then_waits(tmp_path: Path) -> None:
    keep_approver(new_approver("correct horse", with_codes=False))
    async with open_waiting(tmp_path) as (product, run_id, address), open_tab(tmp_path) as tab:
        await tab.go(address.partition("#")[0])
        await tab.until("document.querySelector('#pin-row')?.hidden === false")
        await tab.type("#pin", "correct horse")
        await tab.press("#enter")
        await tab.until(READY)
        await tab.press("button.open-editor")
        await tab.run(
            '(() => { document.querySelector(\'textarea\').value = \'{"key": "next", "value": "Other"}\' })()'
        )
        await tab.press("button.edit")
        await tab.until("[...document.querySelectorAll('pre.before')].some((e) => e.textContent.includes('Monday'))")
        await tab.until(READY)
        await tab.press("button.yes")
        await tab.until("document.querySelector('.badge.destructive')")
        first, second, *_ = await product.store.actions(run_id)
        await tab.press("#leave")
        await tab.until("!document.querySelector('#sign-in').hidden")
    assert (first.state, second.choice, second.arguments) == (
        "superseded",
        "approve",
        {"key": "next", "value": "Other"},
    )


@pytest.mark.slow
async def test_a_servers_form_is_filled_in_by_hand(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "size": {"type": "string", "enum": ["s", "m"]},
            "gift": {"type": "boolean"},
            "count": {"type": "integer"},
            "extras": {"type": "array", "items": {"type": "string", "enum": ["bow", "card"]}},
        },
        "required": ["name"],
    }
    arguments = {"server": "shop", "tool": "shop.order", "message": "Who?", "schema": schema}
    async with open_waiting(tmp_path) as (product, run_id, address), open_tab(tmp_path) as tab:
        await enter(tab, address)
        action = await add_action(product, run_id, kind="form", arguments=arguments, question="shop asks.")
        card = f"#{action.id}"
        await tab.until(f"document.querySelector('{card} button.yes:not(:disabled)')")
        await tab.type(f"{card} label:nth-of-type(1) input", "Ada")
        await tab.run(f"document.querySelectorAll('{card} select').forEach((s) => {{ s.value = '2' }})")
        await tab.type(f"{card} label:nth-of-type(4) input", "3")
        await tab.press(f"{card} input[value=card]")
        await tab.press(f"{card} button.yes")
        await tab.until(f"!document.querySelector('{card}')")
        decided = await product.store.action(action.id)
    assert decided.content == {"name": "Ada", "size": "m", "gift": False, "count": 3, "extras": ["card"]}
