"""The engine that needs nothing: this process drives its own runs and adopts those of processes that died."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from .engine import Drive
from .errors import Fenced, SteprelayError
from .lease import Lease, LeaseWatch, forget_dead, open_lease
from .ledger import Limits
from .run_journal import Ending, RunJournal
from .runs import Run
from .store import Store

log = logging.getLogger(__name__)

_TICK = 0.5
"""Seconds between two looks at the store: what other processes decide arrives within that."""


@dataclass(frozen=True)
class EngineOptions:
    """How this process drives: under which settings, how many runs at once, and within which limits each."""

    fingerprint: str
    settings_path: str
    runs: int
    limits: Callable[[Run], Limits]


@dataclass
class _Driven:
    """The runs being driven by this process, and the signal that the loop should look again."""

    ids: set[str] = field(default_factory=set[str])
    poke: anyio.Event = field(default_factory=anyio.Event)


class LocalEngine:
    """Drives what nobody alive drives, under its own settings fingerprint. Use `open_local_engine`."""

    def __init__(self, store: Store, lease: Lease, drive: Drive, options: EngineOptions) -> None:
        self._store = store
        self.lease = lease
        self._drive = drive
        self._options = options
        self._watch = LeaseWatch(store)
        self._driven = _Driven()

    async def wake(self, run_id: str) -> None:
        """Look for work now; which run it was shows in the store."""
        self._store.bell.ring(run_id)
        self._driven.poke.set()

    async def serve(self, group: TaskGroup) -> None:
        """Look for runs to drive until cancelled: at once when woken, else twice a second."""
        seen = -1
        while True:
            version = await self._store.database.version()
            if version != seen:
                self._store.bell.ring_all()
            await self._start_ready(group)
            seen = version
            with anyio.move_on_after(_TICK):
                await self._driven.poke.wait()
            self._driven.poke = anyio.Event()

    async def _start_ready(self, group: TaskGroup) -> None:
        living = await self._watch.living(besides=self.lease.id)
        for run in await self._unfinished():
            if len(self._driven.ids) >= self._options.runs:
                break
            if run.id not in self._driven.ids and self._may_drive(run, {lease.id for lease in living}):
                self._driven.ids.add(run.id)
                group.start_soon(self._drive_one, run)

    async def _unfinished(self) -> list[Run]:
        runs = await self._store.unfinished()
        return [run for run in runs if run.fingerprint == self._options.fingerprint or run.cancel_reason is not None]

    def _may_drive(self, run: Run, living: set[str]) -> bool:
        if run.driver is not None and run.driver != self.lease.id:
            return run.driver not in living
        if run.status == "awaiting_approval":
            return run.wake_at is not None and run.wake_at <= self._store.world.now()
        return True

    async def _drive_one(self, run: Run) -> None:
        try:
            journal = await self._store.take(run, driver=self.lease.id, limits=self._options.limits)
            if journal is not None:
                await self._drive_whole(journal)
        except Fenced:
            log.info("run_taken_over", extra={"run": run.id})
        except SteprelayError as error:
            log.error("run_stopped", extra={"run": run.id, "error": str(error)})
            await anyio.sleep(HOLD_OFF_SECONDS)
        finally:
            self._driven.ids.discard(run.id)
            self._driven.poke.set()

    async def _drive_whole(self, journal: RunJournal) -> None:
        try:
            await self._drive(journal)
        except SteprelayError:
            raise
        except Exception:  # a fault of ours must end this run only, and be seen
            log.exception("drive_failed", extra={"run": journal.run.id})
            await journal.finish(_internal_error())
        fresh = await journal.fresh()
        if not fresh.ended and fresh.epoch == journal.run.epoch and fresh.driver == self.lease.id:
            log.error("drive_left_run_open", extra={"run": journal.run.id})
            await journal.finish(_internal_error())


HOLD_OFF_SECONDS = 5.0
"""A run whose store or journal failed under it is not driven again before that."""


def _internal_error() -> Ending:
    message = "The run ended by an internal error; the log has the details. What was done is kept in its events."
    return Ending("failed", "error", message, message, {})


@asynccontextmanager
async def open_local_engine(store: Store, drive: Drive, options: EngineOptions) -> AsyncGenerator[LocalEngine]:
    """Drive runs of this store until the block ends; those still open are left for whoever comes next."""
    async with open_lease(store, fingerprint=options.fingerprint, settings_path=options.settings_path) as lease:
        engine = LocalEngine(store, lease, drive, options)
        await forget_dead(store, await LeaseWatch(store).living(besides=lease.id))
        async with anyio.create_task_group() as group:
            group.start_soon(engine.serve, group)
            yield engine
            group.cancel_scope.cancel()
