"""A run's history, line by line: what `--json`, the `events` resource and the report read."""

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .database import Row, Transaction
from .outlet import Outlet
from .values import JsonObject

EventType: TypeAlias = Literal[
    "run.created",
    "plan.accepted",
    "plan.rejected",
    "step.started",
    "step.ended",
    "model.called",
    "call.started",
    "call.ended",
    "action.waiting",
    "action.decided",
    "revision.made",
    "budget.refused",
    "warning",
    "run.ended",
]


@dataclass(frozen=True)
class NewEvent:
    type: EventType
    data: JsonObject
    step: str | None = None
    call: str | None = None


@dataclass(frozen=True)
class Event:
    """One line of a run's history; `at` is Unix time in seconds, `seq` counts from 1 within the run."""

    seq: int
    at: float
    run: str
    type: str
    step: str | None
    call: str | None
    data: JsonObject

    def to_json(self) -> JsonObject:
        line: JsonObject = {"seq": self.seq, "at": self.at, "run": self.run, "type": self.type}
        if self.step is not None:
            line["step"] = self.step
        if self.call is not None:
            line["call"] = self.call
        return line | {"data": self.data}


def append_event(tx: Transaction, run_id: str, event: NewEvent, *, at: float, outlet: Outlet) -> int:
    """Add one line to the run's history inside a change; returns its number."""
    tx.change("UPDATE runs SET last_seq = last_seq + 1, updated_at = ? WHERE id = ?", (at, run_id))
    found = tx.rows("SELECT last_seq, owner FROM runs WHERE id = ?", (run_id,))[0]
    seq = int(found["last_seq"])
    data = json.dumps(outlet.json(event.data))
    tx.change(
        "INSERT INTO events (run, owner, seq, at, type, step, call, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (run_id, found["owner"], seq, at, event.type, event.step, event.call, data),
    )
    return seq


def events_of(tx: Transaction, run_id: str, *, after: int = 0, limit: int = 10_000) -> list[Event]:
    """The run's events with a number above `after`, in order."""
    sql = "SELECT * FROM events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?"
    return [_event(row) for row in tx.rows(sql, (run_id, after, limit))]


def _event(row: Row) -> Event:
    return Event(row["seq"], row["at"], row["run"], row["type"], row["step"], row["call"], json.loads(row["data"]))
