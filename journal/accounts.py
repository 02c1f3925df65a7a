"""The accounts of a run as its ledger holds them, one entry for each call that was paid."""

from dataclasses import dataclass

from .database import Transaction


@dataclass(frozen=True)
class Entry:
    """What one call took; `lost` is one of which nobody knows the end, `usd` a lower bound where no cost is known."""

    key: str
    step: str | None
    worker: str | None
    role: str | None
    model: str | None
    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    usd: float
    cost_known: bool
    lost: bool


def entries_of(tx: Transaction, run_id: str) -> list[Entry]:
    """In the order in which they began; a call that is made again under its key has one entry for each time."""
    rows = tx.rows(
        "SELECT CASE instr(key, '#') WHEN 0 THEN key ELSE substr(key, 1, instr(key, '#') - 1) END name, * FROM ledger"
        " WHERE run = ? AND state != 'reserved' ORDER BY at, rowid",
        (run_id,),
    )
    return [
        Entry(
            row["name"],
            *(row["step"], row["worker"], row["role"], row["model"], row["model_calls"], row["tool_calls"]),
            *(row["input_tokens"], row["output_tokens"], row["cached_tokens"], row["reasoning_tokens"]),
            *(row["usd"], bool(row["cost_known"]), row["state"] == "lost"),
        )
        for row in rows
    ]
