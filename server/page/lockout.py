"""Guessing a PIN or a code: few tries, then a wait that doubles, counted across all processes."""

import json
from collections.abc import Awaitable, Callable

from journal.database import Transaction
from journal.errors import SteprelayError
from journal.store import Store

_FREE_TRIES = 5
_FIRST_WAIT = 60.0
_LONGEST_WAIT = 3600.0
_KIND = "approver"


class SignInRefused(SteprelayError):
    """A person was not recognised; the text says what to do."""


async def tried(store: Store, check: Callable[[], Awaitable[bool]], *, what: str) -> None:
    """Let one guess be checked, counted before it is. Raises SignInRefused where it is wrong, or came too soon."""
    now = store.world.now()

    def count(tx: Transaction) -> float:
        sql = "SELECT value FROM remembered WHERE owner = ? AND kind = ? AND name = 'failures'"
        row = tx.row(sql, (store.owner, _KIND))
        failures, locked_until = json.loads(row["value"]) if row is not None else (0, 0.0)
        # A clock that was set back must not lock a person out for longer than the longest wait.
        if now < locked_until <= now + _LONGEST_WAIT:
            return float(locked_until)
        late = failures + 1 - _FREE_TRIES
        wait = 0.0 if late < 0 else min(_FIRST_WAIT * 2.0 ** min(late, 10), _LONGEST_WAIT)
        sql = "INSERT OR REPLACE INTO remembered (owner, kind, name, value, at) VALUES (?, ?, 'failures', ?, ?)"
        tx.change(sql, (store.owner, _KIND, json.dumps([failures + 1, now + wait]), now))
        return 0.0

    if (until := await store.database.write("approver", count)) > 0:
        raise SignInRefused(f"too many wrong tries; try again in {max(1, round(until - now))} s")
    if not await check():
        raise SignInRefused(f"that is not {what}")
    await store.remembered.forget(_KIND, name="failures")
