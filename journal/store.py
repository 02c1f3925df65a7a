"""A store that is open: runs, decisions and the way to take a run over."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from .actions import Action, Decision, actions_of, decide, get_action, waiting_actions
from .artifacts import ArtifactLimits, Artifacts
from .audit import AuditLine, append_audit
from .bell import Bell
from .database import Database, Transaction, open_database
from .errors import UnknownId
from .events import Event, events_of
from .grants import Grant, give
from .intents import Intent, intents_of
from .ledger import Limits, Usage, settle_lost, usage
from .outlet import Outlet
from .read_only import refuse_imported
from .remembered import Remembered
from .run_journal import RunJournal
from .runs import (
    NewRun,
    Ready,
    Run,
    create_or_attach,
    get_run,
    list_runs,
    mark_delivered,
    ready_runs,
    rebind,
    reopen,
    request_cancel,
)
from .shared import Shared
from .signs import Signs
from .steps import StepRow, steps_of
from .values import JsonObject
from .world import World

T = TypeVar("T")

_USUAL = ArtifactLimits()


class Store:
    """Everything an owner may do with the store, whoever drives. Made by `open_store`."""

    def __init__(
        self, database: Database, world: World, outlet: Outlet, *, owner: str, limits: ArtifactLimits = _USUAL
    ) -> None:
        self.database = database
        self.world = world
        self.outlet = outlet
        self.owner = owner
        self.bell = Bell()
        self.signs = Signs()
        self.artifacts = Artifacts(database, world, limits=limits)
        self.remembered = Remembered(database, world, owner=owner)

    async def create_or_attach(self, new: NewRun, *, driver: str) -> tuple[str, bool]:
        """The id of the run for this request and whether it is new. Raises KeyInUse."""

        def change(tx: Transaction) -> tuple[str, bool]:
            return create_or_attach(tx, new, driver=driver, world=self.world, outlet=self.outlet)

        return await self.database.write("create", change)

    async def run(self, run_id: str) -> Run:
        """Raises UnknownId."""
        return await self.database.read(lambda tx: get_run(tx, run_id, owner=self.owner))

    async def runs(self, *, status: str | None = None, limit: int = 20) -> list[Run]:
        return await self.database.read(lambda tx: list_runs(tx, owner=self.owner, status=status, limit=limit))

    async def ready(self, *, fingerprint: str, all_clocks: bool = False) -> list[Ready]:
        """The runs that a process with these settings could drive now, if nobody else does; oldest first.

        With `all_clocks` also those that were parked by a clock which was set back since.
        """
        find = partial(ready_runs, owner=self.owner, fingerprint=fingerprint, at=self.world.now())
        return await self.database.read(lambda tx: find(tx, all_clocks=all_clocks))

    async def action(self, action_id: str) -> Action:
        """Raises UnknownId."""
        return await self.database.read(lambda tx: get_action(tx, action_id, owner=self.owner))

    async def actions(self, run_id: str) -> list[Action]:
        """Raises UnknownId, as do steps, intents, usage and events: also where the run was removed a moment ago."""
        return await self._of_run(run_id, lambda tx: actions_of(tx, run_id))

    async def waiting_actions(self) -> list[Action]:
        return await self.database.read(lambda tx: waiting_actions(tx, owner=self.owner))

    async def steps(self, run_id: str) -> list[StepRow]:
        return await self._of_run(run_id, lambda tx: steps_of(tx, run_id))

    async def intents(self, run_id: str) -> list[Intent]:
        return await self._of_run(run_id, lambda tx: intents_of(tx, run_id))

    async def usage(self, run: Run) -> Usage:
        return await self._of_run(run.id, lambda tx: usage(tx, run.id, seconds=run.driven_seconds))

    async def events(self, run_id: str, *, after: int = 0) -> list[Event]:
        return await self._of_run(run_id, lambda tx: events_of(tx, run_id, after=after))

    async def _of_run(self, run_id: str, query: Callable[[Transaction], T]) -> T:
        def read(tx: Transaction) -> T:
            found = query(tx)
            # Looked at last: where the run is still there, all that was read before was whole.
            if tx.row("SELECT 1 FROM runs WHERE id = ? AND owner = ?", (run_id, self.owner)) is None:
                raise UnknownId("run", run_id)
            return found

        return await self.database.read(read)

    async def check_writable(self, run_id: str) -> None:
        """Raises ReadOnlyRun for one that was imported."""
        await self.database.read(lambda tx: refuse_imported(tx, run_id))

    async def decide(self, action: Action, decision: Decision, *, grants: Sequence[Grant] = ()) -> Action:
        """Record a decision once, and give its run what a person granted with it.

        Raises DecisionRefused or LevelTooLow; the engine must be woken afterwards.
        """

        def change(tx: Transaction) -> Action:
            give(tx, action.run, grants, owner=action.owner, world=self.world, outlet=self.outlet)
            return decide(tx, action, decision, world=self.world, outlet=self.outlet)

        decided = await self.database.write("decide", change)
        self.bell.ring(action.run)
        return decided

    async def grant(self, run: Run, grants: Sequence[Grant]) -> None:
        """Let a run use what a person granted it. Raises GrantSpent or ReadOnlyRun."""

        def change(tx: Transaction) -> None:
            refuse_imported(tx, run.id)
            give(tx, run.id, grants, owner=run.owner, world=self.world, outlet=self.outlet)

        await self.database.write("grant", change)

    async def note(self, line: AuditLine) -> None:
        """Write something down that a person did about this store's settings or servers, before it counts."""
        put = partial(append_audit, line=line, owner=self.owner, at=self.world.now(), outlet=self.outlet)
        await self.database.write("note", put)

    async def request_cancel(self, run: Run, reason: str) -> bool:
        """Have the run end as cancelled; false if it has ended. The engine must be woken afterwards."""
        now = self.world.now()
        asked = await self.database.write("cancel", lambda tx: request_cancel(tx, run, reason, at=now))
        self.bell.ring(run.id)
        return asked

    async def mark_delivered(self, run_id: str) -> None:
        await self.database.write("delivered", lambda tx: mark_delivered(tx, run_id))

    async def rebind(self, run: Run, *, fingerprint: str, settings_path: str) -> None:
        """Let the run go on under other settings: memo kept, approvals dropped."""
        now = self.world.now()
        await self.database.write(
            "rebind", lambda tx: rebind(tx, run, fingerprint=fingerprint, settings_path=settings_path, at=now)
        )

    async def reopen(self, run: Run, *, options: JsonObject) -> None:
        now = self.world.now()
        await self.database.write("reopen", lambda tx: reopen(tx, run, options=options, at=now))

    async def take(self, run: Run, *, driver: str, limits: Callable[[Run], Limits]) -> RunJournal | None:
        """Begin a new epoch of the run under `driver`; None if it ended or was taken by another since it was read."""

        def change(tx: Transaction) -> Run | None:
            sql = (
                "UPDATE runs SET epoch = epoch + 1, driver = ?, wake_at = NULL, updated_at = ?,"
                " status = CASE status WHEN 'planning' THEN status ELSE 'running' END"
                " WHERE id = ? AND epoch = ? AND ended_at IS NULL"
            )
            if tx.change(sql, (driver, self.world.now(), run.id, run.epoch)) != 1:
                return None
            taken = get_run(tx, run.id, owner=run.owner)
            settle_lost(tx, run.id, before=taken.epoch)
            return taken

        taken = await self.database.write("take", change)
        if taken is None:
            return None
        self.bell.ring(run.id)
        shared = Shared(self.database, self.artifacts, self.bell, self.world, self.outlet)
        return RunJournal(shared, taken, limits(taken))


@asynccontextmanager
async def open_store(
    path: Path, world: World, outlet: Outlet, *, owner: str, limits: ArtifactLimits = _USUAL
) -> AsyncGenerator[Store]:
    """Open (create, migrate) the store at `path`. Raises StoreError."""
    async with open_database(path, world) as database:
        yield Store(database, world, outlet, owner=owner, limits=limits)
