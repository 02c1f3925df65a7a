"""What the door says of a call besides its result: whether it changed something, and whether nobody answered."""

from dataclasses import replace
from pathlib import Path

import pytest
from gate_case import Server, call, failing, gate_of, open_runs, server, tool

from downstream.door import Called, Waiting
from downstream.gate.calls import ToolDoor
from downstream.gate.sending import Outgoing
from downstream.questions import FormAsked
from downstream.servers.asking import AsksBack
from downstream.servers.failures import NeedsLogin
from downstream.tools import Tool
from journal.values import JsonObject

SEND = tool("mail.send", "write", ["to"])
PUT = replace(SEND, idempotent=True)
FETCH = tool("mail.send", "egress", ["to"])
TO: JsonObject = {"to": "ana@example.org"}
ALLOW: JsonObject = {"rules": [{"allow": "mail.*"}]}
LATER = 24 * 3600 + 1


@pytest.mark.parametrize(
    ("used", "effect", "changed"),
    [(SEND, True, False), (PUT, False, True), (FETCH, False, False)],
    ids=["write", "idempotent write", "egress"],
)
async def test_a_call_that_may_be_made_again_still_says_that_it_changed_something(
    tmp_path: Path, used: Tool, effect: bool, changed: bool
) -> None:
    async with open_runs(tmp_path) as runs:
        door = Server().door(used, policy=ALLOW)
        end = await door(await runs.drive(), call("mail.send", TO))
        assert await door(await runs.drive(), call("mail.send", TO)) == end
    assert isinstance(end, Called)
    assert (end.ok, end.effect, end.changed, end.lapsed) == (True, effect, changed, False)


@pytest.mark.parametrize(("lost", "changed"), [("late", True), ("unsent", False)])
async def test_a_lost_call_that_may_be_made_again_may_have_changed_something(
    tmp_path: Path, lost: str, changed: bool
) -> None:
    async with open_runs(tmp_path) as runs:
        there = Server(answer=failing(lost))  # type: ignore[arg-type]
        end = await there.door(PUT, policy=ALLOW)(await runs.drive(), call("mail.send", TO))
    assert isinstance(end, Called)
    assert (end.ok, end.effect, end.changed) == (False, False, changed)


async def test_a_question_that_nobody_decided_is_not_asked_by_another_attempt(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        door = Server().door(FETCH, policy={"rules": [{"ask": "mail.*"}]})
        assert isinstance(await door(await runs.drive(), call("mail.send", TO)), Waiting)
        runs.clock.at += LATER
        end = await door(await runs.drive(), call("mail.send", TO))
    assert isinstance(end, Called)
    assert (end.ok, end.text, end.lapsed, end.changed) == (False, "no decision in 24 h", True, False)


@pytest.mark.parametrize("known", [True, False], ids=["known to need it", "found out by the call"])
async def test_a_login_that_nobody_made_is_not_asked_for_by_another_attempt(tmp_path: Path, known: bool) -> None:
    def locked(out: Outgoing) -> None:
        raise NeedsLogin("mail")

    there = Server(answer=locked)  # type: ignore[arg-type]
    gate = gate_of(FETCH, policy=ALLOW, servers=[server("mail")])

    def needs_login(name: str, asked: bool) -> bool:
        return known or asked

    door = ToolDoor(replace(gate, needs_login=needs_login), there.send)
    async with open_runs(tmp_path) as runs:
        assert isinstance(await door(await runs.drive(), call("mail.send", TO)), Waiting)
        runs.clock.at += LATER
        end = await door(await runs.drive(), call("mail.send", TO))
    assert isinstance(end, Called)
    assert (end.ok, end.text, end.lapsed) == (False, "nobody logged in within 24 h", True)


async def test_what_a_server_asked_and_nobody_answered_is_not_asked_by_another_attempt(tmp_path: Path) -> None:
    def asking(out: Outgoing) -> None:
        raise AsksBack("mail", {"q": FormAsked("which?", {"type": "object", "properties": {}})}, "s")

    there = Server(answer=asking)  # type: ignore[arg-type]
    async with open_runs(tmp_path) as runs:
        door = there.door(FETCH, policy=ALLOW, servers=[server("mail")])
        assert isinstance(await door(await runs.drive(), call("mail.send", TO)), Waiting)
        runs.clock.at += LATER
        end = await door(await runs.drive(), call("mail.send", TO))
    assert isinstance(end, Called)
    assert (end.ok, end.lapsed) == (False, True)
    assert end.text == "no decision in 24 h about what mail asked"


def test_rows_of_earlier_releases_say_neither() -> None:
    old: JsonObject = {"call": "c_1", "tool": "a.b", "ok": True, "text": "", "empty": False, "effect": False}
    old |= {"value": {"data": None, "label": ["user"]}, "artifacts": [], "repeated": False}
    end = Called.from_json(old)
    assert (end.changed, end.lapsed, end.to_json()) == (False, False, old)
    told = replace(end, changed=True, lapsed=True)
    assert (Called.from_json(told.to_json()), told.to_json()) == (told, old | {"changed": True, "lapsed": True})
