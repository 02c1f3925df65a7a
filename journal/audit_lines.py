"""The audit's lines for readers."""

import json
from typing import cast

from .database import Row, Transaction
from .values import Json, JsonObject

_PAGE = 1_000


def audit_page(tx: Transaction, *, after: int, run_id: str | None = None) -> list[JsonObject]:
    """The lines that follow line `after`, of one run or of all; empty once there are no more."""
    sql = f"SELECT * FROM audit WHERE seq > ? AND (? IS NULL OR run = ?) ORDER BY seq LIMIT {_PAGE}"
    return [_line(row) for row in tx.rows(sql, (after, run_id, run_id))]


def lines_about(tx: Transaction, run_id: str) -> list[JsonObject]:
    """What the audit says of a run; of one that was imported, what it brought along, which proves nothing here."""
    came = tx.row("SELECT data FROM imports WHERE run = ?", (run_id,))
    if came is not None:
        return cast("list[JsonObject]", json.loads(came["data"])["audit"])
    return [_line(row) for row in tx.rows("SELECT * FROM audit WHERE run = ? ORDER BY seq", (run_id,))]


def _line(row: Row) -> JsonObject:
    return dict(row) | {"data": _read(row["data"])}


def _read(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        # Not as it was written; `audit verify` names the line.
        return text
