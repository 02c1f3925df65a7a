"""Connections to tool servers that are child processes, driven with real ones of both protocol eras."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import toys
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification
from tool_connections import ODD, stdio, text_of

from downstream.servers.asking import AsksBack
from downstream.servers.caller import Caller
from downstream.servers.changes import Changes
from downstream.servers.connection import Connection
from downstream.servers.exchange import Exchange, new_exchange
from downstream.servers.failures import CallFailed, ServerUnavailable
from downstream.servers.life import Life
from downstream.servers.listing import Listing
from downstream.servers.listing_mend import Mender
from downstream.servers.pool import open_pool
from downstream.servers.stderr_tail import StderrTail
from downstream.servers.transports import Surroundings, open_transport
from downstream.servers.watchdog import Watchdog
from downstream.settings import ServerSettings
from journal.world import World

pytestmark = pytest.mark.e2e
WORLD = World()
ENDED = "it ended before it answered; try it on its own to see why"


def odd(*mode: str) -> list[str]:
    return [sys.executable, str(ODD), *mode]


def processes(log: Path) -> set[int]:
    return {line["pid"] for line in toys.calls(log)}


async def test_a_server_is_started_at_its_first_call_only_and_answers_several(tmp_path: Path) -> None:
    log = tmp_path / "ledger"
    async with open_pool([stdio("box", toys.sdk_ledger(log, seeded="yes"))], WORLD) as pool:
        assert toys.children_of(os.getpid()) == []
        box = pool.connection("box")
        with anyio.fail_after(30):
            first = await box.call("read_item", {"key": "seeded"}, timeout=20)
            second = await box.call("echo", {"text": "there"}, timeout=20)
    assert (first.structured_content, text_of(second)) == ({"key": "seeded", "value": "yes"}, "there")
    assert len(processes(log)) == 1


@pytest.mark.parametrize("mode", ["junk", "print"])
async def test_a_server_of_the_older_protocol_that_writes_junk_to_stdout_is_understood(mode: Any) -> None:
    async with open_pool([stdio("old", toys.bad(mode))], WORLD) as pool:
        with anyio.fail_after(30):
            result = await pool.connection("old").call("look_up", {"key": "k"}, timeout=20)
    assert text_of(result) == 'looked up {"key": "k"}'


async def test_a_server_killed_in_mid_call_may_have_run_it_and_is_started_again_for_the_next(tmp_path: Path) -> None:
    log = tmp_path / "ledger"
    async with open_pool([stdio("box", toys.ledger(log))], WORLD) as pool:
        box = pool.connection("box")
        with anyio.fail_after(30):
            with pytest.raises(CallFailed) as failed:
                await _call_slow_and_kill(box, log)
            assert (failed.value.may_have_run, len(toys.calls(log, "slow"))) == (True, 1)
            assert text_of(await box.call("echo", {"text": "back"}, timeout=20)) == "back"
    assert len(processes(log)) == 2


async def _call_slow_and_kill(box: Connection, log: Path) -> None:
    async def kill() -> None:
        [call] = await toys.wait_for_calls(log, "slow")
        os.kill(call["pid"], signal.SIGKILL)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(kill)
            await box.call("slow", {"seconds": 60}, timeout=50)
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def test_a_server_that_died_while_idle_is_started_again_without_an_error(tmp_path: Path) -> None:
    log = tmp_path / "ledger"
    async with open_pool([stdio("box", toys.ledger(log))], WORLD) as pool:
        box = pool.connection("box")
        with anyio.fail_after(30):
            await box.call("echo", {"text": "one"}, timeout=20)
            children = toys.children_of(os.getpid())
            os.kill(toys.calls(log)[0]["pid"], signal.SIGKILL)
            assert await toys.wait_until_gone(children) == []
            while box.is_open:
                await anyio.lowlevel.checkpoint()
            await box.call("echo", {"text": "two"}, timeout=20)
    assert [line["arguments"]["text"] for line in toys.calls(log)] == ["one", "two"]


async def test_a_call_past_its_deadline_may_have_run_and_is_cancelled_at_the_server(tmp_path: Path) -> None:
    log = tmp_path / "ledger"
    async with open_pool([stdio("box", toys.ledger(log))], WORLD) as pool:
        box = pool.connection("box")
        with anyio.fail_after(30):
            await box.listing()
            with pytest.raises(CallFailed, match=r"box\.slow gave no answer within 0\.5 s") as failed:
                await box.call("slow", {"seconds": 60}, timeout=0.5)
            await toys.wait_for_calls(log, "slow.cancelled")
            await box.call("echo", {"text": "still there"}, timeout=20)
    assert (failed.value.may_have_run, len(processes(log))) == (True, 1)


async def test_a_cancelled_caller_cancels_its_call_at_the_server_only(tmp_path: Path) -> None:
    log = tmp_path / "ledger"
    async with open_pool([stdio("box", toys.ledger(log))], WORLD) as pool:
        box = pool.connection("box")
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: box.call("slow", {"seconds": 60}, timeout=60))
                await toys.wait_for_calls(log, "slow")
                group.cancel_scope.cancel()
            await toys.wait_for_calls(log, "slow.cancelled")
            assert text_of(await box.call("echo", {"text": "on"}, timeout=20)) == "on"


@pytest.mark.parametrize(("slots", "met"), [(2, [False, False]), (1, [True, True])], ids=["two", "one"])
async def test_as_many_calls_run_at_once_as_the_settings_allow(tmp_path: Path, slots: int, met: list[bool]) -> None:
    log, errors = tmp_path / "ledger", list[bool]()
    async with open_pool([stdio("box", toys.ledger(log), max_parallel=slots)], WORLD) as pool:

        async def meet() -> None:
            arguments = {"name": "here", "parties": 2, "timeout": 5 if slots == 2 else 0.2}
            errors.append((await pool.connection("box").call("meet", arguments, timeout=20)).is_error or False)

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(meet)
                group.start_soon(meet)
    assert errors == met


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (toys.bad("exit"), f'{ENDED}; it said: "bad_server: the database is missing"'),
        (
            toys.bad("hang"),
            "it did not answer within 1.5 s; try it on its own, or raise server_options.ill.start_timeout",
        ),
        (
            ["/bin/sh", "-c", "echo fetching 1 of 3 >&2; echo fetching 2 of 3 >&2; cat >/dev/null"],
            "it did not answer within 1.5 s; try it on its own, or raise server_options.ill.start_timeout; "
            'it said: "fetching 1 of 3 / fetching 2 of 3"',
        ),
        (["no-such-command"], "command 'no-such-command' was not found; install it or give its full path"),
        (["/bin/sh", "-c", "exit 3"], f'{ENDED}; it said: "exit code 3"'),
        (
            ["/bin/sh", "-c", "echo 404 no such package >&2; echo npm notice New version! >&2; exit 1"],
            f'{ENDED}; it said: "404 no such package"',
        ),
        (["steprelay", "serve"], "it is steprelay itself; take it out of mcpServers"),
        (["uvx", "steprelay", "serve"], "it is steprelay itself; take it out of mcpServers"),
        (odd("named", "steprelay"), "it is steprelay itself; take it out of mcpServers"),
    ],
    ids=[
        "exits",
        "hangs",
        "hangs in words",
        "not there",
        "silent",
        "npm",
        "ourselves",
        "ourselves by uvx",
        "ourselves by name",
    ],
)
async def test_a_server_that_cannot_be_used_says_why_and_nothing_was_sent(command: list[str], reason: str) -> None:
    async with open_pool([stdio("ill", command, start_timeout=1.5)], WORLD) as pool:
        with anyio.fail_after(15), pytest.raises(CallFailed) as failed:
            await pool.connection("ill").call("look", {}, timeout=5)
    assert (str(failed.value), failed.value.may_have_run) == (f"tool server 'ill' cannot be used: {reason}", False)


async def test_a_working_folder_that_is_none_is_named(tmp_path: Path) -> None:
    server = stdio("ill", toys.bad("junk")).model_copy(update={"cwd": tmp_path / "gone"})
    async with open_pool([server], WORLD) as pool:
        with pytest.raises(ServerUnavailable, match=r"its cwd .*gone is no folder"):
            await pool.connection("ill").listing()


async def test_a_server_that_ends_right_after_each_start_is_given_up() -> None:
    async with open_pool([stdio("ill", odd("quits"))], WORLD) as pool:
        with anyio.fail_after(30), pytest.raises(CallFailed, match=r"ended right after|broke off|could not be sent"):
            await pool.connection("ill").call("look", {}, timeout=5)


async def test_a_child_is_told_its_depth_and_the_meta_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPRELAY_DEPTH", "1")
    meta = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "steprelay/depth": 2}
    async with open_pool([stdio("odd", odd("env"))], WORLD) as pool:
        with anyio.fail_after(20):
            result = await pool.connection("odd").call("look", {}, timeout=10, caller=Caller(meta=meta))
    assert result.structured_content == {"depth": "2", "meta": meta}


@pytest.mark.parametrize("mode", ["shape", "schema"])
async def test_an_answer_that_does_not_fit_is_an_error_of_a_call_that_ran(mode: str) -> None:
    async with open_pool([stdio("odd", odd(mode))], WORLD) as pool:
        with anyio.fail_after(20):
            result = await pool.connection("odd").call("look", {}, timeout=10)
    assert result.is_error
    assert text_of(result).startswith("odd ran the call, but its answer does not fit what it promised: ")


@pytest.mark.parametrize(
    "line",
    [
        r'{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "caf\ud83d"}]}}',
        r'{"result": {"content": [{"type": "text", "text": "\ud83d"}]}, "jsonrpc": "2.0", "id": ID}',
        '{"jsonrpc": "2.0", "id": ID, "result": {"content": [], "structuredContent": {"n": ' + "9" * 5000 + "}}}",
        '{"id":ID,"jsonrpc":"2.0","result":{"content":[],"structuredContent":{"n":' + "[" * 300 + "]" * 300 + "}}}",
        '{"jsonrpc": "2.0", "id": ID, "result": 5}',
        '{"jsonrpc": "2.0", "id": ID, "error": "so it is"}',
    ],
    ids=["half a pair", "id at the end", "5,000 digits", "300 levels", "no object", "no error object"],
)
async def test_an_answer_that_cannot_be_read_is_not_waited_for(line: str) -> None:
    async with open_pool([stdio("odd", odd("raw", line))], WORLD) as pool:
        with anyio.fail_after(20), pytest.raises(CallFailed) as failed:
            await pool.connection("odd").call("look", {}, timeout=60)
    assert str(failed.value) == "odd answered with something that is no JSON-RPC reply: it cannot be read"
    assert failed.value.may_have_run


@pytest.mark.parametrize(
    "line",
    [
        "Listening on port 8080 ...",
        r'{"level": "info", "id": ID, "error": "\ud83d"}',
        r'{"id": ID, "error": "\ud83d"}',
        '{"id": ID, "error": "so it is"}',
        '{"jsonrpc": "2.0", "id": ID, "method": "ping", "params": 5}',
    ],
    ids=["words", "a log entry", "half a log entry", "a log entry with an error", "a request"],
)
async def test_what_is_no_answer_is_not_taken_for_one(line: str) -> None:
    async with open_pool([stdio("odd", odd("raw", line))], WORLD) as pool:
        with anyio.fail_after(20), pytest.raises(CallFailed, match="gave no answer within") as failed:
            await pool.connection("odd").call("look", {}, timeout=0.5)
    assert (failed.value.may_have_run, failed.value.late) == (True, True)


async def test_an_error_that_the_server_answers_with_is_a_result() -> None:
    async with open_pool([stdio("odd", odd("rpc", "-32603"))], WORLD) as pool:
        with anyio.fail_after(20):
            result = await pool.connection("odd").call("look", {}, timeout=10)
    assert (result.is_error, text_of(result)) == (True, "odd answered with an error: so it is")


async def test_a_server_of_the_older_protocol_that_asks_outside_a_run_is_declined() -> None:
    async with open_pool([stdio("odd", odd("asks"))], WORLD) as pool:
        with anyio.fail_after(20):
            result = await pool.connection("odd").call("look", {}, timeout=10)
    assert "decline" in text_of(result)


async def test_what_a_server_asks_before_it_begins_is_handed_to_the_caller() -> None:
    script = Path(__file__).parent / "support/toy_servers/asking_server.py"
    async with open_pool([stdio("shop", [sys.executable, str(script)])], WORLD) as pool:
        with anyio.fail_after(20), pytest.raises(AsksBack, match="shop asks for input") as asked:
            await pool.connection("shop").call("order", {"item": "tea"}, timeout=10)
    (question,) = asked.value.questions.values()
    assert question.message == "order tea?"


async def test_arguments_that_are_no_text_cost_their_connection_and_nothing_else() -> None:
    async with open_pool([stdio("odd", odd("pages"))], WORLD) as pool:
        with anyio.fail_after(20):
            with pytest.raises(CallFailed):
                await pool.connection("odd").call("look", {"half": "\ud800 a pair"}, timeout=10)
            assert text_of(await pool.connection("odd").call("look", {}, timeout=10)) == "seen"


async def test_all_pages_are_listed_and_a_name_counts_once() -> None:
    async with open_pool([stdio("odd", odd("pages")), stdio("none", odd("toolless"))], WORLD) as pool:
        with anyio.fail_after(20):
            listing = await pool.connection("odd").listing()
            again = await pool.connection("odd").listing(fresh=True)
            nothing = await pool.connection("none").listing()
    assert [(tool.name, tool.description) for tool in listing.tools] == [("a", ""), ("b", ""), ("look", "")]
    assert (again, nothing.tools) == (listing, ())


async def test_a_server_that_always_has_another_page_is_asked_for_a_hundred() -> None:
    async with open_pool([stdio("odd", odd("endless"))], WORLD) as pool:
        with anyio.fail_after(20):
            listing = await pool.connection("odd").listing()
    assert [tool.name for tool in listing.tools] == ["look"]


async def test_a_server_that_lists_no_more_is_opened_again_for_the_next_call() -> None:
    async with open_pool([stdio("odd", odd("once"))], WORLD) as pool:
        odd_one = pool.connection("odd")
        with anyio.fail_after(20):
            await odd_one.listing()
            with pytest.raises(ServerUnavailable, match="the list is lost"):
                await odd_one.listing(fresh=True)
            assert text_of(await odd_one.call("look", {}, timeout=10)) == "seen"


async def test_what_was_written_to_a_closed_connection_is_known_not_to_be_sent() -> None:
    message = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized"))
    around = Surroundings(Watchdog(None), StderrTail("odd"))
    with anyio.fail_after(20), new_exchange(Exchange()) as exchange:
        async with open_transport(
            stdio("odd", odd("pages")), around, life=Life(), on_change=Changes().tell, mender=Mender()
        ) as (
            _,
            writing,
        ):
            await writing.aclose()
            with pytest.raises(anyio.ClosedResourceError):
                await writing.send(message)
    assert not exchange.sent


async def test_closing_leaves_no_child_not_even_one_that_ignores_the_end_of_its_input(tmp_path: Path) -> None:
    servers = [
        stdio("box", toys.ledger(tmp_path / "ledger")),
        stdio("deaf", toys.bad("ignore_eof")),
        stdio("deaf2", toys.bad("ignore_eof")),
    ]
    async with open_pool(servers, WORLD) as pool:
        with anyio.fail_after(30):
            for server in servers:
                await pool.connection(server.name).listing()
        children = toys.children_of(os.getpid())
        began = anyio.current_time()
    assert anyio.current_time() - began < 6
    assert (len(children) >= 3, await toys.wait_until_gone(children)) == (True, [])


async def test_what_a_server_writes_to_stderr_is_kept_and_nobody_waits_for_a_closed_pool() -> None:
    command = ["/bin/sh", "-c", "echo '\x1b[31mdisk is full\x1b[0m' >&2; cat >/dev/null"]
    async with open_pool([stdio("ill", command, start_timeout=60)], WORLD) as pool:
        reasons: list[str] = []

        async def list_it() -> None:
            with pytest.raises(ServerUnavailable) as failed:
                await pool.connection("ill").listing()
            reasons.append(failed.value.reason)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(list_it)
                while "disk" not in pool.stderr_tail("ill"):  # noqa: ASYNC110 - another process writes it
                    await anyio.sleep(0.01)
                pool.connection("ill").stop()
    assert (pool.stderr_tail("ill").splitlines()[0], len(reasons)) == ("disk is full", 1)


async def test_nobody_waits_for_a_server_that_was_closed_for_good(tmp_path: Path) -> None:
    async with open_pool([stdio("box", toys.ledger(tmp_path / "ledger"))], WORLD) as pool:
        box = pool.connection("box")
        box.stop()
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(5), pytest.raises(ServerUnavailable, match="steprelay is closing"):
            await box.listing()


class Fault(Exception):
    """Nothing that a server could bring about."""


async def test_a_fault_of_ours_ends_the_pool_and_is_raised_with_what_came_of_it(tmp_path: Path) -> None:
    async def inspect(server: ServerSettings, listing: Listing) -> Any:
        raise Fault

    with anyio.fail_after(20), pytest.RaisesGroup(Fault, ServerUnavailable, flatten_subgroups=True):
        async with open_pool([stdio("box", toys.ledger(tmp_path / "ledger"))], WORLD) as pool:
            pool.inspect_with(inspect)
            try:
                await pool.connection("box").listing()
            finally:
                with pytest.raises(ServerUnavailable, match="steprelay is closing"):
                    await pool.connection("box").listing()
    assert toys.children_of(os.getpid()) == []
