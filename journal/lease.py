"""Who is alive: each process that drives runs holds a locked file, freed at any death, and renews a row."""

import os
import socket
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from .database import Transaction
from .errors import StoreError
from .store import Store

HEARTBEAT_SECONDS = 5.0
DEAD_SECONDS = 30.0
"""A heartbeat older than this means dead, also where the lock is still held (a stopped process)."""


@dataclass(frozen=True)
class Lease:
    """A process that may drive runs under the settings with this fingerprint."""

    id: str
    pid: int
    host: str
    fingerprint: str
    settings_path: str
    heartbeat_at: float


class LeaseWatch:
    """Looks at all leases of a store; remembers those seen free, to notice a file system whose locks do not hold."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._free: dict[str, float] = {}

    async def living(self, *, besides: str | None = None) -> list[Lease]:
        """The leases whose process is alive. Raises StoreError if one is renewed while its lock is free."""
        rows = await self._store.database.read(lambda tx: tx.rows("SELECT * FROM leases"))
        names = Lease.__dataclass_fields__
        leases = [Lease(**{name: row[name] for name in names}) for row in rows]
        return [lease for lease in leases if lease.id == besides or self._is_alive(lease)]

    def _is_alive(self, lease: Lease) -> bool:
        if self._store.world.now() - lease.heartbeat_at > DEAD_SECONDS:
            return False
        if lease.host != socket.gethostname():
            return True
        if not _is_free(_lock_path(self._store, lease.id)):
            return True
        seen = self._free.setdefault(lease.id, lease.heartbeat_at)
        if lease.heartbeat_at > seen + HEARTBEAT_SECONDS:
            raise StoreError(
                f"{self._store.database.path}: process {lease.pid} is alive but its lock is free, so locks do not work "
                "on this file system; set `store` to a local folder"
            )
        return False


@asynccontextmanager
async def open_lease(store: Store, *, fingerprint: str, settings_path: str) -> AsyncGenerator[Lease]:
    """Hold a lease until the block ends, renewed every 5 s. Raises StoreError where locks do not work."""
    lease_id = store.world.new_id("l")
    now = store.world.now()
    lease = Lease(lease_id, os.getpid(), socket.gethostname(), fingerprint, settings_path, now)
    with _held(_lock_path(store, lease_id)):
        await store.database.write("lease", lambda tx: _insert(tx, lease, store.owner))
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_renew, store, lease_id)
                yield lease
                group.cancel_scope.cancel()
        finally:
            await store.database.write("lease.end", lambda tx: _delete(tx, lease_id))


async def forget_dead(store: Store, living: list[Lease]) -> None:
    """Remove rows of leases that nobody holds and that no unfinished run names any more."""
    keep = [lease.id for lease in living]
    marks = ", ".join("?" * len(keep)) or "NULL"
    sql = (
        f"DELETE FROM leases WHERE id NOT IN ({marks}) AND heartbeat_at < ?"
        " AND id NOT IN (SELECT driver FROM runs WHERE driver IS NOT NULL AND ended_at IS NULL)"
    )
    parameters = (*keep, store.world.now() - DEAD_SECONDS)
    if await store.database.write("lease.forget", lambda tx: tx.change(sql, parameters)):
        _sweep(store, set(keep))


def _sweep(store: Store, keep: set[str]) -> None:
    for path in _folder(store).glob("l_*"):
        if path.name not in keep and _is_free(path):
            path.unlink(missing_ok=True)


async def _renew(store: Store, lease_id: str) -> None:
    sql = "UPDATE leases SET heartbeat_at = ? WHERE id = ?"
    while True:
        await anyio.sleep(HEARTBEAT_SECONDS)
        await store.database.write("heartbeat", lambda tx: tx.change(sql, (store.world.now(), lease_id)))


def _insert(tx: Transaction, lease: Lease, owner: str) -> None:
    tx.change(
        "INSERT INTO leases (id, owner, pid, host, fingerprint, settings_path, started_at, heartbeat_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(lease.id, owner, lease.pid, lease.host, lease.fingerprint, lease.settings_path),
            *(lease.heartbeat_at, lease.heartbeat_at),
        ),
    )


def _delete(tx: Transaction, lease_id: str) -> None:
    tx.change("DELETE FROM leases WHERE id = ?", (lease_id,))


def _folder(store: Store) -> Path:
    return store.database.path.parent / "leases"


def _lock_path(store: Store, lease_id: str) -> Path:
    return _folder(store) / lease_id


@contextmanager
def _held(path: Path) -> Generator[None]:
    """Lock under a temporary name, then rename: nobody ever sees the file without its lock."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _try_lock(descriptor) or _is_free(part):
            raise StoreError(f"{path.parent}: file locks do not work here; set `store` to a local folder")
        part.rename(path)
        yield
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)
        part.unlink(missing_ok=True)


def _is_free(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        return _try_lock(descriptor)
    finally:
        os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
