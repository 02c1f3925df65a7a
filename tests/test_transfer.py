"""`runs export` and `runs import`: the same run in another store, where nothing changes it any more."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from journals import LIMITS, change, create, dump, open_own_store, rows, take
from mcp_hosts import open_host, text_of
from products import open_test_product
from pydantic import BaseModel

from journal.actions import Decision, NewAction, supersede
from journal.archive.bundle import (
    ActionRow,
    ArtifactRow,
    AuditRow,
    BadBundle,
    EventRow,
    IntentRow,
    LedgerRow,
    MemoRow,
    RunRow,
    StepLine,
    read_bundle,
)
from journal.archive.transfer import About, AlreadyHere, collected, content_of, import_bundle, pieces
from journal.artifacts import ArtifactLimits, ArtifactNotKept, NewArtifact
from journal.errors import StoreError
from journal.events import NewEvent
from journal.intents import NewIntent
from journal.ledger import Amount, Reservation
from journal.outlet import Outlet
from journal.read_only import ReadOnlyRun
from journal.run_journal import Ending, Meaning
from journal.schema import VERSION
from journal.steps import StepRow
from journal.store import Store, open_store
from journal.world import World

ABOUT = About([{"server": "mail", "name": "send"}], {"revise": "never"})
ASKED = NewAction("step.s@0/call.1/approval", "call", "person", "Send it?", {"to": "ann"}, {"b": 1}, "mail", step="s")
MADE = NewIntent("c_1", "s", "mail.send", "write", {"to": "ann"}, "hash")
CONTENT = b"\x00\xff whole " * 500


async def full_run(store: Store) -> str:
    """A run that waits, with something in each table."""
    run_id = await create(store, idempotency_key="key", options={"budget": {"usd": 1}})
    journal = await take(store, run_id)
    step = StepRow("s", 0, 1, "call", "Send", None, False, False, "pending", "", {"id": "s"}, None, None)
    await journal.put_plan([step], events=[NewEvent("plan.accepted", {"version": 1}, step="s", call="c_1")])
    key = "step.s@0/call.0"
    await journal.begin_call(Reservation(key, Amount(tool_calls=1, usd=0.5), step="s"), intent=MADE)
    await journal.end_call(key, Meaning("tool", 1), {"called": None}, intent="done")
    await journal.record("nothing", Meaning("null", 1), None)
    await journal.artifacts.add(run_id, NewArtifact("s", "c_1", "text/plain", CONTENT, frozenset({"user", "plan"})))
    await journal.ask(ASKED)
    assert await journal.park(None)
    return run_id


async def document_of(store: Store, run_id: str) -> str:
    document = await collected(store, run_id, about=ABOUT)
    return "".join([piece async for piece in pieces(document, content_of(store, run_id))])


async def test_an_imported_run_is_exported_again_as_it_came(tmp_path: Path) -> None:
    async with open_own_store(tmp_path / "old") as store:
        text = await document_of(store, await full_run(store))
    async with open_own_store(tmp_path / "new") as store:
        bundle = read_bundle(text)
        assert await import_bundle(store, bundle) == bundle.run.id
        assert await document_of(store, bundle.run.id) == text
        kept = (await store.artifacts.of_run(bundle.run.id))[0]
        assert (await store.artifacts.content(kept), kept.label) == (CONTENT, frozenset({"user", "plan"}))
        assert [path.name for path in store.artifacts.folder.iterdir()] == [bundle.run.id]
    document: dict[str, Any] = json.loads(text)
    lists = ("memo", "steps", "intents", "ledger", "actions", "events", "audit", "tools", "artifacts")
    assert {name: len(document[name]) for name in lists} == {
        "memo": 2,
        "steps": 1,
        "intents": 1,
        "ledger": 1,
        "actions": 1,
        "events": 3,
    } | {
        "audit": 3,
        "tools": 1,
        "artifacts": 1,
    }


async def test_an_ended_run_keeps_its_end_and_what_was_spent_counts_for_no_day_here(tmp_path: Path) -> None:
    async with open_own_store(tmp_path / "old") as store:
        run_id = await full_run(store)
        ended = Ending("succeeded", "done", "Done.", "It is so.", {"findings": []})
        await (await take(store, run_id)).finish(ended)
        text = await document_of(store, run_id)
    async with open_own_store(tmp_path / "new") as store:
        await import_bundle(store, read_bundle(text))
        run = await store.run(run_id)
        assert (run.status, run.answer, run.imported, run.ended) == ("succeeded", "It is so.", True, True)
        assert await document_of(store, run_id) == text
        assert await rows(store, "SELECT DISTINCT owner FROM ledger") == [("imported",)]


async def test_nothing_changes_an_imported_run(tmp_path: Path) -> None:
    async with open_own_store(tmp_path / "old") as store:
        text = await document_of(store, await full_run(store))
    async with open_own_store(tmp_path / "new") as store:
        run_id = await import_bundle(store, read_bundle(text))
        run, action = await store.run(run_id), (await store.actions(run_id))[0]
        before = await dump(store)
        assert (run.ended, run.imported, action.state) == (True, True, "waiting")
        assert await store.waiting_actions() == []
        assert await store.ready(fingerprint=run.fingerprint) == []
        assert await store.take(run, driver="d", limits=lambda run: LIMITS) is None
        yes, no = Decision("approve", "person", "terminal"), Decision("deny", "host", "approve_action")
        for refused in (
            lambda: store.decide(action, yes),
            lambda: store.decide(action, no),
            lambda: store.request_cancel(run, "why"),
            lambda: store.rebind(run, fingerprint="other", settings_path="there"),
            lambda: store.reopen(run, options={}),
            lambda: store.check_writable(run_id),
            lambda: store.database.write("edit", lambda tx: supersede(tx, action)),
        ):
            with pytest.raises(
                ReadOnlyRun, match=f"run {run_id} was imported and is read-only: .*runs replay {run_id}"
            ):
                await refused()
        assert await dump(store) == before
        # Neither its key nor the same request leads to it.
        own = await create(store, idempotency_key="key", options={"budget": {"usd": 1}})
        assert await create(store) not in (own, run_id)


async def test_a_run_that_is_here_already_is_left_as_it_is(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await full_run(store)
        bundle, before = read_bundle(await document_of(store, run_id)), await dump(store)
        with pytest.raises(AlreadyHere, match=f"run {run_id} is in this store already"):
            await import_bundle(store, bundle)
        other = bundle.model_copy(update={"run": bundle.run.model_copy(update={"id": "r_" + "z" * 26})})
        with pytest.raises(AlreadyHere, match=f"action a_.* of run {run_id} is in this store already"):
            await import_bundle(store, other)
        assert await dump(store) == before
        assert [path.name for path in store.artifacts.folder.iterdir()] == [run_id]


async def test_a_run_that_was_removed_comes_back_beside_its_accounts(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await full_run(store)
        text = await document_of(store, run_id)
        for table in ("memo", "steps", "intents", "actions", "events", "artifacts"):
            await change(store, f"DELETE FROM {table}")
        await change(store, "DELETE FROM runs")
        await import_bundle(store, read_bundle(text))
        assert await rows(store, "SELECT owner, COUNT(*) FROM ledger") == [("me", 1)]
        assert json.loads(await document_of(store, run_id)) == json.loads(text)


async def test_an_artifact_that_was_lost_is_exported_as_lost(tmp_path: Path) -> None:
    async with open_own_store(tmp_path / "old") as store:
        run_id = await full_run(store)
        (path,) = (store.artifacts.folder / run_id).iterdir()
        path.unlink()
        text = await document_of(store, run_id)
    assert [row["content"] for row in json.loads(text)["artifacts"]] == [None]
    async with open_own_store(tmp_path / "new") as store:
        await import_bundle(store, read_bundle(text))
        assert await document_of(store, run_id) == text
        assert not store.artifacts.folder.exists()


async def test_secrets_are_taken_out_of_rows_and_of_artifacts_and_the_file_still_holds_together(tmp_path: Path) -> None:
    secret = 'a "secret" with\\ a backslash'
    outlet = Outlet([("KEY", secret)])
    contents = [secret.encode(), secret.encode() + b"\xff", "ä plain text".encode()]
    async with open_own_store(tmp_path / "old") as store:
        run_id = await create(store, goal=f"use {secret} now")
        for content in contents:
            await store.artifacts.add(run_id, NewArtifact("s", "c", "text/plain", content, frozenset({"user"})))
    async with open_own_store(tmp_path / "old", outlet=outlet) as store:
        text = await document_of(store, run_id)
    async with open_own_store(tmp_path / "new") as store:
        await import_bundle(store, read_bundle(text))
        assert (await store.run(run_id)).goal == "use [secret:KEY] now"
        found = [await store.artifacts.content(kept) for kept in await store.artifacts.of_run(run_id)]
    assert sorted(found) == sorted([b"[secret:KEY]", b"[secret:KEY]\xff", "ä plain text".encode()])


def ruined(text: str, where: str, value: Any) -> str:
    """The document with something else at a place such as `memo.0.run`."""
    data: Any = json.loads(text)
    *path, last = where.split(".")
    place: Any = data
    for name in path:
        place = place[int(name) if name.isdigit() else name]
    place[int(last) if last.isdigit() else last] = value
    return json.dumps(data)


OTHER = "r_" + "y" * 26
Spoil = Callable[[str], str]
SPOILED: dict[str, tuple[Spoil, str]] = {
    "empty": (lambda text: "", "no whole JSON"),
    "no JSON": (lambda text: "RIFF….", "no whole JSON"),
    "cut short": (lambda text: text[: len(text) // 2], "no whole JSON"),
    "too deep": (lambda text: "[" * 100_000, "nested too deeply"),
    "a number too long": (lambda text: "1" * 5_000, "no whole JSON"),
    "a list": (lambda text: "[]", "the file holds something else"),
    "another document": (lambda text: '{"runs": []}', "the file holds something else"),
    "another format": (lambda text: ruined(text, "steprelay_run", 2), "its format is '2', this release reads 1"),
    "a newer schema": (lambda text: ruined(text, "schema", VERSION + 1), "this release knows .*upgrade steprelay"),
    "an older schema": (lambda text: ruined(text, "schema", 1), "its schema is '1'"),
    "no schema": (lambda text: ruined(text, "schema", "2"), "its schema is '2'"),
    "a field too many": (lambda text: ruined(text, "memo.0.extra", 1), "memo.0.extra: Extra inputs"),
    "a budget that is none": (lambda text: ruined(text, "run.options.budget", [1]), "run.options.budget: "),
    "sources that are none": (lambda text: ruined(text, "run.result", {"sources": [1]}), "run.result.*sources.0: "),
    "a field of another type": (lambda text: ruined(text, "steps.0.position", "1"), "steps.0.position: "),
    "a huge number": (lambda text: ruined(text, "ledger.0.tokens", 10**30), "ledger.0.tokens: "),
    "a negative number": (lambda text: ruined(text, "run.epoch", -1), "run.epoch: "),
    "a time out of all years": (lambda text: ruined(text, "run.created_at", 1e300), "run.created_at: "),
    "no number": (lambda text: ruined(text, "run.driven_seconds", float("nan")), "run.driven_seconds: "),
    "an unknown status": (lambda text: ruined(text, "run.status", "odd"), "run.status: "),
    "a path as run": (lambda text: ruined(text, "run.id", "../../x"), "run.id: "),
    "a path as artifact": (lambda text: ruined(text, "artifacts.0.id", "../../x"), "artifacts.0.id: "),
    "a row of another run": (lambda text: ruined(text, "memo.0.run", OTHER), f"memo: .* another run, '{OTHER}'"),
    "an artifact of another run": (lambda text: ruined(text, "artifacts.0.run", OTHER), "artifacts: .* another run"),
    "an event twice": (lambda text: ruined(text, "events.1.seq", 1), "events: '1' stands twice"),
}
SPOILED_CONTENT: dict[str, tuple[Spoil, str]] = {
    "content that is no base64": (lambda text: ruined(text, "artifacts.0.content", "?"), "its content is no base64"),
    "another content": (lambda text: ruined(text, "artifacts.0.content", "AAAA"), "another size or sha256"),
    "another sha256": (lambda text: ruined(text, "artifacts.0.sha256", "0" * 64), "another size or sha256"),
}


@pytest.fixture(name="text", scope="module")
def exported_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A full run as a document."""

    async def make() -> str:
        async with open_own_store(tmp_path_factory.mktemp("exported")) as store:
            return await document_of(store, await full_run(store))

    return anyio.run(make)


@pytest.mark.parametrize(("spoil", "told"), SPOILED.values(), ids=SPOILED)
def test_a_file_that_is_no_exported_run_is_refused_with_what_is_wrong(text: str, spoil: Spoil, told: str) -> None:
    with pytest.raises(BadBundle, match=r"not an exported run: .*nothing was imported") as refused:
        read_bundle(spoil(text))
    refused.match(told)


@pytest.mark.parametrize(("spoil", "told"), SPOILED_CONTENT.values(), ids=SPOILED_CONTENT)
async def test_of_a_run_with_a_spoiled_artifact_nothing_is_taken_in(
    tmp_path: Path, text: str, spoil: Spoil, told: str
) -> None:
    async with open_own_store(tmp_path) as store:
        before = await dump(store)
        with pytest.raises(BadBundle, match=f"not an exported run: artifact f_.*{told}.*nothing was imported"):
            await import_bundle(store, read_bundle(spoil(text)))
        assert await dump(store) == before
        assert not store.artifacts.folder.exists()


async def test_an_import_keeps_within_the_room_for_artifacts_and_tells_of_a_full_disk(tmp_path: Path) -> None:
    async with open_own_store(tmp_path / "old") as store:
        bundle = read_bundle(await document_of(store, await full_run(store)))
    path, none = tmp_path / "new" / "store.db", ArtifactLimits(run_mib=0)
    async with open_store(path, World(), Outlet(), owner="me", limits=none) as store:
        before = await dump(store)
        with pytest.raises(ArtifactNotKept, match="may take 0 MiB"):
            await import_bundle(store, bundle)
        assert (await dump(store), list(store.artifacts.folder.iterdir())) == (before, [])
        store.artifacts.folder.rmdir()
        store.artifacts.folder.write_text("in the way")
        with pytest.raises(StoreError, match="nothing was imported"):
            await import_bundle(store, bundle)
        assert await dump(store) == before


TABLES: Mapping[str, type[BaseModel]] = {
    "runs": RunRow,
    "memo": MemoRow,
    "steps": StepLine,
    "intents": IntentRow,
    "ledger": LedgerRow,
    "actions": ActionRow,
    "events": EventRow,
    "audit": AuditRow,
    "artifacts": ArtifactRow,
}


async def test_a_bundle_has_each_column_of_each_table_of_a_run(tmp_path: Path) -> None:
    async with open_own_store(tmp_path):
        pass
    with sqlite3.connect(tmp_path / "store.db") as connection:
        found = {table: {row[1] for row in connection.execute(f"PRAGMA table_info({table})")} for table in TABLES}
    connection.close()
    known = {
        table: {field.alias or name for name, field in model.model_fields.items()} - {"content"} | {"owner"}
        for table, model in TABLES.items()
    }
    found["actions"] -= {"content"}
    assert known == found


@pytest.mark.e2e
async def test_a_host_is_told_that_an_imported_run_is_read_only(tmp_path: Path, text: str) -> None:
    async with open_test_product(tmp_path, script={}, servers={}) as (product, server), open_host(server) as host:
        run_id = await import_bundle(product.store, read_bundle(text))
        (action,) = await product.store.actions(run_id)
        view = await host.structured("get_run", {"run_id": run_id})
        assert (view["status"], view["actions"]) == ("awaiting_approval", [])
        decided: dict[str, Any] = {"action_id": action.id, "decision": "approve"}
        for tool, given in {
            "cancel_run": {"run_id": run_id},
            "approve_action": decided,
            "approve_action ": decided | {"decision": "deny"},
            " approve_action": decided | {"edited_arguments": {"to": "bob"}},
        }.items():
            refused = await host.call(tool.strip(), given)
            assert (refused.is_error, text_of(refused)) == (True, str(ReadOnlyRun(run_id)))
