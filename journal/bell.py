"""Tells those who wait, within one process, that something changed about a run."""

from weakref import WeakValueDictionary

import anyio


class Bell:
    """Rung after a commit. Whoever waits takes the event before looking at the state, so nothing is missed.

    Holds nothing for runs to which nobody listens: an event lives as long as somebody has it.
    """

    def __init__(self) -> None:
        self._events: WeakValueDictionary[str, anyio.Event] = WeakValueDictionary()
        self._for_drives: WeakValueDictionary[str, anyio.Event] = WeakValueDictionary()

    def listen(self, run_id: str) -> anyio.Event:
        """The event that the next ring for this run sets; take it before looking at the state."""
        return self._events.setdefault(run_id, anyio.Event())

    def listen_to_others(self, run_id: str) -> anyio.Event:
        """The same for the drive of the run, which knows what it writes itself."""
        return self._for_drives.setdefault(run_id, anyio.Event())

    def ring(self, run_id: str, *, by_drive: bool = False) -> None:
        """Tell all who listen that a run changed; `by_drive`: its own drive changed it."""
        for events in (self._events,) if by_drive else (self._events, self._for_drives):
            if (event := events.pop(run_id, None)) is not None:
                event.set()

    def ring_all(self) -> None:
        for run_id in {*self._events, *self._for_drives}:
            self.ring(run_id)
