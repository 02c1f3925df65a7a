"""What a yes without a person could be about, and when: of every kind of action, from every origin, in every order.

The second part of the table of `test_self_approval.py`.
"""

import os
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from command_line import answered
from gate_case import Server, call, gate_of, open_runs, server, tool
from mcp_hosts import open_host
from page_visits import add_action
from products import STATE_KEY, call_step, script, write_settings
from self_approval import (
    HOST,
    LEVELS,
    RAISED,
    REFUSED,
    Room,
    Table,
    audit_holds,
    exact,
    open_room,
    open_table,
    word,
    yeses,
)
from self_approval_races import MAIL, SEND, Race, may_send, open_race, orders

from downstream.door import Refused, Waiting
from downstream.gate.calls import ToolDoor
from journal.actions import CHOICES, SAYS_NO, ActionKind, Decision, LevelTooLow, decide
from journal.database import Transaction
from journal.runs import request_cancel
from server.host.mcp_server import build_host_server
from server.product import Product
from server.settings import Found, load_settings


@pytest.fixture(scope="module")
def table() -> Generator[Table]:
    with open_table("what a yes was about, and when") as rows:
        yield rows


@pytest.mark.e2e
async def test_of_every_kind_a_host_decides_what_its_level_says(tmp_path: Path, table: Table) -> None:
    kinds: list[ActionKind] = ["trust", "widen", "unknown", "budget"]
    async with open_room(tmp_path, table, LEVELS["host"]) as room, room.host() as host:
        (plan,) = await room.start(host, review_plan=True)
        run_id = (await room.product.store.action(plan["action_id"])).run
        for kind in kinds:
            asked: Any = {"kind": kind, "level": "person", "arguments": {"what": kind}, "key": kind, "subject": kind}
            action = await add_action(room.product, run_id, **asked)
            said = {"action_id": action.id, "arguments": action.arguments}
            for choice in [choice for choice in CHOICES[kind] if choice not in SAYS_NO]:
                act = word(host, said | {"decision": choice})
                await room.tries(f"{kind}: {choice} with all repeated", RAISED, act, says="needs a yes of level person")
            if "approve" not in CHOICES[kind]:
                act = word(host, said | {"decision": "approve"})
                await room.tries(f"{kind}: approve", REFUSED, act, says="has no 'approve'; its choices")
        renamed = plan["arguments"]["steps"][0] | {"id": "kept"}
        for how, arguments in (("alone", None), ("with fewer steps", []), ("with a step renamed", [renamed])):
            act = word(host, exact(plan, arguments=arguments if arguments is None else {"steps": arguments}))
            await room.tries(f"plan: approve {how}", REFUSED, act, says="`arguments` repeated exactly")
        act = word(host, exact(plan, edited_arguments={"steps": []}))
        await room.tries("plan: edited", REFUSED, act, says="only calls that wait can be")
        await room.tries("plan: approve with all repeated exactly", HOST, word(host, exact(plan)))
        shape = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
        asked = {"server": "shop", "tool": "shop.order", "message": "Which?", "schema": shape}
        form = await add_action(room.product, run_id, kind="form", key="form", subject="form", arguments=asked)
        said = {"action_id": form.id, "decision": "submit", "arguments": asked, "content": {"size": 4}}
        for how, changed, says in (
            ("alone", {"arguments": None}, "`arguments` repeated exactly"),
            ("with other fields", {"arguments": asked | {"message": "Who?"}}, "`arguments` repeated exactly"),
            ("with nothing filled in", {"content": None}, "size"),
            ("filled in as it does not fit", {"content": {"size": "four"}}, "size"),
        ):
            await room.tries(f"form: submit {how}", REFUSED, word(host, said | changed), says=says)
        await room.tries(
            "form: submit, repeated and filled in by the host", HOST, word(host, said | {"wait_seconds": 0})
        )


GOAL = "Write to eve@evil.example, as the page said."
ORIGINS: dict[str, tuple[Any, str, str]] = {
    "planned": ({"key": "eve@evil.example"}, "host", "a recipient in the goal, written by the planner"),
    "read": ({"key": {"$step": "note.value"}}, "host", "a recipient that was read and stands in the goal"),
    "other": ({"key": {"$step": "page.value"}}, "person", "a recipient that was read and is not in the goal"),
    "part": ({"key": {"$step": "half.value"}}, "person", "a recipient that is part of one in the goal"),
    "told": ({"key": "described"}, "person", "a recipient that stands in a tool's description"),
}
CLIENT = "test-host"
ITEMS = {"note": "eve@evil.example", "page": "mallory@evil.example", "half": "evil.example"}


@pytest.mark.e2e
async def test_a_host_vouches_for_its_goal_and_for_nothing_that_was_read(tmp_path: Path, table: Table) -> None:
    reads = [call_step(name, "ledger.read_item", key=name) for name in ITEMS]
    steps = [call_step(name, "ledger.add_item", **given, value=name) for name, (given, _, _) in ORIGINS.items()]
    async with open_room(tmp_path, table, *reads, *steps, items=ITEMS) as room, room.host() as host:
        actions = {action["step"]: action for action in await room.start(host, GOAL)}
        assert {name: action["level"] for name, action in actions.items()} == {
            name: level for name, (_, level, _) in ORIGINS.items()
        }
        for name, (_, level, what) in ORIGINS.items():
            by_host = level == "host"
            act = word(host, exact(actions[name], wait_seconds=0))
            says = "" if by_host else "needs a yes of level person"
            await room.tries(what, HOST if by_host else RAISED, act, says=says, calls=int(by_host))
        assert {recipient["key"] for _, recipient in room.calls()} == {"eve@evil.example"}


@pytest.mark.e2e
async def test_after_a_no_and_after_the_end_nothing_is_approved(tmp_path: Path, table: Table) -> None:
    steps = [call_step(f"keep{number}", "ledger.add_item", key=str(number), value="b") for number in range(6)]
    async with open_room(tmp_path, table, *steps) as room, room.host() as host, room.host("modern") as other:
        store, actions = room.product.store, await room.start(host)
        own, store.owner = store.owner, "somebody"
        act = word(host, exact(actions[0]))
        await room.tries("host: approve what is somebody else's", REFUSED, act, says="no action")
        store.owner = own
        act = word(host, exact(actions[0], action_id="a_" + "a" * 26))
        await room.tries("host: approve an id that was guessed", REFUSED, act, says="no action")

        async def both() -> str:
            async with anyio.create_task_group() as group:
                for each in (host, other):
                    group.start_soon(each.call, "approve_action", exact(actions[0], wait_seconds=0))
            return "of two hosts that approve at once one counts"

        await room.tries("host: two approve at once, one of each protocol", HOST, both, calls=1)
        await host.call("approve_action", {"action_id": actions[1]["action_id"], "decision": "deny"})
        act = word(host, exact(actions[1]))
        await room.tries("host: approve what it withdrew", REFUSED, act, says="is withdrawn already, once and for all")
        for action in actions[2:4]:
            await room.product.decide(await store.action(action["action_id"]), Decision("deny", "person", "page"))
        act = word(host, exact(actions[2]))
        await room.tries("host: approve what a person refused", REFUSED, act, says="is decided (deny) already")
        late = partial(_too_late, room, actions[5])
        await room.tries("host: approve once the run was to be cancelled", HOST, late, says="ended as cancelled")
        act = word(host, exact(actions[4]))
        await room.tries("host: approve after the run was cancelled", REFUSED, act, says="is withdrawn already")
        assert [arguments["key"] for _, arguments in room.calls()] == ["0"]


async def _too_late(room: Room, action: Any) -> str:
    """A wish to cancel and a yes in one transaction: nothing can come between."""
    store = room.product.store
    last, (run,) = await store.action(action["action_id"]), await store.runs()
    yes = Decision("approve", "host", "form", client=CLIENT)

    def change(tx: Transaction) -> None:
        assert request_cancel(tx, run, "enough", at=store.world.now())
        decide(tx, last, yes, world=store.world, outlet=store.outlet)

    await store.database.write("both", change)
    await room.product.engine.wake(run.id)
    ended = await room.product.until(run.id, lambda run: run.ended)
    return f"the run ended as {ended.status}; the yes stands in its record and was not used"


@pytest.mark.e2e
async def test_three_noes_of_a_person_in_a_row_end_what_could_be_approved(tmp_path: Path, table: Table) -> None:
    steps = [call_step(f"keep{number}", "ledger.add_item", key=str(number), value="b") for number in range(4)]
    async with open_room(tmp_path, table, *steps) as room, room.host() as host:
        *refused, left = await room.start(host)
        for action in refused:
            one = await room.product.store.action(action["action_id"])
            await room.product.decide(one, Decision("deny", "person", "page"))
        run = await room.product.until((await room.product.store.runs())[0].id, lambda run: run.ended)
        assert (run.stop_reason, room.calls()) == ("refused", [])
        act = word(host, exact(left))
        await room.tries(
            "host: approve the fourth after three noes of a person", REFUSED, act, says="is withdrawn already"
        )


@pytest.mark.e2e
async def test_no_other_name_of_a_tool_approves(tmp_path: Path, table: Table) -> None:
    async with open_room(tmp_path, table, LEVELS["person"]) as room, room.host() as host:
        (action,) = await room.start(host)
        for name in ("approve", "decide_action", "steprelay.approve_action", "mcp__steprelay__approve_action"):
            act = partial(host.call, name, exact(action))
            await room.tries(f"person: by a tool {name!r}", REFUSED, act, says="steprelay has no tool")


def test_a_shell_without_a_person_approves_nothing(tmp_path: Path, table: Table) -> None:
    config = write_settings(tmp_path, script=script())
    ended = answered("approve", "a_x", "--choice", "approve", "--config", str(config), cwd=tmp_path)
    assert ended.returncode == 2
    assert "approve needs a person at a terminal" in ended.stderr
    table.add("person: `steprelay approve` through pipes", REFUSED, text=ended.stderr)


async def test_one_rule_that_does_not_hold_stops_every_yes(tmp_path: Path, table: Table) -> None:
    rules = {"policy": {"rules": [{"deny": "ledger.drop_item"}, {"alow": "ledger.*"}]}}
    config = write_settings(tmp_path, script=script(), settings=rules)

    async def ready() -> Product:
        load_settings(Found(config, "option"), environ=os.environ, lenient=True)
        raise AssertionError

    async with open_host(build_host_server(ready, state_key=STATE_KEY)) as host:
        result = await host.call("approve_action", {"action_id": "a_x", "decision": "approve"})
    assert result.is_error
    told = str(getattr(result.content[0], "text", ""))
    assert "alow" in told
    table.add("host: approve under settings with one broken rule", REFUSED, text=told)


HIDING: dict[str, Any] = {
    "a line that looks like another argument": ('ana"\n"to": "bob', r"\n"),
    "a sign that turns the line round": ("ana\u202egro.elpmaxe", r"\u202e"),
    "a sign that is not seen": ("ana\u200b@example.org", r"\u200b"),
    "a command that clears a terminal": ("\x1b[2Jana", r"\u001b"),
    "tabs that push it out of sight": ("ana" + "\t" * 9 + "bob", r"\t\t\t"),
}


@pytest.mark.parametrize("how", HIDING)
async def test_what_is_approved_hides_nothing(tmp_path: Path, table: Table, how: str) -> None:
    value, shown = HIDING[how]
    async with open_runs(tmp_path) as runs:
        journal, sender = await runs.drive(), Server()
        waiting = await sender.door(SEND)(journal, call("mail.send", {"to": value}))
        assert isinstance(waiting, Waiting)
        question = (await runs.store.action(waiting.action)).question
    assert (shown in question, question.count("\n"), sender.sent) == (True, 1, [])
    assert question.replace("\n", "").isprintable()
    table.add(f"a worker: a recipient with {how}", RAISED, text=question)


@pytest.mark.parametrize(
    ("what", "text", "target", "said"),
    [
        ("too long for a host to show", "long " * 900, "/text", None),
        ("that nobody could be shown, as it holds a secret", "canary-secret-1", "/text", "holds a secret"),
    ],
)
async def test_what_a_host_cannot_show_it_cannot_approve(
    tmp_path: Path, table: Table, what: str, text: str, target: str, said: str | None
) -> None:
    post = tool("mail.post", "write", ["text"])
    async with open_runs(tmp_path, secrets=[("KEY", "canary-secret-1")]) as runs:
        sender = Server()
        door = sender.door(post, policy={"sinks": {"mail.post": [target]}})
        end = await door(await runs.drive(), call("mail.post", {"text": text}))
        if said is None:
            assert isinstance(end, Waiting)
            action = await runs.store.action(end.action)
            with pytest.raises(LevelTooLow) as caught:
                await runs.decide(action.id, "approve", level="host", via="approve_action")
            told = f"{action.question} ({caught.value})"
        else:
            assert isinstance(end, Refused)
            assert said in end.reason
            told = end.reason
    assert sender.sent == []
    table.add(f"a worker: arguments {what}", RAISED if said is None else REFUSED, text=told)


DENIED = {"rules": [{"deny": "mail.send"}]}
CHANGED: dict[str, tuple[Any, Any, str | None]] = {
    "the tool's definition changed": (replace(SEND, description="Also to everybody who ever wrote."), None, None),
    "the tool's class changed": (tool("mail.send", "destructive", ["to"]), None, None),
    "the settings ask for a person now": (SEND, {"rules": [{"ask": "mail.send", "via": "person"}]}, None),
    "another rule asks for it now": (SEND, {"rules": [{"ask": "mail.*"}]}, None),
    "a rule denies it now": (SEND, DENIED, "a rule of the settings says deny"),
}


@pytest.mark.parametrize("how", CHANGED)
async def test_a_yes_is_void_once_what_it_was_given_for_has_changed(tmp_path: Path, table: Table, how: str) -> None:
    changed, policy, refusal = CHANGED[how]
    async with open_runs(tmp_path) as runs:
        race = await open_race(runs)
        await race.go(["yes"])
        gate = gate_of(changed, policy=policy, servers=[server("mail")])
        end = await ToolDoor(gate, race.server.send)(race.journal, MAIL)
        old, said = await runs.store.action(race.action.id), await yeses(runs.store)
        text = await _end(race, end)
    assert (race.server.sent, old.state) == ([], "superseded")
    assert isinstance(end, Refused if refusal else Waiting)
    assert (refusal or "") in text
    table.add(f"host: a yes, then {how}", REFUSED if refusal else RAISED, yeses=said, text=text)


async def _end(race: Race, end: Any) -> str:
    if isinstance(end, Waiting):
        action = await race.runs.store.action(end.action)
        return f"asked again (level {action.level}): {action.question}"
    return str(end.reason)


async def test_the_same_call_is_not_asked_for_again_after_a_persons_no(tmp_path: Path, table: Table) -> None:
    async with open_runs(tmp_path) as runs:
        race = await open_race(runs)
        await race.go(["no", "send"])
        again = await race.door(race.journal, replace(MAIL, key="step.b@1/attempt.1/call.0"))
        assert isinstance(again, Refused)
        assert len(await runs.store.actions(race.runs.run_id)) == 1
    assert "a person said no to the same call in this run" in again.reason
    table.add("a worker: the same call again after a person's no", REFUSED, text=again.reason)


async def test_a_yes_covers_one_call_and_not_the_next_of_the_same_tool(tmp_path: Path, table: Table) -> None:
    async with open_runs(tmp_path) as runs:
        race = await open_race(runs)
        await race.go(["yes", "send"])
        ends = [
            await race.door(race.journal, call("mail.send", {"to": to}, key=f"step.b@{number}/attempt.1/call.0"))
            for number, to in enumerate(["bob@example.org", "ana@example.org"])
        ]
        texts = [await _end(race, end) for end in ends]
    assert [type(end) for end in ends] == [Waiting, Waiting]
    assert len(race.server.sent) == 1
    for what, text in zip(("to somebody else", "to the same once more"), texts, strict=True):
        table.add(f"a worker: after a yes, the next call {what}", RAISED, text=text)


@pytest.mark.parametrize(
    ("tried", "actors", "number"),
    [
        ("approve racing cancel and the run's end", (["look", "yes"], ["cancel", "end"], ["send"]), 30),
        ("approve racing expiry", (["look", "yes"], ["expire"], ["send", "send"]), 30),
        ("approve racing a person's no", (["look", "yes"], ["no"], ["send", "send"]), 30),
        ("two hosts racing expiry", (["yes"], ["yes"], ["expire"], ["send"]), 24),
    ],
)
async def test_in_every_order_only_a_yes_in_time_sends_and_once(
    tmp_path: Path, table: Table, tried: str, actors: tuple[list[str], ...], number: int
) -> None:
    sent = count = 0
    async with open_runs(tmp_path) as runs:
        for order in orders(*actors):
            race = await open_race(runs)
            assert await race.go(order) == may_send(order), order
            assert len(race.decided) <= 1, order
            assert len(race.server.sent) <= race.decided.count("approve"), order
            sent, count = sent + len(race.server.sent), count + 1
        said = await yeses(runs.store)
        assert await audit_holds(runs.store)
    assert count == number
    assert {(yes["level"], yes["via"]) for yes in said} == {("host", "approve_action")}
    text = f"of {count} orders {len(said)} had a yes in time, {sent} sent the call, each once and after its yes"
    table.add(f"host: {tried}", HOST, calls=sent, yeses=said[:1], text=text)
