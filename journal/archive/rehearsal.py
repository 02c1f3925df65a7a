"""A run set up to be driven once more, in a store of its own that holds only what came to it from outside."""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import anyio

from journal.artifact_files import write_whole
from journal.artifacts import ArtifactLost
from journal.database import Transaction
from journal.errors import SteprelayError
from journal.events import NewEvent
from journal.intents import NewIntent
from journal.ledger import Limits, Reservation
from journal.run_journal import Meaning, Recorded, RunJournal
from journal.runs import Run
from journal.shared import Shared
from journal.store import Store, open_store
from journal.values import JsonObject
from journal.world import World

from .record import TABLES, Record

KEPT_EPOCH = 0
"""The epoch of rows that a run was given when it was forked from another."""
_DECIDED_ANEW = frozenset({"plan", "check", "outcome", "attempt", "trigger", "snapshot", "decision", "order"})
"""Memo rows that follow from others; all else came from outside or from the moment, and is taken from the record."""
_UNCHECKED = frozenset({"check"})
"""What a redacted record can't decide anew: its values no longer break the rules that they broke."""
_OF_THE_SETTINGS = frozenset({"rung"})
"""Rows whose meaning names a model: the settings may have another by now."""
_LEFT_OUT = frozenset({"events", "steps", "audit", "actions"})


def is_made_anew(record: Record, row: JsonObject) -> bool:
    """Whether a replay makes this memo row itself; what a fork was given was made elsewhere."""
    if row["epoch"] == KEPT_EPOCH or (record.redacted and row["name"] in _UNCHECKED):
        return False
    return row["name"] in _DECIDED_ANEW


class RecordEnds(SteprelayError):
    """What is driven again wants to ask, or to call, something for which the record has no answer."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the record has no answer for {key}")


class RecordClock:
    """Stands where the record stands."""

    def __init__(self, at: float) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


class ReplayJournal(RunJournal):
    """A journal with which nothing is ever sent. `by_name` compares no hashes of meanings, only names."""

    def __init__(self, shared: Shared, run: Run, limits: Limits, *, by_name: bool) -> None:
        super().__init__(shared, run, limits)
        self._by_name = by_name

    async def recall(self, key: str, meaning: Meaning) -> Recorded | None:
        if not self._by_name and meaning.name not in _OF_THE_SETTINGS:
            return await super().recall(key, meaning)
        named = await self.records(meaning.name)
        return Recorded(named[key]) if key in named else None

    def may_have(self, actions: Iterable[str]) -> None:
        """Actions come and go under this journal: there may be some under these keys."""
        for key in actions:
            self._known.note("actions", key)

    async def begin_call(
        self, reservation: Reservation, *, event: NewEvent | None = None, intent: NewIntent | None = None
    ) -> None:
        """Raises RecordEnds: whoever comes here is about to send."""
        raise RecordEnds(reservation.key)


class Rehearsal:
    """The journal to drive with, and the clock and decisions as they stood at a time of the record."""

    def __init__(self, store: Store, record: Record, journal: ReplayJournal, clock: RecordClock) -> None:
        self.store = store
        self.record = record
        self.journal = journal
        self._clock = clock

    async def move_to(self, at: float) -> None:
        """Let time and decisions stand as they did then."""
        self._clock.at = at
        then = [row for row in (as_of(row, at) for row in self.record.tables["actions"]) if row is not None]

        def change(tx: Transaction) -> None:
            tx.change("DELETE FROM actions WHERE run = ?", (self.record.run.id,))
            _insert(tx, "actions", then)

        await self.store.database.write("replay", change)
        self.journal.may_have(str(row["key"]) for row in then)


def as_of(action: JsonObject, at: float) -> JsonObject | None:
    """An action's row as it was at a time: not there, waiting, or decided."""
    if action["created_at"] > at:
        return None
    decided_at = action["decided_at"]
    if action["state"] == "superseded" or (decided_at is not None and decided_at <= at):
        return action
    lapsed = action["state"] == "expired" and action["expires_at"] is not None and action["expires_at"] <= at
    if lapsed:
        return action
    undone = dict.fromkeys(("choice", "decided_level", "via", "decided_at", "note", "content"))
    return action | undone | {"state": "waiting", "handled": 0}


Limited = Callable[[Run], Limits]


@asynccontextmanager
async def open_rehearsal(store: Store, record: Record, *, limits: Limited, by_name: bool) -> AsyncGenerator[Rehearsal]:
    """A rehearsal of this record, in a temporary folder; the store itself is only read."""
    clock, numbers = RecordClock(record.run.created_at), count(1)
    world = World(
        now=clock, monotonic=lambda: 0.0, new_id=lambda prefix: f"{prefix}_replay{next(numbers)}", chance=lambda: 0.5
    )
    async with anyio.TemporaryDirectory(prefix="steprelay-replay-") as name:  # noqa: SIM117  # one needs the other
        async with open_store(Path(name) / "replay.db", world, store.outlet, owner=store.owner) as scratch:
            await _copy_files(store, scratch, record)
            await scratch.database.write("replay", lambda tx: _set_up(tx, record))
            shared = Shared(scratch.database, scratch.artifacts, scratch.bell, world, scratch.outlet)
            run = await scratch.run(record.run.id)
            journal = ReplayJournal(shared, run, limits(run), by_name=by_name)
            yield Rehearsal(scratch, record, journal, clock)


async def _copy_files(store: Store, scratch: Store, record: Record) -> None:
    """The files that are as they were; those that are not are missed by whoever reads them."""
    for artifact in await store.artifacts.of_run(record.run.id):
        try:
            content = await store.artifacts.content(artifact)
        except ArtifactLost:
            continue
        write_whole(scratch.artifacts.folder / record.run.id, artifact.id, content)


def _set_up(tx: Transaction, record: Record) -> None:
    begun: JsonObject = {"status": "running", "warnings": "[]", "last_seq": 0}
    gone = ("origin", "stop_reason", "message", "answer", "result", "ended_at", "cancel_reason", "wake_at", "driver")
    _insert(tx, "runs", [record.row | begun | dict.fromkeys(gone)])
    for table in TABLES:
        if table not in _LEFT_OUT:
            _insert(tx, table, record.tables[table])
    for row in record.tables["memo"]:
        # The order is always gone through again.
        if row["name"] == "order" or is_made_anew(record, row):
            tx.change("DELETE FROM memo WHERE run = ? AND key = ?", (row["run"], row["key"]))


def _insert(tx: Transaction, table: str, rows: Iterable[JsonObject]) -> None:
    for row in rows:
        marks = ", ".join("?" * len(row))
        tx.change(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
