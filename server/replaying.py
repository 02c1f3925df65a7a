"""What a replay needs besides the record: tools, workers and limits, from the settings or from what a run came with."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from downstream.gate.calls import ToolDoor
from downstream.gate.sending import Outgoing
from downstream.gate.stages import Gate
from downstream.model_port import FREE, ModelReply, ModelRequest, Models, Rate
from downstream.models.door import ModelDoor
from downstream.models.structured import ask_structured
from downstream.resources import with_reading
from downstream.servers.catalogue import remembered_tools
from downstream.settings import (
    SCRIPTED,
    ApprovalSettings,
    ModelsByRole,
    ModelSettings,
    PolicySettings,
    ServerOptions,
    ServerSettings,
)
from downstream.tool_names import ToolNameError, read_tool_name
from downstream.tools import Tool
from executors.execute import make_execute
from executors.job import Equipment
from executors.settings import OPERATOR, WorkerSettings
from journal.archive.record import Record, Unreadable, read_record
from journal.archive.record_check import check_record
from journal.archive.redaction import what_counts
from journal.archive.rehearsal import RecordEnds, Rehearsal, open_rehearsal
from journal.ledger import Limits
from journal.run_journal import RunJournal
from journal.runs import Run
from journal.store import Store
from journal.values import Json, JsonObject
from planner.desk import Desk
from planner.offer import never_allowed
from planner.replay import replay
from planner.replay_compare import Findings
from planner.settings import BudgetSettings, Revise

from .settings import Settings

Shape = TypeVar("Shape", bound=BaseModel)
_SOME_MODEL = "recorded"


@dataclass(frozen=True)
class Replayed:
    """What a replay has to tell. `whole`: it came to the run's end, and was not stopped by a difference before."""

    run: str
    whole: bool
    steps: int
    records: int
    differences: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return not self.differences

    def to_json(self) -> JsonObject:
        fields: JsonObject = {name: getattr(self, name) for name in self.__dataclass_fields__}
        lists = {"differences": list(self.differences), "notes": list(self.notes)}
        return {"run": self.run, "equal": self.equal} | fields | lists


@dataclass(frozen=True)
class _Basis:
    tools: tuple[Tool, ...]
    model: ModelSettings
    workers: tuple[WorkerSettings, ...]
    servers: tuple[ServerSettings, ...]
    policy: PolicySettings
    approvals: ApprovalSettings
    budget: BudgetSettings
    revise: Revise


@dataclass(frozen=True)
class _ToolList:
    """The tools as they are remembered; nobody is asked."""

    known: tuple[Tool, ...]

    async def all(self, name: str) -> Sequence[Tool]:
        return self.known

    def find(self, name: str) -> Tool | None:
        try:
            full = read_tool_name(name)
        except ToolNameError:
            full = name
        return next((tool for tool in self.known if name == tool.wire or full == tool.full_name), None)


@dataclass(frozen=True)
class _ForPlans:
    known: tuple[Tool, ...]

    async def tools(self) -> Sequence[Tool]:
        return self.known

    def missing(self) -> Mapping[str, str]:
        return {}

    def quarantined(self) -> Mapping[str, str]:
        return {}

    def warnings(self) -> Sequence[str]:
        return ()


@dataclass(frozen=True)
class _ForSteps:
    known: tuple[Tool, ...]

    def tools(self) -> Sequence[Tool]:
        return self.known


async def replay_run(store: Store, settings: Settings, run_id: str) -> Replayed:
    """Check a run's record and drive it once more from it; no model and no server is asked. Raises UnknownId."""
    record = await read_record(store, run_id)
    came = record.came
    basis = await _of_settings(store, settings) if came is None else _of_import(came)
    notes = [] if came is not None or record.run.fingerprint == settings.fingerprint else [_OTHER_SETTINGS]
    problems, unsure = await check_record(store, record)
    by_name = record.redacted or (came is not None and "[secret:" in str(record.tables["memo"]))
    limits = partial(_limits, basis.budget)
    async with open_rehearsal(store, record, limits=limits, by_name=by_name) as rehearsal:
        found = await replay(rehearsal, _desk(basis, rehearsal), what_counts if record.redacted else _as_it_is)
    return _told(store, record, [*problems, *found.differences], [*notes, *unsure, *found.notes], found)


_OTHER_SETTINGS = "the run was made under other settings than the present ones; differences may come from that"


def _told(store: Store, record: Record, differences: list[str], notes: list[str], found: Findings) -> Replayed:
    texts = (tuple(map(store.outlet.text, each)) for each in (differences, notes))
    return Replayed(record.run.id, found.whole, found.steps, len(record.tables["memo"]), *texts)


async def _of_settings(store: Store, settings: Settings) -> _Basis:
    return _Basis(
        tools=await remembered_tools(store.remembered, settings.servers),
        model=settings.model,
        workers=settings.workers,
        servers=settings.servers,
        policy=settings.policy,
        approvals=settings.approvals,
        budget=settings.budget,
        revise=settings.revise,
    )


def _of_import(came: JsonObject) -> _Basis:
    """What `exported.about_run` wrote. Raises Unreadable."""
    try:
        return _read(came["tools"], came["settings"])
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise Unreadable("what the run was imported with, its tools and settings,") from error


def _read(tools: list[JsonObject], said: JsonObject) -> _Basis:
    models = ModelsByRole.model_construct(**said["model"].get("models", {}))
    options = {name: _fitted(ServerOptions, each) for name, each in said["server_options"].items()}
    return _Basis(
        tools=tuple(_tool(fields) for fields in tools),
        # Names are not looked at again: a scripted one may lie in a folder that is not here.
        model=ModelSettings.model_construct(model=said["model"].get("model"), models=models),
        workers=tuple(_fitted(WorkerSettings, worker) for worker in said["workers"]),
        servers=tuple(ServerSettings(name=name, transport="stdio", options=each) for name, each in options.items()),
        policy=_fitted(PolicySettings, said["policy"]),
        approvals=_fitted(ApprovalSettings, said["approvals"]),
        budget=_fitted(BudgetSettings, said["budget"]),
        revise=said["revise"],
    )


def _fitted(shape: type[Shape], data: Json) -> Shape:
    # Read as JSON, where a tuple is a list.
    return shape.model_validate_json(json.dumps(data))


def _tool(fields: JsonObject) -> Tool:
    known = {name: value for name, value in fields.items() if name in Tool.__dataclass_fields__}
    return Tool(**known, class_=fields["class"])


def _limits(budget: BudgetSettings, run: Run) -> Limits:
    given: JsonObject = run.options.get("budget", {})
    return Limits(**{name: given.get(name, getattr(budget, name)) for name in Limits.__dataclass_fields__})


def _desk(basis: _Basis, rehearsal: Rehearsal) -> Desk:
    remembered, tools = rehearsal.store.remembered, _ToolList(basis.tools)
    model = basis.model if basis.model.model else basis.model.model_copy(update={"model": _SOME_MODEL})
    door = ModelDoor(Models(_ask_nobody, _costs_nothing, _never), model, remembered)
    gate = Gate(
        tools=tools.all,
        find=with_reading(tools.find, lambda: basis.tools),
        held=lambda name: None,
        policy=basis.policy,
        approvals=basis.approvals,
        servers={server.name: server for server in basis.servers},
    )
    equipment = Equipment(
        ask=door.ask,
        call_tool=ToolDoor(gate, _send_nothing),
        catalogue=_ForSteps(basis.tools),
        workers={worker.name: worker for worker in (OPERATOR, *basis.workers)},
        remembered=remembered,
        model_for=door.model_for,
        retries=partial(_retries, basis.budget),
    )
    name = basis.model.model or ""
    return Desk(
        ask=partial(ask_structured, door),
        execute=make_execute(equipment),
        catalogue=_ForPlans(basis.tools),
        workers=basis.workers,
        denied=partial(never_allowed, basis.policy),
        budget=basis.budget,
        revise=basis.revise,
        warnings=(f"scripted model: {name.removeprefix(SCRIPTED)}",) if name.startswith(SCRIPTED) else (),
        pending_seconds=basis.approvals.pending_hours * 3600,
        policy=basis.policy,
        model_for=door.model_for,
    )


def _retries(budget: BudgetSettings, journal: RunJournal) -> int:
    return int(journal.run.options.get("budget", {}).get("retries", budget.retries))


async def _ask_nobody(model: str, request: ModelRequest) -> ModelReply:
    raise RecordEnds(f"a request to {model}")


async def _send_nothing(out: Outgoing) -> NoReturn:
    raise RecordEnds(f"a call of {out.tool.full_name}")


async def _costs_nothing(model: str) -> Rate | None:
    return FREE


async def _never() -> None:
    """There is nothing to warm up."""


def _as_it_is(data: Json) -> Json:
    return data
