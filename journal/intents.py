"""Calls with an effect, written down before they are sent: begun and not ended means that nobody knows."""

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .database import Row, Transaction
from .values import JsonObject

IntentState: TypeAlias = Literal["begun", "done", "failed", "unknown", "not_done"]


PAST = "past/"
"""Before the key of a call that the run which this one continues has made; no call of this run has such a key."""


@dataclass(frozen=True)
class NewIntent:
    """A call about to be sent; `action` and `action_hash`, or `grant`, name what it uses up, if it needed a yes.

    `deadline` is the Unix time until when it may go out or be answered.
    """

    call: str
    step: str
    tool: str
    class_: str
    arguments: JsonObject
    arguments_hash: str
    action: str | None = None
    action_hash: str | None = None
    grant: str | None = None
    audit: JsonObject | None = None
    deadline: float | None = None

    @property
    def leave(self) -> str:
        """What lets it go out, in words."""
        return f"grant {self.grant}" if self.grant else f"action {self.action}"


@dataclass(frozen=True)
class Intent:
    """`epoch` tells which drive sent it; `state` `begun` in a later epoch means that the outcome is not known.

    `driver` is the lease of the process that began it, which may send it until `deadline`; `sends` counts how often it
    was begun.
    """

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
    driver: str | None
    deadline: float | None
    sends: int

    @property
    def past(self) -> bool:
        """Whether another run made the call, of which this one is a fork."""
        return self.key.startswith(PAST)


def insert_intent(tx: Transaction, run: Row, key: str, new: NewIntent, *, at: float) -> None:
    """Write the intent down inside a change; one that is sent again replaces its old row."""
    before = tx.row("SELECT sends FROM intents WHERE run = ? AND key = ?", (run["id"], key))
    tx.change(
        "INSERT OR REPLACE INTO intents (run, owner, key, call, step, tool, class, arguments, arguments_hash, action,"
        " state, epoch, begun_at, driver, deadline, sends)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'begun', ?, ?, ?, ?, ?)",
        (
            *(run["id"], run["owner"], key, new.call, new.step, new.tool, new.class_, json.dumps(new.arguments)),
            *(new.arguments_hash, new.action, run["epoch"], at, run["driver"], new.deadline),
            before["sends"] + 1 if before else 1,
        ),
    )


def end_intent(tx: Transaction, run_id: str, key: str, state: IntentState, *, at: float) -> None:
    tx.change("UPDATE intents SET state = ?, ended_at = ? WHERE run = ? AND key = ?", (state, at, run_id, key))


def extend_intent(tx: Transaction, run_id: str, key: str, *, deadline: float) -> None:
    """Let a call that was begun go out, or be answered, until `deadline`."""
    tx.change("UPDATE intents SET deadline = ? WHERE run = ? AND key = ?", (deadline, run_id, key))


def get_intent(tx: Transaction, run_id: str, key: str) -> Intent | None:
    row = tx.row("SELECT * FROM intents WHERE run = ? AND key = ?", (run_id, key))
    return None if row is None else _intent(row)


def intents_of(tx: Transaction, run_id: str) -> list[Intent]:
    """The run's intents in the order in which they began."""
    return [_intent(row) for row in tx.rows("SELECT * FROM intents WHERE run = ? ORDER BY begun_at, key", (run_id,))]


def same_effect(tx: Transaction, run_id: str, *, tool: str, arguments_hash: str, besides: str) -> Intent | None:
    """A call of this run or of one it continues, those first, with the same tool and arguments that ran or may have.

    Not that with the key `besides`.
    """
    row = tx.row(
        "SELECT * FROM intents WHERE run = ? AND tool = ? AND arguments_hash = ? AND key != ?"
        " AND state IN ('begun', 'done', 'unknown') ORDER BY substr(key, 1, ?) != ? LIMIT 1",
        (run_id, tool, arguments_hash, besides, len(PAST), PAST),
    )
    return None if row is None else _intent(row)


def _intent(row: Row) -> Intent:
    fields = {name: row[name] for name in Intent.__dataclass_fields__ if name != "class_"}
    return Intent(**(fields | {"class_": row["class"], "arguments": json.loads(row["arguments"])}))
