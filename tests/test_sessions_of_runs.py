"""A server that keeps a session for each run, from a host's goal to the end of the runs."""

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import model_server as m
import pytest
import toys
from bad_input import Asked, open_asked_product
from mcp_hosts import Host, open_host
from products import call_step, open_test_product, script
from quick_jobs import quick

STUDY = {"id": "study", "kind": "worker", "title": "Study it", "worker": "researcher", "task": "Read both."}
TURNS: list[m.Reply] = [
    {"tool_calls": [m.call("box.read", key="first")]},
    {"tool_calls": [m.call("box.read", key="second")], "hold": "killed"},
]
ANEW = "The connection to box was opened anew: what it held in its session is gone."
OF_RUNS = {"server_options": {"box": {"session": "run"}}}


async def pids(log: Path, tool: str, count: int) -> list[int]:
    return [call["pid"] for call in await toys.wait_for_calls(log, tool, count)]


async def gone(*processes: int) -> None:
    """A run is said to have ended a moment before its sessions are closed."""
    while toys.alive(processes):  # noqa: ASYNC110 - other processes end
        await anyio.sleep(0.01)


@pytest.mark.e2e
async def test_two_runs_have_sessions_of_their_own_that_end_with_them(tmp_path: Path) -> None:
    log, views, waiting = tmp_path / "box.log", list[Any](), list[int]()
    planned = script(call_step("first", "box.read", key="k"), call_step("then", "box.wait", "first", gate="go"))
    servers = {"box": toys.entry(quick(log))}

    async def run(host: Host, goal: str) -> None:
        views.append(await host.structured("plan_and_execute", {"goal": goal}))

    async with (
        open_test_product(tmp_path, script=planned, servers=servers, settings=OF_RUNS) as (_, server),
        open_host(server) as host,
    ):
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(run, host, "Read it")
                group.start_soon(run, host, "Read it for somebody else")
                waiting += await pids(log, "wait", 2)
                assert toys.alive(waiting) == waiting
                (tmp_path / "go").touch()
            await gone(*waiting)
    assert [view["status"] for view in views] == ["succeeded", "succeeded"]
    assert sorted(await pids(log, "read", 2)) == sorted(set(waiting))


@pytest.mark.slow
# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
@pytest.mark.filterwarnings("ignore")
async def test_the_worker_whose_session_was_lost_is_told_and_no_other(tmp_path: Path) -> None:
    log, views, before = tmp_path / "box.log", list[Any](), list[int]()
    rules = m.planner([STUDY]) + m.worker("study", TURNS, m.report("Read.", {"Both are there.": [0, 1]}))
    servers = {"box": toys.entry(quick(log))}

    async def run(asked: Asked, goal: str) -> None:
        views.append(await asked.run(goal, within=90))

    async with open_asked_product(tmp_path, rules + m.answer("Both."), servers=servers, settings=OF_RUNS) as asked:
        with anyio.fail_after(120):
            async with anyio.create_task_group() as group:
                group.start_soon(partial(run, asked, "Read both."))
                group.start_soon(partial(run, asked, "Read both, but for somebody else."))
                before += await pids(log, "read", 2)
                os.kill(before[0], signal.SIGKILL)
                asked.model.release("killed")
            after = (await pids(log, "read", 4))[2:]
            await gone(*before, *after)
        told = [request.text("tool").count(ANEW) for request in asked.asked("worker") if request.turn == 2]
    assert [view["status"] for view in views] == ["succeeded", "succeeded"]
    assert (len(set(before)), len(set(after)), set(before) & set(after)) == (2, 2, {before[1]})
    assert sorted(told) == [0, 1]
