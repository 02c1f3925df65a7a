"""The product below its server floor, with tools that answer at once in this process, and a scripted model."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import anyio.lowlevel
from mcp.types import CallToolResult, TextContent

from downstream.gate.calls import ToolDoor
from downstream.gate.sending import Outgoing, Send
from downstream.gate.stages import Gate
from downstream.model import open_models
from downstream.models.door import ModelDoor
from downstream.models.structured import ask_structured
from downstream.policy_settings import PolicySettings
from downstream.settings import ApprovalSettings, ModelSettings
from downstream.tools import Tool, ToolClass
from executors.execute import make_execute
from executors.job import Equipment
from executors.settings import OPERATOR, built_in_workers
from journal.engine import Drive
from journal.ledger import Limits
from journal.local_engine import EngineOptions, LocalEngine, open_local_engine
from journal.outlet import Outlet
from journal.run_journal import RunJournal
from journal.runs import NewRun, Run
from journal.store import Store, open_store
from journal.values import Json, JsonObject
from journal.world import World
from planner.desk import Desk
from planner.drive import make_drive
from planner.settings import BudgetSettings

OWNER = "local"
BUDGET = BudgetSettings(steps=60, tool_calls=200)
LIMITS = Limits(**{name: getattr(BUDGET, name) for name in Limits.__dataclass_fields__})
Act: TypeAlias = Literal["look", "note", "send"]
"""What each step calls: `look` reads, `note` writes as policy allows, `send` writes once a person agrees."""
_CLASSES: dict[Act, ToolClass] = {"look": "read", "note": "write", "send": "write"}


def plan_of(act: Act, *, chains: int = 8, length: int = 6) -> JsonObject:
    """A step, chains of steps beside each other, and a last step that needs them all: 50 unless told otherwise."""
    every = [(number, place) for number in range(chains) for place in range(length)]
    middle = [_step(f"c{n}_{p}", act, "first" if p == 0 else f"c{n}_{p - 1}") for n, p in every]
    ends = [f"c{number}_{length - 1}" for number in range(chains)]
    return {"steps": [_step("first", act), *middle, _step("last", act, *ends)]}


def one_step(act: Act) -> JsonObject:
    return {"steps": [_step("only", act)]}


def _step(id_: str, act: Act, *needs: str) -> JsonObject:
    calls: JsonObject = {"kind": "call", "tool": f"desk.{act}", "arguments": {"key": id_}}
    return {"id": id_, "title": f"Do {id_}", "needs": list(needs), **calls}


def _tool(act: Act) -> Tool:
    schema: JsonObject = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
    return Tool("desk", act, f"desk__{act}", "", f"Does {act}.", schema, None, {}, _CLASSES[act])


TOOLS = tuple(_tool(act) for act in _CLASSES)


async def answer_at_once(out: Outgoing) -> CallToolResult:
    """What a connection does, without the wire: ask for leave, which is a look at the run, and answer."""
    await out.leave()
    return CallToolResult(content=[TextContent(type="text", text=f"did {out.arguments['key']}")])


class _Tools:
    """The catalogue of the in-process tools, for the planner and for executors."""

    async def tools(self) -> Sequence[Tool]:
        return TOOLS

    def missing(self) -> Mapping[str, str]:
        return {}

    def quarantined(self) -> Mapping[str, str]:
        return {}

    def warnings(self) -> Sequence[str]:
        return ()


@dataclass(frozen=True)
class _Known:
    """The same tools as executors ask for them."""

    def tools(self) -> Sequence[Tool]:
        return TOOLS


@dataclass(frozen=True)
class Rig:
    """A store with an engine at work on it."""

    store: Store
    engine: LocalEngine
    fingerprint: str

    async def create(self, plan: Json, *, goal: str) -> str:
        """A new run of this plan; the engine has to be woken for it."""
        new = NewRun(OWNER, self.fingerprint, "the benchmark", goal, "user", "", {"plan": plan})
        run_id, _ = await self.store.create_or_attach(new, driver=self.engine.lease.id)
        return run_id


@dataclass(frozen=True)
class Setting:
    """How a rig is made: its store's folder, under which fingerprint it drives how many runs at once, and its tools.

    `drive` takes the place of the product's own; `begin` is awaited before each drive and `ended` called after it.
    """

    folder: Path
    fingerprint: str = "benchmark"
    runs: int = 16
    send: Send = answer_at_once
    drive: Drive | None = None
    begin: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint
    ended: Callable[[], None] = field(default=lambda: None)


@asynccontextmanager
async def open_rig(setting: Setting) -> AsyncGenerator[Rig]:
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(setting.folder / "store.db", World(), Outlet(), owner=OWNER))
        drive = setting.drive or make_drive(await _open_desk(stack, setting, store))

        async def driven(journal: RunJournal) -> None:
            await setting.begin()
            await drive(journal)
            setting.ended()

        options = EngineOptions(setting.fingerprint, "the benchmark", setting.runs, _limits)
        engine = await stack.enter_async_context(open_local_engine(store, driven, options))
        yield Rig(store, engine, setting.fingerprint)


def _limits(run: Run) -> Limits:
    return LIMITS


async def _listed(server: str) -> Sequence[Tool]:
    return TOOLS


async def _open_desk(stack: AsyncExitStack, setting: Setting, store: Store) -> Desk:
    script = setting.folder / "script.json"
    await anyio.Path(script).write_text(json.dumps({"answer": "All is done."}))
    model = ModelSettings(model=f"scripted:{script}")
    models = await stack.enter_async_context(open_models(model, store.outlet))
    door = ModelDoor(models, model, store.remembered)
    policy = PolicySettings.model_validate({"rules": [{"allow": "desk.note"}]}, strict=False)
    by_name = {tool.full_name: tool for tool in TOOLS}
    gate = Gate(_listed, by_name.get, lambda name: None, policy, ApprovalSettings(), {})
    equipment = Equipment(
        ask=door.ask,
        call_tool=ToolDoor(gate, setting.send),
        catalogue=_Known(),
        workers={OPERATOR.name: OPERATOR},
        remembered=store.remembered,
        model_for=door.model_for,
        retries=lambda journal: BUDGET.retries,
    )
    execute = make_execute(equipment)
    ask = partial(ask_structured, door)
    return Desk(ask, execute, _Tools(), built_in_workers(), lambda tool: False, BUDGET, policy=policy)
