"""The SQLite store: one writer thread with group commit, one reader thread, WAL and full synchronisation."""

import asyncio
import json
import queue
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio

from .audit_key import lend_key
from .errors import StoreError
from .handover import Job, Result, deliver, end_of
from .locks import check_locks
from .migration import check_version, migrate
from .sqlite_errors import explained, is_damage
from .world import World

T = TypeVar("T")
Row = sqlite3.Row

_BUSY_SECONDS = 30.0
"""For so long the lock of another process is waited for."""
_SMALLEST = 512
"""SQLite takes a file with less in it for an empty one, and would begin anew."""
_GROUP = 64
"""At most so many changes share one commit."""
_NO_CHANGE = ""
"""The point of what the writer's connection is asked outside of a transaction."""


class Transaction:
    """What a query or a change may do with the database; valid only while it runs."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        found: Row | None = self._execute(sql, parameters).fetchone()
        return found

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement; returns how many rows it changed."""
        return self._execute(sql, parameters).rowcount

    def _execute(self, sql: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, parameters)
        except UnicodeEncodeError:
            # Text of models and servers may hold half a surrogate pair, which has no UTF-8 form.
            return self._connection.execute(sql, [_storable(value) for value in parameters])


class Database:
    """A store that is open. Use `open_database`.

    `read` and `write` run a plain function on a thread of the database; what it raises reaches the caller. A query sees
    the store as it was when it began, and a change that raised leaves nothing behind. Changes that arrive together
    share one commit; `changes` and `commits` count. `after_commit` may look at what was committed, on the writer's
    thread and before anybody hears; it must not raise.
    Once the file shows damage, nothing more is read or written: going on could cost what is still whole.
    """

    def __init__(self, path: Path, world: World, *, patience: float = _BUSY_SECONDS) -> None:
        self.path = path
        self.changes = 0
        self.commits = 0
        self.after_commit: Callable[[Transaction], None] | None = None
        self._world = world
        self._patience = patience
        self._damage: StoreError | None = None
        self._changes: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._queries: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._closed = False

    async def read(self, query: Callable[[Transaction], T]) -> T:
        return await self._hand_over(self._queries, "read", query)

    async def write(self, point: str, change: Callable[[Transaction], T]) -> T:
        """Commit `change`; `point` names the boundary for crash tests. Not cut short by cancellation."""
        done: list[T] = []
        with anyio.CancelScope(shield=True):
            done.append(await self._hand_over(self._changes, point, change))
        return done[0]

    async def version(self) -> int:
        """A number that changes whenever anything was committed, by any process."""
        return await self.read(_data_version)

    async def version_of_others(self) -> int:
        """A number that changes whenever anything was committed but through here."""
        # To SQLite, the others are those besides the connection that is asked.
        return await self._hand_over(self._changes, _NO_CHANGE, _data_version)

    async def _hand_over(
        self, jobs: "queue.SimpleQueue[Job[Any] | None]", point: str, work: Callable[[Transaction], T]
    ) -> T:
        if self._closed:
            raise StoreError(f"{self.path} was closed; nothing more is read or written here")
        if self._damage is not None:
            raise self._damage
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        jobs.put(Job(point, work, waiter))
        return await waiter

    def run_writer(self, ready: "Future[None]") -> None:
        """The writer thread: opens, migrates, then commits groups of changes until it is told to stop."""
        self._serve(ready, self._changes, self._commit_group, writes=True)

    def run_reader(self, ready: "Future[None]") -> None:
        self._serve(ready, self._queries, self._answer, writes=False)

    def stop(self, *, writes: bool) -> None:
        """Take nothing more, and have the writer or the reader end after what it was given so far."""
        self._closed = True
        (self._changes if writes else self._queries).put(None)

    def _serve(
        self,
        ready: "Future[None]",
        jobs: "queue.SimpleQueue[Job[Any] | None]",
        handle: Callable[[sqlite3.Connection, list[Job[Any]]], None],
        *,
        writes: bool,
    ) -> None:
        # From here on a waiter that was cancelled no longer cancels the future under us.
        if not ready.set_running_or_notify_cancel():
            return
        try:
            connection = _connect(self.path, writes=writes, world=self._world, patience=self._patience)
        except (sqlite3.Error, StoreError) as error:
            ready.set_exception(explained(self.path, error))
            return
        ready.set_result(None)
        while group := _next_group(jobs):
            if (problem := end_of(partial(handle, connection, group)).problem) is not None:
                # All who still wait hear of it: nothing of the group is committed, or a look at it has failed.
                deliver([Result(job, problem=self._told(problem)) for job in group])
        connection.close()

    def _answer(self, connection: sqlite3.Connection, group: list[Job[Any]]) -> None:
        for job in group:
            if job.waiter.cancelled():
                continue
            # Several statements of a query read of one moment.
            connection.execute("BEGIN")
            try:
                result = self._done(connection, job)
            finally:
                _roll_back(connection)
            deliver([result])

    def _commit_group(self, connection: sqlite3.Connection, group: list[Job[Any]]) -> None:
        self._answer(connection, [job for job in group if job.point == _NO_CHANGE])
        live = [job for job in group if job.point != _NO_CHANGE and not job.waiter.cancelled()]
        if not live:
            return
        results: list[Result[Any]] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            check_version(self.path, connection)
            for job in live:
                results.append(self._try_change(connection, job))
            connection.execute("COMMIT")
            self.commits += 1
        finally:
            # What was not committed.
            _roll_back(connection)
        for result in results:
            if result.problem is None:
                self.changes += 1
                self._world.reach(f"{result.job.point}.committed")
        if self.after_commit is not None:
            self.after_commit(Transaction(connection))
        deliver(results)

    def _try_change(self, connection: sqlite3.Connection, job: Job[Any]) -> Result[Any]:
        self._world.reach(f"{job.point}.before")
        connection.execute("SAVEPOINT change")
        result = self._done(connection, job)
        if result.problem is not None:
            # A full disk and the like make SQLite undo the whole transaction, so there is no change left to undo.
            if not connection.in_transaction:
                raise result.problem
            connection.execute("ROLLBACK TO change")
        connection.execute("RELEASE change")
        if result.problem is None:
            self._world.reach(f"{job.point}.written")
        return result

    def _done(self, connection: sqlite3.Connection, job: Job[Any]) -> Result[Any]:
        """What comes of a job, which may raise whatever it wants."""
        end = end_of(partial(job.work, Transaction(connection)))
        return Result(job, end.value, None if end.problem is None else self._told(end.problem))

    def _told(self, error: Exception) -> Exception:
        """The error as whoever waits is to see it; damage is remembered."""
        if not isinstance(error, sqlite3.Error | json.JSONDecodeError):
            return error
        told = explained(self.path, error)
        if is_damage(error):
            self._damage = told
        return told


@asynccontextmanager
async def open_database(path: Path, world: World, *, patience: float = _BUSY_SECONDS) -> AsyncGenerator[Database]:
    """Open (and create or migrate) the store at `path`; raises StoreError that names the file and the way out.

    The lock of another process is waited for with `patience`, in seconds.
    """
    _make_private(path)
    check_locks(path.parent / "leases")
    database = Database(path, world, patience=patience)
    threads: list[threading.Thread] = []
    runs = ((database.run_writer, "journal-writer"), (database.run_reader, "journal-reader"))
    try:
        for run, name in runs:
            ready: Future[None] = Future()
            thread = threading.Thread(target=run, args=(ready,), name=name, daemon=True)
            thread.start()
            threads.append(thread)
            await asyncio.wrap_future(ready)
        yield database
    finally:
        with anyio.CancelScope(shield=True):
            # The writer's connection closes last: closed at once, neither would tidy up the log beside the file.
            for number, thread in reversed(list(enumerate(threads))):
                database.stop(writes=number == 0)
                await anyio.to_thread.run_sync(thread.join, 5.0)


def _next_group(jobs: "queue.SimpleQueue[Job[Any] | None]") -> list[Job[Any]]:
    """What waits now, at least one; empty when it is time to stop."""
    group: list[Job[Any]] = []
    while not group or (len(group) < _GROUP and not jobs.empty()):
        if (job := jobs.get()) is None:
            # Seen again by the next call, after the changes before it are done.
            if group:
                jobs.put(None)
            break
        group.append(job)
    return group


def _data_version(tx: Transaction) -> int:
    return int(tx.rows("PRAGMA data_version")[0][0])


def _storable(value: Any) -> Any:
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _make_private(path: Path) -> None:
    rest, size = path.with_name(f"{path.name}-wal"), _size(path)
    if path.is_file() and 0 < size < _SMALLEST:
        raise explained(path, sqlite3.DatabaseError("file is not a database"))
    # SQLite would throw away what belongs to a database that is not there, committed as it may be.
    if _size(rest) and not size:
        raise StoreError(
            f"{path} is missing or empty, but {rest.name} beside it holds what belongs to it; put {path.name} back, or "
            f"move {rest.name} away to begin with an empty store"
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error.strerror}); set `store` to a folder you own") from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _connect(path: Path, *, writes: bool, world: World, patience: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=patience)
    with ExitStack() as opening:
        opening.callback(connection.close)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA synchronous = FULL")
        # On macOS only: a sync alone leaves what was written in the drive's cache.
        connection.execute("PRAGMA fullfsync = ON")
        if writes:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise StoreError(
                    f"{path}: SQLite can't write ahead here (its journal stays {mode}), so processes could not share "
                    "it; set `store` to a file in a local folder"
                )
            migrate(path, connection, now=world.now())
        else:
            connection.execute("PRAGMA query_only = ON")
        lend_key(connection, path.parent)
        opening.pop_all()
    return connection


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
