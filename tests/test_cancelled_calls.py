"""Calls whose run is cancelled while they are under way."""

from pathlib import Path

import anyio
from gate_case import Server, call, open_runs, text_result, tool
from mcp.types import CallToolResult

from downstream.door import Called
from downstream.gate.sending import Outgoing
from journal.values import JsonObject

SEND = tool("mail.send", "write", ["to"])
FREE: JsonObject = {"rules": [{"allow": "mail.*"}]}
TO_ANA: JsonObject = {"to": "ana@example.org"}


async def test_what_an_effect_answered_is_kept_although_its_run_is_cancelled_that_moment(tmp_path: Path) -> None:
    def answer(out: Outgoing) -> CallToolResult:
        drive.cancel_scope.cancel()
        return text_result("sent " + "x" * 20_000)

    async with open_runs(tmp_path) as runs:
        door, journal = Server(answer=answer).door(SEND, policy=FREE), await runs.drive()
        async with anyio.create_task_group() as drive:
            drive.start_soon(door, journal, call("mail.send", TO_ANA))
        there = Server()
        ended = await there.door(SEND, policy=FREE)(await runs.drive(), call("mail.send", TO_ANA))
    assert isinstance(ended, Called)
    assert (ended.ok, len(ended.artifacts), there.sent) == (True, 1, [])
