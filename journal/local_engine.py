"""The engine that needs nothing: this process drives its own runs and adopts those of processes that died."""

import logging
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

import anyio
from anyio.abc import TaskGroup

from .artifacts import ArtifactLost
from .engine import Drive
from .errors import Fenced, StoreError
from .lease import Lease, LeaseWatch, bind_lease, forget_dead, living_now, open_lease
from .ledger import Limits
from .run_journal import Ending, RunJournal
from .runs import Ready, Run
from .store import Store
from .tasks import open_tasks

log = logging.getLogger(__name__)

_TICK = 0.5
"""Seconds between two looks at whether anything changed: what other processes decide arrives within that."""
_FULL_LOOK = 1.0
"""Seconds between two looks at all runs where nothing changed: a death and a wake-up time leave no trace."""
_FIRST_HOLD_OFF = 0.2
HOLD_OFF_SECONDS = 5.0
"""A run whose store failed under it is tried again soon after, then not more often than that."""


@dataclass(frozen=True)
class EngineOptions:
    """How this process drives: under which settings, how many runs at once, and within which limits each.

    One that does not adopt drives only runs that it was woken for, and leaves all others to whoever stays longer.
    """

    fingerprint: str
    settings_path: str
    runs: int
    limits: Callable[[Run], Limits]
    adopts: bool = True
    hold_off: float = HOLD_OFF_SECONDS


class LocalEngine:
    """Drives what nobody alive drives, under its own settings fingerprint. Use `open_local_engine`.

    `trouble` says why nothing can be driven here, while that is so, `trouble_of` why a run can't.
    """

    def __init__(self, store: Store, lease: Lease, drive: Drive, options: EngineOptions) -> None:
        self.lease = lease
        self.trouble: str | None = None
        self._store = store
        self._drive = drive
        self._options = options
        self._watch = LeaseWatch(store)
        self._driven: set[str] = set()
        self._failed: set[str] = set()
        self._broken: set[str] = set()
        self._held: dict[str, str] = {}
        self._woken: set[str] = set()
        self._poke = anyio.Event()
        self._seen = self._others = -1
        self._looked_at = 0.0
        self._wall = math.inf

    async def wake(self, run_id: str) -> None:
        """Look for work now; the run is one of ours from here on. Raises StoreError where that cannot be noted."""
        if not self._options.adopts and run_id not in self._woken:
            await bind_lease(self._store, self.lease, run_id)
        self._woken.add(run_id)
        self._store.bell.ring(run_id)
        self._poke.set()

    def trouble_of(self, run_id: str) -> str | None:
        """Why the run is held up here, while the store fails under it."""
        return self._held.get(run_id, self.trouble)

    async def serve(self, group: TaskGroup) -> None:
        """Look for runs to drive until cancelled: at once when woken, else twice a second."""
        while True:
            poked, self._poke = self._poke.is_set(), anyio.Event()
            try:
                await self._look(group, poked=poked)
                self.trouble = None
            except StoreError as error:
                if str(error) != self.trouble:
                    log.error("store_failed", extra={"error": str(error)})
                self.trouble = str(error)
            with anyio.move_on_after(_TICK):
                await self._poke.wait()

    async def _look(self, group: TaskGroup, *, poked: bool) -> None:
        database, now = self._store.database, anyio.current_time()
        others, version = await database.version_of_others(), await database.version()
        if others != self._others:
            self._others = others
            self._store.bell.ring_all()
        if poked or version != self._seen or now >= self._looked_at + _FULL_LOOK:
            await self._start_ready(group)
            self._seen, self._looked_at = version, now

    async def _start_ready(self, group: TaskGroup) -> None:
        # A clock that was set back would have runs sleep for as long as it was set back.
        wall, before = self._store.world.now(), self._wall
        ready = await self._store.ready(fingerprint=self._options.fingerprint, all_clocks=wall < before)
        self._wall = wall
        if not self._options.adopts:
            ready = [run for run in ready if run.id in self._woken]
        living: list[str] = []
        # Looked at after the runs: whoever drives one of them had its lease before.
        if any(run.driver not in (None, self.lease.id) for run in ready):
            living = [lease.id for lease in await self._watch.living() if lease.id != self.lease.id]
        for run in ready:
            # Ending a cancelled run takes no slot: it must not wait for others to end.
            may_start = run.cancelled or len(self._driven) < self._options.runs
            if may_start and run.id not in self._driven and run.driver not in living:
                self._driven.add(run.id)
                group.start_soon(self._drive_one, run)

    async def _drive_one(self, ready: Ready) -> None:
        try:
            if (journal := await self._take(ready)) is not None:
                await self._drive_whole(journal)
            self._failed.discard(ready.id)
            self._broken.discard(ready.id)
        except Exception as error:
            # Whatever befalls one run, the others and the engine go on.
            passing = [leaf for leaf in _leaves(error) if _passes(leaf)]
            if passing:
                self._broken.discard(ready.id)
            else:
                log.exception("run_stopped", extra={"run": ready.id})
            if any(isinstance(leaf, Fenced) for leaf in passing):
                log.info("run_taken_over", extra={"run": ready.id})
            else:
                await self._hold_off(ready.id, [str(leaf) for leaf in passing])
        finally:
            self._held.pop(ready.id, None)
            self._driven.discard(ready.id)
            self._poke.set()

    async def _hold_off(self, run_id: str, errors: Sequence[str]) -> None:
        """Have readers see why the run is held up, and let some time pass."""
        if errors:
            log.error("run_stopped", extra={"run": run_id, "error": errors[0]})
        self._held[run_id] = errors[0] if errors else "an internal error, which the log has"
        self._store.bell.ring(run_id)
        again = run_id in self._failed
        self._failed.add(run_id)
        await anyio.sleep(self._options.hold_off if again else min(_FIRST_HOLD_OFF, self._options.hold_off))

    async def _take(self, ready: Ready) -> RunJournal | None:
        run = await self._store.run(ready.id)
        if run.epoch != ready.epoch:
            return None
        return await self._store.take(run, driver=self.lease.id, limits=self._options.limits)

    async def _drive_whole(self, journal: RunJournal) -> None:
        """Drive the run; where a fault of ours stopped the drive before, only end it, so that the fault is seen."""
        run_id = journal.run.id
        if run_id not in self._broken:
            self._broken.add(run_id)
            await self._drive(journal)
            fresh = await journal.fresh()
            if fresh.ended or fresh.epoch != journal.run.epoch or fresh.driver != self.lease.id:
                return
            log.error("drive_left_run_open", extra={"run": run_id})
        await journal.finish(await _internal_error(journal))


def _passes(error: BaseException) -> bool:
    return isinstance(error, Fenced | StoreError) and not isinstance(error, ArtifactLost)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        for inner in group.exceptions:
            yield from _leaves(inner)
    else:
        yield error


async def _internal_error(journal: RunJournal) -> Ending:
    message = "The run ended by an internal error; the log has the details. What was done is kept in its events."
    kept = any(step.status in ("succeeded", "partial") for step in await journal.steps())
    return Ending("partial" if kept else "failed", "error", message, message, {})


@asynccontextmanager
async def open_local_engine(store: Store, drive: Drive, options: EngineOptions) -> AsyncGenerator[LocalEngine]:
    """Drive runs of this store until the block ends; those still open are left for whoever comes next.

    Raises StoreError where locks do not work.
    """
    adopted = options.fingerprint if options.adopts else ""
    async with open_lease(store, fingerprint=adopted, settings_path=options.settings_path) as lease:
        engine = LocalEngine(store, lease, drive, options)
        await forget_dead(store, await living_now(store, besides=lease.id))
        async with open_tasks() as group:
            group.start_soon(engine.serve, group)
            yield engine
