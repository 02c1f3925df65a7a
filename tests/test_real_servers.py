"""Tool servers that others wrote, through the whole product: listed, every read called, and killed in mid-run."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import third_party
import toys
from anyio.abc import Process
from products import call_step, open_test_product, script, write_settings
from real_servers import LONG, Make, Real, browser, files, open_pages
from schema_made import made_arguments

from downstream.servers.listing import Definition, class_of
from downstream.servers.pool import open_pool
from journal.actions import Decision
from journal.world import World
from server.product import Product, Request
from server.settings import Found, load_settings

pytestmark = pytest.mark.e2e


@dataclass
class Killer:
    """Stops a server before its n-th call goes out and kills it right after: the call is lost on its way."""

    program: str
    at: Sequence[int]
    sent: int = 0
    _pid: int = 0

    def reach(self, point: str) -> None:
        self.sent += point == "send.before"
        if self.sent in self.at and point == "send.before":
            (self._pid,) = _processes_of(self.program)
            os.kill(self._pid, signal.SIGSTOP)
        elif self.sent in self.at and point == "send.after":
            os.kill(self._pid, signal.SIGKILL)


def _processes_of(program: str) -> list[int]:
    """The processes below this one that run the program, without the shells around them."""
    words = {pid: Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in toys.children_of(os.getpid())}
    return [pid for pid, line in words.items() if program in line and Path(line[0]).name != "sh"]


async def installed(program: third_party.Program) -> list[str]:
    found = await anyio.to_thread.run_sync(third_party.install, program)
    if isinstance(found, third_party.Missing):
        pytest.skip(found.reason)  # no Node or registry here: the reason says which
    return found.command


@dataclass(frozen=True)
class Listed:
    """What the product saw: the version of the protocol, and every tool with its class."""

    protocol: str
    tools: Mapping[str, tuple[Definition, str]]

    @property
    def reads(self) -> list[Definition]:
        return [tool for tool, class_ in self.tools.values() if class_ in ("read", "egress")]


async def listed(config: Path) -> Listed:
    (server,) = load_settings(Found(config, "option"), environ=os.environ).servers
    async with open_pool([server], World()) as pool:
        with anyio.fail_after(60):
            tools = (await pool.listing(server.name)).tools
        protocol = pool.connection(server.name).protocol
    assert protocol is not None
    return Listed(protocol, {tool.name: (tool, class_of(tool, server.options)) for tool in tools})


def plan(real: Real, seen: Listed) -> list[dict[str, Any]]:
    """One read, the same again, all others, and the write, each after the one before."""
    reads = [
        (tool.name, made_arguments(tool.input_schema, {**real.hints, **real.hints_of.get(tool.name, {})}))
        for tool in seen.reads
    ]
    calls = [reads[0], *reads, *([real.write] if real.write else [])]
    steps: list[dict[str, Any]] = []
    for number, (tool, arguments) in enumerate(calls):
        needs = [steps[-1]["id"]] if steps else []
        steps.append(call_step(f"s{number}", f"real.{tool}", *needs, **arguments) | {"optional": True})
    return steps


async def follow(product: Product, run_id: str) -> list[str]:
    """Let the run end, as a person who allows every call and has a lost one sent again; what was asked."""
    asked: list[str] = []
    while True:
        ring = product.store.bell.listen(run_id)
        if (await product.store.run(run_id)).ended:
            return asked
        for action in await product.store.waiting_actions():
            asked.append(f"{action.kind} {action.tool}")
            choice = "retry" if action.kind == "unknown" else "approve"
            await product.decide(action, Decision(choice, "person", "terminal"))
        await ring.wait()


async def ends(product: Product, run_id: str) -> dict[str, Any]:
    """How the journal has the call of each step."""
    rows = await product.store.database.read(
        lambda tx: tx.rows("SELECT key, value FROM memo WHERE run = ? AND name = 'tool'", (run_id,))
    )
    return {row["key"].partition("@")[0].removeprefix("step."): json.loads(row["value"])["called"] for row in rows}


def shape(called: Any) -> str:
    """What a call brought, as the journal has it."""
    if not called["ok"] or called["empty"]:
        return "empty" if called["ok"] else "error"
    data = called["value"]["data"]
    return ("text" if isinstance(data, str) else "data") + ("+artifact" if called["artifacts"] else "")


@dataclass(frozen=True)
class Ran:
    """A run of the plan: the steps, how each call ended, and what was asked of a person."""

    status: str
    steps: Sequence[Any]
    ends: Mapping[str, Any]
    asked: Sequence[str]

    def end(self, number: int) -> Any:
        return self.ends[self.steps[number]["id"]]


async def ran(folder: Path, real: Real, command: Sequence[str], seen: Listed) -> Ran:
    """The plan, on the whole product, with the server killed under its second read and under its write."""
    steps = plan(real, seen)
    # That read is sent twice, so what comes after it is one later.
    killer = Killer(command[0], at=[2, len(steps) + 1] if real.write else [2])
    rules = [{"allow": f"real.{real.write[0]}"}] if real.write else []
    options = {**real.options, "tools": {"*": {"cache": False}}}
    opened = open_test_product(
        folder,
        script=script(*steps),
        servers=entries(real, command),
        settings={"server_options": {"real": options}, "policy": {"rules": rules}},
        world=World(reach=killer.reach),
    )
    async with opened as (product, _):
        run_id = await product.start(Request("Read all there is"))
        with anyio.fail_after(120):
            asked = await follow(product, run_id)
        found = await ends(product, run_id)
        return Ran((await product.store.run(run_id)).status, steps, found, asked)


def entries(real: Real, command: Sequence[str]) -> dict[str, Any]:
    return {"real": {**toys.entry([*command, *real.args]), "env": dict(real.env)}}


@asynccontextmanager
async def open_real(folder: Path, make: Make) -> AsyncGenerator[tuple[Real, list[str], Listed]]:
    """A server with all that it needs in a folder, installed and listed."""
    (folder / "room").mkdir()
    (folder / "room" / "hours.txt").write_text("Open from nine to five.\n")
    with open_pages(folder / "room") as url:
        real = make(folder / "room", url)
        command = await installed(real.program)
        settings = {"server_options": {"real": real.options}}
        config = write_settings(folder / "look", script={"plan": []}, servers=entries(real, command), settings=settings)
        yield real, command, await listed(config)


def row(real: Real, seen: Listed, told: str) -> None:
    """A line of the table in docs/tool-servers.md."""
    version = third_party.installed_version(real.program)
    cells = [real.program, version, seen.protocol, str(len(seen.tools)), told, real.needs]
    sys.stdout.write(f"\n| {' | '.join(cells)} |\n")


@pytest.mark.parametrize(
    "make",
    [files, *(pytest.param(make, marks=pytest.mark.slow) for make in LONG)],
)
async def test_a_real_server_is_read_through_and_killed_in_mid_run(tmp_path: Path, make: Make) -> None:
    async with open_real(tmp_path, make) as (real, command, seen):
        run = await ran(tmp_path / "work", real, command, seen)
        traces = real.written()
    shapes = Counter(shape(run.ends[step["id"]]) for step in run.steps[1:])
    calls = ", ".join(f"{count} {kind}" for kind, count in sorted(shapes.items()))
    unknown = [f"unknown real.{real.write[0]}"] if real.write else []
    row(real, seen, f"{len(seen.reads)} | {calls} | read sent again{', write asked about' if unknown else ''}")
    failed = {step["tool"]: run.ends[step["id"]]["text"] for step in run.steps if not run.ends[step["id"]]["ok"]}
    assert (run.status, failed) == ("succeeded", {})
    assert [run.end(0)["repeated"], run.end(1)["repeated"]] == [False, True]
    assert run.end(0)["session"] != run.end(1)["session"]
    # A person is asked about the write, which may have run, and not a second time about a read.
    assert list(run.asked) == [*(f"call {step['tool']}" for step in run.steps if real.asks), *unknown]
    assert traces == (1 if unknown else 0)


@pytest.mark.slow
async def test_a_browser_server_is_listed_without_a_browser(tmp_path: Path) -> None:
    async with open_real(tmp_path, browser) as (real, _, seen):
        row(real, seen, "0 | listed only | not called")
    assert len(seen.reads) > 0
    assert seen.tools["browser_click"][1] == "destructive"


@pytest.mark.slow
@pytest.mark.parametrize(("way", "path"), [("streamableHttp", "mcp"), ("sse", "sse")])
async def test_a_real_server_over_http_that_was_killed_and_started_again_goes_on(
    tmp_path: Path, way: str, path: str
) -> None:
    command = [*await installed("mcp-server-everything"), way]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    step = call_step("look", "real.echo", message="hello")
    servers = {"real": {"type": "sse" if way == "sse" else "http", "url": f"http://127.0.0.1:{port}/{path}"}}
    statuses: list[str] = []
    async with open_test_product(tmp_path, script=script(step), servers=servers) as (product, _):
        for goal in ("Look", "Look again"):
            async with open_listening(command, port) as process:
                run_id = await product.start(Request(goal))
                with anyio.fail_after(60):
                    statuses.append((await product.until(run_id, lambda run: run.ended)).status)
                process.kill()
        said = [end["text"] for end in (await ends(product, run_id)).values()]
    assert (statuses, said) == (["succeeded", "succeeded"], ["Echo: hello"])


@asynccontextmanager
async def open_listening(command: Sequence[str], port: int) -> AsyncGenerator[Process]:
    """A server that listens at this port of this machine; one at rest in the meantime is ended."""
    env = {**os.environ, "PORT": str(port)}
    async with await anyio.open_process(command, env=env, stdin=None, stdout=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        seen = ""
        with anyio.fail_after(30):
            while "listening" not in seen and "running" not in seen:
                seen += (await process.stderr.receive()).decode()
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
