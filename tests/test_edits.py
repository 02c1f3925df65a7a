"""An edit of a waiting call is a new question; what is sent is what was edited, and its worker is told."""

from pathlib import Path

import pytest
from gate_case import Runs, Server, call, gate_of, open_runs, server, tool

from downstream.door import Called, Waiting
from downstream.gate.edits import EditRefused, edited_action
from journal.actions import Action, NewAction, create_action, supersede
from journal.database import Transaction
from journal.outlet import Outlet
from journal.values import JsonObject
from journal.world import World

SEND = tool("mail.send", "write", ["to", "body"])
MAIL: JsonObject = {"to": "ana@example.org", "body": "hello"}


async def test_an_edit_waits_as_a_new_action_and_is_sent_as_edited(tmp_path: Path) -> None:
    there = Server()
    gate, door = gate_of(SEND, servers=[server("mail")]), there.door(SEND, servers=[server("mail")])
    async with open_runs(tmp_path, goal="write to bob@example.org") as runs:
        journal = await runs.drive()
        waiting = await door(journal, call("mail.send", MAIL))
        assert isinstance(waiting, Waiting)
        old, run = await runs.store.action(waiting.action), await runs.store.run(runs.run_id)
        to_bob: JsonObject = {"to": "bob@example.org", "body": "hi"}
        new = await edited_action(gate, run, old, to_bob)
        assert (new.level, new.arguments, new.edit_of, new.reasons[-1]) == (
            "host", to_bob, old.id, "its arguments were edited",
        )  # fmt: skip
        edited = await replaced(runs.store.world, runs, old, new)
        assert await door(journal, call("mail.send", MAIL)) == Waiting(edited.id, edited.expires_at)
        await runs.decide(edited.id, "approve", level="host")
        end = await door(journal, call("mail.send", MAIL))
    assert isinstance(end, Called)
    assert there.sent == [("mail.send", to_bob)]
    assert end.text == (
        "A person changed the arguments of this call; do not send it again. It was sent with:\n"
        '"to": "bob@example.org"\n"body": "hi"\n\nfine'
    )


async def replaced(world: World, runs: Runs, old: Action, new: NewAction) -> Action:
    def change(tx: Transaction) -> Action:
        assert supersede(tx, old)
        return create_action(tx, old.run, new, world=world, outlet=Outlet())

    return await runs.store.database.write("edit", change)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"to": 5}, "do not fit mail.send"),
        ({"to": "eve@evil.org"}, "may not be called so: a rule of the settings says deny"),
        ({"to": "dan@example.org"}, None),
    ],
)
async def test_an_edit_passes_schema_policy_and_taint_again(
    tmp_path: Path, arguments: JsonObject, message: str | None
) -> None:
    policy = {"rules": [{"deny": "mail.send", "when": {"/to": {"glob": "*@evil.org"}}}, {"allow": "mail.send"}]}
    ask = {"rules": [{"ask": "mail.send"}]}
    async with open_runs(tmp_path) as runs:
        waiting = await Server().door(SEND, policy=ask)(await runs.drive(), call("mail.send", MAIL))
        assert isinstance(waiting, Waiting)
        old, run = await runs.store.action(waiting.action), await runs.store.run(runs.run_id)
        gate = gate_of(SEND, policy=policy)
        if message is None:
            assert (await edited_action(gate, run, old, arguments)).level == "person"
        else:
            with pytest.raises(EditRefused, match=message):
                await edited_action(gate, run, old, arguments)
        await runs.decide(old.id, "deny")
        with pytest.raises(EditRefused, match="has no arguments to edit"):
            await edited_action(gate, run, await runs.store.action(old.id), arguments)
