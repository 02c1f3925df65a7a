"""Who approves a plan on the page may let its literal calls go out once without a further question."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from page_visits import Visit, open_visit
from products import call_step, open_test_product, script

from server.product import Product, Request

pytestmark = pytest.mark.e2e

LONG = "x" * 4_001
STEPS = [
    call_step("look", "ledger.read_item", key="plan"),
    call_step("keep", "ledger.add_item", key="next", value="Ship on Monday."),
    call_step("copy", "ledger.add_item", key="copy", value={"$step": "look.value"}),
    call_step("bulk", "ledger.add_item", key="bulk", value=LONG),
    call_step("drop", "ledger.drop_item", "keep", "copy", "bulk", key="plan"),
]
QUICK: dict[str, Any] = {"approvals": {"min_answer_seconds": 0}, "policy": {"sinks": {"ledger.*": ["/key"]}}}


@dataclass
class Reviewing:
    """A plan that waits for its review, and a person at the page."""

    product: Product
    visit: Visit
    run_id: str
    card: Any
    folder: Path

    async def waiting(self, number: int) -> list[str]:
        """The steps of so many actions, once they wait."""
        store = self.product.store
        with anyio.fail_after(20):
            while True:
                changed = store.bell.listen(self.run_id)
                steps = [str(each.step) for each in await store.actions(self.run_id) if each.state == "waiting"]
                if len(steps) == number:
                    return sorted(steps)
                await changed.wait()

    async def given(self) -> list[Any]:
        """What the audit says was granted."""
        sql = "SELECT data FROM audit WHERE type = 'grant.given' ORDER BY seq"
        rows = await self.product.store.database.read(lambda tx: tx.rows(sql))
        return [json.loads(row["data"]) for row in rows]


@asynccontextmanager
async def open_review(folder: Path) -> AsyncGenerator[Reviewing]:
    async with (
        open_test_product(folder, script=script(*STEPS), settings=QUICK) as (product, _),
        open_visit(product) as visit,
    ):
        run_id = await product.start(Request("Replace the plan by what is next.", review_plan=True))
        await product.until(run_id, lambda run: run.status == "awaiting_approval")
        await visit.sign_in()
        (card,) = await visit.actions()
        yield Reviewing(product, visit, run_id, card, folder)


async def test_what_is_ticked_goes_out_once_and_all_else_is_asked_about(tmp_path: Path) -> None:
    async with open_review(tmp_path) as review:
        shown = {each["step"]: (each["tool"], each["why"], each["arguments"]) for each in review.card["grants"]}
        assert shown == {
            "keep": ("ledger.add_item (write)", None, ['"key": "next"', '"value": "Ship on Monday."']),
            "copy": ("ledger.add_item (write)", "what another step fills in is not known yet", ['"key": "copy"']),
            "bulk": ("ledger.add_item", "its arguments are too long to be shown", []),
            "drop": ("ledger.drop_item (destructive)", None, ['"key": "plan"']),
        }
        done = await review.visit.choose(review.card, "approve", grants=["keep", "keep"])
        assert done.json() == {"message": "Recorded: approve. 1 call granted."}
        waiting = await review.waiting(2)
        with anyio.fail_after(20):
            await toys.wait_for_calls(tmp_path / "ledger.log", "add_item")
        (given,) = await review.given()
        called = [call["arguments"]["key"] for call in toys.calls(tmp_path / "ledger.log", "add_item")]
    assert (waiting, called) == (["bulk", "copy"], ["next"])
    assert (given["step"], given["tool"], given["uses"], given["level"]) == ("keep", "ledger.add_item", 1, "person")


@pytest.mark.parametrize("step", ["copy", "bulk", "look", "none"])
async def test_what_is_not_offered_is_not_granted_and_nothing_is_decided(tmp_path: Path, step: str) -> None:
    async with open_review(tmp_path) as review:
        refused = await review.visit.choose(review.card, "approve", grants=["keep", step])
        assert (refused.status_code, f"step {step} cannot be granted here" in refused.text) == (409, True)
        assert (await review.product.store.action(review.card["action_id"])).state == "waiting"
        assert await review.given() == []


async def test_a_plan_that_is_decided_already_gives_no_grants(tmp_path: Path) -> None:
    async with open_review(tmp_path) as review:
        assert (await review.visit.choose(review.card, "deny", grants=["keep"])).status_code == 200
        late = await review.visit.choose(review.card, "approve", grants=["keep"])
        assert (late.status_code, "already, once and for all" in late.text) == (409, True)
        assert await review.given() == []


async def test_a_plan_of_other_settings_offers_nothing(tmp_path: Path) -> None:
    async with open_review(tmp_path) as review:
        change = "UPDATE runs SET fingerprint = 'other' WHERE id = ?"
        await review.product.store.database.write("test", lambda tx: tx.change(change, (review.run_id,)))
        (card,) = await review.visit.actions()
        assert card["grants"] == []
