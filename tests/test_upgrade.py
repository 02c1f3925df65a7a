"""Upgrades: stores of every earlier version, runs that began under an older release, and releases side by side."""

import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from command_line import steprelay
from journals import Clock, change, open_own_store, rows
from mcp import Client
from products import STATE_KEY
from quick_jobs import made
from stored_job import ANSWER, CUT, FINISHED, STORED, WAITING, lay

from journal.actions import CHOICES, Action, Decision
from journal.database import open_database
from journal.errors import StoreError
from journal.lease import DEAD_SECONDS
from journal.migration import migrate
from journal.runs import Run
from journal.schema import MIGRATIONS, VERSION, Migration
from journal.store import Store
from journal.world import World
from server.assembly import open_product
from server.host.mcp_server import build_host_server
from server.product import Product

ROOT = Path(__file__).parent.parent
EARLIER = range(1, VERSION)
STORED_AT = 1_796_033_430.0
"""When the stored runs were left: their approvals still count."""
ADDS = Migration("CREATE TABLE added (x TEXT)", additive=True)
CHANGES = Migration("CREATE TABLE changed (x TEXT)", additive=False)
NEWER = "upgrade steprelay, or set `store` to another file"
HOLDS = """
import os, socket, sqlite3, sys, time
from pathlib import Path
from journal.locks import held
store = Path(sys.argv[1])
with held(store.parent / "leases" / "l_old"):
    with sqlite3.connect(store) as database:
        row = (os.getpid(), socket.gethostname(), time.time())
        database.execute("INSERT INTO leases VALUES ('l_old', 'local', ?, ?, 'print', 'settings', 0, ?)", row)
    sys.stdout.write("held\\n")
    sys.stdout.flush()
    sys.stdin.read()
"""


def stored_world() -> World:
    """A clock that goes on from when the stored runs were left."""
    ahead = STORED_AT - time.monotonic()
    return World(now=lambda: time.monotonic() + ahead)


def store_file(folder: Path) -> Path:
    return folder / "store" / "steprelay.db"


@contextmanager
def opened(path: Path) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def version(path: Path) -> int:
    with opened(path) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def whole(path: Path) -> list[str]:
    with opened(path) as connection:
        return list(connection.iterdump())


def migrate_to(path: Path, *migrations: Migration, now: float = STORED_AT) -> None:
    """What a release that knows these migrations does to the store."""
    with opened(path) as connection:
        migrate(path, connection, now=now, migrations=migrations)


def shape(path: Path) -> dict[str, Any]:
    """All tables with their columns, and all indexes with theirs."""
    with opened(path) as connection:
        names = connection.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
        return {name: connection.execute(f"PRAGMA {kind}_info({name})").fetchall() for kind, name in names}


def counts(path: Path) -> dict[str, int]:
    """How many rows each table has."""
    with opened(path) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in names}


@asynccontextmanager
async def open_stored(folder: Path, number: int = EARLIER[-1]) -> AsyncGenerator[tuple[Product, dict[str, str]]]:
    """The product over a stored database, with the ids of its runs by their goals."""
    async with open_product(lay(folder, number), world=stored_world()) as product:
        yield product, {run.goal: run.id for run in await product.store.runs()}


async def waiting(store: Store, run_id: str) -> Action:
    [action] = [action for action in await store.actions(run_id) if action.state == "waiting"]
    return action


async def ended(product: Product, run_id: str) -> Run:
    with anyio.fail_after(20):
        return await product.until(run_id, lambda run: run.ended)


def test_there_is_a_stored_database_of_every_earlier_version() -> None:
    assert sorted(path.name for path in STORED.iterdir()) == [f"version_{number}.sql" for number in EARLIER]


@pytest.mark.parametrize("number", EARLIER)
async def test_an_upgraded_store_has_the_tables_of_a_new_one_and_keeps_all_rows(tmp_path: Path, number: int) -> None:
    lay(tmp_path, number)
    path = store_file(tmp_path)
    assert version(path) == number
    with opened(path) as connection:
        kept = "INSERT INTO artifacts VALUES ('f_1', 'r_1', 'local', 'look', 'c_1', 'text/plain', 2, 'ab', 'user', 0)"
        connection.execute(kept)
    before = counts(path)
    async with open_database(path, World()), open_database(tmp_path / "new.db", World()):
        pass
    assert (version(path), version(tmp_path / "new.db")) == (VERSION, VERSION)
    assert shape(path) == shape(tmp_path / "new.db")
    after = counts(path)
    assert {name: after[name] for name in before} == before
    assert min(before[name] for name in ("runs", "memo", "steps", "intents", "actions", "artifacts")) > 0


@pytest.mark.e2e
@pytest.mark.parametrize("number", EARLIER)
async def test_a_run_that_ended_under_an_older_release_is_read_by_hosts_and_people(tmp_path: Path, number: int) -> None:
    async with open_stored(tmp_path, number) as (product, ids):

        async def ready() -> Product:
            return product

        async with Client(build_host_server(ready, state_key=STATE_KEY)) as client:
            listed = await client.call_tool("list_runs", {"status": "succeeded"})
            got = await client.call_tool("get_run", {"run_id": ids[FINISHED], "detail": True})
    assert listed.structured_content is not None
    assert got.structured_content is not None
    assert [run["goal"] for run in listed.structured_content["runs"]] == [FINISHED]
    view = got.structured_content
    assert (view["status"], view["answer"], view["usage"]["model_calls"]) == ("succeeded", ANSWER, 1)
    assert [(step["id"], step["status"]) for step in view["step_list"]] == [("only", "succeeded")]
    shown = steprelay("runs", "show", ids[FINISHED], "--config", str(tmp_path / "steprelay.json"), cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert ANSWER in shown.stdout


@pytest.mark.e2e
@pytest.mark.parametrize("number", EARLIER)
async def test_a_run_that_waited_under_an_older_release_goes_on_where_it_stood(tmp_path: Path, number: int) -> None:
    async with open_stored(tmp_path, number) as (product, ids):
        action = await waiting(product.store, ids[WAITING])
        await product.decide(action, Decision("approve", "person", "terminal"))
        run = await ended(product, ids[WAITING])
        models = [event.data["role"] for event in await product.store.events(run.id) if event.type == "model.called"]
    assert (run.status, run.stop_reason, run.answer, run.message) == (
        "succeeded",
        "done",
        ANSWER,
        "4 of 4 steps succeeded.",
    )
    assert made(tmp_path) == [("drop", "old"), ("read", "three")]
    assert models == ["worker", "worker", "answer"]


@pytest.mark.e2e
@pytest.mark.parametrize("number", EARLIER)
async def test_a_write_cut_short_under_an_older_release_is_a_persons_question(tmp_path: Path, number: int) -> None:
    async with open_stored(tmp_path, number) as (product, ids):
        with anyio.fail_after(20):
            await product.until(ids[CUT], lambda run: run.status == "awaiting_approval")
        action = await waiting(product.store, ids[CUT])
        assert (action.kind, action.choices, action.tool) == ("unknown", CHOICES["unknown"], "quick.stuck")
        await product.decide(action, Decision("done", "person", "terminal"))
        run = await ended(product, ids[CUT])
    assert (run.status, run.answer) == ("succeeded", ANSWER)
    assert made(tmp_path) == []


@pytest.mark.e2e
@pytest.mark.parametrize("key", ["plan", "order.1", "trigger.1", "trigger.2"])
async def test_a_run_whose_records_mean_something_else_in_this_release_ends_partial_with_all_findings(
    tmp_path: Path, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = lay(tmp_path, EARLIER[-1])
    with opened(store_file(tmp_path)) as connection:
        changed = (
            "UPDATE memo SET hash = 'of_an_older_release' WHERE key = ? AND run = (SELECT id FROM runs WHERE goal = ?)"
        )
        assert connection.execute(changed, (key, WAITING)).rowcount == 1
    async with open_product(settings, world=stored_world()) as product:
        ids = {run.goal: run.id for run in await product.store.runs()}
        action = await waiting(product.store, ids[WAITING])
        await product.decide(action, Decision("approve", "person", "terminal"))
        run = await ended(product, ids[WAITING])
        view = await product.view(run.id, detail=True)
    assert (view.status, view.stop_reason, view.answer) == (
        "partial",
        "error",
        '**Do look** (done): quick.read answered "did read"\n\n**Study** (done): Studied.\n- It stands.\n\n'
        "**Please note**\n\n- Steps that did not succeed: gone: not run: it waited for a decision, check: not run.\n"
        "- Steps that succeeded: look, study (worker researcher).",
    )
    assert view.message == (
        "The run cannot be replayed with the present settings and release, so it ended with what it had. "
        "2 of 4 steps succeeded."
    )
    assert [finding["claim"] for finding in run.result["findings"]] == ["It stands."]
    name = key.partition(".")[0]
    [said] = [text for text in view.warnings if text.startswith(f"the run cannot be replayed: {key} was recorded as ")]
    assert said.startswith(f"the run cannot be replayed: {key} was recorded as {name}(of_an_ol) and is now {name}(")
    assert made(tmp_path) == []
    assert [record.msg for record in caplog.records if record.name.startswith("planner")] == ["no_replay"]


def test_a_migration_that_fails_in_its_middle_leaves_the_old_version_as_it_was(tmp_path: Path) -> None:
    lay(tmp_path, 1)
    path = store_file(tmp_path)
    before = whole(path)
    broken = Migration("ALTER TABLE runs ADD COLUMN half TEXT; DELETE FROM memo; CREATE TABLE runs (x)", additive=False)
    with pytest.raises(sqlite3.OperationalError, match="table runs already exists"):
        migrate_to(path, *MIGRATIONS[:1], broken)
    assert (version(path), whole(path)) == (1, before)
    migrate_to(path, *MIGRATIONS)
    assert version(path) == VERSION


async def test_a_store_of_a_newer_release_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    migrate_to(path, *MIGRATIONS, ADDS, CHANGES)
    before = whole(path)
    with pytest.raises(StoreError) as refused:
        async with open_own_store(tmp_path):
            pass
    assert str(refused.value) == f"{path} has schema {VERSION + 2}, this release knows {VERSION}; {NEWER}"
    assert whole(path) == before


@pytest.mark.e2e
def test_a_command_on_a_store_of_a_newer_release_says_so_and_ends(tmp_path: Path) -> None:
    settings = lay(tmp_path, EARLIER[-1])
    migrate_to(store_file(tmp_path), *MIGRATIONS, ADDS)
    ran = steprelay("runs", "list", "--config", str(settings.path), cwd=tmp_path)
    said = f"steprelay: {store_file(tmp_path)} has schema {VERSION + 1}, this release knows {VERSION}; {NEWER}"
    assert (ran.returncode, ran.stdout, ran.stderr.strip()) == (3, "", said)


async def test_a_process_that_runs_goes_on_beside_what_a_newer_release_adds(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        migrate_to(tmp_path / "store.db", *MIGRATIONS, ADDS)
        await change(store, "INSERT INTO remembered VALUES ('me', 'test', 'a', '1', 0)")
        assert await rows(store, "SELECT name FROM remembered") == [("a",)]
        assert version(tmp_path / "store.db") == VERSION + 1


async def test_a_process_that_runs_writes_nothing_once_a_newer_release_changed_what_it_knows(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_own_store(tmp_path) as store:
        migrate_to(path, *MIGRATIONS, CHANGES, ADDS)
        with pytest.raises(StoreError) as refused:
            await change(store, "INSERT INTO remembered VALUES ('me', 'test', 'a', '1', 0)")
        assert str(refused.value) == f"{path} has schema {VERSION + 2}, this release knows {VERSION}; {NEWER}"
        assert await rows(store, "SELECT name FROM remembered") == []


@contextmanager
def older_process(path: Path) -> Generator[int]:
    """The id of a process with a lease on the store, as one of an older release has it; it is killed in the end."""
    command = [sys.executable, "-c", HOLDS, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as older:
        try:
            assert older.stdout is not None
            assert older.stdout.readline() == "held\n"
            yield older.pid
        finally:
            older.kill()


@pytest.mark.e2e
async def test_an_upgrade_waits_until_processes_of_an_older_release_are_closed(tmp_path: Path) -> None:
    lay(tmp_path, 1)
    path = store_file(tmp_path)
    with older_process(path) as pid:
        with pytest.raises(StoreError) as refused:
            async with open_database(path, World()):
                pass
        assert str(refused.value) == (
            f"{path} must be upgraded, and an older release still works on it: close process {pid} on "
            f"{socket.gethostname()} (the host that started it, or `steprelay serve`) and try again"
        )
        assert version(path) == 1
    async with open_database(path, World()):
        assert version(path) == VERSION


@pytest.mark.e2e
def test_an_upgrade_that_only_adds_waits_for_nobody(tmp_path: Path) -> None:
    lay(tmp_path, 1)
    with older_process(store_file(tmp_path)):
        migrate_to(store_file(tmp_path), *MIGRATIONS[:1], ADDS)
        assert version(store_file(tmp_path)) == 2


async def test_a_process_of_another_machine_holds_an_upgrade_up_as_long_as_its_heart_beats(tmp_path: Path) -> None:
    lay(tmp_path, 1)
    path, clock = store_file(tmp_path), Clock()
    with opened(path) as connection:
        for lease in ("l_one", "l_two"):
            beat = (lease, f"{lease}.example", clock.at)
            connection.execute("INSERT INTO leases VALUES (?, 'local', 7, ?, 'print', 'settings', 0, ?)", beat)
    clock.at += DEAD_SECONDS - 1
    with pytest.raises(StoreError, match=r"close process 7 on l_one\.example, process 7 on l_two\.example \(the host"):
        async with open_database(path, clock.world):
            pass
    clock.at += 1
    async with open_database(path, clock.world):
        assert version(path) == VERSION


async def test_opening_a_store_that_needs_no_upgrade_writes_nothing(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        before = await store.database.version()
        async with open_own_store(tmp_path):
            assert await store.database.version() == before
