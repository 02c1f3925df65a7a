"""Listening to a stream: to its end, or until it is cut, so that its server may stop."""

import logging
from contextlib import aclosing
from typing import Any

import anyio

from .circles import Circles
from .errors import Endless
from .prices import said_in
from .wire_request import Wanted

log = logging.getLogger(__name__)

LONGEST_STREAM = 5.0
"""A stream may take so many times `timeout` from its first piece to its last, while they come in time."""
_FURTHEST = 8
"""So many characters, or pieces that say nothing, may come for each token that was asked for: few texts have more than
five of them. A server from which more come heeds no `max_tokens`."""


class Listening:
    """What has been heard of one stream: its pieces, and the bytes that they say."""

    def __init__(self, wanted: Wanted, timeout: float) -> None:
        self.pieces: list[Any] = []
        self.said = 0
        self._wanted = wanted
        self._timeout = timeout
        self._left = _FURTHEST * (wanted.request.max_tokens + wanted.room)
        self._circles = Circles()

    async def to_the_end(self, stream: Any) -> bool:
        """Hear its pieces to its end (True) or until it is cut.

        It is where it goes round in circles, where far more comes than was asked for, or where it has been listened to
        for long enough. Raises TimeoutError where the next piece does not come in time, and Endless where they never
        end.
        """
        longest, enough = self._timeout * LONGEST_STREAM, self._wanted.request.listen
        async with aclosing(stream):
            pieces = aiter(stream)
            with anyio.move_on_after(longest) as listening:
                while True:
                    with anyio.fail_after(self._timeout):
                        try:
                            piece = await anext(pieces)
                        except StopAsyncIteration:
                            return True
                    if not self.pieces and enough is not None:
                        listening.deadline = min(listening.deadline, anyio.current_time() + enough)
                    if (why := self._why_cut(piece)) is not None:
                        self._tell(why)
                        return False
        if enough is not None and enough < longest:
            self._tell("model_was_cut")
            return False
        raise Endless(f"it went on for {longest:g} s, {LONGEST_STREAM:g} times model_options.timeout")

    def _why_cut(self, piece: Any) -> str | None:
        text = said_in(piece)
        self.pieces.append(piece)
        self.said += len(text.encode("utf-8", "surrogatepass"))
        self._left -= max(1, len(text))
        if self._circles.goes_round_with(text):
            return "model_went_round"
        return "model_went_on" if self._left < 0 else None

    def _tell(self, event: str) -> None:
        log.info(event, extra={"model": self._wanted.model, "pieces": len(self.pieces)})
