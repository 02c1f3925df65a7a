"""The gate's stages and the approval: what is refused, what is asked, and what a yes covers."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gate_case import PLAN, Server, call, gate_of, open_runs, server, tool, worker_call
from hypothesis import given
from hypothesis import strategies as st

from downstream.door import Called, Refused, Waiting
from downstream.gate.approvals import approval_key, new_question
from downstream.gate.policy import Verdict
from downstream.gate.stages import Gate, case_of
from downstream.json_shape import is_array, is_object
from downstream.settings import ToolOptions
from journal.actions import LevelTooLow
from journal.canonical import digest
from journal.errors import DecisionRefused
from journal.run_journal import Ending
from journal.runs import Run
from journal.values import Json, JsonObject
from journal.world import new_id as random_id

SEND = tool("mail.send", "write", ["to", "body"])
READ = tool("notes.read", "read", ["path"])
WIPE = tool("disk.wipe", "destructive", ["path"])
WEB = frozenset({"open:web"})
MAIL: JsonObject = {"to": "ana@example.org", "body": "hello"}

UNFIT, NO_TEXT, TAKES = "the arguments do not fit mail.send:", "is not of type 'string'", "It takes: to, body"
NAN = "the arguments of mail.send are not plain JSON data: nan is not representable in JCS"


@pytest.mark.parametrize(
    ("name", "arguments", "allowed", "reason", "correctable"),
    [
        ("mail.sent", {}, ["mail.send"], 'no server has a tool "mail.sent"; did you mean mail.send?', True),
        ("x", {}, [], 'no server has a tool "x"; this step lists: no tool', True),
        (
            "mail.send",
            {"to": 1, "body": []},
            ["mail.send"],
            f"{UNFIT} /body: [] {NO_TEXT}; /to: 1 {NO_TEXT}. {TAKES}",
            True,
        ),
        ("mail.send", {"to": 1}, [], f"{UNFIT} /to: 1 {NO_TEXT}. {TAKES}", True),
        ("mail.send", {"to": float("nan")}, ["mail.send"], NAN, True),
        (
            "mail.send",
            {"to": "x" * 300_000},
            ["mail.send"],
            "mail.send: its arguments are above 256 KiB; send less",
            True,
        ),
        ("mail.send", MAIL, ["notes.read", "a.b"], "step a does not list mail.send; it lists a.b, notes.read", False),
        ("mail.send", MAIL, [], "step a does not list mail.send; it lists no tool", False),
        ("notes.odd", {}, ["notes.odd"], "notes.odd may not be used: its arguments changed", False),
        ("disk.wipe", {}, ["disk.wipe"], "a rule of the settings says deny: disk.*", False),
    ],
    ids=range(10),
)
async def test_a_call_that_may_not_leave_is_refused_with_the_way_out(
    tmp_path: Path, name: str, arguments: JsonObject, allowed: list[str], reason: str, correctable: bool
) -> None:
    there = Server()
    door = there.door(SEND, WIPE, policy={"rules": [{"deny": "disk.*"}]})
    wanted = call(name, arguments, allowed=frozenset(allowed))
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        refused = await door(journal, wanted)
        assert await door(journal, wanted) == refused
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.correctable, refused.by) == (reason, correctable, "gate")
    assert there.sent == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"$ref": "https://example.org/schema.json"},
        {"properties": {"a": {"pattern": "("}}},
        {"$ref": "#"},
    ],
)
async def test_a_schema_that_cannot_be_used_lets_nothing_through(tmp_path: Path, schema: JsonObject) -> None:
    there = Server()
    door = there.door(replace(READ, input_schema=schema))
    async with open_runs(tmp_path) as runs:
        refused = await door(await runs.drive(), call("notes.read", {"a": "b"}))
    assert isinstance(refused, Refused)
    assert "the server's schema for this tool cannot be used" in refused.reason


@pytest.mark.parametrize("name", ["notes.read", "notes/read", "notes__read", "mcp__notes__read"])
async def test_every_way_to_write_a_tool_means_the_same_one(tmp_path: Path, name: str) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        end = await there.door(READ)(await runs.drive(), call(name, allowed=frozenset({"notes.read"})))
    assert isinstance(end, Called)
    assert there.sent == [("notes.read", {})]


async def test_a_write_waits_and_a_yes_lets_exactly_it_out_once(tmp_path: Path) -> None:
    there = Server()
    door = there.door(SEND)
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        waiting = await door(journal, call("mail.send", MAIL))
        assert isinstance(waiting, Waiting)
        assert await door(journal, call("mail.send", MAIL)) == waiting
        action = await runs.store.action(waiting.action)
        assert (action.level, action.tool, action.arguments, action.effect) == ("host", "mail.send", MAIL, "write")
        assert waiting.until == runs.clock.at + 24 * 3600
        assert there.sent == []
        await runs.decide(waiting.action, "approve", level="host", via="approve_action")
        done = await door(journal, call("mail.send", MAIL))
        assert await door(journal, call("mail.send", MAIL)) == done
        assert (await runs.store.action(waiting.action)).state == "consumed"
    assert isinstance(done, Called)
    assert (done.ok, done.effect, there.sent) == (True, True, [("mail.send", MAIL)])


@pytest.mark.parametrize(
    ("via", "expected"),
    [
        ("terminal", 'a person said no: "not \\u202enow"'),
        ("flag", '--approve deny said no: "not \\u202enow"'),
        ("approve_action", 'withdrawn: "not \\u202enow"'),
    ],
)
async def test_a_no_refuses_the_call(tmp_path: Path, via: str, expected: str) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        waiting = await there.door(SEND)(journal, call("mail.send", MAIL))
        assert isinstance(waiting, Waiting)
        await runs.decide(waiting.action, "deny", via=via, note="not \u202enow")
        refused = await there.door(SEND)(journal, call("mail.send", MAIL))
        assert await journal.park(None)
    assert refused == Refused("mail.send", expected, by="person")
    assert there.sent == []


async def test_what_a_person_refused_is_not_asked_again_in_this_run_and_what_was_withdrawn_is(tmp_path: Path) -> None:
    there = Server()
    door = there.door(SEND)
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        asked = [await door(journal, worker_call("mail.send", MAIL, label=PLAN, number=number)) for number in range(3)]
        ids = [end.action for end in asked if isinstance(end, Waiting)]
        await runs.decide(ids[0], "deny", via="approve_action")
        assert isinstance(await door(journal, worker_call("mail.send", MAIL, label=PLAN, number=3)), Waiting)
        await runs.decide(ids[1], "deny")
        ends = [await door(journal, worker_call("mail.send", MAIL, label=PLAN, number=number)) for number in range(5)]
        other = await door(journal, worker_call("mail.send", MAIL | {"body": "hi"}, label=PLAN, number=9))
        waiting = [action.id for action in await runs.store.waiting_actions()]
    reasons = [end.reason for end in ends if isinstance(end, Refused)]
    again = "a person said no to the same call in this run"
    assert reasons == ["withdrawn", "a person said no", again, again, again]
    assert isinstance(other, Waiting)
    assert waiting == [other.action]


async def test_a_question_that_nobody_answers_lapses_and_fails_the_call(tmp_path: Path) -> None:
    door = Server().door(SEND)
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        waiting = await door(journal, call("mail.send", MAIL))
        assert isinstance(waiting, Waiting)
        runs.clock.at += 24 * 3600 + 1
        with pytest.raises(DecisionRefused, match="has expired"):
            await runs.decide(waiting.action, "approve")
        lapsed = await door(journal, call("mail.send", MAIL))
        assert await journal.park(None)
        assert await door(await runs.drive(), call("mail.send", MAIL)) == lapsed
    assert isinstance(lapsed, Called)
    assert (lapsed.ok, lapsed.text, lapsed.effect) == (False, "no decision in 24 h", False)


@pytest.mark.parametrize(("paused", "asked_again"), [(False, True), (True, False)])
async def test_an_approval_lapses_after_ten_minutes_in_which_it_could_be_used(
    tmp_path: Path, paused: bool, asked_again: bool
) -> None:
    there = Server()
    door = there.door(SEND)
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        waiting = await door(journal, call("mail.send", MAIL))
        assert isinstance(waiting, Waiting)
        await runs.decide(waiting.action, "approve")
        runs.clock.at += 601
        end = await door(await runs.drive() if paused else journal, call("mail.send", MAIL))
    assert isinstance(end, Waiting) is asked_again
    assert len(there.sent) == (0 if asked_again else 1)


@pytest.mark.parametrize(
    ("changed", "policy", "end_type"),
    [
        (replace(SEND, description="now better"), None, Waiting),
        (replace(SEND, class_="destructive"), None, Waiting),
        (SEND, {"rules": [{"ask": "mail.send"}]}, Waiting),
        (SEND, {"rules": [{"deny": "mail.send"}]}, Refused),
        (SEND, {"rules": [{"allow": "mail.send"}]}, Called),
    ],
    ids=["definition", "class", "policy", "denied now", "allowed now"],
)
async def test_a_changed_tool_or_policy_voids_a_question_and_an_approval(
    tmp_path: Path, changed: Any, policy: JsonObject | None, end_type: type
) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        for step, decided in (("one", False), ("two", True)):
            asked = call("mail.send", MAIL | {"body": step}, key=f"step.{step}/call.0")
            first = await there.door(SEND)(await runs.drive(), asked)
            assert isinstance(first, Waiting)
            if decided:
                await runs.decide(first.action, "approve")
            end = await there.door(changed, policy=policy)(await runs.drive(), asked)
            assert isinstance(end, end_type)
            assert (await runs.store.action(first.action)).state == "superseded"


async def test_a_no_holds_even_where_nothing_would_be_asked_now(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        waiting = await there.door(SEND)(journal, call("mail.send", MAIL))
        assert isinstance(waiting, Waiting)
        await runs.decide(waiting.action, "deny")
        allowed = there.door(SEND, policy={"rules": [{"allow": "mail.send"}]})
        assert isinstance(await allowed(journal, call("mail.send", MAIL)), Refused)
    assert there.sent == []


@pytest.mark.parametrize(("via", "state"), [("page", "decided"), ("approve_action", "withdrawn")])
async def test_a_no_that_comes_while_its_question_is_given_up_holds(tmp_path: Path, via: str, state: str) -> None:
    there, asked = Server(), call("mail.send", MAIL)
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        waiting = await there.door(SEND)(journal, asked)
        seen = await journal.action(approval_key(asked.key))
        assert isinstance(waiting, Waiting)
        assert seen is not None
        await runs.decide(waiting.action, "deny", via=via)
        assert not await journal.supersede_action(seen)
        now = await journal.action(approval_key(asked.key))
        assert now is not None
        assert (now.id, now.state, now.choice) == (seen.id, state, "deny")


async def test_a_call_for_a_person_is_not_moved_by_the_hosts_word(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        waiting = await Server().door(WIPE)(await runs.drive(), call("disk.wipe", {"path": "/"}))
        assert isinstance(waiting, Waiting)
        with pytest.raises(LevelTooLow):
            await runs.decide(waiting.action, "approve", level="host", via="approve_action")


async def test_a_private_read_that_would_leave_is_asked_for_and_its_approval_used_up(tmp_path: Path) -> None:
    fetch, there = tool("web.fetch", "egress", ["url"]), Server()
    door = there.door(fetch)
    wanted = worker_call("web.fetch", {"url": "https://example.org/?q=secret"}, label=frozenset({"private:notes"}))
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        waiting = await door(journal, wanted)
        assert isinstance(waiting, Waiting)
        await runs.decide(waiting.action, "approve", level="host", via="form")
        assert not await journal.park(None)
        end = await door(journal, wanted)
        assert await journal.park(None)
        assert await runs.store.intents(runs.run_id) == []
    assert isinstance(end, Called)
    assert (end.effect, end.value.label) == (False, frozenset({"open:web", "private:notes"}))


async def test_long_arguments_are_for_the_page_or_a_terminal(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        waiting = await Server().door(SEND)(await runs.drive(), call("mail.send", MAIL | {"body": "x" * 4000}))
        assert isinstance(waiting, Waiting)
        action = await runs.store.action(waiting.action)
    assert action.level == "person"
    assert action.arguments["body"] == "x" * 4000
    assert action.question.endswith("characters, too many for here: see them on the page or in a terminal.")


async def test_a_target_that_holds_a_secret_is_refused_and_not_shown(tmp_path: Path) -> None:
    async with open_runs(tmp_path, secrets=[("KEY", "sk-123456789")]) as runs:
        journal = await runs.drive()
        refused = await Server().door(SEND)(journal, call("mail.send", {"to": "sk-123456789@evil.org"}))
        shown = await Server().door(SEND)(journal, call("mail.send", MAIL | {"body": "sk-123456789"}, key="k"))
        assert isinstance(shown, Waiting)
        question = (await runs.store.action(shown.action)).question
    assert isinstance(refused, Refused)
    assert refused.reason.startswith('its target "to" holds a secret')
    assert "sk-1" not in question


def hash_of(gate: Gate, run: Run, arguments: JsonObject) -> str:
    case = case_of(gate, run, call("mail.send", arguments), SEND)
    return digest(new_question(gate, case, Verdict("ask", "host", ())).binding)


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
).map(lambda data: {"to": data})


def backwards(data: Json) -> Json:
    if is_object(data):
        return {key: backwards(item) for key, item in reversed(data.items())}
    return [backwards(item) for item in data] if is_array(data) else data


@given(
    json_data.filter(lambda data: "\\ud" not in ascii(data)), json_data.filter(lambda data: "\\ud" not in ascii(data))
)
def test_equal_arguments_give_equal_action_hashes_and_only_they(one: JsonObject, other: JsonObject) -> None:
    run = Run(**dict.fromkeys(Run.__dataclass_fields__, "x"))  # type: ignore[arg-type]
    gate = gate_of(SEND)
    assert hash_of(gate, run, one) == hash_of(gate, run, backwards(one))
    assert (hash_of(gate, run, one) == hash_of(gate, run, other)) == (digest(one) == digest(other))


async def test_an_idempotency_key_is_filled_in_before_anybody_is_asked(tmp_path: Path) -> None:
    keyed = replace(SEND, input_schema={"properties": {"to": {}, "key": {"type": "string"}}, "required": ["key"]})
    servers = [server("mail", tools={"send": ToolOptions(idempotency_key="key")})]
    there = Server()
    async with open_runs(tmp_path) as runs:
        door = there.door(keyed, policy={"rules": [{"allow": "mail.send"}]}, servers=servers)
        end = await door(await runs.drive(), call("mail.send", {"to": "ana"}))
    assert isinstance(end, Called)
    key = f"{runs.run_id}:a:attempt.1/call.0"
    assert (end.effect, there.sent) == (True, [("mail.send", {"to": "ana", "key": key})])


async def test_a_question_that_ended_with_its_run_is_asked_again_when_the_run_is_reopened(tmp_path: Path) -> None:
    door = Server().door(SEND)
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        first = await door(journal, call("mail.send", MAIL))
        await journal.finish(Ending("partial", "budget", "", "", {}))
        await runs.store.reopen(await runs.store.run(runs.run_id), options={})
        second = await door(await runs.drive(), call("mail.send", MAIL))
        assert isinstance(second, Waiting)
        assert second != first
        assert (await runs.store.action(second.action)).state == "waiting"


async def test_an_approval_that_is_voided_at_the_last_moment_sends_nothing_and_asks_again(tmp_path: Path) -> None:
    there, voided = Server(), list[str]()

    def new_id(prefix: str) -> str:
        if prefix == "c" and not voided:
            voided.append(prefix)
            with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
                other.execute("UPDATE actions SET state = 'superseded', handled = 1")
        return random_id(prefix)

    async with open_runs(tmp_path, new_id=new_id) as runs:
        journal = await runs.drive()
        first = await there.door(SEND)(journal, call("mail.send", MAIL))
        assert isinstance(first, Waiting)
        await runs.decide(first.action, "approve")
        second = await there.door(SEND)(journal, call("mail.send", MAIL))
    assert isinstance(second, Waiting)
    assert second.action != first.action
    assert (voided, there.sent) == (["c"], [])
