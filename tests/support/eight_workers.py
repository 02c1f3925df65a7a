"""A run of eight workers at once with real planner, executors, gate and ledger, whose model and tools are functions.

What goes out is counted by those who were asked, beside the ledger.
"""

import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from executing import FakeCatalogue
from gate_case import gate_of, text_result, tool
from mcp.types import CallToolResult
from planner_rig import Tools

from downstream.gate.calls import ToolDoor
from downstream.gate.sending import Outgoing
from downstream.model_port import FREE, FunctionUse, ModelReply, ModelRequest, Models, Rate, Role, Traits
from downstream.models.door import ModelDoor
from downstream.models.structured import ask_structured
from downstream.settings import ModelsByRole, ModelSettings
from executors.execute import make_execute
from executors.job import Equipment
from executors.settings import WorkerSettings
from journal.database import Row
from journal.ledger import Limits, Spent, Usage
from journal.outlet import Outlet
from journal.run_journal import RunJournal
from journal.runs import NewRun, Run
from journal.steps import StepRow
from journal.store import Store, open_store
from journal.world import World
from planner.desk import Desk
from planner.drive import make_drive
from planner.settings import BudgetSettings

Json = Any
WORKERS, CALLS = 8, 3
MODEL, SPARE = "test/model", "test/spare"
LOOK, SEND = "notes.look", "notes.send"
PLENTY: dict[str, Json] = dict.fromkeys(Limits.__dataclass_fields__, 10**6)
_TOGETHER = 0.03
_CALL_ID = re.compile(r"^\[(c_\w+)\]", re.MULTILINE)


def workers_plan(count: int = WORKERS, **fields: Json) -> list[Json]:
    """A plan of so many worker steps that need nothing of each other."""
    return [
        {"id": f"s{n}", "kind": "worker", "worker": "researcher", "task": f"Study {n}.", "tools": [LOOK]} | fields
        for n in range(1, count + 1)
    ]


def honest(request: ModelRequest, reply: ModelReply) -> Spent:
    """A bill of a quarter of the characters."""
    said = len(reply.text) + sum(len(use.arguments) for use in reply.uses)
    return Spent(request.prompt_characters() // 4, said // 4)


@dataclass
class Crowd:
    """Those who are there at the same time; each waits a moment for the others to come."""

    size: int
    here: int = 0
    most: int = 0
    _full: anyio.Event = field(default_factory=anyio.Event)

    async def meet(self) -> None:
        self.here += 1
        self.most = max(self.most, self.here)
        if self.here == self.size:
            self._full.set()
            self._full = anyio.Event()
        else:
            with anyio.move_on_after(_TOGETHER):
                await self._full.wait()
        self.here -= 1


@dataclass
class Meter:
    """What the model and the tools were asked for, and what they took for it."""

    asked: list[tuple[str, ModelRequest]] = field(default_factory=list[tuple[str, ModelRequest]])
    sent: list[Outgoing] = field(default_factory=list[Outgoing])
    tokens: int = 0
    usd: float = 0.0
    reported: Counter[str] = field(default_factory=Counter[str])
    done: Counter[str] = field(default_factory=Counter[str])
    claims: set[str] = field(default_factory=set[str])
    crowd: Crowd = field(default_factory=lambda: Crowd(WORKERS))
    tools: Crowd = field(default_factory=lambda: Crowd(WORKERS))

    def hear(self, request: ModelRequest, said: ModelReply) -> None:
        """Note the report in a reply."""
        for use in said.uses:
            if use.name == "submit_report":
                handed_in, step = json.loads(use.arguments), f"{request.place.step}"
                self.reported[step] += 1
                self.done[step] += handed_in["status"] == "done"
                self.claims |= {found["claim"] for found in handed_in["findings"]}

    def roles(self, role: Role) -> list[ModelRequest]:
        return [request for _, request in self.asked if request.role == role]


Say = Callable[[ModelRequest], ModelReply]
Bill = Callable[[ModelRequest, ModelReply], Spent]
Answer = Callable[[Outgoing], Awaitable[CallToolResult]]


def function(name: str, data: Json) -> ModelReply:
    return ModelReply(MODEL, "", (FunctionUse("u", name, json.dumps(data)),))


def call_ids(request: ModelRequest) -> list[str]:
    """The ids of the calls whose results the request shows."""
    return _CALL_ID.findall("\n".join(message.content for message in request.messages))


def report(request: ModelRequest, *, status: str = "done", **fields: Json) -> ModelReply:
    """A report with one finding for each result so far."""
    step = request.place.step
    found = [{"claim": f"{step} saw {call}", "evidence": [call]} for call in call_ids(request)]
    said = {"status": status, "summary": f"{step} is through.", "findings": found, "confidence": 0.9}
    return function("submit_report", said | fields)


def studious(request: ModelRequest) -> ModelReply:
    """A worker that makes a call in each of its turns and then reports what it found, also where it is cut short."""
    over = request.force is not None or [each.name for each in request.functions] == ["submit_report"]
    if over or request.place.turn > CALLS:
        return report(request, status="partial" if over else "done")
    return function("notes__look", {"query": f"{request.place.step} {request.place.turn}"})


async def found(out: Outgoing) -> CallToolResult:
    return text_result(f"It is so: {out.arguments}")


@dataclass
class Eight:
    """A store for runs of eight workers; `run` makes one under these limits, and counts anew."""

    store: Store
    plan: Sequence[Json] = field(default_factory=workers_plan)
    worker: Say = studious
    bill: Bill = honest
    rates: Mapping[str, Rate] = field(default_factory=dict[str, Rate])
    answer: Answer = found
    fallbacks: tuple[str, ...] = ()
    revisions: Sequence[Json] = ({"decision": "continue"},)
    before: Callable[[str, ModelRequest], None] = lambda model, request: None
    meter: Meter = field(default_factory=Meter)
    owner: str = "me"

    async def run(self, goal: str = "the goal", **budget: Json) -> "Ended":
        self.meter = Meter()
        return await self.drive(await self.begin(goal), **budget)

    async def begin(self, goal: str) -> str:
        new = NewRun(self.owner, "print", "settings.yaml", goal, "user", "", {})
        return (await self.store.create_or_attach(new, driver="test"))[0]

    async def drive(self, run_id: str, **budget: Json) -> "Ended":
        settings = BudgetSettings(**(PLENTY | budget))
        limits = Limits(**{name: getattr(settings, name) for name in Limits.__dataclass_fields__})
        journal = await self.store.take(await self.store.run(run_id), driver="test", limits=lambda _: limits)
        assert journal is not None
        await make_drive(self._desk(settings))(journal)
        return await Ended.of(self.store, run_id, journal)

    def _desk(self, budget: BudgetSettings) -> Desk:
        tools = (tool(LOOK, "read", ["query"]), tool(SEND, "write", ["query"]))
        workers = (WorkerSettings(name="researcher", instructions="You find things out."),)
        settings = ModelSettings(model=MODEL, models=ModelsByRole(fallbacks=self.fallbacks))
        door = ModelDoor(Models(self._complete, self._rate_of, _nothing), settings, self.store.remembered, sleep=_pass)
        gate = gate_of(*tools, policy={"rules": [{"allow": "notes.*"}]})
        equipment = Equipment(
            ask=door.ask,
            call_tool=ToolDoor(gate, self._send),
            catalogue=FakeCatalogue(tools),
            workers={each.name: each for each in workers},
            remembered=self.store.remembered,
            model_for=door.model_for,
            retries=lambda _: budget.retries,
            traits_of=_traits,
        )
        ask, execute = partial(ask_structured, door), make_execute(equipment)
        return Desk(ask, execute, Tools(tools), workers, lambda _: False, budget)

    async def _rate_of(self, model: str) -> Rate | None:
        return self.rates.get(model, FREE)

    async def _complete(self, model: str, request: ModelRequest) -> ModelReply:
        meter = self.meter
        meter.asked.append((model, request))
        if request.role == "worker":
            await meter.crowd.meet()
        self.before(model, request)
        said = self._said(request)
        spent = self._priced(model, self.bill(request, said))
        meter.tokens, meter.usd = meter.tokens + spent.tokens, meter.usd + spent.usd
        meter.hear(request, said)
        return ModelReply(model, said.text, said.uses, said.finish, spent)

    def _priced(self, model: str, spent: Spent) -> Spent:
        rate = self.rates.get(model, FREE)
        usd = spent.usd or rate.cost(input_tokens=spent.input_tokens, output_tokens=spent.output_tokens)
        return replace(spent, usd=usd)

    def _said(self, request: ModelRequest) -> ModelReply:
        match request.role:
            case "planner":
                return function("submit_plan", {"steps": list(self.plan)})
            case "reviser":
                return function("revise_plan", self.revisions[min(request.place.number, len(self.revisions)) - 1])
            case "answer":
                return function("submit_answer", {"answer": "It is told.", "caveats": []})
            case "compose":
                return ModelReply(MODEL, "Composed.")
            case "worker" | "reviewer":
                return self.worker(request)

    async def _send(self, out: Outgoing) -> CallToolResult:
        self.meter.sent.append(out)
        await self.meter.tools.meet()
        return await self.answer(out)


@dataclass(frozen=True)
class Ended:
    """A run at its end, as every reader finds it, with the rows of its ledger."""

    run: Run
    steps: list[StepRow]
    usage: Usage
    ledger: list[Row]
    refused: list[str]

    @classmethod
    async def of(cls, store: Store, run_id: str, journal: RunJournal) -> "Ended":
        run = await store.run(run_id)
        sql = "SELECT * FROM ledger WHERE run = ? ORDER BY rowid"
        rows = await store.database.read(lambda tx: tx.rows(sql, (run_id,)))
        refused = [each.data["limit"] for each in await store.events(run_id) if each.type == "budget.refused"]
        return cls(run, await store.steps(run_id), await store.usage(run), rows, refused)

    @property
    def end(self) -> tuple[str, str | None]:
        return self.run.status, self.run.stop_reason

    @property
    def statuses(self) -> dict[str, str]:
        return {step.id: step.status for step in self.steps}

    def took(self, column: str, purpose: str | None = None) -> float:
        """What the ledger holds of one kind, for work, for the answer or for both."""
        return float(sum(row[column] for row in self.ledger if purpose in (None, row["purpose"])))


@asynccontextmanager
async def open_eight(folder: Path, world: World | None = None, **changes: Json) -> AsyncGenerator[Eight]:
    async with open_store(folder / "store.db", world or World(), Outlet(), owner="me") as store:
        yield Eight(store, **changes)


async def _nothing() -> None:
    return None


async def _traits(model: str) -> Traits:
    return Traits(window=200_000)


async def _pass(seconds: float) -> None:
    await anyio.lowlevel.checkpoint()
