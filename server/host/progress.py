"""How far a run is, told to a host while it waits."""

from collections.abc import Callable
from typing import Protocol

import anyio

from journal.store import Store

_HEARTBEAT = 10.0


class Tell(Protocol):
    """A host's session: takes a number that grows, and a line."""

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None: ...


class Progress:
    """One line at each change and every 10 s, with a number that only grows."""

    def __init__(
        self, store: Store, host: Tell, run_id: str, *, clock: Callable[[], float] = anyio.current_time
    ) -> None:
        self._store = store
        self._host = host
        self._run_id = run_id
        self._clock = clock
        self._line = ""
        self._sent = 0
        self._due = 0.0

    async def report(self) -> None:
        """Tell where the run stands if that has changed or the host has heard nothing for 10 s. Raises UnknownId."""
        line = await progress_line(self._store, self._run_id)
        now = self._clock()
        if line != self._line or now >= self._due:
            self._line, self._due = line, now + _HEARTBEAT
            self._sent += 1
            await self._host.report_progress(self._sent, None, line)

    async def until(self, changed: anyio.Event) -> None:
        """Wait for the event, at most until the host is to hear something again."""
        with anyio.CancelScope(deadline=self._due):
            await changed.wait()


async def progress_line(store: Store, run_id: str) -> str:
    """Such as `2/4 · Draft comment · files.index 40/100 · 5 calls · 4.8k tok · $0.01`. Raises UnknownId.

    How far a call is stands there only where its server tells.
    """
    run = await store.run(run_id)
    steps = [step for step in await store.steps(run_id) if not step.dropped]
    taken = await store.usage(run)
    ended = sum(step.ended_at is not None for step in steps)
    busy = [step.title or step.id for step in steps if step.status in ("running", "waiting")]
    tokens = taken.input_tokens + taken.output_tokens
    parts = [
        f"{ended}/{len(steps)}" if steps else run.status,
        ", ".join(busy)[:80],
        ", ".join(store.signs.of(run_id))[:80],
        f"{taken.tool_calls} calls",
        f"{tokens / 1000:.1f}k tok" if tokens >= 1000 else f"{tokens} tok",
        f"${taken.cost_usd:.2f}" if taken.cost_known else "cost unknown",
    ]
    return store.outlet.text(" · ".join(part for part in parts if part))
