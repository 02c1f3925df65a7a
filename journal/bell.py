"""Tells those who wait, within one process, that something changed about a run."""

import anyio


class Bell:
    """Rung after a commit. `wait` returns at the first ring after `listen`, so nothing is missed between the two."""

    def __init__(self) -> None:
        self._events: dict[str, anyio.Event] = {}

    def listen(self, run_id: str) -> anyio.Event:
        """The event that the next ring for this run sets; take it before looking at the state."""
        return self._events.setdefault(run_id, anyio.Event())

    def ring(self, run_id: str) -> None:
        if (event := self._events.pop(run_id, None)) is not None:
            event.set()

    def ring_all(self) -> None:
        for run_id in list(self._events):
            self.ring(run_id)
