"""Which of a server's messages are worth passing on: a flood of the others must cost next to nothing."""

from collections.abc import Callable

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, ProgressToken

_CHANGED = "notifications/tools/list_changed"
_PROGRESS = "notifications/progress"
_UNREAD = frozenset(
    {
        "notifications/message",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
    }
)
_PROGRESS_SECONDS = 0.05
_TOKENS = 64
"""As many calls may be under way at once; a server that makes up tokens gets no place for more."""


class Sieve:
    """One for each connection; `on_change` is told when the server's tools have changed."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._progressed: dict[ProgressToken, float] = {}

    def keeps(self, item: SessionMessage | Exception) -> bool:
        """Whether the session is to see it."""
        if isinstance(item, Exception) or not isinstance(item.message, JSONRPCNotification):
            return True
        note = item.message
        if note.method == _CHANGED:
            self._on_change()
        if note.method == _PROGRESS:
            return self._is_due((note.params or {}).get("progressToken"))
        return note.method != _CHANGED and note.method not in _UNREAD

    def _is_due(self, token: object) -> bool:
        if not isinstance(token, int | str):
            return False
        now = anyio.current_time()
        if now - self._progressed.get(token, -_PROGRESS_SECONDS) < _PROGRESS_SECONDS:
            return False
        self._progressed = {other: at for other, at in self._progressed.items() if now - at < _PROGRESS_SECONDS}
        if len(self._progressed) >= _TOKENS:
            return False
        self._progressed[token] = now
        return True
