"""One purse for a run: every call reserves its worst case before it starts and settles what it took."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .database import Row, Transaction
from .errors import BudgetReached

Purpose: TypeAlias = Literal["work", "answer"]


@dataclass(frozen=True)
class Limits:
    """What the run may take in all; `usd_day` bounds all runs of the owner within 24 hours."""

    model_calls: int
    tool_calls: int
    tokens: int
    usd: float
    usd_day: float
    seconds: float


@dataclass(frozen=True)
class Amount:
    """What a call takes at most (reserved) or took (settled); `usd` in US dollars."""

    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    usd: float = 0.0


@dataclass(frozen=True)
class Spent:
    """What a model call really took; `cost_known` is false where no price is known (then `usd` is 0).

    The input tokens include the cached ones, the output tokens those of reasoning. `at_most` is true where nobody told
    all of it: then it took no more than this.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    cost_known: bool = True
    reasoning_tokens: int = 0
    at_most: bool = False

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


NOTHING_SPENT = Spent()


@dataclass(frozen=True)
class Reservation:
    """Who is about to spend: `key` is the call's memo key; `role`, `worker` and `model` are for the accounts.

    `cost_known` is false where the model's price is not known; it counts if the call is lost.
    """

    key: str
    amount: Amount
    purpose: Purpose = "work"
    step: str | None = None
    role: str | None = None
    worker: str | None = None
    model: str | None = None
    cost_known: bool = True


@dataclass(frozen=True)
class Usage:
    """What a run has taken so far; `seconds` is driven time."""

    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0
    cost_known: bool = True
    seconds: float = 0.0


class BudgetHeld(BudgetReached):
    """It does not fit now, but it would if other calls of this run took less than they have set aside."""


ANSWER_SHARE = 0.1
"""This part of tokens and money, and at least one model call, is kept back for the answer (DESIGN section 14)."""

_DAY = 86_400.0


def reserve(tx: Transaction, run: Row, reservation: Reservation, *, limits: Limits, at: float) -> None:
    """Set the worst case aside inside a change. Raises BudgetReached that names the limit.

    An open reservation under the same key is replaced; what was settled under it goes on counting.
    """
    settled = (
        "UPDATE ledger SET key = key || '#' || rowid WHERE run = ? AND key = ? AND epoch = ? AND state != 'reserved'"
    )
    tx.change(settled, (run["id"], reservation.key, run["epoch"]))
    _check(tx, run, reservation, limits=limits, at=at)
    amount = reservation.amount
    tx.change(
        "INSERT OR REPLACE INTO ledger (run, owner, key, epoch, kind, purpose, state, step, worker, role, model,"
        " model_calls, tool_calls, tokens, usd, cost_known, at)"
        " VALUES (?, ?, ?, ?, ?, ?, 'reserved', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(run["id"], run["owner"], reservation.key, run["epoch"]),
            *("model" if amount.model_calls else "tool", reservation.purpose),
            *(reservation.step, reservation.worker, reservation.role, reservation.model),
            *(amount.model_calls, amount.tool_calls, amount.tokens, amount.usd, int(reservation.cost_known), at),
        ),
    )


def settle(tx: Transaction, run: Row, key: str, spent: Spent) -> None:
    """Replace the reservation by what was really taken."""
    tx.change(
        "UPDATE ledger SET state = 'settled', tokens = ?, usd = ?, input_tokens = ?, output_tokens = ?,"
        " cached_tokens = ?, reasoning_tokens = ?, cost_known = ? WHERE run = ? AND key = ? AND epoch = ?",
        (
            *(spent.tokens, spent.usd, spent.input_tokens, spent.output_tokens, spent.cached_tokens),
            *(spent.reasoning_tokens, int(spent.cost_known), run["id"], key, run["epoch"]),
        ),
    )


def release(tx: Transaction, run: Row, key: str) -> None:
    """Give a reservation back: the call never started."""
    tx.change(
        "DELETE FROM ledger WHERE run = ? AND key = ? AND epoch = ? AND state = 'reserved'",
        (run["id"], key, run["epoch"]),
    )


def settle_lost(tx: Transaction, run_id: str, *, before: int) -> None:
    """Settle what drives of epochs before this one had reserved and never settled: lost in full, but for tool calls
    that have no intent: given back."""
    tx.change(
        "DELETE FROM ledger WHERE run = ? AND epoch < ? AND state = 'reserved' AND kind = 'tool'"
        " AND key NOT IN (SELECT key FROM intents WHERE run = ledger.run)",
        (run_id, before),
    )
    tx.change(
        "UPDATE ledger SET state = 'lost', input_tokens = tokens WHERE run = ? AND epoch < ? AND state = 'reserved'",
        (run_id, before),
    )


def usage(tx: Transaction, run_id: str, *, seconds: float) -> Usage:
    """What the run has taken, settled and lost; open reservations count as calls only."""
    row = tx.rows(
        "SELECT COALESCE(SUM(model_calls), 0) m, COALESCE(SUM(tool_calls), 0) t, COALESCE(SUM(input_tokens), 0) i,"
        " COALESCE(SUM(output_tokens), 0) o, COALESCE(SUM(cached_tokens), 0) c,"
        " COALESCE(SUM(CASE state WHEN 'reserved' THEN 0 ELSE usd END), 0) u,"
        " COALESCE(MIN(CASE state WHEN 'reserved' THEN 1 ELSE cost_known END), 1) k FROM ledger WHERE run = ?",
        (run_id,),
    )[0]
    counts = (row["m"], row["t"], row["i"], row["o"], row["c"])
    return Usage(*counts, round(row["u"], 9), bool(row["k"]), round(seconds, 3))


def _check(tx: Transaction, run: Row, reservation: Reservation, *, limits: Limits, at: float) -> None:
    others = (run["id"], reservation.key, run["epoch"])
    row = tx.rows(
        "SELECT COALESCE(SUM(model_calls), 0) model_calls, COALESCE(SUM(tool_calls), 0) tool_calls,"
        " COALESCE(SUM(tokens), 0) tokens, COALESCE(SUM(usd), 0) usd,"
        " COALESCE(SUM(CASE state WHEN 'reserved' THEN tokens ELSE 0 END), 0) open_tokens,"
        " COALESCE(SUM(CASE state WHEN 'reserved' THEN usd ELSE 0 END), 0) open_usd FROM ledger"
        " WHERE run = ? AND NOT (key = ? AND epoch = ?)",
        others,
    )[0]
    wanted, share = reservation.amount, 0.0 if reservation.purpose == "answer" else ANSWER_SHARE
    day = 0.0
    if wanted.usd:
        # Over all runs of a day: not to be added up for calls that cost nothing.
        today = (
            "SELECT COALESCE(SUM(usd), 0) usd FROM ledger WHERE owner = ? AND at > ?"
            " AND NOT (run = ? AND key = ? AND epoch = ?)"
        )
        day = tx.rows(today, (run["owner"], at - _DAY, *others))[0]["usd"]
    checks = (
        ("model_calls", wanted.model_calls, row["model_calls"], limits.model_calls, _kept_calls(limits, share), 0),
        ("tool_calls", wanted.tool_calls, row["tool_calls"], limits.tool_calls, 0, 0),
        ("tokens", wanted.tokens, row["tokens"], limits.tokens, limits.tokens * share, row["open_tokens"]),
        ("usd", wanted.usd, row["usd"], limits.usd, limits.usd * share, row["open_usd"]),
        ("usd_day", wanted.usd, day, limits.usd_day, 0, row["open_usd"]),
    )
    for name, want, used, allowed, kept, may_come_back in checks:
        if want and used + want > allowed - kept:
            # What other runs have set aside is not waited for: nobody may be left to give it back.
            fits_later = may_come_back and used - may_come_back + want <= allowed - kept
            kind = BudgetHeld if fits_later else BudgetReached
            raise kind(name, allowed=float(allowed), used=float(used))
    if reservation.purpose == "work" and run["driven_seconds"] > limits.seconds:
        raise BudgetReached("seconds", allowed=limits.seconds, used=run["driven_seconds"])


def _kept_calls(limits: Limits, share: float) -> int:
    return max(1, int(limits.model_calls * share)) if share else 0
