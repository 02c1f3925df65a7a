"""Tool servers that others wrote, through the whole product: listed, every read called, and killed in mid-run."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
import pytest
import third_party
import toys
from anyio.abc import Process
from products import call_step, open_test_product, script, write_settings
from schema_made import made_arguments

from downstream.servers.listing import Definition, class_of
from downstream.servers.pool import open_pool
from journal.actions import Decision
from journal.world import World
from server.product import Product, Request
from server.settings import Found, load_settings

pytestmark = pytest.mark.e2e

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


@dataclass(frozen=True)
class Real:
    """A server: how it is started, values that its schemas cannot tell, one write of it, and what shows that it ran."""

    program: third_party.Program
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    hints: Mapping[str, Any] = field(default_factory=dict[str, Any])
    hints_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    write: tuple[str, dict[str, Any]] | None = None
    written: Callable[[], int] = lambda: 0
    """How often the write left its trace; 1 where that is not seen from outside."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    asks: bool = False
    """Whether its reads are asked about."""
    needs: str = "nothing"


def files(folder: Path, url: str) -> Real:
    (folder / "pixel.png").write_bytes(PIXEL)
    hours = folder / "hours.txt"
    about_files = {"path": str(hours)}
    hints = {"path": str(folder), "paths": [str(hours)], "pattern": "*.txt"}
    edit = {"path": str(hours), "edits": [{"oldText": "five", "newText": "six"}]}
    return Real(
        "mcp-server-filesystem",
        args=[str(folder)],
        hints=hints,
        hints_of={
            "read_file": about_files,
            "read_text_file": about_files,
            "read_media_file": {"path": str(folder / "pixel.png")},
        },
        write=("edit_file", edit),
        written=lambda: hours.read_text().count("six"),
        needs="the folder as an argument",
    )


def memory(folder: Path, url: str) -> Real:
    kept = folder / "memory.jsonl"
    hours = {"type": "entity", "name": "hours", "entityType": "fact", "observations": ["nine to five"]}
    kept.write_text(json.dumps(hours))
    desk = {"name": "desk", "entityType": "place", "observations": ["by the door"]}
    return Real(
        "mcp-server-memory",
        env={"MEMORY_FILE_PATH": str(kept)},
        write=("create_entities", {"entities": [desk]}),
        written=lambda: kept.read_text().count("by the door"),
        needs="MEMORY_FILE_PATH, or it keeps its file in its own package",
    )


def everything(folder: Path, url: str) -> Real:
    hints = {"message": "hello", "includeImage": True, "duration": 0.2, "steps": 2}
    toggle = ("toggle-simulated-logging", dict[str, Any]())
    return Real("mcp-server-everything", hints=hints, write=toggle, written=lambda: 1)


def thinking(folder: Path, url: str) -> Real:
    return Real("mcp-server-sequential-thinking")


def repository(folder: Path, url: str) -> Real:
    def git(*words: str) -> str:
        command = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet", "--initial-branch=main")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    git("add", "hours.txt")
    git("commit", "--quiet", "--message", "Say the hours")
    (folder / "desk.txt").write_text("By the door.\n")
    git("add", "desk.txt")
    return Real(
        "mcp-server-git",
        hints={"repo_path": str(folder), "branch_type": "local", "target": "HEAD", "revision": "HEAD"},
        write=("git_commit", {"repo_path": str(folder), "message": "Say where the desk is"}),
        written=lambda: git("log", "--format=%s").count("Say where the desk is"),
        needs="git; for a commit, the name and address of its author",
    )


def clock(folder: Path, url: str) -> Real:
    zones = {"timezone": "Europe/Oslo", "source_timezone": "Europe/Oslo", "target_timezone": "Asia/Tokyo"}
    return Real("mcp-server-time", hints={**zones, "time": "09:00"})


def page(folder: Path, url: str) -> Real:
    return Real(
        "mcp-server-fetch",
        args=["--allow-private-ips"],
        hints={"url": f"{url}/hours.txt"},
        asks=True,
        needs="for an address on this machine: --allow-private-ips, and a yes",
    )


def database(folder: Path, url: str) -> Real:
    path = folder / "hours.db"

    def rows(sql: str) -> list[Any]:
        with sqlite3.connect(path) as opened:
            return opened.execute(sql).fetchall()

    rows("CREATE TABLE hours (day TEXT, opens INTEGER)")
    rows("INSERT INTO hours VALUES ('monday', 9)")
    reads = dict.fromkeys(("read_query", "list_tables", "describe_table"), "read")
    return Real(
        "mcp-server-sqlite",
        args=["--db-path", str(path)],
        hints={"query": "SELECT * FROM hours", "table_name": "hours"},
        write=("write_query", {"query": "INSERT INTO hours VALUES ('sunday', 11)"}),
        written=lambda: len(rows("SELECT * FROM hours WHERE day = 'sunday'")),
        options={"effects": {**reads, "write_query": "write"}},
        needs="the file as an argument; classes in `effects`, since it annotates nothing",
    )


def browser(folder: Path, url: str) -> Real:
    return Real("playwright-mcp", needs="a browser, once it is called")


Make: TypeAlias = Callable[[Path, str], Real]
LONG: tuple[Make, ...] = (memory, everything, thinking, repository, clock, page, database)


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


@contextmanager
def open_pages(folder: Path) -> Generator[str]:
    """The address at which the files of a folder can be fetched."""

    class Silent(SimpleHTTPRequestHandler):
        def log_message(self, *words: object, **more: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


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
