"""The demo: a whole run that anybody can start, on a terminal, in a pipe, with a yes and with a no."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import open_terminal, steprelay

pytestmark = pytest.mark.e2e


def mails() -> list[Any]:
    sent = Path(os.environ["XDG_STATE_HOME"], "steprelay", "demo", "outbox", "sent")
    return [json.loads(path.read_text()) for path in sorted(sent.glob("*.json"))]


def test_the_demo_runs_to_its_answer_with_every_kind_of_step_two_at_once_a_revision_and_one_mail(
    tmp_path: Path,
) -> None:
    ended = steprelay("demo", "--approve", "all", cwd=tmp_path, seconds=90)
    lines = ended.stdout.splitlines()
    assert ended.returncode == 0, ended.stderr
    assert "scripted" in lines[0]
    for kind in ("call", "worker", "compose"):
        assert any(line.startswith("    ") and f" {kind} " in line for line in lines), kind
    assert [line.split()[0] for line in lines if line.startswith("↻")] == ["↻"]
    marks = [line.split()[:2] for line in lines if line[:1] in "▶✔✘" and line[:1]]
    assert marks.index(["▶", "budget"]) < marks.index(["✔", "facts"])
    assert marks.index(["▶", "facts"]) < marks.index(["✔", "budget"])
    assert "2,320 EUR are left" in ended.stdout
    assert "succeeded: 5 of 5 steps" in ended.stdout
    assert [(mail["to"], mail["subject"]) for mail in mails()] == [
        ("team@harbour.example", "Harbour Festival: where we stand")
    ]
    assert "Left: 2,320 EUR." in mails()[0]["body"]


@pytest.mark.slow
def test_without_a_person_the_demo_says_what_it_would_ask_and_stops(tmp_path: Path) -> None:
    ended = steprelay("demo", cwd=tmp_path, seconds=90)
    assert (ended.returncode, mails()) == (5, [])
    assert "Call outbox.send (write) once, with exactly these arguments?" in ended.stdout
    assert '  to       "team@harbour.example"' in ended.stdout
    assert "  body     │ Saturday, 12 June 2027" in ended.stdout
    assert "demo --approve all" in ended.stdout


def test_a_refused_mail_is_not_sent_and_the_demo_says_so(tmp_path: Path) -> None:
    ended = steprelay("demo", "--approve", "deny", cwd=tmp_path, seconds=90)
    assert (ended.returncode, mails()) == (7, [])
    assert "No mail was sent." in ended.stdout
    assert "2,320 EUR are left" in ended.stdout


def test_at_a_terminal_the_demo_asks_and_goes_on_after_a_yes(tmp_path: Path) -> None:
    with open_terminal("demo", cwd=tmp_path) as terminal:
        before = terminal.expect("approve, deny or later? ", seconds=90)
        assert mails() == []
        terminal.send("y\n")
        code = terminal.end(60)
    assert (code, len(mails())) == (0, 1)
    assert "Send the status" in before
    assert "Call outbox.send (write) once" in before


@pytest.mark.slow
def test_a_demo_put_off_is_decided_later_by_the_command_that_it_told(tmp_path: Path) -> None:
    with open_terminal("demo", cwd=tmp_path) as terminal:
        terminal.expect("approve, deny or later? ", seconds=90)
        terminal.send("later\n")
        assert terminal.end(60) == 5
    told = next(line for line in terminal.seen.splitlines() if " approve a_" in line)
    words = told.split()[1:]
    words = [str(Path(word).expanduser()) if word.startswith("~") else word for word in words]
    with open_terminal(*words, cwd=tmp_path) as terminal:
        terminal.expect("approve, deny or later? ")
        terminal.send("approve\n")
        terminal.expect("Drive it here? [Y/n] ")
        terminal.send("\n")
        assert terminal.end(60) == 0
    assert len(mails()) == 1
