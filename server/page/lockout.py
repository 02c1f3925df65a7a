"""Guessing a PIN or a code: few tries, then a wait that doubles, counted for each across all processes."""

from collections.abc import Awaitable, Callable
from typing import Literal

from journal.errors import SteprelayError
from journal.store import Store
from journal.values import Json

_FREE_TRIES = 5
_FIRST_WAIT = 60.0
_LONGEST_WAIT = 3600.0
_KIND = "approver"


class SignInRefused(SteprelayError):
    """A person was not recognised; the text says what to do."""


async def tried(store: Store, check: Callable[[], Awaitable[bool]], *, kind: Literal["pin", "code"], what: str) -> None:
    """Let one guess be checked, counted before it is. Raises SignInRefused where it is wrong, or came too soon.

    A right guess ends the count of its kind only: who knows the one must not guess the other for ever.
    """
    now, locked_until = store.world.now(), 0.0

    def count(kept: Json | None) -> Json:
        nonlocal locked_until
        failures, until = kept or (0, 0.0)
        # A clock that was set back must not lock a person out for longer than the longest wait.
        if now < until <= now + _LONGEST_WAIT:
            locked_until = float(until)
            return kept
        late = failures + 1 - _FREE_TRIES
        wait = 0.0 if late < 0 else min(_FIRST_WAIT * 2.0 ** min(late, 10), _LONGEST_WAIT)
        return [failures + 1, now + wait]

    await store.remembered.update(_KIND, kind, count)
    if locked_until > 0:
        raise SignInRefused(f"too many wrong tries; try again in {max(1, round(locked_until - now))} s")
    if not await check():
        raise SignInRefused(f"that is not {what}")
    await store.remembered.forget(_KIND, name=kind)
