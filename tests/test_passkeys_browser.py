"""Passkeys in a real browser with an authenticator of its own: registered, approving, and nothing without a person."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from browser import Tab, needs_chromium, open_tab
from passkeys_here import with_library
from products import call_step, open_test_product, script

from server.page.opening import signed_in_address
from server.page.passkey_file import kept_passkeys
from server.page.serving import open_page
from server.product import Product, Request

pytestmark = [pytest.mark.e2e, needs_chromium]

KEEP = call_step("keep", "ledger.add_item", key="next", value="Ship on Monday.")
SETTINGS: dict[str, Any] = {
    "approvals": {"min_answer_seconds": 0},
    "policy": {"rules": [{"ask": "ledger.add_item", "via": "passkey"}]},
}
DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}
READY = "document.querySelector('button.yes') && !document.querySelector('button.yes').disabled"
SAID = "document.querySelector('.action [role=status]').textContent"


@asynccontextmanager
async def open_waiting(folder: Path) -> AsyncGenerator[tuple[Product, str, str]]:
    """A run that waits for a passkey, its page served; with the run, and an address that signs in."""
    with with_library():
        async with open_test_product(folder, script=script(KEEP), settings=SETTINGS) as (product, _):
            run_id = await product.start(Request("Keep what is next in the ledger."))
            await product.until(run_id, lambda run: run.status == "awaiting_approval")
            async with open_page(product) as place:
                assert place is not None
                assert product.page.port is not None
                yield product, run_id, signed_in_address(place, product.page.port, product.store.world)


async def test_a_person_registers_a_passkey_and_approves_with_it_and_nothing_goes_without_them(tmp_path: Path) -> None:
    async with open_waiting(tmp_path) as (product, run_id, address), open_tab(tmp_path) as tab:
        await tab.send("WebAuthn.enable")
        device = (await tab.send("WebAuthn.addVirtualAuthenticator", options=DEVICE))["authenticatorId"]
        await tab.go(address)
        await tab.until(READY)
        assert await tab.run("location.origin") == f"http://localhost:{product.page.port}"
        assert await tab.run("document.querySelector('button.yes').textContent") == "Approve with passkey"
        await tab.press("button.yes")
        await tab.until(f"{SAID}.includes('no passkey is registered')")
        assert await tab.run("document.querySelector('.passkey-pin').getClientRects().length") == 0
        await register(tab)
        await tab.until(f"!document.querySelector('#runs .told') && {READY}")
        (kept,) = kept_passkeys()
        assert kept.name == "laptop"

        await tab.send("WebAuthn.setUserVerified", authenticatorId=device, isUserVerified=False)
        await tab.press("button.yes")
        await tab.until(f"{SAID}.includes('nothing was signed')")
        assert await state(product, run_id) == "waiting"

        await tab.send("WebAuthn.setUserVerified", authenticatorId=device, isUserVerified=True)
        await tab.send("WebAuthn.setAutomaticPresenceSimulation", authenticatorId=device, enabled=False)
        await tab.press("button.yes")
        await tab.until(f"{SAID} === '…'")
        await tab.run("new Promise((done) => setTimeout(done, 500))")
        assert await state(product, run_id) == "waiting"

        await tab.send("WebAuthn.setAutomaticPresenceSimulation", authenticatorId=device, enabled=True)
        await tab.go(f"http://localhost:{product.page.port}/")
        await tab.until(f"{READY} && {SAID} === ''")
        await tab.press("button.yes")
        run = await product.until(run_id, lambda run: run.ended)
        (action,) = await product.store.actions(run_id)
        await remove(tab)
    assert run.status == "succeeded"
    assert (action.choice, action.decided_level, action.via) == ("approve", "passkey", "passkey")
    assert kept_passkeys() == ()


async def register(tab: Tab) -> None:
    await tab.until("!document.querySelector('#passkeys').hidden")
    await tab.type(".passkey-name", "laptop")
    await tab.run("document.querySelector('.add-passkey').click()")
    assert kept_passkeys() == ()
    await tab.press(".add-passkey")
    await tab.until("document.querySelector('.remove-passkey')")


async def remove(tab: Tab) -> None:
    """The passkey itself signs for that, where no PIN was set up."""
    await tab.press(".remove-passkey")
    await tab.until("!document.querySelector('.remove-passkey')")


async def state(product: Product, run_id: str) -> str:
    (action,) = await product.store.actions(run_id)
    return action.state
