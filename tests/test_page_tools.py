"""Tools that say nothing of themselves: a person classes each once, for exactly its definition."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import toys
from page_visits import open_visit
from products import call_step, open_test_product, script

from downstream.servers.confirmed import NotToConfirm, confirm, confirmed_classes, mark_of, proposed, with_confirmed
from downstream.tools import Tool, ToolClass
from server.product import Product, Request

QUICK = {"approvals": {"min_answer_seconds": 0}}
DO = call_step("do", "ledger.unlabelled", x="it")


def tool(name: str, description: str = "", class_: ToolClass = "unknown") -> Tool:
    return Tool("web", name, f"web__{name}", "", description, {"type": "object"}, None, {}, class_)


@pytest.mark.parametrize(
    ("name", "description", "class_"),
    [
        ("get_issue", "", "read"),
        ("listFiles", "", "read"),
        ("search", "Searches the web for pages.", "egress"),
        ("search", "Searches your notes.", "read"),
        ("fetch_url", "", "egress"),
        ("create_issue", "", "write"),
        ("get_or_create", "", "write"),
        ("delete_file", "", "destructive"),
        ("list_and_delete", "", "destructive"),
        ("run", "", "destructive"),
        ("frobnicate", "Gets things.", "unknown"),
    ],
)
def test_the_class_proposed_is_that_of_the_most_careful_verb(name: str, description: str, class_: str) -> None:
    assert proposed(tool(name, description)) == class_


def test_a_word_holds_for_one_definition_and_never_against_the_settings_or_annotations() -> None:
    known, reworded, written = tool("look"), tool("look", "Other words."), tool("look", class_="destructive")
    elsewhere = replace(known, entry="another command")
    classed = with_confirmed([known, reworded, written, elsewhere], {mark_of(known): "read", mark_of(written): "read"})
    assert [each.class_ for each in classed] == ["read", "unknown", "destructive", "unknown"]


async def asked(product: Product, goal: str) -> bool:
    """Whether a run of this goal asks anybody anything."""
    run_id = await product.start(Request(goal))
    run = await product.until(run_id, lambda run: run.ended or run.status == "awaiting_approval")
    return not run.ended


@pytest.mark.e2e
async def test_what_a_person_confirms_lets_waiting_calls_go_on_and_asks_no_more(tmp_path: Path) -> None:
    async with (
        open_test_product(tmp_path, script=script(DO), settings=QUICK) as (product, _),
        open_visit(product) as visit,
    ):
        assert (await visit.get("/api/tools")).status_code == 401
        assert (await visit.post("/api/classes", {"tool": "", "pin": "", "class": "read"})).status_code == 401
        await visit.sign_in()
        assert (await visit.get("/api/tools")).json()["tools"] == []
        run_id = await product.start(Request("Do it."))
        await product.until(run_id, lambda run: run.status == "awaiting_approval")
        listed = (await visit.get("/api/tools")).json()
        card = next(each for each in listed["tools"] if each["tool"] == "ledger.unlabelled")
        assert card["words"] == '"Do something that nobody described."'
        assert (card["takes"], card["proposed"]) == (["x"], "unknown")
        assert listed["classes"] == ["read", "egress", "write", "destructive", "unknown"]
        for pin, class_, status in (("other", "read", 409), (card["pin"], "safe", 400)):
            assert (
                await visit.post("/api/classes", {"tool": card["tool"], "pin": pin, "class": class_})
            ).status_code == status
        done = await visit.post("/api/classes", {"tool": card["tool"], "pin": card["pin"], "class": "read"})
        assert done.json()["message"] == "ledger.unlabelled is read from now on, as long as its definition stays."
        run = await product.until(run_id, lambda run: run.ended)
        assert (run.status, (await product.store.actions(run_id))[0].state) == ("succeeded", "superseded")
        assert not await asked(product, "Do it again.")
        assert card["pin"] not in [each["pin"] for each in (await visit.get("/api/tools")).json()["tools"]]
        rows: Any = await product.store.database.read(
            lambda tx: tx.rows("SELECT data FROM audit WHERE type = 'tool.classed'")
        )
        assert ['"class":"read"' in row["data"] and '"level":"person"' in row["data"] for row in rows] == [True]


@pytest.mark.e2e
async def test_a_tool_confirmed_as_unknown_is_shown_no_more_and_goes_on_asking(tmp_path: Path) -> None:
    async with (
        open_test_product(tmp_path, script=script(DO), settings=QUICK) as (product, _),
        open_visit(product) as visit,
    ):
        assert await asked(product, "Do it.")
        await visit.sign_in()
        for card in (await visit.get("/api/tools")).json()["tools"]:
            assert (
                await visit.post("/api/classes", {"tool": card["tool"], "pin": card["pin"], "class": "unknown"})
            ).status_code == 200
        assert (await visit.get("/api/tools")).json()["tools"] == []
        assert await asked(product, "Do it again.")
        assert set((await confirmed_classes(product.store.remembered)).values()) == {"unknown"}
        with pytest.raises(NotToConfirm, match="is write already; `effects` in the settings"):
            await confirm(product.store, tool("add", class_="write"), "read", client="me")


@pytest.mark.e2e
async def test_a_word_holds_for_one_server_though_another_lists_an_equal_tool(tmp_path: Path) -> None:
    servers = {name: toys.entry(toys.ledger(tmp_path / f"{name}.log")) for name in ("ours", "theirs")}
    calls = [call_step(name, f"{name}.unlabelled", x="it") for name in servers]
    async with (
        open_test_product(tmp_path, script=script(*calls), servers=servers, settings=QUICK) as (product, _),
        open_visit(product) as visit,
    ):
        assert await asked(product, "Do it.")
        await visit.sign_in()
        cards = {card["tool"]: card for card in (await visit.get("/api/tools")).json()["tools"]}
        ours = cards["ours.unlabelled"]
        assert ours["pin"] == cards["theirs.unlabelled"]["pin"]
        said = {"tool": ours["tool"], "pin": ours["pin"], "class": "read"}
        assert (await visit.post("/api/classes", said)).status_code == 200
        assert await asked(product, "Do it again.")
        left = [card["tool"] for card in (await visit.get("/api/tools")).json()["tools"]]
    assert ("ours.unlabelled" in left, "theirs.unlabelled" in left) == (False, True)
    assert toys.calls(tmp_path / "theirs.log", "unlabelled") == []
