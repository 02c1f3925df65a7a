"""The read that the settings name tells what became of a call without an answer, or a person is asked."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gate_case import PLAN, call, open_runs, text_result, tool
from lost_calls import (
    ALLOW,
    FIND,
    NOTHING,
    OTHER,
    SEND,
    THERE,
    TO,
    Elsewhere,
    Killed,
    Mail,
    both,
    door_of,
    found,
    lost,
    options,
    verdicts,
)
from pydantic import ValidationError

from downstream.door import Called, Waiting
from downstream.gate.reconcile import MOST_SENDS, said_by
from downstream.policy_settings import Matcher
from downstream.reconcile_settings import Reconcile
from downstream.settings import ToolOptions
from downstream.tools import Tool
from journal.ledger import Limits
from journal.locks import held
from journal.values import Json, Value
from server.settings import Found, Settings, SettingsError, load_settings


@both
@pytest.mark.parametrize(
    ("found", "said", "tools"),
    [
        (THERE, "done", ["mail.send", "mail.find"]),
        (NOTHING, "not_done", ["mail.send", "mail.find", "mail.send"]),
        (OTHER, None, ["mail.send", "mail.find"]),
        (text_result("mails are down", is_error=True), None, ["mail.send", "mail.find"]),
    ],
    ids=["done", "not done", "no verdict", "an error"],
)
async def test_the_read_that_the_settings_name_decides_or_a_person_is_asked(
    tmp_path: Path, how: str, found: Json, said: str | None, tools: list[str]
) -> None:
    there = Mail(how=how, found=found)
    door = door_of(there, options(reconcile="mail.find"))
    async with open_runs(tmp_path) as runs:
        end = await lost(runs, there, door)
        (verdict,) = await verdicts(runs)
        run, journal = await runs.store.run(runs.run_id), await runs.drive()
        assert await door(journal) == end
        waiting = await runs.store.waiting_actions()
        assert (await journal.usage()).tool_calls == len(tools)
    assert there.tools == tools
    assert (verdict["tool"], verdict["by"], verdict["said"]) == ("mail.send", "mail.find", said)
    if said is None:
        assert isinstance(end, Waiting)
        assert (end.action, waiting[0].reasons[1][:9]) == (waiting[0].id, "mail.find")
        return
    assert isinstance(end, Called)
    assert (end.ok, waiting) == (True, [])
    if said == "done":
        assert (end.value.data, end.effect) == (None, True)
        assert end.text == "No answer came, and mail.find says that it was done; what it returned is not known."
    assert (
        f"mail.send gave no answer; mail.find says that it was {'done' if said == 'done' else 'not done'}, "
        in (run.warnings[0])
    )


async def test_a_call_that_is_lost_again_and_again_is_asked_about_in_the_end(tmp_path: Path) -> None:
    there = Mail(how="connection", found=NOTHING, losses=99)
    async with open_runs(tmp_path) as runs:
        end = await lost(runs, there, door_of(there, options(reconcile="mail.find")))
        assert isinstance(end, Waiting)
        assert "sent 3 times already" in (await runs.store.action(end.action)).reasons[1]
    assert there.tools == ["mail.send", "mail.find"] * MOST_SENDS


async def test_a_verdict_counts_also_where_the_process_died_right_after_it(tmp_path: Path) -> None:
    """The repeat dies too: its own loss is looked into anew."""
    there = Mail(found=NOTHING, losses=2)
    async with open_runs(tmp_path) as runs:
        end = await lost(runs, there, door_of(there, options(reconcile="mail.find")))
    assert isinstance(end, Called)
    assert there.tools == ["mail.send", "mail.find", "mail.send", "mail.find", "mail.send"]


@pytest.mark.parametrize(
    ("rule", "tools", "why"),
    [
        ("mail.gone", [SEND, FIND], "no server has it now"),
        ("mail.find", [SEND, replace(FIND, class_="write")], "is of class write, not read"),
        ("mail.find", [SEND, replace(FIND, input_schema={"required": ["id"]})], "may not be asked without a question"),
        ({"tool": "mail.find", "arguments": {"id": "/id"}}, [SEND, FIND], "needs an argument that the call did not"),
        ("web.find", [SEND, tool("web.find", "egress", ["to"])], "is of class egress, not read"),
    ],
    ids=["gone", "no read", "does not fit", "no such argument", "open world"],
)
async def test_a_read_that_cannot_tell_is_not_made_and_a_person_hears_why(
    tmp_path: Path, rule: Any, tools: list[Tool], why: str
) -> None:
    there = Mail()
    async with open_runs(tmp_path) as runs:
        end = await lost(runs, there, door_of(there, options(reconcile=rule), *tools))
        assert isinstance(end, Waiting)
        assert why in (await runs.store.action(end.action)).reasons[1]
    assert there.tools == ["mail.send"]


async def test_what_was_read_elsewhere_does_not_go_to_a_third_server_just_to_tell(tmp_path: Path) -> None:
    there, other = Mail(), tool("log.find", "read", ["to"])
    door = there.door(SEND, other, policy=ALLOW, servers=options(reconcile="log.find"))
    for label, asked in (({"private:notes"}, False), (PLAN, True)):
        secret = call("mail.send", TO, label=frozenset(label))
        there.sent, there.losses, there.found = [], 1, THERE
        async with open_runs(tmp_path / str(asked), goal="tell ana@example.org") as runs:
            with pytest.raises(Killed):
                await door(await runs.drive(), secret)
            end = await door(await runs.drive(), secret)
            actions = await runs.store.waiting_actions()
        assert there.tools == (["mail.send", "log.find"] if asked else ["mail.send"])
        assert isinstance(end, Called if asked else Waiting)
        assert [action.kind for action in actions] == ([] if asked else ["unknown"])


async def test_edited_arguments_count_as_read_anywhere_when_another_server_should_tell(tmp_path: Path) -> None:
    there, other = Mail(), tool("log.find", "read", ["to"])
    door = there.door(SEND, other, policy=ALLOW, servers=options(reconcile="log.find"))
    async with open_runs(tmp_path) as runs:
        with pytest.raises(Killed):
            await door(await runs.drive(), call("mail.send", TO))
        intents = 'UPDATE intents SET arguments = \'{"to": "eve@example.org"}\''
        await runs.store.database.write("by_hand", lambda tx: tx.change(intents))
        assert isinstance(await door(await runs.drive(), call("mail.send", TO)), Waiting)
    assert there.tools == ["mail.send"]


async def test_without_budget_for_the_read_a_person_is_asked(tmp_path: Path) -> None:
    there = Mail(found=THERE)
    async with open_runs(tmp_path) as runs:
        runs.limits = Limits(model_calls=10, tool_calls=1, tokens=1000, usd=1.0, usd_day=1.0, seconds=1000.0)
        end = await lost(runs, there, door_of(there, options(reconcile="mail.find")))
        assert isinstance(end, Waiting)
        assert "was not asked: the budget tool_calls" in (await runs.store.action(end.action)).reasons[1]
    assert there.tools == ["mail.send"]


@pytest.mark.parametrize(
    ("rule", "data", "said"),
    [
        ({}, {"to": "ana", "n": 1, "more": 2}, "done"),
        ({}, {"to": "ana", "n": True}, None),
        ({}, {"to": "ana and bob", "n": 1}, None),
        ({}, '[{"to": "ana", "n": 1}]', "done"),
        ({}, "ana 1", None),
        pytest.param({}, "[" * 200_000, None, id="deep"),
        ({}, "", "not_done"),
        ({"done": {"/id": {"equals": 7}}}, {"id": 7}, "done"),
        ({"done": {"/id": {"equals": 7}}}, {"id": 8}, None),
        ({"done": {"/id": {"equals": 7}}}, "", None),
        ({"done": {"/id": {"absent": False}}, "not_done": {"/id": {"absent": True}}}, {"x": 1}, "not_done"),
        ({"done": {"": {"prefix": "sent"}}, "not_done": {"": {"equals": "no"}}}, "sent at 5", "done"),
        ({"done": {"/a": {"equals": 1}}, "not_done": {"/b": {"equals": 1}}}, {"a": 1, "b": 1}, None),
        ({"done": {"/to": {"equals": "ana"}}}, {"to": ["bob", "ana"]}, "done"),
        ({"not_done": {"/to": {"equals": "none"}}}, {"to": ["none", "ana"]}, None),
        ({}, {"to": "ana", "n": 1, "x": float("nan")}, "done"),
    ],
)
def test_only_what_a_result_says_without_doubt_counts(rule: Any, data: Json, said: str | None) -> None:
    how = Reconcile.model_validate({"tool": "mail.find", **rule}, strict=False)
    end = Called("c_1", "mail.find", True, Value(data, PLAN), "", empty=data == "")
    assert said_by(how, {"to": "ana", "n": 1}, end) == said
    assert said_by(Reconcile(tool="mail.find"), {}, replace(end, value=Value({"x": 1}, PLAN), empty=False)) is None


async def test_the_settings_say_what_the_read_is_asked(tmp_path: Path) -> None:
    there = Mail(found=found({"id": 7}))
    asked = {"id": "/to", "box": "sent", "under": {"$literal": "/mail"}, "flags": {"new": True}}
    rule = Reconcile.model_validate({"tool": "mail.find", "arguments": asked, "done": {"/id": {"equals": 7}}})
    wide = tool("mail.find", "read", ["id", "box", "under"])
    async with open_runs(tmp_path) as runs:
        end = await lost(runs, there, door_of(there, options(reconcile=rule), SEND, wide))
    assert isinstance(end, Called)
    assert there.sent[1] == (
        "mail.find",
        {"id": "ana@example.org", "box": "sent", "under": "/mail", "flags": {"new": True}},
    )


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ({"tool": "mail.*"}, "stands for many tools"),
        ({"tool": "mail.find", "arguments": {"id": "/a~b"}}, "no JSON Pointer; write {\\$literal: /a~b}"),
        ({"tool": "mail.find", "done": {"id": {"equals": 1}}}, "or '' for the whole result"),
        ({"tool": "mail.find", "done": {}}, "at least 1"),
        ({"tool": "mail.find", "done": {"": {"absent": True}}, "not_done": {"": {"absent": True}}}, "neither ever"),
    ],
)
def test_a_rule_that_could_never_tell_is_refused(written: Any, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        ToolOptions.model_validate({"reconcile": written})


@pytest.mark.parametrize(("data", "tools"), [(THERE, []), (NOTHING, ["mail.send"])], ids=["done", "not done"])
async def test_nothing_is_reconciled_before_nobody_else_can_send_it(
    tmp_path: Path, data: Json, tools: list[str]
) -> None:
    there = Mail(found=data)
    door = door_of(there, options(reconcile="mail.find"))
    async with open_runs(tmp_path) as runs:
        other, until = Elsewhere(tmp_path, runs), runs.clock.at + 90
        with held(other.lock):
            await other.begin(door)
            asked = await door(await runs.drive())
            assert isinstance(asked, Waiting)
            assert (asked.until, there.tools) == (until, ["mail.send"])
            other.pass_deadline()
            end = await door(await runs.drive())
        assert (await runs.store.action(asked.action)).state == "superseded"
    assert isinstance(end, Called)
    assert there.tools == ["mail.send", "mail.find", *tools]


def loaded(folder: Path, rule: str) -> Settings:
    options = f"server_options: {{mail: {{tools: {{send: {{reconcile: {rule}}}}}}}}}"
    (folder / "steprelay.yaml").write_text(f"mcpServers: {{mail: {{command: x}}}}\n{options}\n")
    return load_settings(Found(folder / "steprelay.yaml", "option"), environ={})


def test_the_file_holds_a_name_or_more_and_a_server_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    (mail,) = loaded(tmp_path, "mail/find").servers
    assert mail.options.for_tool("send").how_to_reconcile == Reconcile(tool="mail.find")
    far = loaded(tmp_path, '{tool: log.find, arguments: {id: /to}, done: {"": {one_of: [a, b]}}}')
    assert far.servers[0].options.for_tool("send").how_to_reconcile == Reconcile(
        tool="log.find", arguments={"id": "/to"}, done={"": Matcher(one_of=("a", "b"))}
    )
    assert far.warnings == (
        "server_options.mail.tools.send.reconcile names server 'log', which is not in mcpServers; known are mail",
    )


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("5", "must be a map"),
        ("{tol: mail.find}", "unknown key 'tol' in server_options.mail.tools.send.reconcile; did you mean 'tool'?"),
        ("{tool: mail.find, done: {/id: {equal: 5}}}", "unknown key 'equal'"),
        ("send", "names no tool"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said_in_our_words(tmp_path: Path, rule: str, why: str) -> None:
    with pytest.raises(SettingsError) as error:
        loaded(tmp_path, rule)
    assert why in str(error.value)
