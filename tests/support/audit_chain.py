"""Whether an audit holds together, as `steprelay audit verify` looks at it."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio

from journal.audit_check import check_audit
from journal.database import Transaction
from journal.store import Store

T = TypeVar("T")


@dataclass(frozen=True)
class OnConnection:
    """A store that nobody has opened, read in place."""

    connection: sqlite3.Connection

    async def read(self, query: Callable[[Transaction], T]) -> T:
        return query(Transaction(self.connection))


def broken_at(connection: sqlite3.Connection) -> int | None:
    """The number of the first line that does not hold; for code without a loop."""
    broken = anyio.run(check_audit, OnConnection(connection)).broken
    return None if broken is None else broken.seq


async def broken_line(store: Store) -> int | None:
    """The number of the first line that does not hold."""
    broken = (await check_audit(store.database)).broken
    return None if broken is None else broken.seq
