"""Right before a call goes out: whether this drive still has the run, and whether another process may send it too."""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .database import Database, Transaction
from .errors import Fenced
from .intents import Intent, extend_intent
from .locks import is_free
from .runs import Run
from .world import World


@dataclass(frozen=True)
class Sender:
    """A process that had begun a call and lost its run; `pid` where it is known, `until` when to look again."""

    pid: int | None
    until: float


class Sending:
    """The sends of one drive. `guard` raises Fenced inside a change, once another drive has taken over."""

    def __init__(self, database: Database, run: Run, world: World, *, guard: Callable[[Transaction], None]) -> None:
        self._database = database
        self._run = run
        self._world = world
        self._guard = guard

    async def clear(self, key: str, *, seconds: float) -> None:
        """Let a call go out: it has so many seconds left at least, where it has an intent. Raises Fenced."""
        until = self._world.now() + seconds
        sql = (
            "SELECT deadline FROM runs LEFT JOIN intents ON run = runs.id AND key = ?"
            " WHERE runs.id = ? AND runs.epoch = ? AND runs.ended_at IS NULL"
        )
        row = await self._database.read(lambda tx: tx.row(sql, (key, self._run.id, self._run.epoch)))
        if row is None:
            raise Fenced(self._run.id)
        if row["deadline"] is not None and row["deadline"] < until:
            await self._database.write("deadline", lambda tx: self._extend(tx, key, until))

    async def elsewhere(self, intent: Intent) -> Sender | None:
        """The other process that may still send the call: it is not dead, and the deadline has not passed."""
        now = self._world.now()
        if intent.driver in (None, self._run.driver) or intent.deadline is None or now >= intent.deadline:
            return None
        leases = self._database.path.parent / "leases"
        # A clock that was set back puts the deadline far away, while the process may die at any time.
        until = min(intent.deadline, now + intent.deadline - intent.begun_at)
        return await self._database.read(lambda tx: _sender(tx, leases, str(intent.driver), until=until))

    def _extend(self, tx: Transaction, key: str, until: float) -> None:
        self._guard(tx)
        extend_intent(tx, self._run.id, key, deadline=until)


def _sender(tx: Transaction, leases: Path, lease_id: str, *, until: float) -> Sender | None:
    # Others forget the row of a process that was stopped for long; its lock stays for as long as it lives.
    lease = tx.row("SELECT pid, host FROM leases WHERE id = ?", (lease_id,))
    here = lease is None or lease["host"] == socket.gethostname()
    return None if here and is_free(leases / lease_id) else Sender(lease["pid"] if lease else None, until)
