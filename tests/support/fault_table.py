"""A row of the fault table: a call that goes wrong, through gate and intent, beside one that must not notice."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import toys
from faulty_http import Asked, open_faulty_http, well
from gate_case import Runs, call, open_runs
from tool_connections import remote

from downstream.door import Called, CallTool, ToolEnd, Waiting
from downstream.gate.tool_door import Rules, make_call_tool, make_gate
from downstream.policy_settings import PolicySettings
from downstream.servers.catalogue import Catalogue
from downstream.servers.pool import open_pool
from downstream.settings import ApprovalSettings, ServerSettings
from journal.run_journal import RunJournal
from journal.world import World


@dataclass(frozen=True)
class Seen:
    """`worker` is the text that a model is shown, `person` what waits for a person or is warned of; `after` the text of
    the next call on the same server."""

    worker: str
    person: str
    after: str


@dataclass(frozen=True)
class _Case:
    runs: Runs
    journal: RunJournal
    door: CallTool
    catalogue: Catalogue

    async def look(self, server: str, n: int) -> ToolEnd:
        name = f"{server}.look"
        return await self.door(self.journal, call(name, {"n": n}, key=f"{server}.{n}"))


async def see(folder: Path, opened: AbstractAsyncContextManager[ServerSettings], name: str) -> Seen:
    """Make the row, print it, and check what holds for all of them: the neighbour's calls went on, nothing leaked."""
    before = _held()
    release, began = anyio.Event(), anyio.Event()

    async def slow(asked: Asked) -> None:
        if asked.message["params"]["arguments"]["n"] == 1:
            began.set()
            await release.wait()
        await well(asked)

    during, ends = list[ToolEnd](), list[ToolEnd]()
    async with (
        opened as ill,
        open_faulty_http(slow) as near,
        _open_case(folder, [ill, remote("near", near.url)]) as case,
    ):

        async def go_on(n: int) -> None:
            during.append(await case.look("near", n))

        async with anyio.create_task_group() as group:
            group.start_soon(go_on, 1)
            await began.wait()
            start = anyio.current_time()
            ends.append(await case.look("ill", 1))
            took = anyio.current_time() - start
            await go_on(2)
            release.set()
            sys.stdout.write(f"{name:28} {took:6.2f} s  ")
        ends.append(await case.look("ill", 2))
        seen = Seen(_worker(ends[0]), await _person(case, ends[0]), _worker(ends[1]))
    sys.stdout.write(f"worker: {seen.worker[:90]!r}  person: {seen.person[:60]!r}\n")
    assert [each.ok for each in during if isinstance(each, Called)] == [True, True]
    await _settled(before)
    return seen


@asynccontextmanager
async def _open_case(folder: Path, servers: list[ServerSettings]) -> AsyncGenerator[_Case]:
    policy = PolicySettings.model_validate({"rules": [{"allow": "ill.*"}, {"allow": "near.*"}]}, strict=False)
    async with open_runs(folder) as runs, open_pool(servers, World()) as pool:
        catalogue = Catalogue(pool, runs.store.remembered, servers)
        gate = make_gate(catalogue, Rules(policy, ApprovalSettings(), servers), pool=pool)
        yield _Case(runs, await runs.drive(), make_call_tool(gate, pool, lambda out: {}), catalogue)


def _worker(end: ToolEnd) -> str:
    match end:
        case Called():
            return f"{'ok' if end.ok else 'failed'}: {end.text}"
        case Waiting():
            return "nothing yet"
        case _:
            return f"refused: {end.reason}"


async def _person(case: _Case, end: ToolEnd) -> str:
    if isinstance(end, Waiting):
        action = await case.runs.store.action(end.action)
        return action.kind
    return "; ".join(case.catalogue.warnings())


def _held() -> tuple[int, int, int]:
    """Child processes, tasks and sockets of this process."""
    links = [_link(each) for each in Path("/proc/self/fd").iterdir()] if sys.platform == "linux" else []
    sockets = sum(link.startswith("socket:") for link in links)
    return len(toys.children_of(os.getpid())), len(anyio.get_running_tasks()), sockets


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


async def _settled(before: tuple[int, int, int]) -> None:
    """Closed sockets and reaped children leave a turn of the loop later."""
    with anyio.move_on_after(5):
        while _held() != before:  # noqa: ASYNC110 - the kernel tells in no other way
            await anyio.sleep(0.01)
    assert _held() == before
