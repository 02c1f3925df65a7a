"""Brings a store to the schema of this release, and keeps releases apart that could not share one."""

import socket
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from .errors import StoreError
from .locks import is_free
from .schema import MIGRATIONS, Migration

_DEAD_SECONDS = 30.0
"""A process of another machine whose heartbeat is older has died (DESIGN section 3)."""


def migrate(
    path: Path, connection: sqlite3.Connection, *, now: float, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Make or upgrade the tables in one transaction.

    Raises StoreError for a store of a newer release, and where a process of an older one is at work that could not
    go on beside this schema; then nothing has changed.
    """
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        _upgrade(path, connection, migrations, now=now)


def check_version(path: Path, connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Raises StoreError once a newer release has changed the store so that this one may not write any more."""
    if _number(connection, "application_id") > len(migrations):
        raise _newer(path, _number(connection, "user_version"), len(migrations))


def _upgrade(path: Path, connection: sqlite3.Connection, migrations: Sequence[Migration], *, now: float) -> None:
    found, known = _number(connection, "user_version"), len(migrations)
    if found > known:
        raise _newer(path, found, known)
    missing = list(migrations[found:])
    if not missing:
        return
    if found and not all(migration.additive for migration in missing):
        _check_alone(path, connection, now=now)
    for migration in missing:
        for statement in _statements(migration.sql):
            connection.execute(statement)
    # The lowest version whose release may still write here: that of the last change which is not additive.
    lowest = max(number for number, migration in enumerate(migrations, start=1) if not migration.additive)
    connection.execute(f"PRAGMA application_id = {lowest}")
    connection.execute(f"PRAGMA user_version = {known}")


def _statements(sql: str) -> Iterator[str]:
    """One by one; that which makes a trigger holds semicolons of its own."""
    statement = ""
    for part in sql.split(";"):
        statement += f"{part};"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _check_alone(path: Path, connection: sqlite3.Connection, *, now: float) -> None:
    """Raises StoreError while other processes are at work on the store."""
    alive: list[str] = []
    for lease_id, pid, host, heartbeat in connection.execute("SELECT id, pid, host, heartbeat_at FROM leases"):
        here = host == socket.gethostname()
        if not is_free(path.parent / "leases" / lease_id) if here else abs(now - heartbeat) < _DEAD_SECONDS:
            alive.append(f"process {pid} on {host}")
    if alive:
        raise StoreError(
            f"{path} must be upgraded, and an older release still works on it: close {', '.join(alive)} "
            "(the host that started it, or `steprelay serve`) and try again"
        )


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _newer(path: Path, found: int, known: int) -> StoreError:
    return StoreError(
        f"{path} has schema {found}, this release knows {known}; upgrade steprelay, or set `store` to another file"
    )
