"""Stores whose file is damaged, gone, locked or not ours: each user is told what is wrong and the way out."""

import json
import shutil
import sqlite3
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
import quick_jobs
import toys
from broken_stores import DAMAGED, GOAL, OTHERS_WORK, ROWS, WELL, refusals, scribble, store_of, with_store
from command_line import called
from faulty_runs import SCRIPT, STUDY
from journals import LIMITS, create, open_own_store, rows, until
from mcp_hosts import open_stdio_host, serve
from products import open_test_product

from journal.database import Transaction, open_database
from journal.errors import StoreError
from journal.local_engine import EngineOptions, open_local_engine
from journal.run_journal import RunJournal
from journal.world import World
from server.product import Request

pytestmark = pytest.mark.untraced


@pytest.mark.e2e
@pytest.mark.parametrize("name", ROWS)
def test_commands_say_what_is_wrong_with_the_store_and_the_way_out(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told: dict[str, str] = {}
    config, (spoil, way_out) = with_store(tmp_path), ROWS[name]
    spoil(store_of(tmp_path))
    found = sorted((path.name, path.stat().st_size) for path in tmp_path.glob("store/*.db*"))
    commands: tuple[tuple[str, ...], ...] = (("runs", "list"), ("run", GOAL))
    for words in commands:
        code, said = called(*words, "--config", str(config)), capsys.readouterr()
        told[words[0]] = (said.err.splitlines() or ["works"])[-1].replace(str(tmp_path), "").removeprefix("steprelay: ")
        if way_out == WELL or (name in OTHERS_WORK and words[0] == "run"):
            assert (code, said.err) == (0, ""), said
        else:
            assert (code, said.out) == (3, ""), said
            last = said.err.splitlines()[-1]
            assert last.startswith(f"steprelay: {tmp_path}")
            assert way_out in last
            assert "Traceback" not in said.err
    if way_out not in (WELL, DAMAGED):
        # What could still be saved by hand was not touched.
        assert sorted((path.name, path.stat().st_size) for path in tmp_path.glob("store/*.db*")) == found
    with capsys.disabled():
        run = "" if told["run"] == told["runs"] else f" | a new run: {told['run']}"
        sys.stdout.write(f"\n{name} -> {told['runs']}{run}")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.e2e if name == "random bytes in a page of runs" else pytest.mark.slow)
        for name in ROWS
    ],
)
async def test_serve_answers_the_handshake_and_each_call_says_what_is_wrong(tmp_path: Path, name: str) -> None:
    config, (spoil, way_out) = await anyio.to_thread.run_sync(with_store, tmp_path), ROWS[name]
    spoil(store_of(tmp_path))
    async with open_stdio_host(serve(config)) as host:
        said = await refusals(host)
    if way_out == WELL:
        assert set(said) == {"get_run", "approve_action", "cancel_run"}
        assert all("is known here" in text for text in said.values())
    else:
        assert len(said) == 5
        assert all(text.startswith(str(tmp_path)) and way_out in text for text in said.values()), said


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Somebody else writes, and does not end."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def note(name: str) -> Callable[[Transaction], int]:
    sql = "INSERT INTO remembered (owner, kind, name, value, at) VALUES ('me', 'test', ?, '1', 0)"
    return lambda tx: tx.change(sql, (name,))


async def test_a_store_locked_for_longer_than_is_waited_for_is_refused_and_works_afterwards(tmp_path: Path) -> None:
    path, held = tmp_path / "store.db", r"store\.db: database is locked; another process holds it for too long; close"
    async with open_database(path, World(), patience=0.05) as database:
        with locked(path):
            with pytest.raises(StoreError, match=held):
                await database.write("x", note("a"))
            # Readers wait for nobody.
            assert await database.read(lambda tx: tx.rows("SELECT * FROM remembered")) == []
        assert await database.write("x", note("a")) == 1


async def test_a_store_locked_for_a_short_while_is_waited_for(tmp_path: Path) -> None:
    async with open_database(tmp_path / "store.db", World(), patience=20) as database:
        async with anyio.create_task_group() as group:
            with locked(database.path):
                group.start_soon(database.write, "x", note("a"))
                await anyio.wait_all_tasks_blocked()
        assert len(await database.read(lambda tx: tx.rows("SELECT * FROM remembered"))) == 1


async def test_damage_in_the_wal_takes_back_what_was_committed_after_it_and_nothing_before(tmp_path: Path) -> None:
    """SQLite can't tell it from a commit that a power cut left half done."""
    copy = tmp_path / "copy" / "store.db"
    copy.parent.mkdir()
    async with open_database(tmp_path / "store.db", World()) as database:
        for number in range(20):
            await database.write("x", note(f"n{number:02}"))
        for suffix in ("", "-wal"):
            shutil.copy(f"{database.path}{suffix}", f"{copy}{suffix}")
    wal = copy.with_name("store.db-wal")
    scribble(lambda path: path.stat().st_size - 8 * 4120, 4120)(wal)
    async with open_database(copy, World()) as database:
        found = await database.read(lambda tx: tx.rows("SELECT name FROM remembered ORDER BY name"))
        whole = await database.read(lambda tx: tx.rows("PRAGMA integrity_check")[0][0])
    names = [row["name"] for row in found]
    assert names == [f"n{number:02}" for number in range(len(names))]
    assert 0 < len(names) < 20
    assert whole == "ok"


async def test_a_store_that_can_not_be_written_ahead_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=r"its journal stays memory.*set `store` to a file in a local folder"):
        # What SQLite keeps in memory has no such journal, as file systems without shared memory have none.
        async with open_database(Path(":memory:"), World()):
            pytest.fail("opened")


async def test_damage_met_in_a_drive_ends_all_work_on_the_store_and_is_said(tmp_path: Path) -> None:
    tries: list[str] = []

    async def drive(journal: RunJournal) -> None:
        tries.append(journal.run.id)
        await store.database.read(lambda tx: json.loads(tx.rows("SELECT '{' broken")[0]["broken"]))

    async def in_trouble() -> bool:
        return engine.trouble is not None

    options = EngineOptions("print", "s", 16, lambda run: LIMITS, hold_off=0.0)
    async with open_own_store(tmp_path) as store, open_local_engine(store, drive, options) as engine:
        run_id = await create(store, driver=engine.lease.id)
        await engine.wake(run_id)
        await until(in_trouble)
        await engine.wake(run_id)
        await anyio.wait_all_tasks_blocked()
        assert DAMAGED in str(engine.trouble)
        assert tries == [run_id]
        with pytest.raises(StoreError, match="nothing more is read or written here"):
            await store.run(run_id)
    async with open_own_store(tmp_path) as store:
        assert (await store.run(run_id)).epoch == 1


async def test_a_run_whose_artifacts_can_not_be_kept_ends_and_its_worker_was_told_why(tmp_path: Path) -> None:
    worker = STUDY | {"tools": ["quick.read", "quick.tell"]}
    script = {"plan": [worker], "steps": {"study": SCRIPT["steps"]["study"]}, "answer": "Seen."}
    quick = {"quick": toys.entry(quick_jobs.quick(tmp_path / "quick.log"))}
    (tmp_path / "artifacts").touch()
    async with open_test_product(tmp_path, script=script, servers=quick) as (product, _):
        with anyio.fail_after(20):
            run = await product.until(await product.start(Request(GOAL)), lambda now: now.ended)
        memo = await rows(product.store, "SELECT value FROM memo WHERE run = ?", run.id)
    assert run.status == "succeeded"
    why = f"the call ran, but its whole result could not be kept: {tmp_path / 'artifacts'}: "
    assert sum(why in str(value) for (value,) in memo) == 1
