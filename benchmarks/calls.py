"""What a call takes through gate, intent and pool, beside a bare call to the same server in the same process."""

import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import quantiles
from typing import Literal, TypeAlias

import anyio
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult

from downstream.door import Arguments, Called, CallTool, ToolCall
from downstream.gate.calls import ToolDoor
from downstream.gate.sending import Outgoing
from downstream.gate.stages import Gate
from downstream.gate.tool_door import Rules, make_call_tool, make_gate
from downstream.policy_settings import PolicySettings
from downstream.servers.catalogue import Catalogue
from downstream.servers.pool import open_pool
from downstream.settings import ApprovalSettings, ServerOptions, ServerSettings
from downstream.tools import Tool
from journal.outlet import Outlet
from journal.run_journal import RunJournal
from journal.runs import NewRun
from journal.store import Store, open_store
from journal.values import JsonObject
from journal.world import World

from .places import Places, open_folder
from .rig import LIMITS, OWNER
from .sizes import Sizes
from .table import Row, Table

Name: TypeAlias = Literal["read", "add"]
"""The tools: one that reads, and one that writes, as policy allows."""
Make: TypeAlias = Callable[[str], Awaitable[object]]
"""Make the call with this key, which no other call has."""

_SERVER = Path(__file__).parent.parent / "tests" / "support" / "toy_servers" / "quick_server.py"
_MOST = 64
_WARM_UP = 20
_TURNS = 4
_KINDS: Mapping[Name, str] = {"read": "a read", "add": "a write"}
_POLICY = PolicySettings.model_validate({"rules": [{"allow": "quick.add"}]}, strict=False)
_LIMITS = replace(LIMITS, tool_calls=1_000_000)
_PLAN = frozenset({"plan"})
_HOW = (
    "Wall clock of each call, as its caller sees it: arguments checked, policy, taint, memo, ledger and events, for a"
    " write also its intent and audit, then the pool; and the processor time of this process. Held against"
    " `Client.call_tool` of the SDK on a second connection to the same kind of server, by turns in the same process."
    " Over stdio the server is a child process that has no SDK and syncs a line to its log for each call; in this"
    " process it is one of the SDK, and no pool stands in between. What comes first is the difference of the medians."
)


@dataclass(frozen=True)
class _Way:
    """To one server: by a bare client, and through all of ours with the journal of a new run."""

    name: str
    bare: Client
    door: CallTool


@dataclass
class _Side:
    """Seconds of each call as its caller saw it, and of the processor in all."""

    seconds: list[float] = field(default_factory=list[float])
    cpu: float = 0.0

    @property
    def cuts(self) -> tuple[float, float]:
        """The median and the 99th percentile."""
        cuts = quantiles([*self.seconds, *self.seconds], n=100, method="inclusive")
        return cuts[49], cuts[98]

    def __str__(self) -> str:
        middle, tail = self.cuts
        cpu = 1000 * self.cpu / len(self.seconds)
        return f"p50 {1000 * middle:.2f} ms, p99 {1000 * tail:.2f} ms, {cpu:.2f} ms CPU"


def measure(places: Places, sizes: Sizes) -> list[Table]:
    """With the store on the disk, and in memory, where the journal's share is processor time only."""
    stores = {"on disk": places.disk} | ({"in memory": places.memory} if places.memory else {})
    return [anyio.run(_table, where, within, sizes) for where, within in stores.items()]


async def _table(where: str, within: Path, sizes: Sizes) -> Table:
    rows: list[Row] = []
    with open_folder(within) as folder:
        async with (
            open_store(folder / "store.db", World(), Outlet(), owner=OWNER) as store,
            _open_ways(folder, store) as ways,
        ):
            for way, tool, at_once in product(ways, _KINDS, sizes.callers):
                bare, ours = await _both(way, store, tool, at_once=at_once, calls=sizes.calls)
                more = f"{1e6 * (ours.cuts[0] - bare.cuts[0]):+,.0f} µs"
                what = f"{_KINDS[tool]} {way.name}, {at_once} at once"
                rows.append(Row(what, f"{more}: {ours}", f"bare: {bare}", ours.cuts[0] / bare.cuts[0]))
    return Table(f"One call through gate, intent and pool, store {where}", _HOW, tuple(rows))


async def _both(way: _Way, store: Store, tool: Name, *, at_once: int, calls: int) -> tuple[_Side, _Side]:
    """Bare and ours by turns, after some that do not count; each turn of ours is a run of its own."""
    sides = _Side(), _Side()
    for side, count in [((_Side(), _Side()), min(_WARM_UP, calls)), *[(sides, calls // _TURNS)] * _TURNS]:
        journal = await _new_journal(store)
        await _timed(side[0], partial(_call_bare, way.bare, tool), at_once=at_once, calls=count)
        await _timed(side[1], partial(_call_ours, way.door, journal, tool), at_once=at_once, calls=count)
    return sides


async def _timed(side: _Side, make: Make, *, at_once: int, calls: int) -> None:
    async def one_after_the_other(caller: int) -> None:
        for number in range(max(1, calls // at_once)):
            began = time.perf_counter()
            await make(f"{caller}-{number}")
            side.seconds.append(time.perf_counter() - began)

    before = time.process_time()
    async with anyio.create_task_group() as group:
        for caller in range(at_once):
            group.start_soon(one_after_the_other, caller)
    side.cpu += time.process_time() - before


async def _call_bare(client: Client, tool: Name, key: str) -> None:
    if (await client.call_tool(tool, {"key": key})).is_error:
        raise RuntimeError(f"the server refused {tool}")


async def _call_ours(door: CallTool, journal: RunJournal, tool: Name, key: str) -> None:
    full, arguments = f"quick.{tool}", Arguments({"key": key}, _PLAN)
    call = ToolCall(f"step.{key}", key, full, arguments, frozenset({full}), "plan", _PLAN)
    end = await door(journal, call)
    if not isinstance(end, Called) or not end.ok:
        raise RuntimeError(f"the call did not go through: {end}")


async def _new_journal(store: Store) -> RunJournal:
    new = NewRun(OWNER, "benchmark", "the benchmark", "Make calls.", "user", "", {})
    run_id, _ = await store.create_or_attach(replace(new, idempotency_key=store.world.new_id("k")), driver="benchmark")
    journal = await store.take(await store.run(run_id), driver="benchmark", limits=lambda run: _LIMITS)
    if journal is None:
        raise RuntimeError("another process took the run")
    return journal


@asynccontextmanager
async def _open_ways(folder: Path, store: Store) -> AsyncGenerator[list[_Way]]:
    async with AsyncExitStack() as stack:
        yield [await _over_stdio(stack, folder, store), await _in_this_process(stack)]


async def _over_stdio(stack: AsyncExitStack, folder: Path, store: Store) -> _Way:
    words = ("-I", str(_SERVER), str(folder / "calls.log"))
    options = ServerOptions(max_parallel=_MOST)
    server = ServerSettings(name="quick", transport="stdio", command=sys.executable, args=words, options=options)
    pool = await stack.enter_async_context(open_pool([server], store.world))
    catalogue = Catalogue(pool, store.remembered, [server])
    gate = make_gate(catalogue, Rules(_POLICY, ApprovalSettings(), [server]), pool=pool)
    bare = Client(StdioServerParameters(command=sys.executable, args=list(words)))
    return _Way("over stdio", await stack.enter_async_context(bare), make_call_tool(gate, pool, lambda out: {}))


async def _in_this_process(stack: AsyncExitStack) -> _Way:
    client = await stack.enter_async_context(Client(_server()))

    async def send(out: Outgoing) -> CallToolResult:
        await out.leave()
        return await client.call_tool(out.tool.name, out.arguments)

    schema: JsonObject = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
    read = Tool("quick", "read", "quick__read", "", "Do read.", schema, None, {}, "read")
    tools = {tool.full_name: tool for tool in (read, replace(read, name="add", wire="quick__add", class_="write"))}

    async def listed(server: str) -> list[Tool]:
        return list(tools.values())

    gate = Gate(listed, tools.get, lambda name: None, _POLICY, ApprovalSettings(), {})
    return _Way("in this process", client, ToolDoor(gate, send))


def _server() -> MCPServer:
    server = MCPServer("quick")

    @server.tool(structured_output=False)
    def read(key: str) -> str:
        return f"did read {key}"

    @server.tool(structured_output=False)
    def add(key: str) -> str:
        return f"did add {key}"

    return server
