"""A call goes out only with leave, asked for once the server is open and looked at right before the bytes go."""

from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from mcp.types import CallToolResult
from quick_jobs import quick
from tool_connections import remote, stdio, text_of

from downstream.servers.caller import Caller
from downstream.servers.exchange import Leave
from downstream.servers.failures import CallFailed
from downstream.servers.pool import open_pool
from downstream.settings import ServerSettings
from journal.errors import Fenced
from journal.world import World

pytestmark = pytest.mark.e2e


class Leaves:
    """Gives leave that holds as often as said, one look after the other; notes where a call had come to."""

    def __init__(self, *looks: bool) -> None:
        self.looks = list(looks)
        self.asked = 0
        self.points: list[str] = []

    async def ask(self) -> Leave:
        self.asked += 1
        return lambda: self.looks.pop(0)

    async def call(self, server: ServerSettings, tool: str, **arguments: Any) -> CallToolResult:
        async with open_pool([server], World(reach=self.points.append)) as pool:
            with anyio.fail_after(30):
                caller = Caller(leave=self.ask)
                return await pool.connection(server.name).call(tool, arguments, timeout=20, caller=caller)


async def test_a_call_whose_leave_has_lapsed_is_sent_with_a_new_one(tmp_path: Path) -> None:
    log, leaves = tmp_path / "ledger", Leaves(False, True)
    assert text_of(await leaves.call(stdio("box", quick(log)), "read", key="once")) == "did read"
    assert (leaves.asked, leaves.looks, len(toys.calls(log))) == (2, [], 1)
    assert leaves.points == [
        *("send.opening", "send.leave"),
        *("send.opening", "send.leave", "send.before", "send.after", "send.answered"),
    ]


async def test_a_call_that_gets_no_leave_that_holds_is_known_not_to_be_sent(tmp_path: Path) -> None:
    log, leaves = tmp_path / "ledger", Leaves(False, False)
    with pytest.raises(CallFailed, match="was over, so it was not sent") as failed:
        await leaves.call(stdio("box", quick(log)), "read", key="never")
    assert (failed.value.may_have_run, leaves.asked, toys.calls(log)) == (False, 2, [])


async def test_over_http_it_is_looked_at_once_more_when_the_connection_stands(tmp_path: Path) -> None:
    log, leaves = tmp_path / "ledger", Leaves(True, False, True, True)
    async with toys.open_http_ledger(log) as toy:
        assert text_of(await leaves.call(remote("far", toy.url), "echo", text="once")) == "once"
    assert (leaves.asked, leaves.looks, len(toys.calls(log))) == (2, [], 1)


async def test_what_the_asking_raises_reaches_the_caller_and_nothing_is_sent(tmp_path: Path) -> None:
    log = tmp_path / "ledger"

    async def ask() -> Leave:
        raise Fenced("r_1")

    async with open_pool([stdio("box", quick(log))], World()) as pool:
        with anyio.fail_after(30), pytest.raises(Fenced):
            await pool.connection("box").call("read", {"key": "never"}, timeout=20, caller=Caller(leave=ask))
    assert toys.calls(log) == []
