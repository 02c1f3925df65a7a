"""Connections to tool servers over HTTP: both protocol eras, the older transport, and what breaks on the way."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import pytest
import toys
from tool_connections import open_older_http, open_stub, remote, text_of

from downstream.servers.connection import Connection
from downstream.servers.exchange import ContainedTransport
from downstream.servers.failures import CallFailed, ServerUnavailable
from downstream.servers.pool import open_pool
from downstream.settings import ServerSettings
from journal.world import World

pytestmark = pytest.mark.e2e
WORLD = World()
Kind = Literal["modern", "legacy", "sse"]
KINDS: list[Kind] = ["modern", "legacy", "sse"]


@asynccontextmanager
async def open_ledger(kind: Kind, log: Path, *, port: int = 0) -> AsyncGenerator[toys.HttpToy]:
    if kind == "legacy":
        opened = open_older_http(log, port=port)
    else:
        opened = toys.open_http_ledger(log, port=port, transport="--http" if kind == "modern" else "--legacy-sse")
    async with opened as toy:
        yield toy


@asynccontextmanager
async def open_connection(server: ServerSettings) -> AsyncGenerator[Connection]:
    async with open_pool([server], WORLD) as pool:
        yield pool.connection(server.name)


def port_of(toy: toys.HttpToy) -> int:
    return int(toy.url.split(":")[2].split("/")[0])


@pytest.mark.parametrize("kind", KINDS)
async def test_calls_over_http_are_answered_also_with_large_results(tmp_path: Path, kind: Kind) -> None:
    async with open_ledger(kind, tmp_path / "ledger") as toy, open_connection(remote("box", toy.url)) as box:
        with anyio.fail_after(30):
            small = await box.call("echo", {"text": "there"}, timeout=20)
            large = await box.call("big", {"kilobytes": 900 if kind == "sse" else 3000}, timeout=20)
    assert text_of(small) == "there"
    assert len(text_of(large)) == (900 if kind == "sse" else 3000) * 1024


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_restarted_between_calls_is_reached_again(tmp_path: Path, kind: Kind) -> None:
    log = tmp_path / "ledger"
    async with open_ledger(kind, log) as toy, open_connection(remote("box", toy.url)) as box:
        with anyio.fail_after(30):
            await box.call("echo", {"text": "one"}, timeout=20)
            toy.process.kill()
            await toy.process.wait()
        async with open_ledger(kind, log, port=port_of(toy)):
            with anyio.fail_after(30):
                assert text_of(await box.call("echo", {"text": "two"}, timeout=20)) == "two"
    assert [line["arguments"]["text"] for line in toys.calls(log)] == ["one", "two"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_dead_server_costs_its_own_calls_and_no_other_server(tmp_path: Path, kind: Kind) -> None:
    near, far = tmp_path / "near" / "ledger", tmp_path / "far"
    near.parent.mkdir()
    failures: list[CallFailed] = []
    async with (
        open_ledger(kind, far) as dying,
        toys.open_http_ledger(near) as living,
        open_pool([remote("far", dying.url), remote("near", living.url)], WORLD) as pool,
    ):

        async def lose() -> None:
            with pytest.raises(CallFailed) as failed:
                await pool.connection("far").call("slow", {"seconds": 60}, timeout=50)
            failures.append(failed.value)
            toys.open_gate(near, "end")

        async def live() -> None:
            waited = {"name": "end", "parties": 2, "timeout": 30}
            assert not (await pool.connection("near").call("meet", waited, timeout=40)).is_error

        with anyio.fail_after(40):
            async with anyio.create_task_group() as group:
                group.start_soon(live)
                group.start_soon(lose)
                await toys.wait_for_calls(far, "slow")
                await toys.wait_for_calls(near, "meet")
                dying.process.kill()
            with pytest.raises(CallFailed) as refused:
                await pool.connection("far").call("echo", {"text": "x"}, timeout=10)
            assert text_of(await pool.connection("near").call("echo", {"text": "on"}, timeout=10)) == "on"
    assert ([failed.may_have_run for failed in failures], refused.value.may_have_run) == ([True], False)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path: Path, kind: Kind) -> None:
    log = tmp_path / "ledger"
    async with open_ledger(kind, log) as toy, open_connection(remote("box", toy.url)) as box:
        with anyio.fail_after(30):
            await box.listing()
            with pytest.raises(CallFailed) as failed:
                await box.call("slow", {"seconds": 60}, timeout=0.5)
            await toys.wait_for_calls(log, "slow.cancelled")
            assert text_of(await box.call("echo", {"text": "on"}, timeout=10)) == "on"
    assert failed.value.may_have_run


RAN = {"result": {"content": [{"type": "text", "text": "ran"}]}}


@pytest.mark.parametrize(
    ("said", "may_have_run", "words"),
    [
        ((401, None), False, "wants a login (HTTP 401)"),
        ((403, "forbidden"), False, "does not allow this (HTTP 403)"),
        ((404, None), False, "nothing answers at its address (HTTP 404)"),
        ((429, None), False, "wants fewer calls (HTTP 429)"),
        ((500, "oops"), True, "broke off"),
        ((503, {"error": {"code": -32602, "message": "busy"}}), True, "broke off"),
        ((202, None), True, "gave no answer"),
        ((200, "<p>hello"), True, "gave no answer"),
        (None, True, "broke off before it answered: RemoteProtocolError"),
    ],
    ids=["401", "403", "404", "429", "500", "503", "202", "html", "reset"],
)
async def test_what_http_says_tells_whether_a_call_ran(said: Any, may_have_run: bool, words: str) -> None:
    async with open_stub(lambda method: said) as stub, open_connection(remote("far", stub.url)) as far:
        with anyio.fail_after(20), pytest.raises(CallFailed) as failed:
            await far.call("look", {}, timeout=10)
    assert (failed.value.may_have_run, words in str(failed.value)) == (may_have_run, True), str(failed.value)
    assert stub.asked.count("tools/call") == 1


UNKNOWN = {"error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}}


@pytest.mark.parametrize(
    "said",
    [(404, {"error": {"code": -32600, "message": "Session not found"}}), (400, UNKNOWN), (400, {**UNKNOWN, "id": {}})],
    ids=["404", "400", "400 for no request"],
)
async def test_a_lost_session_is_opened_again_and_the_call_sent_once_more(said: Any) -> None:
    answers: list[Any] = [said, (200, RAN)]
    async with open_stub(lambda method: answers.pop(0)) as stub, open_connection(remote("far", stub.url)) as far:
        with anyio.fail_after(20):
            assert text_of(await far.call("look", {}, timeout=10)) == "ran"
    assert (stub.asked.count("tools/call"), stub.asked.count("initialize")) == (2, 2)


async def test_a_call_is_sent_at_most_twice() -> None:
    lost = (404, {"error": {"code": -32600, "message": "Session not found"}})
    async with open_stub(lambda method: lost) as stub, open_connection(remote("far", stub.url)) as far:
        with anyio.fail_after(20), pytest.raises(CallFailed, match="no longer knows us") as failed:
            await far.call("look", {}, timeout=10)
    assert (failed.value.may_have_run, stub.asked.count("tools/call")) == (False, 2)


async def test_an_answer_cut_short_may_have_run_and_keeps_the_connection() -> None:
    answers: list[Any] = [(200, "cut"), (200, RAN)]
    async with open_stub(lambda method: answers.pop(0)) as stub, open_connection(remote("far", stub.url)) as far:
        with anyio.fail_after(20):
            with pytest.raises(CallFailed, match="broke off before it answered") as failed:
                await far.call("look", {}, timeout=10)
            assert text_of(await far.call("look", {}, timeout=10)) == "ran"
    assert (failed.value.may_have_run, stub.asked.count("initialize")) == (True, 1)


@pytest.mark.parametrize(("said", "may_have_run"), [((500, None), True), ((401, None), False)], ids=["500", "401"])
async def test_a_refused_call_over_the_older_transport_fails_at_once(said: Any, may_have_run: bool) -> None:
    async with (
        open_stub(lambda method: said) as stub,
        open_connection(remote("far", stub.url.replace("/mcp", "/sse"))) as far,
    ):
        with anyio.fail_after(15), pytest.raises(CallFailed) as failed:
            await far.call("look", {}, timeout=10)
    assert failed.value.may_have_run == may_have_run


async def test_headers_of_the_settings_are_sent() -> None:
    async with open_stub(lambda method: (200, RAN)) as stub:
        server = remote("far", stub.url).model_copy(update={"headers": {"Authorization": "Bearer of-tests"}})
        async with open_connection(server) as far:
            with anyio.fail_after(20):
                await far.call("look", {}, timeout=10)
    assert stub.headers["authorization"] == "Bearer of-tests"


@pytest.mark.parametrize("path", ["mcp", "sse"])
async def test_an_address_where_nobody_listens_is_said_to_be_unreachable(path: str) -> None:
    async with open_stub(lambda method: None) as stub:
        url = f"{stub.url.removesuffix('mcp')}{path}"
    async with open_connection(remote("far", url)) as far:
        with anyio.fail_after(20), pytest.raises(ServerUnavailable) as failed:
            await far.listing()
    assert "All connection attempts failed" in failed.value.reason


async def test_an_entry_without_an_address_or_a_command_says_so() -> None:
    servers = [
        ServerSettings(name="far", transport="http"),
        ServerSettings(name="older", transport="sse"),
        ServerSettings(name="near", transport="stdio"),
    ]
    reasons: list[str] = []
    async with open_pool(servers, WORLD) as pool:
        for server in servers:
            with anyio.fail_after(10), pytest.raises(ServerUnavailable) as failed:
                await pool.connection(server.name).listing()
            reasons.append(failed.value.reason)
    needs = "an entry of type {} needs a {}"
    assert reasons == [needs.format("http", "url"), needs.format("sse", "url"), needs.format("stdio", "command")]


async def test_what_goes_wrong_while_the_pool_is_open_comes_out_as_it_was() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_pool([remote("far", "http://127.0.0.1:9/mcp")], WORLD):
            raise KeyError("mine")


async def test_a_stream_of_events_that_comes_packed_is_not_read() -> None:
    class Packed(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(200, headers={"content-encoding": "GZIP"}, stream=httpx2.ByteStream(b"no gzip"))

    async with httpx2.AsyncClient(transport=ContainedTransport(Packed())) as http:
        with pytest.raises(httpx2.StreamError, match="encoded as gzip, which was not asked for"):
            await http.get("http://127.0.0.1/sse")
