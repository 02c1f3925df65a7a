"""The steps of a run as readers see them: a projection kept beside the events, from which nothing is decided."""

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .database import Row, Transaction
from .values import JsonObject

StepStatus: TypeAlias = Literal[
    "pending", "running", "waiting", "succeeded", "partial", "failed", "refused", "skipped", "cancelled"
]


@dataclass(frozen=True)
class StepRow:
    """One step; `definition` is the step as planned, `position` its place in the list."""

    id: str
    position: int
    version: int
    kind: str
    title: str
    worker: str | None
    optional: bool
    dropped: bool
    status: StepStatus
    summary: str
    definition: JsonObject
    started_at: float | None
    ended_at: float | None


@dataclass(frozen=True)
class StepNews:
    """What became of a step, for readers."""

    id: str
    status: StepStatus
    summary: str = ""


def put_step(tx: Transaction, run: Row, step: StepRow) -> None:
    """Add a step of a plan; one that is there already is left as it is."""
    tx.change(
        "INSERT OR IGNORE INTO steps (run, owner, id, position, version, kind, title, worker, optional, status,"
        " definition) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(run["id"], run["owner"], step.id, step.position, step.version, step.kind, step.title, step.worker),
            *(int(step.optional), step.status, json.dumps(step.definition)),
        ),
    )


def set_step(tx: Transaction, run_id: str, news: StepNews, *, at: float) -> None:
    """Note what became of a step."""
    started = at if news.status == "running" else None
    ended = None if news.status in ("pending", "running", "waiting") else at
    tx.change(
        "UPDATE steps SET status = ?, summary = ?, started_at = COALESCE(started_at, ?), ended_at = ?"
        " WHERE run = ? AND id = ?",
        (news.status, news.summary, started, ended, run_id, news.id),
    )


def drop_step(tx: Transaction, run_id: str, step: str) -> None:
    tx.change("UPDATE steps SET dropped = 1 WHERE run = ? AND id = ?", (run_id, step))


def steps_of(tx: Transaction, run_id: str) -> list[StepRow]:
    """In the order of the plan."""
    rows = tx.rows("SELECT * FROM steps WHERE run = ? ORDER BY position", (run_id,))
    return [_step(row) for row in rows]


def _step(row: Row) -> StepRow:
    fields = {name: row[name] for name in StepRow.__dataclass_fields__}
    fields["definition"] = json.loads(row["definition"])
    fields["optional"], fields["dropped"] = bool(row["optional"]), bool(row["dropped"])
    return StepRow(**fields)
