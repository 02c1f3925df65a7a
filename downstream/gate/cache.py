"""Results of read calls, kept for five minutes within one drive; a wait ends them, and so does any other call there."""

from collections import defaultdict
from dataclasses import dataclass

from downstream.door import Called
from downstream.tools import Tool

KEPT_SECONDS = 300.0


@dataclass(frozen=True)
class Slot:
    """Where the result of one read belongs; it counts only while nothing else was called on its server."""

    server: str
    turn: int
    pin: str
    arguments: str


class ReadCache:
    """In memory only: a hit is written down as the result of its own call, so no replay depends on it."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = defaultdict(int)
        self._results: dict[Slot, tuple[float, Called]] = {}

    def slot(self, tool: Tool, arguments_hash: str) -> Slot:
        """To be taken before the call is sent, so that what changes meanwhile ends its result."""
        return Slot(tool.server, self._turns[tool.server], tool.pin, arguments_hash)

    def get(self, slot: Slot, *, now: float) -> Called | None:
        kept_at, called = self._results.get(slot, (0.0, None))
        return called if now - kept_at <= KEPT_SECONDS else None

    def put(self, slot: Slot, called: Called, *, now: float) -> None:
        self._results[slot] = (now, called)

    def end(self, server: str) -> None:
        """Something other than a read is called on this server, or has ended."""
        self._turns[server] += 1

    def clear(self) -> None:
        """The run waits: the world may change."""
        for server in self._turns:
            self._turns[server] += 1
        self._results.clear()
