"""`runs show --actions`: what was asked, who decided it and how, and what was done, for a person and as JSON."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from command_line import called
from gate_case import Runs, Server, call, failing, open_runs, tool
from journals import rows
from stored_runs import stored_action, stored_run

from downstream.door import Waiting
from journal.actions import NewAction
from journal.archive.bundle import read_bundle
from journal.archive.transfer import About, collected, content_of, import_bundle, pieces
from journal.outlet import Outlet
from journal.store import open_store
from journal.world import World
from server.views.deeds import deed_lines, deeds_of

SEND = tool("mail.send", "write", ["to", "text"])
POST = tool("mail.post", "write", ["text"])
POLICY: Any = {"rules": [{"ask": "mail.send"}, {"allow": "mail.post"}]}
SECRET = "very-secret-1"


async def send(runs: Runs, there: Server, number: int, *words: str, via: str = "terminal", seconds: float = 14) -> str:
    """Have a call made that was asked about and decided; returns the action's id."""
    door = there.door(SEND, POST, policy=POLICY)
    asked = call("mail.send", {"to": "ana@example.org", "text": f"{SECRET} \u202e{number}"}, key=f"k.{number}")
    waiting = await door(await runs.drive(), asked)
    assert isinstance(waiting, Waiting)
    if words:
        runs.clock.at += seconds
        choice, note = (*words, None)[:2]
        await runs.decide(waiting.action, choice or "", level="host" if via == "form" else "person", via=via, note=note)
        await door(await runs.drive(), asked)
    runs.clock.at += 1
    return waiting.action


def asked(action: str, number: int, at: str) -> list[str]:
    return [
        f"{action}  call mail.send (write) of step a",
        f"  asked     1970-01-12T13:{at}Z, needs a yes of level host",
        "  because   a rule of the settings says ask: mail.send",
        '    "to": "ana@example.org"',
        f'    "text": "[secret:KEY] \\u202e{number}"',
    ]


async def test_a_person_reads_of_each_action_and_effect_what_it_was_who_decided_how_and_what_became_of_it(
    tmp_path: Path,
) -> None:
    async with open_runs(tmp_path, secrets=[("KEY", SECRET)]) as runs:
        there = Server()
        yes = await send(runs, there, 1, "approve", "go \x1b on")
        no = await send(runs, there, 2, "deny", via="page")
        by_host = await send(runs, Server(answer=failing("unsent")), 3, "approve", via="form", seconds=0.25)
        await there.door(POST, policy=POLICY)(await runs.drive(), call("mail.post", {"text": "hi"}, key="k.4"))
        runs.clock.at += 1
        waits = await send(runs, there, 5)
        calls = dict(await rows(runs.store, "SELECT key, call FROM intents"))
        lines = deed_lines(await deeds_of(runs.store, runs.run_id))

    assert lines == [
        *asked(yes, 1, "46:40.000"),
        "  decided   approve, by a person at a terminal, level person, 1970-01-12T13:46:54.000Z, after 14 s, "
        'saying "go \\u001b on"',
        f"  sent      1970-01-12T13:46:54.000Z: done after 0 ms ({calls['k.1']})",
        "",
        *asked(no, 2, "46:55.000"),
        "  decided   deny, by a person on the page, level person, 1970-01-12T13:47:09.000Z, after 14 s",
        "",
        *asked(by_host, 3, "47:10.000"),
        "  decided   approve, in a form of the host, level host, 1970-01-12T13:47:10.250Z, after 0.25 s",
        f"  sent      1970-01-12T13:47:10.250Z: failed, as the server said after 0 ms ({calls['k.3']})",
        "",
        f"{calls['k.4']}  call mail.post (write) of step a",
        "  allowed   by the settings: rule 1: allow mail.post",
        '    "text": "hi"',
        f"  sent      1970-01-12T13:47:11.250Z: done after 0 ms ({calls['k.4']})",
        "",
        *asked(waits, 5, "47:12.250"),
        "  decided   nobody has decided yet",
    ]


async def test_what_was_no_call_what_was_sent_twice_and_what_was_voided_are_told(tmp_path: Path) -> None:
    plan = NewAction("plan", "plan", "host", "Run it?", {"steps": [1]}, {}, "plan")
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        voided = await journal.ask(plan)
        await runs.decide(voided.id, "approve", via="approve_action")
        await journal.supersede_action(voided)
        await journal.ask(replace(plan, key="odd", arguments=["\x07"], edit_of=voided.id))
        await runs.store.database.write(
            "by hand",
            lambda tx: tx.change(
                "INSERT INTO intents (run, owner, key, call, step, tool, class, arguments, arguments_hash, state,"
                " epoch, begun_at, sends) VALUES (?, 'me', 'past/k', 'c_9', '', 'mail.send', 'write', '{}', '',"
                " 'unknown', 0, 0, 2)",
                (runs.run_id,),
            ),
        )
        deeds = await deeds_of(runs.store, runs.run_id)
    text = "\n".join(deed_lines(deeds))
    assert text.startswith("c_9  call mail.send (write)\n  allowed   in the run that this one continues\n")
    assert "  sent      1970-01-01T00:00:00.000Z, begun 2 times: nobody knows whether it ran (c_9)" in text
    assert f"{voided.id}  plan\n" in text
    assert '    "steps": [1]\n  decided   approve, by the host\'s word, level person, ' in text
    assert "after 0 s; it was not used, since another question took its place" in text
    assert f"  plan, an edit of {voided.id}\n" in text
    assert '    ["\\u0007"]\n' in text


def test_the_command_shows_them_in_words_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    run_id = anyio.run(stored_run)
    assert called("runs", "show", run_id, "--actions") == 0
    assert capsys.readouterr().out == "Nothing was asked in this run, and no call with an effect was made.\n"
    action = anyio.run(stored_action, run_id)
    assert called("deny", action.id) == 0
    capsys.readouterr()
    assert called("runs", "show", run_id, "--actions", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["run_id"], said["effects"]) == (run_id, [])
    [shown] = said["actions"]
    assert (shown["action_id"], shown["arguments"], shown["state"]) == (action.id, action.arguments, "decided")
    assert (shown["decision"]["choice"], shown["decision"]["via"], shown["decision"]["level"]) == (
        *("deny", "flag", "person"),
    )
    assert called("runs", "show", "r_none", "--actions") == 2


@pytest.mark.e2e
async def test_of_an_imported_run_what_it_brought_along_is_shown(tmp_path: Path) -> None:
    async with open_runs(tmp_path / "one", new_id=World().new_id) as runs:
        await send(runs, Server(), 1, "approve")
        here = await deeds_of(runs.store, runs.run_id)
        document = await collected(runs.store, runs.run_id, about=About([], {}))
        whole = "".join([piece async for piece in pieces(document, content_of(runs.store, runs.run_id))])
    async with open_store(tmp_path / "two.db", World(), Outlet(), owner="me") as store:
        run_id = await import_bundle(store, read_bundle(whole))
        there = await deeds_of(store, run_id)
    assert (there.actions, there.effects) == (here.actions, here.effects)
    assert here.effects[0]["reasons"] == ["a rule of the settings says ask: mail.send"]
