"""A call that goes on after a wait passes the gate again: what was done meanwhile counts as it would for a new call."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from gate_case import PLAN, Runs, call, open_runs, text_result, tool, worker_call
from lost_calls import ALLOW, FIND, NOTHING, SEND, TO, Killed, Mail, options
from mcp.types import CallToolResult

from downstream.door import Called, Refused, ToolEnd, Waiting
from downstream.gate.calls import ToolDoor
from downstream.gate.sending import Outgoing
from downstream.questions import FormAsked
from downstream.servers.asking import AsksBack
from journal.actions import Decision

FORM = FormAsked("which?", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
ONE = worker_call("mail.send", TO, label=PLAN)
OTHER = worker_call("mail.send", TO, label=PLAN, number=1)
SAME = "the same call was made already in this run, by step a"


class Asking(Mail):
    """Asks `asks` times before it does the first call of `mail.send`; all others are done."""

    asks: int = 1

    async def send(self, out: Outgoing) -> CallToolResult:
        if self.asks and out.tool.name == "send":
            self.asks -= 1
            raise AsksBack("mail", {"q": FORM}, "state")
        self.sent.append((out.tool.full_name, out.arguments))
        return text_result("sent")


async def submit(runs: Runs, end: ToolEnd) -> None:
    assert isinstance(end, Waiting)
    await runs.store.decide(await runs.store.action(end.action), Decision("submit", "host", "form", content={"n": 1}))


async def asked_first(runs: Runs, door: ToolDoor) -> ToolEnd:
    """The end of a call that its server asked about, once the form was answered; an equal one was made meanwhile."""
    waiting = await door(await runs.drive(), ONE)
    assert isinstance(await door(await runs.drive(), OTHER), Called)
    await submit(runs, waiting)
    return await door(await runs.drive(), ONE)


@pytest.mark.parametrize("choice", ["approve", "deny"])
async def test_a_call_whose_form_was_answered_waits_where_an_equal_one_was_made_meanwhile(
    tmp_path: Path, choice: str
) -> None:
    there = Asking()
    async with open_runs(tmp_path, goal="tell ana@example.org") as runs:
        door = there.door(SEND, policy=ALLOW)
        end = await asked_first(runs, door)
        assert isinstance(end, Waiting)
        action = await runs.store.action(end.action)
        assert (action.kind, action.level, action.reasons, len(there.sent)) == ("call", "person", (SAME,), 1)
        assert await door(await runs.drive(), ONE) == end
        await runs.decide(end.action, choice)
        last = await door(await runs.drive(), ONE)
        state = (await runs.store.action(end.action)).state
    if choice == "approve":
        assert isinstance(last, Called)
        assert (last.ok, state, len(there.sent)) == (True, "consumed", 2)
    else:
        assert isinstance(last, Refused)
        assert (last.by, len(there.sent)) == ("person", 1)


async def test_a_person_who_knew_of_the_equal_call_is_not_asked_again_for_each_form(tmp_path: Path) -> None:
    there = Asking()
    there.asks = 0
    async with open_runs(tmp_path, goal="tell ana@example.org") as runs:
        door = there.door(SEND, policy=ALLOW)
        assert isinstance(await door(await runs.drive(), OTHER), Called)
        there.asks = 1
        asked = await door(await runs.drive(), ONE)
        assert isinstance(asked, Waiting)
        await runs.decide(asked.action, "approve")
        form = await door(await runs.drive(), ONE)
        await submit(runs, form)
        last = await door(await runs.drive(), ONE)
    assert isinstance(last, Called)
    assert (last.ok, len(there.sent)) == (True, 2)


async def test_nobody_decides_in_time_about_a_call_that_would_be_the_second_of_its_kind(tmp_path: Path) -> None:
    there = Asking()
    async with open_runs(tmp_path, goal="tell ana@example.org") as runs:
        door = there.door(SEND, policy=ALLOW)
        assert isinstance(await asked_first(runs, door), Waiting)
        runs.clock.at += 24 * 3600 + 1
        last = await door(await runs.drive(), ONE)
    assert isinstance(last, Called)
    assert (last.ok, last.text, len(there.sent)) == (False, "no decision in 24 h", 1)


Decided = Literal["approve", "deny"]


@pytest.mark.parametrize("choice", ["approve", "deny"])
async def test_a_lost_call_that_a_read_calls_not_done_is_not_sent_behind_an_equal_one_unasked(
    tmp_path: Path, choice: Decided
) -> None:
    there = Mail(found=NOTHING, how="crash")
    settings = options(reconcile="mail.find")
    door = there.door(SEND, FIND, policy=ALLOW, servers=settings)
    lost, other = ONE, OTHER
    async with open_runs(tmp_path, goal="tell ana@example.org") as runs:
        with pytest.raises(Killed):
            await door(await runs.drive(), lost)
        waiting = await door(await runs.drive(), other)
        assert isinstance(waiting, Waiting)
        await runs.decide(waiting.action, "approve")
        assert isinstance(await door(await runs.drive(), other), Called)
        end = await door(await runs.drive(), lost)
        assert isinstance(end, Waiting)
        action = await runs.store.action(end.action)
        assert (action.kind, action.level, there.tools.count("mail.send")) == ("call", "person", 2)
        assert SAME in action.reasons
        await runs.decide(end.action, choice)
        last = await door(await runs.drive(), lost)
    assert isinstance(last, Called)
    assert (last.ok, last.effect, there.tools.count("mail.send")) == (
        (True, True, 3) if choice == "approve" else (False, True, 2)
    )


async def test_what_the_first_plan_wants_twice_goes_on_twice(tmp_path: Path) -> None:
    there = Asking()
    mine: Any = call("mail.send", TO)
    async with open_runs(tmp_path) as runs:
        door = there.door(SEND, policy=ALLOW)
        waiting = await door(await runs.drive(), mine)
        assert isinstance(await door(await runs.drive(), replace(mine, key="step.b@1/attempt.1/call.0")), Called)
        await submit(runs, waiting)
        assert isinstance(await door(await runs.drive(), mine), Called)
    assert len(there.sent) == 2


FETCH = tool("web.fetch", "egress", ["url"])
PAGE = call("web.fetch", {"url": "https://example.org/x"}, label=frozenset({"private:notes"}))


async def test_an_approval_of_a_call_into_the_open_world_is_used_once_also_across_a_crash(tmp_path: Path) -> None:
    there, ends = Mail(how="crash"), list[ToolEnd]()
    async with open_runs(tmp_path) as runs:
        door = there.door(FETCH)
        first = await door(await runs.drive(), PAGE)
        assert isinstance(first, Waiting)
        await runs.decide(first.action, "approve")
        with pytest.raises(Killed):
            await door(await runs.drive(), PAGE)
        second = await door(await runs.drive(), PAGE)
        ends.append(second)
        assert isinstance(second, Waiting)
        assert second.action != first.action
        assert len(there.sent) == 1
        await runs.decide(second.action, "approve")
        last = await door(await runs.drive(), PAGE)
        states = [action.state for action in await runs.store.actions(runs.run_id)]
    assert isinstance(last, Called)
    assert (last.ok, len(there.sent), states) == (True, 2, ["decided", "decided"])
