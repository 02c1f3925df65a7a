"""Serving as a process: what stdout carries, who is let in over HTTP, and that nothing stays behind at the end."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import model_server as m
import pytest
import toys
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp_hosts import Era, open_host, open_stdio_host, serve, text_of
from products import STATE_KEY, call_step, open_test_product, script, write_settings

from server.host.kept_secret import request_state_key
from server.host.mcp_server import build_host_server
from server.host.serving import Readiness, local_token

ERAS: list[Era] = ["legacy", "modern"]
e2e = pytest.mark.e2e
LOOK = call_step("look", "deaf.look_up", key="a")
HANG = call_step("hang", "ledger.meet", "look", name="gate", parties=2, timeout=60)


class Wire:
    """A host that speaks by hand, so that every line of stdout is seen."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._in = process.stdin
        self._out = BufferedByteReceiveStream(process.stdout)
        self.lines: list[Any] = []

    async def send(self, method: str, params: dict[str, Any], id_: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id_ is None else {"id": id_})
        await self.send_line(json.dumps(message))

    async def send_line(self, line: str) -> None:
        await self._in.send(line.encode() + b"\n")

    async def answer(self, id_: int) -> Any:
        """The answer to a request; raises for a line that is no protocol."""
        while True:
            line = json.loads(await self._out.receive_until(b"\n", 1 << 20))
            assert line["jsonrpc"] == "2.0"
            self.lines.append(line)
            if line.get("id") == id_:
                return line

    async def shake_hands(self) -> Any:
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}}
        await self.send("initialize", params, 0)
        answer = await self.answer(0)
        await self.send("notifications/initialized", {})
        return answer

    async def close_stdin(self) -> None:
        await self._in.aclose()


@asynccontextmanager
async def open_wire(config: Path) -> AsyncGenerator[Wire]:
    """A `serve` process on stdio; killed at the end if it still lives."""
    pipe = subprocess.PIPE
    async with await anyio.open_process(serve(config), stdin=pipe, stdout=pipe, stderr=None) as process:
        try:
            yield Wire(process)
        finally:
            if process.returncode is None:
                process.kill()


@e2e
async def test_stdout_carries_only_protocol_while_servers_print_and_the_script_fails(tmp_path: Path) -> None:
    servers = {"loud": toys.entry(toys.bad("print")), "junk": toys.entry(toys.bad("junk"))}
    steps = [call_step("one", "loud.look_up", key="a"), call_step("two", "junk.look_up", key="a")]
    say = {"id": "say", "kind": "compose", "title": "Say", "task": "Say it.", "needs": ["one", "two"]}
    config = write_settings(tmp_path, script={"plan": [*steps, say]}, servers=servers)
    async with open_wire(config) as wire:
        with anyio.fail_after(60):
            await wire.shake_hands()
            call = {"name": "plan_and_execute", "arguments": {"goal": "Look."}, "_meta": {"progressToken": "p"}}
            await wire.send("tools/call", call, 1)
            view = (await wire.answer(1))["result"]["structuredContent"]
            await wire.close_stdin()
            with contextlib.suppress(anyio.IncompleteRead):
                await wire.answer(99)
            assert await wire.process.wait() == 0
    assert (view["stop_reason"], view["steps"]["succeeded"]) == ("error", 2)
    assert {line.get("method", "answer") for line in wire.lines} == {"answer", "notifications/progress"}


@e2e
async def test_stdout_carries_only_protocol_while_litellm_fails(tmp_path: Path) -> None:
    """A worker is asked, and its server refuses the key: litellm itself prints advice where nobody stops it."""
    task: dict[str, Any] = {
        "id": "say",
        "kind": "worker",
        "title": "Say",
        "worker": "operator",
        "task": "Say it.",
        "tools": [],
    }
    steps = [call_step("one", "loud.look_up", key="a"), task]
    refused = m.on({"status": 401}, role="worker") + m.on({"status": 401}, role="answer")
    with m.serve_model(m.planner(steps) + refused) as model:
        reached = {"api_base": f"{model.url}/v1", "api_key": "not-a-secret-1"}
        settings = {"model": "openai/scripted", "model_options": reached, "revise": "never"}
        servers = {"loud": toys.entry(toys.bad("print"))}
        config = write_settings(tmp_path, script=script(), servers=servers, settings=settings)
        async with open_wire(config) as wire:
            with anyio.fail_after(90):
                await wire.shake_hands()
                await wire.send("tools/call", {"name": "plan_and_execute", "arguments": {"goal": "Look."}}, 1)
                view = (await wire.answer(1))["result"]["structuredContent"]
                await wire.close_stdin()
                with contextlib.suppress(anyio.IncompleteRead):
                    await wire.answer(99)
        assert {"planner", "worker"} <= {request.role for request in model.requests}
    assert [step["status"] for step in view["step_list"]] == ["succeeded", "failed"], view
    assert [line["id"] for line in wire.lines] == [0, 1]


@e2e
@pytest.mark.parametrize("goal", [r'"half \ud800"', "[" * 300 + "]" * 300], ids=["half a character", "too deep"])
async def test_a_request_that_cannot_be_read_is_answered(tmp_path: Path, goal: str) -> None:
    call = '"method": "tools/call", "params": {"name": "plan_and_execute", "arguments": {"goal": ' + goal
    async with open_wire(write_settings(tmp_path, script=script(), servers={})) as wire:
        with anyio.fail_after(30):
            await wire.shake_hands()
            await wire.send_line("")
            await wire.send_line('["half \\ud800"]')
            await wire.send_line('{"id": true, "method": "half \\ud800"}')
            await wire.send_line('{"id": 5, "method": "cut off')
            await wire.send_line('{"id": 6}')
            await wire.send_line('{"jsonrpc": "2.0", "id": 7, ' + call + "}}}")
            error = (await wire.answer(7))["error"]
            await wire.send("tools/call", {"name": "list_runs", "arguments": {}}, 8)
            after = (await wire.answer(8))["result"]["structuredContent"]
    assert (error["code"], "cannot be read" in error["message"]) == (-32700, True)
    assert (after, [line["id"] for line in wire.lines]) == ({"runs": []}, [0, 7, 8])


def _stop(how: str, pid: int) -> int:
    """The exit code to expect."""
    number = {"SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT, "kill -9": signal.SIGKILL}[how]
    os.kill(pid, number)
    return -9 if how == "kill -9" else 128 + number


@e2e
@pytest.mark.parametrize(
    "how", ["SIGTERM", *(pytest.param(how, marks=pytest.mark.slow) for how in ("SIGINT", "stdin closed")), "kill -9"]
)
async def test_no_child_is_left_however_the_server_ends(tmp_path: Path, how: str) -> None:
    servers = {
        "deaf": toys.entry(toys.bad("ignore_eof")),
        "ledger": toys.entry(toys.ledger(tmp_path / "ledger.log")),
    }
    config = write_settings(tmp_path, script=script(LOOK, HANG), servers=servers)
    async with open_wire(config) as wire:
        with anyio.fail_after(60):
            await wire.shake_hands()
            await wire.send("tools/call", {"name": "plan_and_execute", "arguments": {"goal": "Look."}}, 1)
            await toys.wait_for_calls(tmp_path / "ledger.log", "meet")
        children = toys.children_of(wire.process.pid)
        assert len(children) >= 2
        expected = 0
        if how == "stdin closed":
            await wire.close_stdin()
        else:
            expected = _stop(how, wire.process.pid)
        assert await toys.wait_until_gone(children) == []
        with anyio.fail_after(8):
            assert await wire.process.wait() == expected


@e2e
@pytest.mark.parametrize("era", ERAS)
async def test_settings_that_do_not_hold_are_told_in_every_answer_and_on_stderr(tmp_path: Path, era: Era) -> None:
    config = tmp_path / "steprelay.yaml"
    config.write_text("budget:\n  steps: 5\nmodle: x\n")
    async with open_stdio_host(serve(config), era=era) as host:
        assert len((await host.client.list_tools()).tools) == 9
        for tool, arguments in (("list_runs", {}), ("plan_and_execute", {"goal": "g"})):
            refused = await host.call(tool, arguments)
            assert refused.is_error
            assert f"{config}:3" in text_of(refused)
            assert "model" in text_of(refused)
        assert f"{config}:3" in host.stderr()


@e2e
async def test_a_store_that_cannot_be_opened_is_told_in_every_answer(tmp_path: Path) -> None:
    broken = tmp_path / "store.db"
    broken.write_text("this is no database, and long enough to look like one that is broken" * 20)
    config = write_settings(tmp_path, script=script(), servers={})
    async with open_stdio_host(serve(config)) as host:
        refused = await host.call("list_runs")
        assert refused.is_error
        assert str(broken) in text_of(refused)


@e2e
@pytest.mark.parametrize("broken", ["store", "state folder"])
async def test_a_folder_that_cannot_be_made_is_told_in_every_answer(tmp_path: Path, broken: str) -> None:
    (tmp_path / "file").touch()
    settings = {"store": f"sqlite:///{tmp_path}/file/store.db"} if broken == "store" else {}
    config = write_settings(tmp_path, script=script(), servers={}, settings=settings)
    if broken == "state folder":
        config.write_text(json.dumps({**json.loads(config.read_text()), "store": None}))
    env = {"XDG_STATE_HOME": str(tmp_path / "file")} if broken == "state folder" else {}
    async with open_stdio_host(serve(config), env) as host:
        refused = await host.call("list_runs")
    assert refused.is_error
    assert f"{tmp_path}/file" in text_of(refused)


@e2e
async def test_a_fault_of_ours_ends_the_process_instead_of_leaving_the_host_without_an_answer() -> None:
    program = """
import anyio, os
from journal.world import World
from server.host.serving import serve_stdio

def found():
    raise ZeroDivisionError("inner words")

anyio.run(lambda: serve_stdio(found, environ=os.environ, world=World()))
"""
    command = [sys.executable, "-c", program]
    async with await anyio.open_process(command, cwd=Path(__file__).parents[1]) as process:
        with anyio.fail_after(30):
            assert process.stdout is not None
            assert [part async for part in process.stdout] == []
            assert await process.wait() == 1


@e2e
def test_a_host_that_reads_no_more_ends_the_process_though_stdin_stays_open(tmp_path: Path) -> None:
    config = write_settings(tmp_path, script=script(), servers={})
    pipe = subprocess.PIPE
    with subprocess.Popen(serve(config), stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        try:
            assert process.wait(30) == 1
        finally:
            process.kill()


async def test_a_call_waits_until_the_product_is_open(tmp_path: Path) -> None:
    ready, answered = Readiness(), anyio.Event()
    async with (
        open_test_product(tmp_path, script=script(), servers={}) as (product, _),
        open_host(build_host_server(ready, state_key=STATE_KEY)) as host,
        anyio.create_task_group() as group,
    ):

        async def call() -> None:
            assert await host.structured("list_runs") == {"runs": []}
            answered.set()

        group.start_soon(call)
        assert len((await host.client.list_tools()).tools) == 9
        assert not answered.is_set()
        ready.known(product)
        with anyio.fail_after(5):
            await answered.wait()


# Secrets that are kept


def test_the_token_and_the_key_are_made_once_and_only_for_this_user() -> None:
    token, path = local_token()
    assert (local_token(), len(token) >= 32) == ((token, path), True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert request_state_key() == request_state_key()
    assert request_state_key() != token.encode()
    assert sorted(each.name for each in path.parent.iterdir()) == ["http-token", "request-state.key"]


def test_a_file_that_was_cut_off_or_opened_to_others_is_put_right() -> None:
    _, path = local_token()
    path.write_text("short")
    path.chmod(0o644)
    token, _ = local_token()
    assert (path.read_text(), path.stat().st_mode & 0o777, len(token) >= 32) == (token, 0o600, True)
