"""The SQLite store: what is read and told, its versions and its end, and files that cannot be used."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from databases import failing, names, put

from journal.database import Database, Transaction, open_database
from journal.errors import StoreError
from journal.schema import VERSION
from journal.world import World


async def test_what_is_committed_is_written_ahead_and_through_to_the_disk(tmp_path: Path) -> None:
    def settings(tx: Transaction) -> list[object]:
        return [tx.rows(f"PRAGMA {name}")[0][0] for name in ("journal_mode", "synchronous", "fullfsync")]

    async with open_database(tmp_path / "store.db", World()) as database:
        assert await database.write("look", settings) == ["wal", 2, 1]


@pytest.mark.parametrize("place", ["read", "write"])
async def test_even_what_no_future_can_hold_is_heard(tmp_path: Path, place: str) -> None:
    def query(tx: Transaction) -> Any:
        return next(iter(()))

    async with open_database(tmp_path / "store.db", World()) as database:
        hand_over: Callable[[Any], Any] = database.read if place == "read" else partial(database.write, place)
        with anyio.fail_after(5), pytest.raises(RuntimeError, match="StopIteration"):
            await hand_over(query)
        await database.write("x", put("a"))
        assert await names(database) == ["a"]


async def test_a_query_sees_the_store_as_it_was_when_it_began(tmp_path: Path) -> None:
    began, written = Event(), Event()

    def count(tx: Transaction) -> int:
        return int(tx.rows("SELECT COUNT(*) FROM remembered")[0][0])

    def twice(tx: Transaction) -> tuple[int, int]:
        first = count(tx)
        began.set()
        assert written.wait(5)
        return first, count(tx)

    async with open_database(tmp_path / "store.db", World()) as database:
        seen: list[tuple[int, int]] = []

        async def look() -> None:
            seen.append(await database.read(twice))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(look)
                await anyio.to_thread.run_sync(began.wait, 5)
                await database.write("x", put("a"))
                written.set()
        assert (seen, await database.read(count)) == ([(0, 0)], 1)


async def test_a_full_disk_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    async with open_database(tmp_path / "store.db", World()) as database:
        await database.write("kept", put("kept"))
        await database.write("limit", lambda tx: tx.rows("PRAGMA max_page_count = 1"))
        with pytest.raises(StoreError, match="full; free some space"):
            await database.write("large", put("large", "x" * 1_000_000))
        assert await names(database) == ["kept"]
        await database.write("freed", lambda tx: tx.rows("PRAGMA max_page_count = 100000"))
        await database.write("large", put("large", "x" * 1_000_000))
        assert await names(database) == ["kept", "large"]


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("database is locked", "another process holds it"),
        ("database disk image is malformed", "move it away or restore a copy"),
        ("disk I/O error", "free some space"),
        ("attempt to write a readonly database", "make it writable"),
        ("unable to open database file", "in a folder you own"),
        ("no such table: runs", "the log in the state folder"),
    ],
)
async def test_an_error_of_sqlite_names_the_file_and_the_way_out(tmp_path: Path, text: str, way: str) -> None:
    async with open_database(tmp_path / "store.db", World()) as database:
        with pytest.raises(StoreError) as written:
            await database.write("x", failing(sqlite3.OperationalError(text)))
        with pytest.raises(StoreError) as read:
            await database.read(lambda tx: failing(sqlite3.OperationalError(text))(tx))
    assert str(written.value).startswith(f"{tmp_path / 'store.db'}: {text}; ")
    assert way in str(written.value)
    assert str(read.value)


async def test_what_a_query_raises_reaches_who_asked_and_the_reader_goes_on(tmp_path: Path) -> None:
    def query(tx: Transaction) -> None:
        raise KeyError("mine")

    async with open_database(tmp_path / "store.db", World()) as database:
        with pytest.raises(KeyError, match="mine"):
            await database.read(query)
        with pytest.raises(StoreError, match="readonly"):
            await database.read(put("a"))
        assert await names(database) == []


async def test_a_cancelled_write_is_committed_all_the_same_and_its_caller_sees_the_cancellation(tmp_path: Path) -> None:
    async with open_database(tmp_path / "store.db", World()) as database:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await database.write("x", put("a"))
            await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        assert await names(database) == ["a"]


async def test_what_asyncio_cancels_before_it_began_is_not_done(tmp_path: Path) -> None:
    busy, free = Event(), Event()

    def hold(tx: Transaction) -> None:
        busy.set()
        assert free.wait(5)

    async with open_database(tmp_path / "store.db", World()) as database:
        for place in ("read", "write"):
            hand_over: Callable[[Any], Any] = database.read if place == "read" else partial(database.write, place)
            busy.clear()
            free.clear()
            first = asyncio.ensure_future(hand_over(hold))
            await asyncio.to_thread(busy.wait, 5)
            second = asyncio.ensure_future(hand_over(put("never")))
            await anyio.wait_all_tasks_blocked()
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            free.set()
            await first
        assert await names(database) == []


async def test_the_version_changes_with_every_commit_and_only_then(tmp_path: Path) -> None:
    async with open_database(tmp_path / "store.db", World()) as one, open_database(one.path, World()) as other:
        before = await one.version()
        assert await one.version() == before
        await other.write("x", put("a"))
        assert await one.version() != before


async def test_half_a_surrogate_pair_is_stored_as_a_question_mark(tmp_path: Path) -> None:
    async with open_database(tmp_path / "store.db", World()) as database:
        await database.write("x", put("a\ud83d", "\udc00ä"))
        rows = await database.read(lambda tx: [tuple(row) for row in tx.rows("SELECT name, value FROM remembered")])
    assert rows == [("a?", "?ä")]


async def test_what_was_handed_in_before_the_end_is_done_and_nothing_after(tmp_path: Path) -> None:
    busy, free = Event(), Event()

    def hold(tx: Transaction) -> None:
        busy.set()
        assert free.wait(5)

    async with open_database(tmp_path / "store.db", World()) as database:
        async with anyio.create_task_group() as group:
            group.start_soon(database.write, "hold", hold)
            await anyio.to_thread.run_sync(busy.wait, 5)
            group.start_soon(database.write, "x", put("a"))
            await anyio.wait_all_tasks_blocked()
            database.stop(writes=True)
            free.set()
        with pytest.raises(StoreError, match="was closed; nothing more is read or written"):
            await database.write("x", put("b"))
    async with open_database(tmp_path / "store.db", World()) as database:
        assert await names(database) == ["a"]


async def test_many_may_create_one_store_at_once(tmp_path: Path) -> None:
    async def open_and_put(name: str) -> None:
        async with open_database(tmp_path / "store.db", World()) as database:
            await database.write("x", put(name))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(open_and_put, f"n{number}")
    async with open_database(tmp_path / "store.db", World()) as database:
        assert len(await names(database)) == 8


async def test_opening_can_be_cancelled(tmp_path: Path) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with open_database(tmp_path / "store.db", World()):
            pytest.fail("opened")
    never: Future[None] = Future()
    never.cancel()
    Database(tmp_path / "none.db", World()).run_writer(never)
    assert not (tmp_path / "none.db").exists()


async def test_the_store_is_private_to_its_user(tmp_path: Path) -> None:
    async with open_database(tmp_path / "state" / "store.db", World()) as database:
        await database.write("x", put("a"))
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()}
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    files = ("store.db", "store.db-wal", "store.db-shm", "audit.key")
    assert modes == {**dict.fromkeys(files, 0o600), "leases": 0o700}


def a_file_in_the_way(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file" / "store.db"


def a_folder(folder: Path) -> Path:
    (folder / "store.db").mkdir()
    return folder / "store.db"


def no_database(folder: Path) -> Path:
    (folder / "store.db").write_text("dear diary, " * 1000)
    return folder / "store.db"


def newer(folder: Path) -> Path:
    with sqlite3.connect(folder / "store.db") as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    return folder / "store.db"


def no_lease_folder(folder: Path) -> Path:
    (folder / "leases").write_text("")
    return folder / "store.db"


@pytest.mark.parametrize(
    ("make", "way"),
    [
        (a_file_in_the_way, "set `store` to a folder you own"),
        (a_folder, "make sure that it is a file in a folder you own"),
        (no_database, "move it away or restore a copy"),
        (newer, f"has schema {VERSION + 1}, this release knows {VERSION}; upgrade steprelay"),
        (no_lease_folder, "set `store` to a file in a folder you own"),
    ],
)
async def test_a_store_that_cannot_be_used_is_refused_with_its_name_and_the_way_out(
    tmp_path: Path, make: Callable[[Path], Path], way: str
) -> None:
    path = make(tmp_path)
    with pytest.raises(StoreError) as refused:
        async with open_database(path, World()):
            pytest.fail("opened")
    assert str(path.parent) in str(refused.value)
    assert way in str(refused.value)


async def test_a_process_stops_writing_once_a_newer_release_has_migrated_the_store(tmp_path: Path) -> None:
    async with open_database(tmp_path / "store.db", World()) as database:
        with sqlite3.connect(database.path) as connection:
            connection.execute(f"PRAGMA user_version = {VERSION + 1}")
            connection.execute(f"PRAGMA application_id = {VERSION + 1}")
        connection.close()
        with pytest.raises(StoreError, match="upgrade steprelay"):
            await database.write("x", put("a"))
        assert await names(database) == []
