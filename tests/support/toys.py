"""Commands of the toy tool servers, what they wrote down, and processes to look after."""

import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.text import TextReceiveStream

_FOLDER = Path(__file__).parent / "toy_servers"
BadMode = Literal["exit", "hang", "junk", "print", "ignore_eof", "change", "reword"]
_PATHS = {"--http": "/mcp", "--legacy-sse": "/sse"}


@dataclass(frozen=True)
class HttpToy:
    """A ledger server over HTTP in a process of its own."""

    url: str
    process: Process


def ledger(log: Path, **items: str) -> list[str]:
    """The command of a ledger server on stdio that already keeps these items; it needs no SDK and starts at once."""
    log.touch()
    return [sys.executable, "-I", "-S", str(_FOLDER / "quick_ledger.py"), str(log), *_seeds(items)]


def sdk_ledger(log: Path, **items: str) -> list[str]:
    """The command of the same server made with the SDK, for what is to be shown with that; it takes a second."""
    log.touch()
    return [sys.executable, str(_FOLDER / "ledger_server.py"), str(log), *_seeds(items)]


def bad(mode: BadMode, starts: Path | None = None) -> list[str]:
    """The command of a server with a fault; `starts` gets a line with the pid at each start."""
    return [sys.executable, str(_FOLDER / "bad_server.py"), mode, *([str(starts)] if starts else [])]


def _seeds(items: dict[str, str]) -> list[str]:
    return [word for key, value in items.items() for word in ("--item", f"{key}={value}")]


def entry(command: list[str]) -> dict[str, Any]:
    """The command as an entry of `mcpServers`."""
    return {"command": command[0], "args": command[1:]}


def calls(log: Path, *tools: str) -> list[Any]:
    """The recorded calls, of these tools or of all: tool, arguments, at, pid."""
    recorded = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [each for each in recorded if not tools or each["tool"] in tools]


async def wait_for_calls(log: Path, tool: str, count: int = 1) -> list[Any]:
    """Wait until a tool has been called so often; the caller bounds the wait."""
    await _until(lambda: len(calls(log, tool)) >= count)
    return calls(log, tool)


def open_gate(log: Path, name: str) -> None:
    """Let every `meet` of this name go, whoever else has come; so a test decides how long a call lasts."""
    folder = log.parent / "meetings" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "open").touch()


@asynccontextmanager
async def open_http_ledger(
    log: Path, *, port: int = 0, transport: Literal["--http", "--legacy-sse"] = "--http", **items: str
) -> AsyncGenerator[HttpToy]:
    """A ledger server on loopback; given the port of one that was killed, it stands where that one stood."""
    command = [*sdk_ledger(log, **items), transport, str(port)]
    async with (
        await anyio.open_process(command, stdin=None, stdout=None) as process,
        anyio.create_task_group() as group,
    ):
        try:
            assert process.stderr is not None
            with anyio.fail_after(20):
                base = await group.start(_tell_address, process.stderr)
            yield HttpToy(f"{base}{_PATHS[transport]}", process)
        finally:
            if process.returncode is None:
                process.kill()
            group.cancel_scope.cancel()


def children_of(pid: int) -> list[int]:
    """All living descendants of a process, from /proc."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it ended while we looked
        if state != "Z":
            parents.setdefault(int(parent), []).append(int(stat.parent.name))
    return _descendants(pid, parents)


def state_of(pid: int) -> str:
    """The letter that /proc has for the state of a process; Z once it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def alive(pids: Iterable[int]) -> list[int]:
    """Those of the processes that still live; a zombie does not."""
    return [pid for pid in pids if state_of(pid) != "Z"]


async def wait_until_gone(pids: Iterable[int], *, within: float = 5) -> list[int]:
    """Wait for the processes to end; returns and kills those that live on."""
    left = list(pids)
    with anyio.move_on_after(within):
        await _until(lambda: not alive(left))
    left = alive(left)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return left


async def _until(condition: Callable[[], bool]) -> None:
    # No event reaches from another process into this one.
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(0.02)


async def _tell_address(stderr: ByteReceiveStream, *, task_status: anyio.abc.TaskStatus[str]) -> None:
    """Read the address from uvicorn's log, then go on reading so that the pipe never fills up."""
    seen, told = "", False
    async for text in TextReceiveStream(stderr, errors="replace"):
        seen += "" if told else text
        if not told and (found := re.search(r"running on (http://\S+)", seen)):
            told = True
            task_status.started(found[1])
    if not told:
        raise RuntimeError(f"the toy server ended before it was ready: {seen[-2000:]}")


def _descendants(pid: int, parents: dict[int, list[int]]) -> list[int]:
    return [each for child in parents.get(pid, []) for each in (child, *_descendants(child, parents))]
