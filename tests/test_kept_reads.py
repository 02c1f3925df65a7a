"""Reads that are answered from what an equal one gave a moment ago."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from gate_case import PLAN, Server, call, gate_of, open_runs, server, tool
from mcp.types import CallToolResult

from downstream.door import Called, Waiting
from downstream.gate.calls import ToolDoor
from downstream.gate.sending import Outgoing
from journal.values import JsonObject

SEND = tool("mail.send", "write", ["to"])
READ = tool("notes.read", "read", ["path"])
LOOK = tool("notes.look", "read", ["path"])
FREE: JsonObject = {"rules": [{"allow": "mail.*"}, {"allow": "notes.*"}]}


@pytest.mark.parametrize(
    ("between", "later", "fresh", "made"),
    [
        (None, 0, False, 1),
        ("notes.look", 0, False, 1),
        ("mail.send", 0, False, 1),
        (None, 299, False, 1),
        (None, 301, False, 2),
        (None, 0, True, 2),
    ],
)
async def test_an_equal_read_is_answered_from_the_cache_for_five_minutes(
    tmp_path: Path, between: str | None, later: int, fresh: bool, made: int
) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        door, journal = there.door(READ, LOOK, SEND, policy=FREE), await runs.drive()
        first = await door(journal, call("notes.read", {"path": "a"}, key="1"))
        if between is not None:
            await door(journal, call(between, key="between"))
        runs.clock.at += later
        second = await door(journal, call("notes.read", {"path": "a"}, key="2", fresh=fresh))
        assert await there.door(READ)(await runs.drive(), call("notes.read", {"path": "a"}, key="2")) == second
        events = await runs.store.events(runs.run_id)
        cached = [event.call for event in events if event.data.get("cached")]
        begun = [event.call for event in events if event.type == "call.started"]
    assert isinstance(first, Called)
    assert isinstance(second, Called)
    assert second == replace(first, call=second.call)
    assert [name for name, _ in there.sent].count("notes.read") == made
    assert cached == ([second.call] if made == 1 else [])
    assert (begun[0], begun[-1]) == (first.call, second.call)


@pytest.mark.parametrize("uncached", ["other call on its server", "wait", "cache: false", "changed tool"])
async def test_the_cache_ends_at_any_wait_and_at_any_other_call_on_its_server(tmp_path: Path, uncached: str) -> None:
    there, write = Server(), tool("notes.write", "write")
    async with open_runs(tmp_path) as runs:
        read = replace(READ, cache=uncached != "cache: false")
        door, journal = there.door(read, write, SEND, policy={"rules": [{"allow": "notes.*"}]}), await runs.drive()
        await door(journal, call("notes.read", key="1"))
        if uncached == "other call on its server":
            await door(journal, call("notes.write", key="between"))
        if uncached == "wait":
            assert isinstance(await door(journal, call("mail.send", key="between")), Waiting)
        if uncached == "changed tool":
            door = there.door(replace(READ, description="new"))
        await door(journal, call("notes.read", key="2"))
    assert [name for name, _ in there.sent].count("notes.read") == 2


async def test_a_read_that_overlaps_a_write_on_its_server_is_not_kept(tmp_path: Path) -> None:
    reading, both, there = anyio.Event(), anyio.Event(), Server()
    write = tool("notes.write", "write")

    async with open_runs(tmp_path) as runs:

        async def slow(out: Outgoing) -> CallToolResult:
            result = await there.send(out)
            if out.tool.name == "write":
                both.set()
            elif len(there.sent) == 1:
                reading.set()
                await both.wait()
            return result

        door, journal = ToolDoor(gate_of(READ, write, policy=FREE), slow), await runs.drive()
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(door, journal, call("notes.read", key="1"))
                await reading.wait()
                group.start_soon(door, journal, call("notes.write", key="w"))
        await door(journal, call("notes.read", key="2"))
    assert [name for name, _ in there.sent].count("notes.read") == 2


async def test_a_kept_result_is_as_private_as_the_call_that_it_is_given_to(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        own = server("diary", private=True), server("notes", private=True)
        door, journal = there.door(READ, servers=own), await runs.drive()
        label = PLAN | {"private:notes", "private:diary"}
        one = await door(journal, call("notes.read", {"path": "a"}, key="1"))
        second = await door(journal, call("notes.read", {"path": "a"}, key="2", label=label))
        again = await door(await runs.drive(), call("notes.read", {"path": "a"}, key="2", label=label))
    assert isinstance(one, Called)
    assert isinstance(second, Called)
    assert one.value.label == frozenset({"private:notes"})
    assert second.value.label == frozenset({"private:notes", "private:diary"})
    assert (second.value.data, second, len(there.sent)) == (one.value.data, again, 1)
