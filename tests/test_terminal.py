"""A person at a terminal decides: they see everything, what is unusual first, and nobody else can take their place."""

from pathlib import Path

import pytest
from command_line import open_terminal, steprelay
from stored_runs import action_now, settings_now, stored_action, stored_run

from journal.actions import Decision
from journal.world import World
from server.opened_store import open_settings_store
from server.terminal.asking import question_lines


async def test_a_question_shows_what_is_unusual_then_targets_then_every_argument_whole_and_escaped() -> None:
    arguments = {
        "note": "safe\u202etxt.exe",
        "body": "one\ntw\x1bo\n",
        "to": "ann@example.org",
        "list": [1, {"a": None}],
    }
    action = await stored_action(await stored_run(), arguments)
    lines = question_lines(action, now=action.created_at)
    assert lines[1].startswith("── destructive · needs a yes of level person ─")
    assert lines[2:-1] == [
        "Call mail.send (destructive) once, with exactly these arguments?",
        "",
        "  ! class destructive: it may destroy something",
        "",
        '  to    "ann@example.org"',
        '  note  "safe\\u202etxt.exe"',
        "  body  │ one",
        "        │ tw\\u001bo",
        "        │ ",
        '  list  [1, {"a": null}]',
        "",
        f"  step send · action {action.id} · {action.hash[:8]} · expires in 1:00:00",
    ]


@pytest.mark.e2e
@pytest.mark.parametrize("typed", ["approve", "a", "y", "yes"])
async def test_approve_in_a_terminal_records_a_decision_of_a_person(tmp_path: Path, typed: str) -> None:
    action = await stored_action(await stored_run())
    with open_terminal("approve", action.id, cwd=tmp_path) as terminal:
        shown = terminal.expect("approve, deny or later? ")
        terminal.send("\n")
        terminal.expect("approve, deny or later? ")
        terminal.send(f"{typed}\n")
        terminal.expect("Drive it here? [Y/n] ")
        terminal.send("n\n")
        code = terminal.end()
    now = await action_now(action.id)
    assert (code, now.state, now.choice, now.decided_level, now.via) == (0, "decided", "approve", "person", "terminal")
    assert '"ann@example.org"' in shown
    assert f"runs resume {action.run}" in terminal.seen


@pytest.mark.e2e
async def test_approve_and_deny_tell_the_same_of_what_was_withdrawn(tmp_path: Path) -> None:
    action = await stored_action(await stored_run(), {"id": 7}, kind="unknown")
    async with open_settings_store(settings_now(), world=World()) as store:
        await store.decide(action, Decision("give_up", "host", "approve_action"))
    with open_terminal("approve", action.id, cwd=tmp_path) as terminal:
        code = terminal.end()
    denied = steprelay("deny", action.id, cwd=tmp_path)
    told = f"action {action.id} is withdrawn (give_up) already; runs show {action.run} tells how it went on"
    assert (code, denied.returncode) == (2, 2)
    assert (told in terminal.seen, told in denied.stderr) == (True, True)


@pytest.mark.e2e
@pytest.mark.parametrize("typed", ["later\n", "l\n", "\x04"], ids=["later", "its beginning", "end of input"])
async def test_an_action_that_is_put_off_goes_on_waiting(tmp_path: Path, typed: str) -> None:
    action = await stored_action(await stored_run())
    with open_terminal("approve", action.id, cwd=tmp_path) as terminal:
        terminal.expect("later? ")
        terminal.send(typed)
        code = terminal.end()
    assert (code, (await action_now(action.id)).state) == (5, "waiting")


@pytest.mark.e2e
async def test_a_given_choice_is_confirmed_before_it_counts(tmp_path: Path) -> None:
    action = await stored_action(await stored_run(), {"id": 7}, kind="unknown")
    with open_terminal("approve", action.id, "--choice", "not_done", cwd=tmp_path) as terminal:
        terminal.expect("not_done it? [y/N] ")
        terminal.send("y\n")
        terminal.expect("Drive it here? [Y/n] ")
        terminal.send("n\n")
        code = terminal.end()
    assert (code, (await action_now(action.id)).choice) == (0, "not_done")


@pytest.mark.e2e
async def test_a_choice_that_the_action_does_not_have_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    action = await stored_action(await stored_run())
    with open_terminal("approve", action.id, "--choice", "raise", cwd=tmp_path) as terminal:
        code = terminal.end()
    assert (code, (await action_now(action.id)).state) == (2, "waiting")
    assert "has no choice 'raise'; it has: approve, deny" in terminal.seen


@pytest.mark.e2e
async def test_approve_needs_a_terminal_and_a_shell_that_is_no_agents(tmp_path: Path) -> None:
    action = await stored_action(await stored_run())
    piped = steprelay("approve", action.id, cwd=tmp_path, stdin="approve\n")
    with open_terminal("approve", action.id, cwd=tmp_path, env={"CLAUDECODE": "1"}) as terminal:
        code = terminal.end()
    assert (piped.returncode, piped.stdout, code) == (2, "", 2)
    assert "approve needs a person at a terminal" in piped.stderr
    assert "this shell belongs to an agent (CLAUDECODE is set)" in terminal.seen
    assert (await action_now(action.id)).state == "waiting"


@pytest.mark.e2e
async def test_deny_works_everywhere_and_says_how_it_came(tmp_path: Path) -> None:
    here = await stored_action(await stored_run())
    elsewhere = await stored_action(await stored_run(goal="Another"))
    with open_terminal("deny", here.id, cwd=tmp_path) as terminal:
        terminal.expect("Drive it here? [Y/n] ")
        terminal.send("n\n")
        code = terminal.end()
    piped = steprelay("deny", elsewhere.id, cwd=tmp_path)
    again = steprelay("deny", elsewhere.id, cwd=tmp_path)
    decided = [await action_now(action.id) for action in (here, elsewhere)]
    assert [(each.choice, each.decided_level, each.via) for each in decided] == [
        ("deny", "person", "terminal"),
        ("deny", "person", "flag"),
    ]
    assert (code, piped.returncode, again.returncode) == (0, 0, 2)
    assert "already" in again.stderr
