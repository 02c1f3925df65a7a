"""A call without an answer: what is repeated, and what waits for a person or for another process."""

from dataclasses import replace
from pathlib import Path

import pytest
from gate_case import PLAN, Server, call, open_runs, text_result, tool
from lost_calls import SEND, TO, Elsewhere, Killed, Mail, both, door_of, lost, options

from downstream.door import Arguments, Called, Waiting
from downstream.gate.sending import Outgoing
from downstream.settings import ServerOptions, ServerSettings
from downstream.tools import Tool
from journal.errors import Fenced
from journal.locks import held


@both
@pytest.mark.parametrize(
    ("used", "servers"),
    [
        (tool("mail.send", "read", ["to"]), []),
        (tool("mail.send", "egress", ["to"]), []),
        (replace(SEND, idempotent=True), []),
        (SEND, options(idempotency_key="key")),
    ],
    ids=["read", "egress", "idempotent", "idempotency_key"],
)
async def test_what_does_no_harm_twice_is_sent_again_without_a_question(
    tmp_path: Path, how: str, used: Tool, servers: list[ServerSettings]
) -> None:
    there = Mail(how=how)
    async with open_runs(tmp_path) as runs:
        end = await lost(runs, there, door_of(there, servers, used))
        assert await runs.store.waiting_actions() == []
    assert isinstance(end, Called)
    assert (end.ok, there.tools) == (True, ["mail.send", "mail.send"])
    assert there.sent[0] == there.sent[1]
    if servers:
        assert there.sent[0][1]["key"] == f"{runs.run_id}:a:attempt.1/call.0"


@both
@pytest.mark.parametrize(
    ("choice", "ok", "tools"),
    [
        ("done", True, ["mail.send"]),
        ("not_done", False, ["mail.send"]),
        ("give_up", False, ["mail.send"]),
        ("retry", True, ["mail.send", "mail.send"]),
    ],
)
async def test_a_person_has_four_choices(tmp_path: Path, how: str, choice: str, ok: bool, tools: list[str]) -> None:
    there = Mail(how=how)
    door = door_of(there, [])
    async with open_runs(tmp_path) as runs:
        waiting = await lost(runs, there, door)
        assert isinstance(waiting, Waiting)
        await runs.decide(waiting.action, choice)
        end = await door(await runs.drive())
    assert isinstance(end, Called)
    assert (end.ok, there.tools) == (ok, tools)


@pytest.mark.parametrize("choice", ["retry", "not_done", "done", "give_up"])
async def test_a_word_by_which_it_may_be_sent_again_waits_until_nobody_else_sends_it(
    tmp_path: Path, choice: str
) -> None:
    there = Mail()
    door = door_of(there, options())
    async with open_runs(tmp_path) as runs:
        other, until = Elsewhere(tmp_path, runs), runs.clock.at + 90
        with held(other.lock):
            await other.begin(door)
            asked = await door(await runs.drive())
            assert isinstance(asked, Waiting)
            assert asked.until is None
            said = "another process, which began it, is not dead and may still send it until 13:48:10 UTC"
            assert said in (await runs.store.action(asked.action)).reasons[1]
            await runs.decide(asked.action, choice)
            journal = await runs.drive()
            end = await door(journal)
            if choice in ("retry", "not_done"):
                assert (end, await journal.park(until)) == (Waiting(asked.action, until), True)
                assert await door(await runs.drive()) == end
                other.pass_deadline()
                end = await door(await runs.drive())
    assert isinstance(end, Called)
    assert there.tools == ["mail.send"] * (2 if choice == "retry" else 1)


async def test_a_retry_goes_out_at_once_where_the_other_process_is_dead(tmp_path: Path) -> None:
    there = Mail()
    door = door_of(there, options())
    async with open_runs(tmp_path) as runs:
        other = Elsewhere(tmp_path, runs)
        with held(other.lock):
            await other.begin(door, row=(77, "elsewhere"))
            asked = await door(await runs.drive())
            assert isinstance(asked, Waiting)
            assert "process 77, which" in (await runs.store.action(asked.action)).reasons[1]
            await runs.decide(asked.action, "retry")
        # Of a process on another machine only the deadline tells.
        assert isinstance(await door(await runs.drive()), Waiting)
        await runs.store.database.write("by_hand", lambda tx: tx.change("DELETE FROM leases"))
        assert isinstance(await door(await runs.drive()), Called)
    assert there.tools == ["mail.send", "mail.send"]


async def test_a_call_begun_before_the_settings_named_its_key_is_not_repeated(tmp_path: Path) -> None:
    there = Mail()
    async with open_runs(tmp_path) as runs:
        with pytest.raises(Killed):
            await door_of(there, [])(await runs.drive())
        assert isinstance(await door_of(there, options(idempotency_key="key"))(await runs.drive()), Waiting)
    assert there.tools == ["mail.send"]


async def test_a_key_given_by_a_model_is_replaced_and_it_is_not_asked_for_one(tmp_path: Path) -> None:
    there = Mail(losses=0)
    keyed = replace(
        SEND,
        filled="key",
        input_schema={"properties": {"to": {}, "key": {}}, "required": ["to", "key"], "additionalProperties": False},
    )
    assert keyed.open_schema == {"properties": {"to": {}}, "required": ["to"], "additionalProperties": False}
    assert SEND.open_schema is SEND.input_schema
    door = there.door(keyed, servers=options(idempotency_key="key"), policy={"rules": [{"ask": "mail.send"}]})
    own = call("mail.send", TO | {"key": "mine"})
    async with open_runs(tmp_path) as runs:
        asked = await door(await runs.drive(), replace(own, arguments=Arguments(own.arguments.data, PLAN)))
        assert isinstance(asked, Waiting)
        action = await runs.decide(asked.action, "approve")
        await door(await runs.drive(), own)
    key = f"{runs.run_id}:a:attempt.1/call.0"
    assert (action.arguments, there.sent) == (TO | {"key": key}, [("mail.send", TO | {"key": key})])
    assert f'"key": "{key}"' in action.question


async def test_a_call_that_waited_for_others_is_given_a_new_deadline_and_none_once_it_is_fenced(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        began, outs = runs.clock.at, list[Outgoing]()
        there.answer = lambda out: outs.append(out) or text_result("fine")  # type: ignore[func-returns-value]
        slow = [ServerSettings(name="mail", transport="stdio", command="x", options=ServerOptions(call_timeout=40))]
        await door_of(there, slow)(await runs.drive())
        (intent,) = await runs.store.intents(runs.run_id)
        assert (intent.driver, intent.deadline, intent.sends) == ("me", began + 70, 1)
        runs.clock.at += 31
        leave = await outs[0].leave()
        assert (await runs.store.intents(runs.run_id))[0].deadline == began + 71
        runs.clock.at += 15
        assert leave()
        runs.clock.at += 1
        assert not leave()
        await runs.drive()
        with pytest.raises(Fenced):
            await outs[0].leave()
