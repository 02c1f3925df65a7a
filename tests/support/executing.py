"""What tests of executors share: a run on a real store, and models and tools that are functions of the test."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from downstream.door import Called, Refused, ToolCall, ToolEnd, Waiting
from downstream.model_port import FREE, Complete, FunctionUse, Message, ModelReply, ModelRequest, Models, Rate, Traits
from downstream.models.door import ModelDoor
from downstream.settings import ModelSettings
from downstream.tools import Tool, ToolClass
from executors.contract import Assignment, Execute, Outcome
from executors.execute import make_execute
from executors.job import Equipment
from executors.settings import WorkerLimits, WorkerSettings
from executors.step import CallStep, ComposeStep, WorkerStep
from journal.ledger import Limits
from journal.outlet import Outlet
from journal.run_journal import Meaning, RunJournal
from journal.runs import NewRun
from journal.store import Store, open_store
from journal.values import Json, JsonObject, Value
from journal.world import World

LIMITS = Limits(model_calls=80, tool_calls=120, tokens=600_000, usd=2.0, usd_day=10.0, seconds=1800.0)

Say = Callable[[ModelRequest], ModelReply]
Act = Callable[[ToolCall], ToolEnd | Awaitable[ToolEnd]]


class FakeCatalogue:
    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = list(tools)

    def tools(self) -> Sequence[Tool]:
        return self._tools


@dataclass
class Bench:
    """A run with its executors. `requests` and `sent` hold what really went out, over all drives."""

    store: Store
    say: Say
    act: Act
    tools: Sequence[Tool]
    workers: Sequence[WorkerSettings]
    retries: int = 1
    model: str | None = "test/model"
    complete: Complete | None = None
    limits: Limits = LIMITS
    window: int = 200_000
    by_grammar: bool = False
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])
    sent: list[ToolCall] = field(default_factory=list[ToolCall])
    run_id: str = ""

    async def drive(self) -> RunJournal:
        """The run under a new epoch."""
        run = await self.store.run(self.run_id)
        journal = await self.store.take(run, driver="test", limits=lambda _: self.limits)
        assert journal is not None
        return journal

    async def carry_out(
        self, step: CallStep | WorkerStep | ComposeStep, inputs: dict[str, Value] | None = None
    ) -> Outcome | Waiting:
        return await self.execute(await self.drive(), Assignment(step, inputs or {}))

    async def outcome(
        self, step: CallStep | WorkerStep | ComposeStep, inputs: dict[str, Value] | None = None
    ) -> Outcome:
        made = await self.carry_out(step, inputs)
        assert isinstance(made, Outcome)
        return made

    @property
    def execute(self) -> Execute:
        door = ModelDoor(
            Models(self._complete, _free, _nothing),
            ModelSettings(model=self.model),
            self.store.remembered,
            sleep=_at_once,
        )
        return make_execute(
            Equipment(
                ask=door.ask,
                call_tool=self._call_tool,
                catalogue=FakeCatalogue(self.tools),
                workers={worker.name: worker for worker in self.workers},
                remembered=self.store.remembered,
                model_for=door.model_for,
                retries=lambda _: self.retries,
                traits_of=self._traits_of,
            )
        )

    async def _traits_of(self, model: str) -> Traits:
        return Traits(window=self.window, by_grammar=self.by_grammar)

    async def _complete(self, model: str, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        return self.say(request) if self.complete is None else await self.complete(model, request)

    async def _call_tool(self, journal: RunJournal, call: ToolCall) -> ToolEnd:
        meaning = Meaning("tool", {"tool": call.tool, "arguments": call.arguments.data})
        if (found := await journal.recall(call.key, meaning)) is not None:
            kind = Called.from_json if "call" in found.value else _refused
            return kind(found.value)
        self.sent.append(call)
        made = self.act(call)
        end = await made if isinstance(made, Awaitable) else made
        if isinstance(end, Called):
            await journal.record(call.key, meaning, end.to_json())
        elif isinstance(end, Refused):
            await journal.record(call.key, meaning, end.__dict__)
        return end


@asynccontextmanager
async def open_bench(
    folder: Path,
    *,
    say: Say | None = None,
    act: Act | None = None,
    tools: Sequence[Tool] | None = None,
    workers: Sequence[WorkerSettings] | None = None,
) -> AsyncGenerator[Bench]:
    """A bench with a run of its own; without `say` and `act` the model and the tools fail the test when asked."""
    numbers = count(1)
    world = World(new_id=lambda prefix: f"{prefix}_{next(numbers)}")
    async with open_store(folder / "store.db", world, Outlet(), owner="me") as store:
        bench = Bench(store, say or _silent, act or _unused, tools or (), workers or (worker(),))
        new = NewRun("me", "print", "settings.yaml", "the goal", "user", "", {})
        bench.run_id, _ = await store.create_or_attach(new, driver="test")
        yield bench


def tool(name: str, class_: ToolClass = "read", *, idempotent: bool = False) -> Tool:
    server, _, own = name.partition(".")
    schema: JsonObject = {"type": "object", "properties": {"query": {"type": "string"}}}
    wire = f"{server}__{own}"
    return Tool(server, own, wire, "", f"Does {own}.", schema, None, {}, class_, idempotent=idempotent)


def worker(name: str = "researcher", **changes: Json) -> WorkerSettings:
    return WorkerSettings(name=name, instructions="You find things out.", **changes)


def limited(**limits: Json) -> WorkerSettings:
    return worker(limits=WorkerLimits(**limits))


def worker_step(**changes: Json) -> WorkerStep:
    fields: JsonObject = {"id": "study", "kind": "worker", "worker": "researcher", "task": "Study the budget."}
    return WorkerStep(**(fields | changes))


def call_step(**changes: Json) -> CallStep:
    fields: JsonObject = {"id": "look", "kind": "call", "tool": "notes.search", "arguments": {"query": "budget"}}
    return CallStep(**(fields | changes))


def called(call: ToolCall, text: str = "found", **changes: Json) -> Called:
    """What a call gave, from a server that is private; its id is made of its key, so that tests can foresee it."""
    server = call.tool.partition(".")[0]
    fields: JsonObject = {
        "call": call_id(call.key),
        "tool": call.tool,
        "ok": True,
        "value": Value(text, frozenset({f"private:{server}"})),
        "text": text,
    }
    return Called(**(fields | changes))


def call_id(key: str) -> str:
    """`c_` with attempt, turn and call of a key, such as c_121."""
    return "c_" + "".join(part.rpartition(".")[2] for part in key.split("/")[1:])


def uses(*calls: tuple[str, Json], text: str = "") -> ModelReply:
    """A reply that uses these functions."""
    made = [
        FunctionUse(f"u{number}", name, data if isinstance(data, str) else json.dumps(data))
        for number, (name, data) in enumerate(calls)
    ]
    return ModelReply("test/model", text, tuple(made))


def prose(text: str) -> ModelReply:
    return ModelReply("test/model", text)


def report(*findings: tuple[str, list[str]], **fields: Json) -> ModelReply:
    """A report in the form of a function call: done, unless said otherwise."""
    claims = [{"claim": claim, "evidence": evidence} for claim, evidence in findings]
    return uses(("submit_report", {"status": "done", "summary": "All is well.", "findings": claims} | fields))


def turns(*replies: ModelReply) -> Say:
    """A model that says these, by the number of the turn; the last one ever after."""
    return lambda request: replies[min(request.place.turn, len(replies)) - 1]


def texts(request: ModelRequest, role: str | None = None) -> str:
    """All that a request says, or what its messages of one role say."""
    return "\n".join(message.content for message in request.messages if role in (None, message.role))


def last_message(request: ModelRequest) -> Message:
    return request.messages[-1]


def _refused(value: Json) -> Refused:
    return Refused(**value)


def _silent(request: ModelRequest) -> ModelReply:
    raise AssertionError(f"no model was to be asked, but one was: {request.place}")


def _unused(call: ToolCall) -> ToolEnd:
    raise AssertionError(f"no tool was to be called, but one was: {call.tool}")


async def _free(model: str) -> Rate | None:
    return FREE


async def _nothing() -> None:
    return None


async def _at_once(seconds: float) -> None:
    return None
