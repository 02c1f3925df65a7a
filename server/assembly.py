"""The one place that builds and connects objects: a settings file becomes a product that can be asked for runs."""

import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from downstream.gate.edits import edited_action
from downstream.gate.sending import Outgoing
from downstream.gate.stages import Gate
from downstream.gate.tool_door import Rules, make_call_tool, make_gate
from downstream.model import open_models
from downstream.model_port import Models
from downstream.models.door import ModelDoor
from downstream.models.structured import ask_structured
from downstream.policy_settings import PolicySettings
from downstream.servers.catalogue import Catalogue
from downstream.servers.pool import Pool, open_pool
from downstream.settings import SCRIPTED, ModelSettings
from downstream.tools import Tool
from executors.contract import Execute
from executors.execute import make_execute
from executors.job import Equipment
from executors.settings import OPERATOR
from journal.actions import Action, NewAction
from journal.archive.retention import prune_daily
from journal.engine import Drive
from journal.ledger import Limits
from journal.local_engine import EngineOptions, open_local_engine
from journal.run_journal import RunJournal
from journal.runs import Run
from journal.settings import local_engine
from journal.signs import Signs
from journal.store import Store
from journal.values import JsonObject
from journal.world import World
from planner.checker import check_given_plan
from planner.desk import Desk
from planner.drive import make_drive
from planner.offer import never_allowed
from planner.plan import PlanError
from planner.watch import watched

from .host.depth import META, depth_of
from .installed import installed_command
from .opened_store import open_settings_store
from .product import Product, settings_path
from .settings import Settings
from .settings_file.model_choice import NoModelFound, choose_model


@dataclass(frozen=True)
class _Choice:
    """The model settings in force, what to tell about them, and why there are none."""

    settings: ModelSettings
    notices: tuple[str, ...] = ()
    problem: NoModelFound | None = None


@asynccontextmanager
async def open_product(
    settings: Settings, *, world: World, environ: Mapping[str, str] = os.environ, adopts: bool = True
) -> AsyncGenerator[Product]:
    """Everything at work under these settings until the block ends. Raises StoreError or NotBuiltYet.

    Tool servers start when they are first needed, and litellm is imported when a model is. A process that stays only
    for a run of its own does not adopt those of others.
    """
    slots = local_engine(settings.engine).runs
    choice = await _choose(settings, environ)
    depths = _Depths(depth_of(environ))
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_settings_store(settings, world=world))
        doors = await _open_doors(stack, settings, choice, store=store)
        desk = _desk(settings, choice, doors, execute=make_execute(_equipment(settings, doors, depths)))
        options = EngineOptions(
            settings.fingerprint, settings_path(settings), slots, limits=partial(_limits, desk), adopts=adopts
        )
        drive = _Driven(make_drive(desk), doors, depths)
        engine = await stack.enter_async_context(open_local_engine(store, drive, options))
        group = await stack.enter_async_context(anyio.create_task_group())
        if adopts:
            group.start_soon(prune_daily, store, settings.retention.days)
        yield Product(
            settings=settings,
            store=store,
            engine=engine,
            driver=engine.lease.id,
            command=installed_command(),
            warm_up=partial(_start, group, partial(_warm_up, doors.models, choice.settings)),
            edited=partial(_edited, store, doors.gate),
            check=partial(_check, desk),
            trouble_of=engine.trouble_of,
            problem=choice.problem,
        )
        group.cancel_scope.cancel()


@dataclass(frozen=True)
class _Doors:
    """The two ways out, and what is known of what lies behind them."""

    pool: Pool
    models: Models
    door: ModelDoor
    gate: Gate
    catalogue: Catalogue
    signs: Signs


async def _open_doors(stack: AsyncExitStack, settings: Settings, choice: _Choice, *, store: Store) -> _Doors:
    pool = await stack.enter_async_context(open_pool(settings.servers, store.world, learn=store.outlet.learn))
    models = await stack.enter_async_context(open_models(choice.settings, store.outlet))
    catalogue = Catalogue(pool, store.remembered, settings.servers)
    rules = Rules(settings.policy, settings.approvals, settings.servers, store.outlet)
    return _Doors(
        pool=pool,
        models=models,
        door=ModelDoor(models, choice.settings, store.remembered, needs_price=settings.budget.usd_is_written),
        gate=make_gate(catalogue, rules, pool=pool),
        catalogue=catalogue,
        signs=store.signs,
    )


class _Depths:
    """How deep the runs at work here stand inside other orchestrators, so that calls can carry it on."""

    def __init__(self, outside: int) -> None:
        self._outside = outside
        self._of_runs: dict[str, int] = {}

    def note(self, run_id: str, depth: int) -> None:
        self._of_runs[run_id] = depth

    def forget(self, run_id: str) -> None:
        self._of_runs.pop(run_id, None)

    def meta(self, out: Outgoing) -> JsonObject:
        return {META: self._of_runs.get(out.run, self._outside) + 1}


class _Driven:
    """A drive that first learns the tools, and tells the run what its settings and request had to say."""

    def __init__(self, drive: Drive, doors: _Doors, depths: _Depths) -> None:
        self._drive = drive
        self._pool = doors.pool
        self._catalogue = doors.catalogue
        self._depths = depths

    async def __call__(self, journal: RunJournal) -> None:
        run = journal.run
        self._depths.note(run.id, int(run.options.get("depth", 0)))
        try:
            if run.cancel_reason is None:
                for text in run.options.get("warnings", ()):
                    await journal.warn(text)
                # A run taken up in its middle asks nobody for a plan, but its steps need the tools all the same.
                # Whoever cancels the run is not to wait for a server that lists nothing; the drive sees it then.
                await watched(journal, self._learn, deadline=lambda: False)
            async with self._pool.open_run(run.id):
                await self._drive(journal)
        finally:
            self._depths.forget(run.id)

    async def _learn(self, group: TaskGroup) -> None:
        await self._catalogue.tools()


@dataclass(frozen=True)
class _Known:
    """The tools as the latest look at the servers left them, but for those that the policy never lets be called: what a
    step at work is shown."""

    catalogue: Catalogue
    policy: PolicySettings

    def tools(self) -> Sequence[Tool]:
        return [tool for tool in self.catalogue.known if not never_allowed(self.policy, tool)]


async def _choose(settings: Settings, environ: Mapping[str, str]) -> _Choice:
    """The model of the settings, else one that a key or a local server offers."""
    if settings.model.model is not None:
        return _Choice(settings.model)
    find = partial(choose_model, settings.model, environ, budget=settings.budget)
    try:
        choice = await anyio.to_thread.run_sync(find)
    except NoModelFound as error:
        return _Choice(settings.model, problem=error)
    return _Choice(choice.settings, (choice.notice,) if choice.notice else ())


def _equipment(settings: Settings, doors: _Doors, depths: _Depths) -> Equipment:
    return Equipment(
        ask=doors.door.ask,
        call_tool=make_call_tool(doors.gate, doors.pool, depths.meta, signs=doors.signs),
        catalogue=_Known(doors.catalogue, settings.policy),
        workers={worker.name: worker for worker in (OPERATOR, *settings.workers)},
        remembered=doors.door.remembered,
        model_for=doors.door.model_for,
        retries=lambda journal: int(journal.run.options.get("budget", {}).get("retries", settings.budget.retries)),
        traits_of=doors.door.traits_of,
    )


def _desk(settings: Settings, choice: _Choice, doors: _Doors, *, execute: Execute) -> Desk:
    model = choice.settings.model or ""
    scripted = (f"scripted model: {model.removeprefix(SCRIPTED)}",) if model.startswith(SCRIPTED) else ()
    return Desk(
        ask=partial(ask_structured, doors.door),
        execute=execute,
        catalogue=doors.catalogue,
        workers=settings.workers,
        denied=partial(never_allowed, settings.policy),
        budget=settings.budget,
        revise=settings.revise,
        warnings=(*choice.notices, *scripted),
        pending_seconds=settings.approvals.pending_hours * 3600,
        policy=settings.policy,
        model_for=doors.door.model_for,
    )


def _limits(desk: Desk, run: Run) -> Limits:
    budget = desk.budget_of(run)
    return Limits(**{name: getattr(budget, name) for name in Limits.__dataclass_fields__})


async def _edited(store: Store, gate: Gate, action: Action, arguments: JsonObject) -> NewAction:
    return await edited_action(gate, await store.run(action.run), action, arguments)


async def _check(desk: Desk, plan: JsonObject) -> None:
    """Raises PlanError; where tools are unknown because their server is not there, that comes first."""
    bounds = desk.bounds(await desk.offer(), max_steps=desk.budget.steps)
    try:
        check_given_plan(plan, bounds)
    except PlanError as error:
        missing = desk.catalogue.missing().items()
        gone = [f"tool server {name!r} is not there: {why}" for name, why in missing if f"'{name}." in str(error)]
        raise PlanError([*gone, *error.errors]) from error


def _start(group: TaskGroup, work: Callable[[], Coroutine[object, object, None]]) -> None:
    group.start_soon(work)


async def _warm_up(models: Models, settings: ModelSettings) -> None:
    """Import litellm while a run begins; of no use where all models are scripted."""
    if not (settings.model or "").startswith(SCRIPTED):
        await models.warm_up()
