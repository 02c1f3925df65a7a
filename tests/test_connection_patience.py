"""How long a call is waited for: until it neither answers nor tells of progress, and never longer than it may take."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from faulty_http import Asked, open_faulty_http
from gate_case import open_runs
from quick_jobs import quick
from tool_connections import remote, stdio
from toy_servers.by_hand import MODERN

from downstream.servers.caller import Caller
from downstream.servers.exchange import Leave
from downstream.servers.failures import CallFailed
from downstream.servers.pool import open_pool
from downstream.settings import ServerOptions, ServerSettings
from journal.errors import Fenced
from journal.signs import Signs
from journal.world import World
from server.host.progress import progress_line

pytestmark = pytest.mark.e2e
VERSIONS = ["2025-06-18", MODERN]


@dataclass
class Teller:
    """Answers with so many signs of progress, some time apart, and then the result if `ends`."""

    signs: int
    ends: bool = True
    tokens: list[object] = field(default_factory=list[object])

    async def __call__(self, asked: Asked) -> None:
        token = asked.message["params"]["_meta"].get("progressToken")
        self.tokens.append(token)
        await asked.head(kind="text/event-stream")
        for n in range(self.signs):
            await anyio.sleep(0.15)
            params = {"progressToken": token, "progress": n, "total": 40, "message": "<b>nearly</b>"}
            note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            await asked.event(json.dumps(note).encode())
        if self.ends:
            await asked.event(asked.reply())
        else:
            await anyio.sleep_forever()


async def ask(teller: Teller, caller: Caller, *, version: str = MODERN) -> None:
    async with (
        open_faulty_http(teller, version=version) as server,
        open_pool([remote("far", server.url)], World()) as pool,
    ):
        with anyio.fail_after(20):
            await pool.connection("far").listing()
            await pool.connection("far").call("look", {}, timeout=0.5, caller=caller)


@pytest.mark.parametrize("version", VERSIONS)
async def test_progress_buys_a_call_time_and_is_heard(version: str) -> None:
    heard: list[tuple[float, float | None]] = []
    await ask(Teller(8), Caller(longest=20, hear=lambda done, total: heard.append((done, total))), version=version)
    assert heard == [(float(n), 40.0) for n in range(8)]


async def test_a_call_that_told_of_progress_and_no_more_is_given_up() -> None:
    late = r"far\.look gave no answer within 0\.5 s after it last told of progress"
    with pytest.raises(CallFailed, match=late) as failed:
        await ask(Teller(2, ends=False), Caller(longest=20))
    assert (failed.value.may_have_run, failed.value.late) == (True, True)


async def test_progress_without_end_is_given_up_at_last() -> None:
    with pytest.raises(CallFailed, match=r"gave no answer within 1 s, though it went on to tell of progress"):
        await ask(Teller(1000), Caller(longest=1))


async def test_no_progress_is_asked_for_where_it_could_buy_nothing() -> None:
    teller = Teller(0)
    await ask(teller, Caller())
    assert teller.tokens == [None]


async def test_progress_of_a_run_that_another_process_has_taken_buys_no_time() -> None:
    asked: list[int] = []

    async def leave() -> Leave:
        asked.append(1)
        if len(asked) > 1:
            raise Fenced("r_1")
        return lambda: True

    with pytest.raises(CallFailed, match="gave no answer within"):
        await ask(Teller(1000), Caller(leave=leave, longest=20))
    assert len(asked) > 1


async def test_a_server_of_the_older_protocol_on_stdio_is_told_that_its_call_was_given_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with open_pool([stdio("box", quick(log))], World()) as pool:
        with anyio.fail_after(20):
            await pool.connection("box").listing()
            with pytest.raises(CallFailed, match="gave no answer"):
                await pool.connection("box").call("stuck", {"key": "k", "gate": "never"}, timeout=0.3)
            while not log.with_suffix(".cancelled").exists():  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.01)
            given_up = json.loads(log.with_suffix(".cancelled").read_text())
    assert given_up == {"id": json.loads(log.read_text())["id"]}


def test_the_longest_call_is_never_shorter_than_the_timeout_of_calls() -> None:
    def of(**options: float) -> tuple[float, float]:
        server = ServerSettings(name="a", transport="stdio", options=ServerOptions.model_validate(options))
        return server.call_timeout, server.longest_call

    assert [of(), of(call_timeout=900.0), of(longest_call=90.0)] == [(60, 600), (900, 900), (60, 90)]


def test_signs_of_a_run_are_those_of_its_calls_that_told_of_progress() -> None:
    signs = Signs()
    with signs.call("r_1", "box.index") as hear, signs.call("r_1", "box.index") as other, signs.call("r_2", "box.x"):
        hear(40, 100)
        other(0.25, None)
        during = (signs.of("r_1"), signs.of("r_2"))
    assert (during, signs.of("r_1")) == ((["box.index 40/100", "box.index 0.25"], []), [])


async def test_the_progress_line_of_a_host_says_how_far_a_call_is(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        quiet = await progress_line(runs.store, runs.run_id)
        with runs.store.signs.call(runs.run_id, "box.index") as hear:
            hear(40, 100)
            during = await progress_line(runs.store, runs.run_id)
    assert (quiet, during) == (
        "planning · 0 calls · 0 tok · $0.00",
        "planning · box.index 40/100 · 0 calls · 0 tok · $0.00",
    )
