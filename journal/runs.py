"""Runs as rows: creating or finding one, listing, and what may be done to one that this process does not drive."""

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from .actions import drop_approvals
from .canonical import digest
from .database import Row, Transaction
from .errors import SteprelayError, UnknownId
from .events import NewEvent, append_event
from .grants import Grant, drop_grants, give
from .outlet import Outlet
from .read_only import refuse_imported
from .values import JsonObject
from .world import World

RunStatus: TypeAlias = Literal[
    "planning", "running", "awaiting_approval", "succeeded", "partial", "failed", "cancelled"
]
RUN_STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)
ENDED: frozenset[str] = frozenset({"succeeded", "partial", "failed", "cancelled"})
StopReason: TypeAlias = Literal["done", "budget", "deadline", "refused", "no_progress", "error", "cancelled"]

_ATTACH_SECONDS = 600.0
"""A repeated request without a key attaches to its run for so long (DESIGN section 3)."""


class KeyInUse(SteprelayError):
    """An idempotency key came again with another goal."""

    def __init__(self, key: str, run_id: str) -> None:
        super().__init__(f"idempotency_key {key!r} belongs to run {run_id} with another goal or context; use a new key")


@dataclass(frozen=True)
class NewRun:
    """A goal with all that decides who may drive it and within which limits.

    `goal_label` is `user` (typed by a person) or `host`; `options` are plain data for the floors above.
    """

    owner: str
    fingerprint: str
    settings_path: str
    goal: str
    goal_label: Literal["user", "host"]
    context: str
    options: JsonObject
    idempotency_key: str | None = None
    grants: tuple[Grant, ...] = ()

    @property
    def request_hash(self) -> str:
        return digest([self.fingerprint, self.goal, self.context])


@dataclass(frozen=True)
class Run:
    """A run as the journal has it. Times are Unix seconds; `result` is what the answer was made of.

    `origin` is null for a run that began here; else `{"import": …}`, or `{"fork": {"run", "from"}}`.
    """

    id: str
    owner: str
    fingerprint: str
    settings_path: str
    goal: str
    goal_label: str
    context: str
    options: JsonObject
    status: RunStatus
    stop_reason: StopReason | None
    message: str | None
    answer: str | None
    result: JsonObject
    warnings: tuple[str, ...]
    epoch: int
    driver: str | None
    wake_at: float | None
    cancel_reason: str | None
    driven_seconds: float
    created_at: float
    updated_at: float
    ended_at: float | None
    last_seq: int
    origin: JsonObject | None

    @property
    def imported(self) -> bool:
        return self.origin is not None and "import" in self.origin

    @property
    def ended(self) -> bool:
        """Whether nothing will go on by itself, as in any run that was imported, whatever its status."""
        return self.status in ENDED or self.imported


def run_from_row(row: Row) -> Run:
    fields = {name: row[name] for name in Run.__dataclass_fields__}
    fields["options"] = json.loads(row["options"])
    fields["result"] = json.loads(row["result"] or "{}")
    fields["origin"] = json.loads(row["origin"] or "null")
    fields["warnings"] = tuple(json.loads(row["warnings"]))
    return Run(**fields)


def create_or_attach(tx: Transaction, new: NewRun, *, driver: str, world: World, outlet: Outlet) -> tuple[str, bool]:
    """The id of the run for this request and whether it was created now. Raises KeyInUse or GrantSpent."""
    now = world.now()
    if (found := _same_request(tx, new, now)) is not None:
        return found, False
    run_id = world.new_id("r")
    tx.change(
        "INSERT INTO runs (id, owner, fingerprint, settings_path, goal, goal_label, context, options, idempotency_key,"
        " request_hash, status, driver, created_at, updated_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'planning', ?, ?, ?)",
        (
            *(run_id, new.owner, new.fingerprint, new.settings_path, new.goal, new.goal_label, new.context),
            *(json.dumps(new.options), new.idempotency_key, new.request_hash, driver, now, now),
        ),
    )
    append_event(tx, run_id, NewEvent("run.created", {"goal": new.goal}), at=now, outlet=outlet)
    give(tx, run_id, new.grants, owner=new.owner, world=world, outlet=outlet)
    return run_id, True


def _same_request(tx: Transaction, new: NewRun, now: float) -> str | None:
    if new.idempotency_key is not None:
        sql = "SELECT id, goal, context FROM runs WHERE owner = ? AND idempotency_key = ?"
        found = tx.row(sql, (new.owner, new.idempotency_key))
        if found is not None and (found["goal"], found["context"]) != (new.goal, new.context):
            raise KeyInUse(new.idempotency_key, found["id"])
    else:
        found = tx.row(
            "SELECT id FROM runs WHERE owner = ? AND request_hash = ? AND created_at > ? AND idempotency_key IS NULL"
            " AND (delivered = 0 OR ended_at IS NULL) ORDER BY created_at DESC LIMIT 1",
            (new.owner, new.request_hash, now - _ATTACH_SECONDS),
        )
    return None if found is None else str(found["id"])


def get_run(tx: Transaction, run_id: str, *, owner: str) -> Run:
    """Raises UnknownId, the same for a run of somebody else."""
    row = tx.row("SELECT * FROM runs WHERE id = ? AND owner = ?", (run_id, owner))
    if row is None:
        raise UnknownId("run", run_id)
    return run_from_row(row)


def list_runs(tx: Transaction, *, owner: str, status: str | None, limit: int) -> list[Run]:
    """Newest first."""
    sql = "SELECT * FROM runs WHERE owner = ? AND (? IS NULL OR status = ?) ORDER BY created_at DESC, id DESC LIMIT ?"
    return [run_from_row(row) for row in tx.rows(sql, (owner, status, status, limit))]


@dataclass(frozen=True)
class Ready:
    """A run that could go on now if its driver, where it has one, is dead."""

    id: str
    epoch: int
    driver: str | None
    cancelled: bool


def ready_runs(tx: Transaction, *, owner: str, fingerprint: str, at: float, all_clocks: bool = False) -> list[Ready]:
    """Runs of these settings, and cancelled ones of any, that do not wait; oldest first. Reads an index only.

    With `all_clocks` also those that were parked later than now, by a clock that was set back since.
    """
    later = " OR (wake_at IS NOT NULL AND updated_at > ?)" if all_clocks else ""
    sql = (
        "SELECT id, epoch, driver, cancel_reason IS NOT NULL cancelled FROM runs"
        " WHERE owner = ? AND ended_at IS NULL AND (fingerprint = ? OR cancel_reason IS NOT NULL)"
        f" AND (driver IS NOT NULL OR status != 'awaiting_approval' OR wake_at <= ?{later}) ORDER BY created_at, id"
    )
    rows = tx.rows(sql, (owner, fingerprint, at, *([at] if all_clocks else ())))
    return [Ready(row["id"], row["epoch"], row["driver"], bool(row["cancelled"])) for row in rows]


def mark_delivered(tx: Transaction, run_id: str) -> None:
    """The end of this run has reached whoever asked."""
    tx.change("UPDATE runs SET delivered = 1 WHERE id = ? AND ended_at IS NOT NULL", (run_id,))


def request_cancel(tx: Transaction, run: Run, reason: str, *, at: float) -> bool:
    """Have the run end as cancelled by whoever drives it; the first reason stays. False if it has ended already.

    Raises ReadOnlyRun.
    """
    refuse_imported(tx, run.id)
    sql = (
        "UPDATE runs SET cancel_reason = COALESCE(cancel_reason, ?), wake_at = 0, updated_at = ?"
        " WHERE id = ? AND ended_at IS NULL"
    )
    return tx.change(sql, (reason, at, run.id)) == 1


def rebind(tx: Transaction, run: Run, *, fingerprint: str, settings_path: str, at: float) -> None:
    """Let the run go on under other settings: its memo is kept, approvals and grants not yet used are dropped.

    A drive under the old settings, should one be at work, may write nothing more. Raises ReadOnlyRun.
    """
    refuse_imported(tx, run.id)
    tx.change("UPDATE runs SET wake_at = 0, updated_at = ? WHERE id = ?", (at, run.id))
    sql = (
        "UPDATE runs SET fingerprint = ?, settings_path = ?, driver = NULL, epoch = epoch + 1"
        " WHERE id = ? AND fingerprint != ?"
    )
    if tx.change(sql, (fingerprint, settings_path, run.id, fingerprint)):
        drop_approvals(tx, run.id)
        drop_grants(tx, run.id)


def reopen(tx: Transaction, run: Run, *, options: JsonObject, at: float) -> None:
    """Let a run go on (`runs resume`) with these options, also an ended one, whose end is written again.

    A drive that is at work may write nothing more, and a question about a limit is as good as answered. Raises
    ReadOnlyRun.
    """
    refuse_imported(tx, run.id)
    tx.change(
        "UPDATE runs SET options = ?, driver = NULL, epoch = epoch + 1, wake_at = 0, updated_at = ? WHERE id = ?",
        (json.dumps(options), at, run.id),
    )
    tx.change(
        "UPDATE runs SET status = 'running', stop_reason = NULL, ended_at = NULL, cancel_reason = NULL, delivered = 0"
        " WHERE id = ? AND ended_at IS NOT NULL",
        (run.id,),
    )
    # Nobody would act on an answer: asked again, it has another key.
    sql = "UPDATE actions SET state = 'superseded', handled = 1 WHERE run = ? AND kind = 'budget' AND handled = 0"
    tx.change(sql, (run.id,))
