"""An idempotency key is that of one call: to send it again is harmless under the same key, and under no other."""

from dataclasses import replace
from pathlib import Path

import pytest
from gate_case import PLAN, Server, call, failing, open_runs, text_result, worker_call
from lost_calls import ALLOW, SEND, TO, Killed, options
from mcp.types import CallToolResult

from downstream.door import Called, Waiting
from downstream.gate.sending import Outgoing
from downstream.tools import Tool
from journal.actions import Action
from journal.intents import IntentState

KEYED = options(idempotency_key="key")
DECLARED = replace(SEND, idempotent=True)


async def test_an_effect_under_one_key_is_not_made_again_under_another_unasked(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path, goal="tell ana@example.org") as runs:
        door, journal = there.door(SEND, policy=ALLOW, servers=KEYED), await runs.drive()
        first = await door(journal, worker_call("mail.send", TO, label=PLAN))
        second = await door(journal, worker_call("mail.send", TO, label=PLAN, number=1))
        assert isinstance(first, Called)
        assert (first.ok, first.effect) == (True, True)
        assert isinstance(second, Waiting)
        action = await runs.store.action(second.action)
    assert (action.kind, action.level, len(there.sent)) == ("call", "person", 1)
    assert "the same call was made already in this run, by step a" in action.reasons


@pytest.mark.parametrize(("lost", "sends"), [("late", 1), ("ran?", 2)])
async def test_a_keyed_call_that_nobody_heard_of_is_a_question_and_counts_as_one_that_may_have_run(
    tmp_path: Path, lost: str, sends: int
) -> None:
    there = Server(answer=failing(lost))  # type: ignore[arg-type]
    mine = worker_call("mail.send", TO, label=PLAN)
    async with open_runs(tmp_path, goal="tell ana@example.org") as runs:
        door = there.door(SEND, policy=ALLOW, servers=KEYED)
        end = await door(await runs.drive(), mine)
        assert len(there.sent) == sends
        assert await door(await runs.drive(), mine) == end
        assert isinstance(end, Waiting)
        asked = await runs.store.action(end.action)
        there.answer = lambda out: text_result("sent")
        other = await door(await runs.drive(), replace(mine, key="step.w@1/attempt.1/turn.2/call.0"))
        assert isinstance(other, Waiting)
        repeat = await runs.store.action(other.action)
        states = [intent.state for intent in await runs.store.intents(runs.run_id)]
    assert (asked.kind, asked.level) == ("unknown", "person")
    assert "the same call may have been made already in this run, by step a" in repeat.reasons
    assert states == ["unknown"]
    assert len(there.sent) == sends
    assert len({arguments["key"] for _, arguments in there.sent}) == 1


@pytest.mark.parametrize(
    ("choice", "ok", "state", "sends"),
    [("retry", True, "done", 2), ("done", True, "done", 1), ("not_done", False, "not_done", 1)],
)
async def test_a_person_says_what_becomes_of_a_keyed_call(
    tmp_path: Path, choice: str, ok: bool, state: IntentState, sends: int
) -> None:
    there = Server(answer=failing("late"))
    async with open_runs(tmp_path) as runs:
        door = there.door(SEND, policy=ALLOW, servers=KEYED)
        waiting = await door(await runs.drive(), call("mail.send", TO))
        assert isinstance(waiting, Waiting)
        await runs.decide(waiting.action, choice)
        there.answer = lambda out: text_result("sent")
        end = await door(await runs.drive(), call("mail.send", TO))
        states = [intent.state for intent in await runs.store.intents(runs.run_id)]
    assert isinstance(end, Called)
    assert (end.ok, end.effect, states, len(there.sent)) == (ok, True, [state], sends)
    assert len({arguments["key"] for _, arguments in there.sent}) == 1


@pytest.mark.parametrize(("used", "effect"), [(SEND, True), (DECLARED, False)], ids=["keyed", "declared idempotent"])
async def test_after_a_crash_a_keyed_call_is_sent_again_under_its_key_and_stays_an_effect(
    tmp_path: Path, used: Tool, effect: bool
) -> None:
    there, crashes = Server(), [1]

    def dying_once(out: Outgoing) -> CallToolResult:
        if crashes:
            crashes.pop()
            raise Killed
        return text_result("sent")

    there.answer = dying_once
    async with open_runs(tmp_path) as runs:
        door = there.door(used, policy=ALLOW, servers=KEYED)
        with pytest.raises(Killed):
            await door(await runs.drive(), call("mail.send", TO))
        end = await door(await runs.drive(), call("mail.send", TO))
        actions: list[Action] = list(await runs.store.actions(runs.run_id))
    assert isinstance(end, Called)
    assert (end.ok, end.effect, actions) == (True, effect, [])
    assert there.sent[0] == there.sent[1]


async def test_a_late_call_of_a_tool_declared_idempotent_fails_and_may_be_made_anew(tmp_path: Path) -> None:
    there = Server(answer=failing("late"))
    async with open_runs(tmp_path) as runs:
        end = await there.door(DECLARED, policy=ALLOW)(await runs.drive(), call("mail.send", TO))
        states = [intent.state for intent in await runs.store.intents(runs.run_id)]
    assert isinstance(end, Called)
    assert (end.ok, end.effect, states) == (False, False, ["failed"])
