"""Waiting costs nothing: no task, no thread, no connection, and no question to the store for each run that waits."""

import gc
import sys
import threading
import warnings
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import pytest
import toys
from journals import LIMITS, NEW, change, create, ended, open_own_store, rows, take, until
from products import call_step, open_test_product, script
from quick_jobs import LOG, quick

from journal.actions import Decision
from journal.database import Database, Row, Transaction
from journal.local_engine import EngineOptions, open_local_engine
from journal.run_journal import RunJournal
from journal.store import Store
from server.product import Product, Request

T = TypeVar("T")
LOOK = "PRAGMA data_version"
LOOKS = 3


class Seen(Transaction):
    """Notes the statements that pass, and how many rows they gave."""

    def __init__(self, inner: Transaction, statements: Counter[str], given: Counter[str]) -> None:
        self.inner = inner
        self.statements = statements
        self.given = given

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        found = self.inner.rows(sql, parameters)
        self.statements[sql] += 1
        self.given[sql] += len(found)
        return found

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        self.statements[sql] += 1
        return self.inner.row(sql, parameters)

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        self.statements[sql] += 1
        return self.inner.change(sql, parameters)


class SeenDatabase(Database):
    """A database that is open, with all that passes noted."""

    def __init__(self, inner: Database) -> None:
        self.inner = inner
        self.path = inner.path
        self.statements: Counter[str] = Counter()
        self.given: Counter[str] = Counter()

    async def read(self, query: Callable[[Transaction], T]) -> T:
        return await self.inner.read(lambda tx: query(Seen(tx, self.statements, self.given)))

    async def write(self, point: str, change: Callable[[Transaction], T]) -> T:
        return await self.inner.write(point, lambda tx: change(Seen(tx, self.statements, self.given)))

    async def version_of_others(self) -> int:
        return await self.inner.version_of_others()


async def never(journal: RunJournal) -> None:
    raise AssertionError(f"run {journal.run.id} waits and must not be driven")


async def park_many(store: Store, number: int) -> None:
    """So many waiting runs; the first was really parked, the others are copies of its row."""
    journal = await take(store, await create(store, context="x" * 1000))
    assert await journal.park(None)
    fields = [name for (name,) in await rows(store, "SELECT name FROM pragma_table_info('runs')")]
    others = ", ".join(fields[1:])
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {number - 1})"
    copies = f"SELECT 'r_' || i, {others} FROM runs, n WHERE i < {number}"
    await change(store, f"INSERT INTO runs ({', '.join(fields)}) {numbers} {copies}")
    assert await rows(store, "SELECT COUNT(*) FROM runs WHERE status = 'awaiting_approval'") == [(max(number, 1),)]


async def while_idle(folder: Path, parked: int) -> SeenDatabase:
    """What an engine with nothing to do asks of a store in which so many runs wait."""
    async with open_own_store(folder) as store:
        await park_many(store, parked)
        store.database = seen = SeenDatabase(store.database)

        async def has_looked() -> bool:
            return seen.statements[LOOK] >= LOOKS

        async with open_local_engine(store, never, EngineOptions("print", "s", 16, lambda run: LIMITS)):
            # All that belongs to the start is over with the second look.
            await until(has_looked)
            seen.statements.clear()
            seen.given.clear()
            await until(has_looked)
            return seen


async def test_an_idle_engine_asks_the_same_of_the_store_whether_two_runs_wait_or_a_thousand(tmp_path: Path) -> None:
    found: dict[int, SeenDatabase] = {}

    async def look(parked: int) -> None:
        found[parked] = await while_idle(tmp_path / str(parked), parked)

    async with anyio.create_task_group() as group:
        for parked in (2, 1000):
            group.start_soon(look, parked)
    for seen in found.values():
        heartbeats = sum(count for sql, count in seen.statements.items() if "INTO leases" in sql)
        # At each look one number, and at some of them what is ready.
        assert seen.statements.total() <= 2 * seen.statements[LOOK] + heartbeats
        # No row of a run that waits is ever taken into this process.
        assert {sql for sql, given in seen.given.items() if given} == {LOOK}
        assert heartbeats <= 1
    asked = {parked: {sql for sql in seen.statements if "leases" not in sql} for parked, seen in found.items()}
    assert asked[2] == asked[1000]
    assert len(asked[2]) == 2


async def test_the_look_for_ready_runs_reads_one_index_of_unfinished_runs_and_no_table(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        store.database = seen = SeenDatabase(store.database)
        await store.ready(fingerprint=NEW.fingerprint)
        (sql,) = seen.statements
        marks = ("me", "print", 0.0)
        plan = await store.database.read(
            lambda tx: [row["detail"] for row in tx.rows(f"EXPLAIN QUERY PLAN {sql}", marks)]
        )
        assert [" USING COVERING INDEX runs_unfinished " in line for line in plan] == [True], plan


@asynccontextmanager
async def open_asking_product(folder: Path) -> AsyncGenerator[Product]:
    """A product whose tool server writes down each start of its process."""
    note = "import sys, runpy; open(sys.argv[1], 'a').write('started\\n'); sys.argv = sys.argv[2:]; "
    run = "runpy.run_path(sys.argv[0], run_name='__main__')"
    server = [sys.executable, "-I", "-c", note + run, str(folder / "starts.log"), *quick(folder / LOG)[2:]]
    scripted = script(steps={"words": {"text": "Some words."}})
    async with open_test_product(folder, script=scripted, servers={"quick": toys.entry(server)}) as opened:
        with anyio.fail_after(60):
            yield opened.product


def starts(folder: Path) -> int:
    return len((folder / "starts.log").read_text().splitlines())


async def wait_for_a_person(product: Product, number: int) -> str:
    """A new run, as soon as it waits for a yes to its one call."""
    plan = {"steps": [call_step("go", "quick.drop", key=f"k{number}")]}
    run_id = await product.start(Request(f"Drop number {number}", plan=plan))

    await product.until(run_id, lambda run: run.status == "awaiting_approval")
    return run_id


def held() -> set[int]:
    """The runs that are held in memory."""
    gc.collect()
    return {id(thing) for thing in gc.get_objects() if isinstance(thing, RunJournal)}


async def held_by_nobody(*, besides: set[int]) -> None:
    """Wait until no run is held in memory any more, besides those of earlier tests."""

    async def none_left() -> bool:
        return held() <= besides

    await until(none_left)


def threads_in_use() -> int:
    """Threads, without those of the loop's pool that have nothing to do: it keeps them for ten seconds."""
    others = [thread for thread in threading.enumerate() if not thread.name.startswith("AnyIO worker")]
    return len(others) + anyio.to_thread.current_default_thread_limiter().borrowed_tokens


@pytest.mark.e2e
async def test_more_waiting_runs_hold_no_more_tasks_threads_or_processes_and_nothing_of_a_run(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        # What earlier tests left to the collector is theirs.
        warnings.simplefilter("ignore")
        before = held()
    async with open_asking_product(tmp_path) as product:
        await wait_for_a_person(product, 0)
        await held_by_nobody(besides=before)
        tasks, threads = len(anyio.get_running_tasks()), threads_in_use()
        for number in range(1, 9):
            await wait_for_a_person(product, number)
        await held_by_nobody(besides=before)

        async def no_more_than_one_run_held() -> bool:
            # A file that is being read has a thread for a moment, at the first count or at this one.
            return len(anyio.get_running_tasks()) <= tasks and threads_in_use() <= threads

        await until(no_more_than_one_run_held)
        assert starts(tmp_path) == 1


@pytest.mark.e2e
async def test_a_process_that_finds_waiting_runs_opens_no_tool_server_until_one_of_them_goes_on(tmp_path: Path) -> None:
    async with open_asking_product(tmp_path) as product:
        ids = [await wait_for_a_person(product, number) for number in range(3)]
    assert starts(tmp_path) == 1
    async with open_asking_product(tmp_path) as product:
        words = {"steps": [{"id": "words", "kind": "compose", "title": "Write", "task": "Write some words."}]}
        # By the time that a run without tools has ended, all others have been looked at.
        assert (await ended(product.store, await product.start(Request("Write", plan=words)))).status == "succeeded"
        assert starts(tmp_path) == 1
        (action,) = await product.store.actions(ids[1])
        await product.decide(action, Decision("approve", "person", "terminal"))
        assert (await ended(product.store, ids[1])).status == "succeeded"
        assert starts(tmp_path) == 2
        assert [call["arguments"] for call in toys.calls(tmp_path / LOG)] == [{"key": "k1"}]
        assert {(await product.store.run(run_id)).driver for run_id in (ids[0], ids[2])} == {None}
