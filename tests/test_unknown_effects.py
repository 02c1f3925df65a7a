"""A call that may have run and gave no answer is a person's question, and never a silent repeat."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from gate_case import PLAN, Runs, Server, call, failing, gate_of, open_runs, server, tool, worker_call
from mcp.types import CallToolResult, TextContent

from downstream.door import Called, ToolEnd, Waiting
from downstream.gate.calls import ToolDoor
from downstream.gate.sending import Outgoing
from downstream.servers.results import DID_RUN
from downstream.settings import ServerSettings, ToolOptions
from downstream.tools import Tool
from journal.actions import LevelTooLow
from journal.values import JsonObject

SEND = tool("mail.send", "write", ["to"])
FREE: JsonObject = {"rules": [{"allow": "mail.*"}]}
TO_ANA: JsonObject = {"to": "ana@example.org"}
SENT = ("mail.send", TO_ANA)


class Killed(Exception):
    """The process ends here."""


def dying(out: Outgoing) -> CallToolResult:
    raise Killed


async def lose(runs: Runs, there: Server, how: str, used: Tool = SEND) -> ToolEnd:
    """Begin a call that ends without an answer: a timeout now, or a kill in the middle and another drive."""
    if how == "timeout":
        there.answer = failing("ran?")
        end = await there.door(used, policy=FREE)(await runs.drive(), call("mail.send", TO_ANA))
    else:
        there.answer = dying
        with pytest.raises(Killed):
            await there.door(used, policy=FREE)(await runs.drive(), call("mail.send", TO_ANA))
        there.answer = Server().answer
        end = await there.door(used, policy=FREE)(await runs.drive(), call("mail.send", TO_ANA))
    there.answer = Server().answer
    return end


@pytest.mark.parametrize("how", ["timeout", "kill"])
@pytest.mark.parametrize(
    ("choice", "via", "state", "text"),
    [
        ("done", "terminal", "done", "was done; what it returned is not known."),
        ("not_done", "page", "not_done", "a person looked and says that this call was not done."),
        ("give_up", "terminal", "unknown", "it is not known whether this call was done."),
        ("give_up", "approve_action", "unknown", "it is not known whether this call was done."),
    ],
)
async def test_a_person_says_what_became_of_a_call_without_an_answer(
    tmp_path: Path, how: str, choice: str, via: str, state: str, text: str
) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        waiting = await lose(runs, there, how)
        assert isinstance(waiting, Waiting)
        assert waiting.until is None
        action = await runs.store.action(waiting.action)
        assert (action.kind, action.level, action.expires_at) == ("unknown", "person", None)
        assert '"to": "ana@example.org"' in action.question
        await runs.decide(waiting.action, choice, via=via)
        journal = await runs.drive()
        called = await there.door(SEND, policy=FREE)(journal, call("mail.send", TO_ANA))
        assert await journal.park(None)
        assert await there.door(SEND, policy=FREE)(await runs.drive(), call("mail.send", TO_ANA)) == called
        assert [intent.state for intent in await runs.store.intents(runs.run_id)] == [state]
    assert isinstance(called, Called)
    assert (called.ok, called.value.data, called.effect) == (choice == "done", None, True)
    assert called.text.endswith(text)
    assert there.sent == [SENT]


@pytest.mark.parametrize("how", ["timeout", "kill"])
async def test_retry_sends_it_again_once_and_a_second_loss_asks_again(tmp_path: Path, how: str) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        first = await lose(runs, there, how)
        assert isinstance(first, Waiting)
        await runs.decide(first.action, "retry")
        second = await lose(runs, there, how)
        assert isinstance(second, Waiting)
        assert second.action != first.action
        assert there.sent == [SENT, SENT]
        assert await lose(runs, there, "timeout") == second
        await runs.decide(second.action, "retry")
        called = await there.door(SEND, policy=FREE)(await runs.drive(), call("mail.send", TO_ANA))
    assert isinstance(called, Called)
    assert (called.ok, there.sent) == (True, [SENT, SENT, SENT])


async def test_the_hosts_word_does_not_send_a_lost_call_again(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        waiting = await lose(runs, there, "timeout")
        assert isinstance(waiting, Waiting)
        for choice in ("retry", "done", "not_done"):
            with pytest.raises(LevelTooLow):
                await runs.decide(waiting.action, choice, level="host", via="approve_action")
    assert there.sent == [SENT]


@pytest.mark.parametrize(
    ("tools", "policy", "why"),
    [
        ([SEND], {"rules": [{"deny": "mail.send"}]}, "a rule of the settings says deny"),
        ([], FREE, "no server has a tool"),
        ([replace(SEND, input_schema={"required": ["cc"]})], FREE, "do not fit mail.send"),
    ],
    ids=["denied now", "gone", "changed"],
)
async def test_a_retry_passes_the_gate_again(tmp_path: Path, tools: list[Tool], policy: JsonObject, why: str) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        waiting = await lose(runs, there, "kill")
        assert isinstance(waiting, Waiting)
        await runs.decide(waiting.action, "retry")
        journal = await runs.drive()
        called = await there.door(*tools, policy=policy)(journal, call("mail.send", TO_ANA))
        assert await journal.park(None)
    assert isinstance(called, Called)
    assert (called.ok, called.effect) == (False, True)
    assert why in called.text
    assert there.sent == [SENT]


@pytest.mark.parametrize(
    ("used", "servers"),
    [
        (replace(SEND, idempotent=True), []),
        (tool("mail.send", "read", ["to"]), []),
        (tool("mail.send", "egress", ["to"]), []),
        (replace(SEND, input_schema={}), [server("mail", tools={"send": ToolOptions(idempotency_key="key")})]),
    ],
    ids=["declared idempotent", "read", "egress", "with a key"],
)
async def test_what_does_no_harm_twice_is_simply_sent_again_after_a_crash(
    tmp_path: Path, used: Tool, servers: list[ServerSettings]
) -> None:
    there = Server(answer=dying)
    async with open_runs(tmp_path) as runs:
        with pytest.raises(Killed):
            await there.door(used, policy=FREE, servers=servers)(await runs.drive(), call("mail.send", TO_ANA))
        there.answer = Server().answer
        called = await there.door(used, policy=FREE, servers=servers)(await runs.drive(), call("mail.send", TO_ANA))
    assert isinstance(called, Called)
    assert (called.ok, called.effect, len(there.sent)) == (True, bool(servers), 2)
    assert there.sent[0] == there.sent[1]


@pytest.mark.parametrize("choice", [None, "done", "give_up"])
async def test_an_equal_call_of_a_worker_waits_while_nobody_knows_and_after_it_was_done(
    tmp_path: Path, choice: str | None
) -> None:
    there = Server()
    async with open_runs(tmp_path, goal="tell ana@example.org") as runs:
        waiting = await lose(runs, there, "timeout")
        assert isinstance(waiting, Waiting)
        if choice is not None:
            await runs.decide(waiting.action, choice)
            await there.door(SEND, policy=FREE)(await runs.drive(), call("mail.send", TO_ANA))
        repeat = worker_call("mail.send", TO_ANA, label=PLAN)
        end = await there.door(SEND, policy=FREE)(await runs.drive(), repeat)
        assert isinstance(end, Waiting)
        assert (await runs.store.action(end.action)).level == "person"
    assert there.sent == [SENT]


async def test_an_equal_call_may_be_planned_again_once_a_person_said_that_it_was_not_done(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path, goal="tell ana@example.org") as runs:
        waiting = await lose(runs, there, "timeout")
        assert isinstance(waiting, Waiting)
        await runs.decide(waiting.action, "not_done")
        await there.door(SEND, policy=FREE)(await runs.drive(), call("mail.send", TO_ANA))
        repeat = worker_call("mail.send", TO_ANA, label=PLAN)
        assert isinstance(await there.door(SEND, policy=FREE)(await runs.drive(), repeat), Called)
    assert there.sent == [SENT, SENT]


async def test_an_approved_call_that_was_lost_needs_a_word_and_not_its_old_approval(tmp_path: Path) -> None:
    there = Server(answer=dying)
    door = there.door(SEND)
    async with open_runs(tmp_path) as runs:
        asked = await door(await runs.drive(), call("mail.send", TO_ANA))
        assert isinstance(asked, Waiting)
        await runs.decide(asked.action, "approve")
        with pytest.raises(Killed):
            await door(await runs.drive(), call("mail.send", TO_ANA))
        lost = await door(await runs.drive(), call("mail.send", TO_ANA))
        assert isinstance(lost, Waiting)
        assert lost.action != asked.action
        assert (await runs.store.action(lost.action)).kind == "unknown"
        lines = [row["type"] for row in await runs.store.database.read(lambda tx: tx.rows("SELECT type FROM audit"))]
    assert lines == ["action.asked", "action.decided", "intent.begun", "intent.unknown", "action.asked"]
    assert there.sent == [SENT]


async def test_a_call_cut_short_by_cancellation_counts_as_lost(tmp_path: Path) -> None:
    there, begun = Server(), anyio.Event()

    async def hang(out: Outgoing) -> CallToolResult:
        there.sent.append((out.tool.full_name, out.arguments))
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with open_runs(tmp_path) as runs:
        door, journal = ToolDoor(gate_of(SEND, policy=FREE), hang), await runs.drive()
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(door, journal, call("mail.send", TO_ANA))
                await begun.wait()
                group.cancel_scope.cancel()
        end = await there.door(SEND, policy=FREE)(await runs.drive(), call("mail.send", TO_ANA))
    assert isinstance(end, Waiting)
    assert there.sent == [SENT]


async def test_a_retry_that_is_voided_at_the_last_moment_sends_nothing_and_asks_again(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        first = await lose(runs, there, "timeout")
        assert isinstance(first, Waiting)
        action = await runs.decide(first.action, "retry")
        journal, gate, looks = await runs.drive(), gate_of(SEND, policy=FREE), list[int]()

        async def tools(server: str) -> list[Tool]:
            looks.append(1)
            if len(looks) == 2:
                await journal.supersede_action(action)
            return [SEND]

        second = await ToolDoor(replace(gate, tools=tools), there.send)(journal, call("mail.send", TO_ANA))
    assert isinstance(second, Waiting)
    assert second.action != first.action
    assert there.sent == [SENT]


async def test_a_lost_call_of_a_tool_that_is_gone_may_have_been_harmless_but_is_asked_about(tmp_path: Path) -> None:
    there = Server()
    idempotent = replace(SEND, idempotent=True)
    async with open_runs(tmp_path) as runs:
        there.answer = dying
        with pytest.raises(Killed):
            await there.door(idempotent, policy=FREE)(await runs.drive(), call("mail.send", TO_ANA))
        assert isinstance(await there.door()(await runs.drive(), call("mail.send", TO_ANA)), Waiting)
        denied = there.door(idempotent, policy={"rules": [{"deny": "mail.send"}]})
        called = await denied(await runs.drive(), call("mail.send", TO_ANA))
    assert isinstance(called, Called)
    assert (called.ok, there.sent) == (False, [SENT])


async def test_an_effect_whose_answer_is_no_use_counts_as_done(tmp_path: Path) -> None:
    """A reply that breaks its schema did run: the same call made again by a worker waits for a person."""
    there = Server()
    text = TextContent(type="text", text="mail ran the call, but its answer does not fit what it promised")
    there.answer = lambda out: CallToolResult(content=[text], is_error=True, _meta={DID_RUN: True})
    async with open_runs(tmp_path) as runs:
        door, journal = there.door(SEND, policy=FREE), await runs.drive()
        end = await door(journal, call("mail.send", TO_ANA))
        assert isinstance(end, Called)
        assert (end.ok, end.effect, [intent.state for intent in await journal.intents()]) == (False, True, ["done"])
        again = await door(journal, replace(call("mail.send", TO_ANA), key="other", origin="worker"))
        assert isinstance(again, Waiting)
        assert len(there.sent) == 1
