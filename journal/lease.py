"""Who is alive: each process that drives runs holds a locked file, freed at any death, and renews a row."""

import logging
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from .database import Transaction
from .errors import StoreError
from .locks import held, is_free, sweep
from .runs import Run
from .store import Store
from .tasks import open_tasks

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0
DEAD_SECONDS = 30.0
"""A heartbeat older than this means dead, also where the lock is still held (a stopped process)."""

_GRACE_SECONDS = 6.0
"""A heartbeat that is too old is watched for so long first: after a sleep of the machine all are too old."""


@dataclass(frozen=True)
class Lease:
    """A process that may drive runs: those under the settings with this fingerprint.

    One that adopts none has there the id of the run that it was begun for, which is no run's fingerprint, so that it
    counts for no other also where an older release looks.
    """

    id: str
    pid: int
    host: str
    fingerprint: str
    settings_path: str
    heartbeat_at: float

    def goes_on_with(self, run: Run) -> bool:
        """Whether this process, if alive, drives the run or will where it can go on."""
        return self.id == run.driver or self.fingerprint in (run.fingerprint, run.id)


class LeaseWatch:
    """Looks at all leases of a store, again and again.

    Remembers since when it has seen each heartbeat, to tell a stopped process from a machine that slept, and which
    leases it saw free, to notice a file system whose locks do not hold.
    """

    def __init__(self, store: Store, *, grace: float = _GRACE_SECONDS) -> None:
        self._store = store
        self._grace = grace
        self._seen: dict[str, tuple[float, float]] = {}
        self._free: dict[str, float] = {}

    async def living(self, *, besides: str | None = None) -> list[Lease]:
        """The leases whose process is alive. Raises StoreError if one is renewed while its lock is free."""
        rows = await self._store.database.read(lambda tx: tx.rows("SELECT * FROM leases"))
        names = Lease.__dataclass_fields__
        leases = [Lease(**{name: row[name] for name in names}) for row in rows]
        ids = {lease.id for lease in leases}
        self._seen = {id_: seen for id_, seen in self._seen.items() if id_ in ids}
        self._free = {id_: seen for id_, seen in self._free.items() if id_ in ids}
        return [lease for lease in leases if lease.id == besides or self._is_alive(lease)]

    def _is_alive(self, lease: Lease) -> bool:
        here = lease.host == socket.gethostname()
        if not here or not is_free(_lock_path(self._store, lease.id)):
            return not self._is_stopped(lease)
        first = self._free.setdefault(lease.id, lease.heartbeat_at)
        # One renewal may fall between the two looks at a process that died right then; two can't.
        if lease.heartbeat_at > first + 1.5 * HEARTBEAT_SECONDS:
            raise StoreError(
                f"{self._store.database.path}: process {lease.pid} is alive but its lock is free, so locks do not work "
                "on this file system; set `store` to a file in a local folder"
            )
        return False

    def _is_stopped(self, lease: Lease) -> bool:
        world = self._store.world
        heartbeat, since = self._seen.get(lease.id, (None, 0.0))
        if heartbeat != lease.heartbeat_at:
            since = world.monotonic()
            self._seen[lease.id] = (lease.heartbeat_at, since)
        # A clock that was set back leaves a heartbeat in the future, which is as wrong as one that is too old.
        is_off = abs(world.now() - lease.heartbeat_at) > DEAD_SECONDS
        return is_off and world.monotonic() - since >= self._grace


async def living_now(store: Store, *, besides: str | None = None) -> list[Lease]:
    """The leases whose process is alive, told at one look: right after a sleep of the machine some may be missing.

    For what people see and ask for, and for tidying up; an engine, which takes runs over, watches instead.
    """
    return await LeaseWatch(store, grace=0.0).living(besides=besides)


@asynccontextmanager
async def open_lease(
    store: Store, *, fingerprint: str, settings_path: str, every: float = HEARTBEAT_SECONDS
) -> AsyncGenerator[Lease]:
    """Hold a lease until the block ends, renewed `every` so many seconds. Raises StoreError where locks do not work."""
    now, lease_id = store.world.now(), store.world.new_id("l")
    lease = Lease(lease_id, os.getpid(), socket.gethostname(), fingerprint, settings_path, now)
    with held(_lock_path(store, lease_id)):
        await store.database.write("lease", lambda tx: _put(tx, lease, owner=store.owner, at=now))
        try:
            async with open_tasks() as group:
                group.start_soon(_renew, store, lease, every)
                yield lease
        finally:
            await _give_up(store, lease)


async def bind_lease(store: Store, lease: Lease, run_id: str) -> None:
    """Have all see that this process, which adopts no runs, is there for this one."""
    sql = "UPDATE leases SET fingerprint = ? WHERE id = ?"
    await store.database.write("lease.bind", lambda tx: tx.change(sql, (run_id, lease.id)))


async def forget_dead(store: Store, living: list[Lease]) -> None:
    """Remove the files of processes that died, and rows of theirs that no unfinished run names any more."""
    keep = [lease.id for lease in living]
    marks = ", ".join("?" * len(keep))
    sql = (
        f"DELETE FROM leases WHERE id NOT IN ({marks}) AND heartbeat_at < ?"
        " AND id NOT IN (SELECT driver FROM runs WHERE driver IS NOT NULL AND ended_at IS NULL)"
    )
    parameters = (*keep, store.world.now() - DEAD_SECONDS)
    await store.database.write("lease.forget", lambda tx: tx.change(sql, parameters))
    sweep(_folder(store))


async def _renew(store: Store, lease: Lease, every: float) -> None:
    while True:
        await anyio.sleep(every)
        try:
            # Put, not changed: others forget a process that was stopped for long.
            await store.database.write("heartbeat", lambda tx: _put(tx, lease, owner=store.owner, at=store.world.now()))
        except StoreError as error:
            # Should it go on for long, others take the runs over and this process is fenced.
            log.error("heartbeat_failed", extra={"lease": lease.id, "error": str(error)})


async def _give_up(store: Store, lease: Lease) -> None:
    try:
        await store.database.write("lease.end", lambda tx: tx.change("DELETE FROM leases WHERE id = ?", (lease.id,)))
    except StoreError as error:
        log.error("lease_left_behind", extra={"lease": lease.id, "error": str(error)})


def _put(tx: Transaction, lease: Lease, *, owner: str, at: float) -> None:
    tx.change(
        "INSERT INTO leases (id, owner, pid, host, fingerprint, settings_path, started_at, heartbeat_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at",
        (lease.id, owner, lease.pid, lease.host, lease.fingerprint, lease.settings_path, lease.heartbeat_at, at),
    )


def _folder(store: Store) -> Path:
    return store.database.path.parent / "leases"


def _lock_path(store: Store, lease_id: str) -> Path:
    return _folder(store) / lease_id
