"""Calls with an effect, written down before they are sent: begun and not ended means that nobody knows."""

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .database import Row, Transaction
from .values import JsonObject

IntentState: TypeAlias = Literal["begun", "done", "failed", "unknown", "not_done", "given_up"]


@dataclass(frozen=True)
class NewIntent:
    """A call about to be sent; `action` and `action_hash` name the approval that it uses up, if it needed one."""

    call: str
    step: str
    tool: str
    class_: str
    arguments: JsonObject
    arguments_hash: str
    action: str | None = None
    action_hash: str | None = None
    audit: JsonObject | None = None


@dataclass(frozen=True)
class Intent:
    """`epoch` tells which drive sent it; `state` `begun` in a later epoch means that the outcome is not known."""

    run: str
    key: str
    call: str
    step: str
    tool: str
    class_: str
    arguments: JsonObject
    arguments_hash: str
    action: str | None
    state: IntentState
    epoch: int
    begun_at: float
    ended_at: float | None


def insert_intent(tx: Transaction, run: Row, key: str, new: NewIntent, *, at: float) -> None:
    """Write the intent down inside a change; one sent again after a person's `retry` replaces its old row."""
    tx.change(
        "INSERT OR REPLACE INTO intents (run, owner, key, call, step, tool, class, arguments, arguments_hash, action,"
        " state, epoch, begun_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'begun', ?, ?)",
        (
            *(run["id"], run["owner"], key, new.call, new.step, new.tool, new.class_, json.dumps(new.arguments)),
            *(new.arguments_hash, new.action, run["epoch"], at),
        ),
    )


def end_intent(tx: Transaction, run_id: str, key: str, state: IntentState, *, at: float) -> None:
    tx.change("UPDATE intents SET state = ?, ended_at = ? WHERE run = ? AND key = ?", (state, at, run_id, key))


def get_intent(tx: Transaction, run_id: str, key: str) -> Intent | None:
    row = tx.row("SELECT * FROM intents WHERE run = ? AND key = ?", (run_id, key))
    return None if row is None else _intent(row)


def intents_of(tx: Transaction, run_id: str) -> list[Intent]:
    """The run's intents in the order in which they began."""
    return [_intent(row) for row in tx.rows("SELECT * FROM intents WHERE run = ? ORDER BY begun_at, key", (run_id,))]


def same_effect(tx: Transaction, run_id: str, *, tool: str, arguments_hash: str, besides: str) -> Intent | None:
    """A call of this run, other than `besides`, with the same tool and arguments that succeeded or may have."""
    row = tx.row(
        "SELECT * FROM intents WHERE run = ? AND tool = ? AND arguments_hash = ? AND key != ?"
        " AND state IN ('begun', 'done', 'unknown') LIMIT 1",
        (run_id, tool, arguments_hash, besides),
    )
    return None if row is None else _intent(row)


def _intent(row: Row) -> Intent:
    fields = {name: row[name] for name in Intent.__dataclass_fields__ if name != "class_"}
    return Intent(**(fields | {"class_": row["class"], "arguments": json.loads(row["arguments"])}))
