"""Changes that wait together share one commit, and what fails stays with whoever caused it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import anyio.to_thread
import pytest
from databases import failing, names, put

from journal.database import Database, Transaction, open_database
from journal.errors import StoreError
from journal.world import World


async def in_one_group(database: Database, *changes: Callable[[Transaction], Any]) -> list[Any]:
    """What each change gave or raised, when all are handed in while the writer is busy."""
    busy, free = Event(), Event()
    ends: list[Any] = [None] * len(changes)

    def hold(tx: Transaction) -> None:
        busy.set()
        assert free.wait(5)

    async def hand_in(place: int) -> None:
        try:
            ends[place] = await database.write(f"c{place}", changes[place])
        except (StoreError, ValueError) as error:
            ends[place] = error

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(database.write, "hold", hold)
            await anyio.to_thread.run_sync(busy.wait, 5)
            for place in range(len(changes)):
                group.start_soon(hand_in, place)
            await anyio.wait_all_tasks_blocked()
            free.set()
    return ends


async def test_changes_that_arrive_together_share_one_commit(tmp_path: Path) -> None:
    points: list[str] = []
    async with open_database(tmp_path / "store.db", World(reach=points.append)) as database:
        assert await in_one_group(database, put("a"), put("b")) == [1, 1]
        assert await names(database) == ["a", "b"]
    assert points == [
        *("hold.before", "hold.written", "hold.committed"),
        *("c0.before", "c0.written", "c1.before", "c1.written", "c0.committed", "c1.committed"),
    ]


async def test_a_commit_takes_at_most_64_changes(tmp_path: Path) -> None:
    points: list[str] = []
    async with open_database(tmp_path / "store.db", World(reach=points.append)) as database:
        await in_one_group(database, *(put(f"n{number}") for number in range(70)))
        assert len(await names(database)) == 70
    assert points.index("c0.committed") < points.index("c64.before")
    assert points.index("c0.committed") > points.index("c63.written")


async def test_a_lock_that_another_holds_is_waited_for_once_by_all_who_wait_together(tmp_path: Path) -> None:
    points: list[str] = []
    ends: list[str] = []

    async def be_refused(database: Database, number: int) -> None:
        with pytest.raises(StoreError) as refused:
            await database.write("x", put(f"n{number}"))
        ends.append(str(refused.value))

    async with open_database(tmp_path / "store.db", World(reach=points.append), patience=1.0) as database:
        with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with anyio.fail_after(10):
                async with anyio.create_task_group() as group:
                    for number in range(20):
                        group.start_soon(be_refused, database, number)
        said = f"{database.path}: database is locked; another process holds it for too long; close it or set `store` to"
        assert (ends, points) == ([f"{said} another file"] * 20, [])
        await database.write("later", put("later"))
        assert await names(database) == ["later"]


async def test_what_fails_after_the_commit_is_heard_and_the_writer_goes_on(tmp_path: Path) -> None:
    def look(tx: Transaction) -> None:
        raise KeyError("a fault of ours")

    async with open_database(tmp_path / "store.db", World()) as database:
        database.after_commit = look
        with pytest.raises(KeyError, match="a fault of ours"):
            await database.write("x", put("a"))
        database.after_commit = None
        await database.write("x", put("b"))
        assert await names(database) == ["a", "b"]


async def test_a_change_that_raises_neither_stays_nor_touches_its_neighbours(tmp_path: Path) -> None:
    error = ValueError("no")
    async with open_database(tmp_path / "store.db", World()) as database:
        ends = await in_one_group(database, put("a"), failing(error), put("c"))
        assert ends == [1, error, 1]
        assert await names(database) == ["a", "c"]


async def test_a_statement_that_sqlite_refuses_fails_its_change_only(tmp_path: Path) -> None:
    async with open_database(tmp_path / "store.db", World()) as database:
        first, bad, twice = await in_one_group(database, put("a"), lambda tx: tx.change("INSERT INTO no"), put("a"))
        assert first == 1
        assert str(bad).startswith(f"{tmp_path / 'store.db'}: ")
        assert isinstance(bad, StoreError)
        assert isinstance(twice, StoreError)
        assert await names(database) == ["a"]


async def test_where_sqlite_undoes_the_whole_transaction_all_of_the_group_are_told(tmp_path: Path) -> None:
    def undo(tx: Transaction) -> None:
        tx.change("ROLLBACK")
        raise sqlite3.OperationalError("database or disk is full")

    async with open_database(tmp_path / "store.db", World()) as database:
        ends = await in_one_group(database, put("a"), undo, put("c"))
        said = f"{tmp_path / 'store.db'}: database or disk is full; free some space or make it writable; "
        assert [str(end) for end in ends] == [f"{said}what was committed is kept"] * 3
        assert await names(database) == []
        await database.write("later", put("later"))
        assert await names(database) == ["later"]


async def test_a_commit_that_fails_commits_nothing_and_the_store_goes_on(tmp_path: Path) -> None:
    async with open_database(tmp_path / "store.db", World()) as database:
        # A change that ends the transaction itself leaves nothing for the commit to end.
        ends = await in_one_group(database, put("a"), lambda tx: tx.change("ROLLBACK"))
        assert [type(end) for end in ends] == [StoreError, StoreError]
        await database.write("later", put("later"))
        assert await names(database) == ["later"]
