"""What a killed `serve` drove is taken up by another one with the same settings: nothing finished is done again."""

import json
import os
import re
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import main_job
import pytest
import toys
from command_line import open_terminal, steprelay
from main_job import GOAL
from mcp_hosts import Host, open_stdio_host, serve
from products import call_step, script
from quick_jobs import LOG, made, reached, settings

pytestmark = [pytest.mark.e2e, pytest.mark.untraced]

GATED = script(
    call_step("one", "quick.read", key="one"),
    call_step("two", "quick.read", key="two"),
    call_step("hold", "quick.wait", "one", "two", gate="go"),
    call_step("post", "quick.add", "hold", key="posted"),
)
CUT = {"done": "succeeded", "not_done": "failed", "retry": "succeeded", "give_up": "failed"}
"""The choices for a write of which nobody knows whether it ran, with what becomes of its step."""


def kill(host: Host) -> float:
    """End the host's `serve` as nothing can prepare for; returns when."""
    assert host.pid is not None
    os.kill(host.pid, signal.SIGKILL)
    return time.time()


async def begin(host: Host, goal: str = GOAL) -> str:
    run_id: str = (await host.structured("plan_and_execute", {"goal": goal, "wait_seconds": 0}))["run_id"]
    return run_id


async def sent(folder: Path, tool: str, count: int) -> list[Any]:
    """The calls of this tool, once there are so many."""
    with anyio.fail_after(60):
        return await toys.wait_for_calls(folder / LOG, tool, count)


def open_gate(folder: Path) -> None:
    (folder / "go").touch()


@pytest.mark.slow
async def test_a_killed_main_job_is_finished_and_nothing_finished_is_asked_or_called_again(tmp_path: Path) -> None:
    rules = main_job.main_rules()
    held = next(rule for rule in rules if rule.get("when", {}).get("min_turn") == 1)
    held["reply"]["hold"] = "report"
    with main_job.main_job(tmp_path, rules) as job:
        async with open_stdio_host(serve(job.config)) as first:
            run_id = await begin(first)
            with anyio.fail_after(60):
                await anyio.to_thread.run_sync(lambda: job.model.wait_for(lambda r: r.turn == 1, timeout=60))
                while (await first.structured("get_run", {"run_id": run_id}))["steps"]["succeeded"] < 2:
                    await first.structured("get_run", {"run_id": run_id, "wait_seconds": 5})
            kill(first)
        job.model.release("report")
        async with open_stdio_host(serve(job.config)) as second:
            view = await reached(second, run_id, "awaiting_approval")
            action = view["actions"][0]
            yes = {"action_id": action["action_id"], "decision": "approve", "tool": action["tool"]}
            done = await second.structured("approve_action", yes | {"arguments": action["arguments"]})
        asked = Counter((request.role, request.step, request.turn) for request in job.model.requests)
        assert (done["status"], len(job.sent())) == ("succeeded", 1), done
        assert (len(job.calls("meet")), len(job.calls("read_item"))) == (2, 1)
        # The one request that was on its way is made again; nobody had seen its answer.
        assert asked == {
            ("planner", None, 0): 1,
            ("worker", "study", 0): 1,
            ("worker", "study", 1): 2,
            ("compose", "draft", 0): 1,
            ("answer", None, 0): 1,
        }


async def test_a_serve_with_other_settings_leaves_runs_alone_and_says_which_file_they_need(tmp_path: Path) -> None:
    own = settings(tmp_path, GATED)
    other = settings(tmp_path, GATED, name="other.json", budget={"steps": 19})
    async with open_stdio_host(serve(other)) as stranger:
        async with open_stdio_host(serve(own)) as first:
            left = [await begin(first, "one goal"), await begin(first, "another goal")]
            await sent(tmp_path, "wait", 2)
            kill(first)
        its_own = await begin(stranger, "a goal of its own, so that it has looked for work")
        await sent(tmp_path, "wait", 3)
        listed = {run["run_id"]: run for run in (await stranger.structured("list_runs"))["runs"]}
        for run_id in left:
            assert (listed[run_id]["status"], listed[run_id]["needs"]) == ("running", f"settings: {own}")
            assert str(own) in (await stranger.structured("get_run", {"run_id": run_id}))["message"]
        assert listed[its_own]["needs"] is None
        open_gate(tmp_path)
        resume = ("runs", "resume", left[0], "--config", str(other))
        resumed = await anyio.to_thread.run_sync(lambda: steprelay(*resume, cwd=tmp_path))
        assert (resumed.returncode, "All is done." in resumed.stdout) == (0, True), resumed.stdout + resumed.stderr
        async with open_stdio_host(serve(own)) as second:
            await reached(second, left[1], "succeeded")
        for run_id in (*left, its_own):
            await reached(stranger, run_id, "succeeded")
    assert Counter(made(tmp_path)) == {("read", "one"): 3, ("read", "two"): 3, ("wait", "go"): 5, ("add", "posted"): 3}


async def test_two_hosts_share_a_store_and_the_living_one_goes_on_for_the_killed_one(tmp_path: Path) -> None:
    config = settings(tmp_path, GATED)
    async with open_stdio_host(serve(config)) as two:
        async with open_stdio_host(serve(config)) as one:
            ids: list[str] = []
            for number in range(3):
                ids += [await begin(one, f"goal {number} of one"), await begin(two, f"goal {number} of two")]
            await sent(tmp_path, "wait", 6)
            listed = [(await host.structured("list_runs"))["runs"] for host in (one, two)]
            assert listed[0] == listed[1]
            assert sorted(run["run_id"] for run in listed[0]) == sorted(ids)
            assert Counter(made(tmp_path)) == {("read", "one"): 6, ("read", "two"): 6, ("wait", "go"): 6}
            children = toys.children_of(one.pid or 0)
            killed_at = kill(one)
            again = (await sent(tmp_path, "wait", 9))[6:]
        late = max(call["at"] for call in again) - killed_at
        assert children
        assert await toys.wait_until_gone(children) == []
        open_gate(tmp_path)
        for run_id in ids:
            await reached(two, run_id, "succeeded")
    assert Counter(made(tmp_path)) == {("read", "one"): 6, ("read", "two"): 6, ("wait", "go"): 9, ("add", "posted"): 6}
    assert late < 5, f"taken up {late:.1f} s after the death"


async def test_a_write_cut_by_the_kill_is_decided_by_a_person_at_a_terminal(tmp_path: Path) -> None:
    steps = [call_step(choice, "quick.stuck", key=choice, gate="go") for choice in CUT]
    config = settings(tmp_path, script(*({**step, "optional": True} for step in steps)))
    async with open_stdio_host(serve(config)) as second:
        async with open_stdio_host(serve(config)) as first:
            run_id = await begin(first)
            await sent(tmp_path, "stuck", 4)
            kill(first)
        actions = (await reached(second, run_id, "awaiting_approval"))["actions"]
        assert {(action["kind"], *action["choices"]) for action in actions} == {("unknown", *CUT)}
        assert [(action["level"], action["tool"], action["expires_at"]) for action in actions] == [
            ("person", "quick.stuck", None)
        ] * 4
        for action in actions:
            refused = await second.structured(
                "approve_action",
                {"action_id": action["action_id"], "decision": "retry", "tool": action["tool"]}
                | {"arguments": action["arguments"]},
            )
            assert (refused["status"], len(refused["actions"])) == ("awaiting_approval", 4)
        assert len(made(tmp_path)) == 4
        open_gate(tmp_path)
        for action in actions:
            await anyio.to_thread.run_sync(_decide, tmp_path, config, action["action_id"], action["step"])
        view = await reached(second, run_id, "succeeded", "partial")
    assert {step["id"]: step["status"] for step in view["step_list"]} == CUT
    assert Counter(key for _, key in made(tmp_path)) == {"done": 1, "not_done": 1, "retry": 2, "give_up": 1}
    assert [action["kind"] for action in view["actions"]] == []


def _decide(folder: Path, config: Path, action_id: str, choice: str) -> None:
    with open_terminal("approve", action_id, "--config", str(config), cwd=folder) as terminal:
        shown = terminal.expect("done, not_done, retry, give_up or later? ")
        terminal.send(f"{choice}\n")
        code = terminal.end()
    assert code == 0, terminal.seen
    assert re.search(r"Recorded\. A living process goes on", terminal.seen), terminal.seen
    assert json.dumps(choice) in shown
