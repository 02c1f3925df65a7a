"""What a call brings along for its server and keeps for its caller, and how long it is waited for."""

import math
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import anyio

from journal.errors import SteprelayError
from journal.values import Json

from .asking import NO_DESK, NOT_RESUMED, Desk, Resumed
from .exchange import AskLeave, free_leave

_RENEWED_AFTER = 0.1
"""The part of its timeout after which a sign of progress starts it anew."""

Hear: TypeAlias = Callable[[float, float | None], None]
"""Hears how far a call is, and of how much, where its server says so."""


def _unheard(done: float, total: float | None) -> None:
    """Nobody asked."""


@dataclass(frozen=True)
class Caller:
    """`leave` is asked for right before the bytes go out. Progress is asked for only where `longest` lets it buy time:
    each sign of it starts the call's timeout anew, until so many seconds are over in all. `desk` answers what the
    server asks meanwhile, `resumed` holds the answers to what it asked before it began. With `binding`, the tool must
    still be the one that the call was decided on."""

    leave: AskLeave = free_leave
    meta: Mapping[str, Json] | None = None
    longest: float | None = None
    hear: Hear = _unheard
    desk: Desk = NO_DESK
    resumed: Resumed = NOT_RESUMED
    binding: str | None = None


class Patience:
    """How long one call is waited for; `over` once it was too long."""

    def __init__(self, timeout: float, caller: Caller) -> None:
        self._timeout = timeout
        self._caller = caller
        self._scope = anyio.CancelScope()
        self._longest = max(timeout, caller.longest or 0.0)
        self._progressed = self._aside = False
        self._at_most = self._end = self._renewed = 0.0

    @contextmanager
    def wait(self) -> Generator[None]:
        """Ends what is within when the time is over."""
        now = anyio.current_time()
        self._at_most, self._end = now + self._longest, now + self._timeout
        with self._scope:
            self._scope.deadline = self._end
            yield

    @contextmanager
    def aside(self) -> Generator[None]:
        """What is within takes none of the time: a person is asked."""
        began, self._aside, self._scope.deadline = anyio.current_time(), True, math.inf
        try:
            yield
        finally:
            gone = anyio.current_time() - began
            self._at_most, self._end = self._at_most + gone, self._end + gone
            self._aside, self._scope.deadline = False, self._end

    @property
    def over(self) -> str:
        """What to say once the time was over."""
        if not self._progressed:
            return f"within {self._timeout:g} s"
        if self._end >= self._at_most:
            return f"within {self._longest:g} s, though it went on to tell of progress"
        return f"within {self._timeout:g} s after it last told of progress"

    @property
    def on_progress(self) -> "Patience | None":
        """What the SDK is to call with progress, if it is to ask the server for it."""
        return self if self._caller.longest is not None else None

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """A sign of life; what a server puts into words is not passed on."""
        self._progressed = True
        self._caller.hear(progress, total)
        now = anyio.current_time()
        if now - self._renewed < self._timeout * _RENEWED_AFTER:
            return
        self._renewed = now
        try:
            # Whoever else may drive the run is to know that the call goes on.
            await self._caller.leave()
        except SteprelayError:
            return
        self._end = min(self._at_most, now + self._timeout)
        if not self._aside:
            self._scope.deadline = self._end
