"""What tests of the gate stand on: a real run in a real store, tools and servers by a few words, and a sender."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias

from mcp.types import CallToolResult, TextContent

from downstream.door import Arguments, ToolCall
from downstream.gate.call_record import plain_name
from downstream.gate.calls import ToolDoor
from downstream.gate.sending import Outgoing, Send
from downstream.gate.stages import Gate
from downstream.policy_settings import PolicySettings
from downstream.servers.failures import CallFailed
from downstream.settings import ApprovalSettings, ServerOptions, ServerSettings, ToolOptions
from downstream.tools import Tool, ToolClass
from journal.actions import Action, Decision, Level
from journal.ledger import Limits
from journal.outlet import Outlet
from journal.run_journal import RunJournal
from journal.runs import NewRun
from journal.store import Store, open_store
from journal.values import JsonObject, Label
from journal.world import World

PLAN: Label = frozenset({"plan"})
LIMITS = Limits(model_calls=10, tool_calls=20, tokens=1000, usd=1.0, usd_day=1.0, seconds=1000.0)
TEXT: JsonObject = {"type": "string"}


def tool(name: str, class_: ToolClass, properties: Sequence[str] = (), **changes: object) -> Tool:
    """`server.tool` that takes texts of these names; anything else by keyword."""
    server, _, short = name.partition(".")
    schema: JsonObject = {"type": "object", "properties": dict.fromkeys(properties, TEXT)}
    made = Tool(server, short, f"{server}__{short}", "", "", schema, None, {}, class_)
    return replace(made, **changes)  # type: ignore[arg-type]


def server(name: str, *, private: bool = False, tools: Mapping[str, ToolOptions] | None = None) -> ServerSettings:
    options = ServerOptions(private=private, tools=dict(tools or {}))
    return ServerSettings(name=name, transport="stdio", command="run-it", args=(name,), options=options)


def gate_of(*tools: Tool, policy: JsonObject | None = None, servers: Sequence[ServerSettings] = ()) -> Gate:
    by_name = {each.full_name: each for each in tools} | {each.wire: each for each in tools}

    async def listed(name: str) -> Sequence[Tool]:
        return tools

    return Gate(
        tools=listed,
        find=lambda name: by_name.get(name) or by_name.get(plain_name(name)),
        held={"notes.odd": "its arguments changed"}.get,
        policy=PolicySettings.model_validate(policy or {}, strict=False),
        approvals=ApprovalSettings(),
        servers={each.name: each for each in servers},
    )


def call(name: str, arguments: JsonObject | None = None, *, label: Label = PLAN, **changes: object) -> ToolCall:
    """A call of step `a` as the first plan makes it, which lists its own tool only."""
    key, listed = "step.a@1/attempt.1/call.0", frozenset({name})
    made = ToolCall(key, "a", name, Arguments(arguments or {}, label), listed, "plan", PLAN)
    return replace(made, **changes)  # type: ignore[arg-type]


def worker_call(name: str, arguments: JsonObject | None = None, *, label: Label, number: int = 0) -> ToolCall:
    """A call that a worker's model made after it had read things of this label."""
    key, read = f"step.w@1/attempt.1/turn.1/call.{number}", label | {"model"}
    return call(name, arguments, label=read, key=key, origin="worker", read=read)


@dataclass
class Clock:
    """Time that tests move by hand."""

    at: float = 1_000_000.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Runs:
    """One run and its drives; `drive` begins a new epoch, as after a crash or a wait."""

    store: Store
    run_id: str
    clock: Clock
    limits: Limits = LIMITS

    async def drive(self) -> RunJournal:
        journal = await self.store.take(await self.store.run(self.run_id), driver="me", limits=lambda run: self.limits)
        assert journal is not None
        return journal

    async def decide(
        self, action_id: str, choice: str, *, level: Level = "person", via: str = "terminal", note: str | None = None
    ) -> Action:
        return await self.store.decide(await self.store.action(action_id), Decision(choice, level, via, note))

    async def event_types(self) -> list[str]:
        return [event.type for event in await self.store.events(self.run_id)]


@asynccontextmanager
async def open_runs(
    folder: Path,
    *,
    goal: str = "do it",
    secrets: Sequence[tuple[str, str]] = (),
    new_id: Callable[[str], str] | None = None,
) -> AsyncGenerator[Runs]:
    clock, ids = Clock(), count(1)
    world = World(now=clock, monotonic=clock, new_id=new_id or (lambda prefix: f"{prefix}_{next(ids)}"))
    async with open_store(folder / "store.db", world, Outlet(secrets), owner="me") as store:
        new = NewRun("me", "settings", "/settings.yaml", goal, "host", "", {})
        run_id, _ = await store.create_or_attach(new, driver="me")
        yield Runs(store, run_id, clock)


@dataclass
class Server:
    """A sender that notes what reached it and answers with a text, or as told."""

    sent: list[tuple[str, JsonObject]] = field(default_factory=list[tuple[str, JsonObject]])
    answer: Callable[[Outgoing], CallToolResult] = lambda out: text_result("fine")

    async def send(self, out: Outgoing) -> CallToolResult:
        self.sent.append((out.tool.full_name, out.arguments))
        return self.answer(out)

    def door(self, *tools: Tool, policy: JsonObject | None = None, servers: Sequence[ServerSettings] = ()) -> ToolDoor:
        send: Send = self.send
        return ToolDoor(gate_of(*tools, policy=policy, servers=servers), send)


def text_result(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


Failing: TypeAlias = Literal["ran?", "late", "unsent"]


def failing(how: Failing) -> Callable[[Outgoing], CallToolResult]:
    def answer(out: Outgoing) -> CallToolResult:
        raise CallFailed("no answer came", may_have_run=how != "unsent", late=how == "late")

    return answer
