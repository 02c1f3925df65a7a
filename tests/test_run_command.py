"""`run`, `plan` and `runs resume`: a goal from the command line, to its end, interrupted, handed over and taken up."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import answered, open_terminal, steprelay

pytestmark = pytest.mark.e2e

PLAN = [{"id": "write", "kind": "compose", "title": "Write it", "task": "Write."}]


def settings(folder: Path, *, delay: float = 0, missing: Sequence[str] = (), **more: Any) -> list[str]:
    """Settings with a model that writes one text, and with servers that are not there; returns the option for them."""
    script = {"plan": PLAN, "steps": {"write": {"text": "hello", "delay": delay}}, "answer": "Done."}
    (folder / "script.json").write_text(json.dumps(script | more))
    servers = {name: {"command": f"no-such-{name}"} for name in missing}
    (folder / "settings.json").write_text(json.dumps({"model": "scripted:script.json", "mcpServers": servers}))
    return ["--config", "settings.json"]


def listed(folder: Path, option: list[str]) -> list[Any]:
    runs: list[Any] = json.loads(answered("runs", "list", "--json", *option, cwd=folder).stdout)["runs"]
    return runs


def test_a_run_prints_plain_lines_into_a_pipe_and_ends_with_its_answer(tmp_path: Path) -> None:
    ended = steprelay("run", "say hello", *settings(tmp_path), cwd=tmp_path)
    lines = ended.stdout.splitlines()
    assert ended.returncode == 0, ended.stderr
    assert lines[0].startswith("● run              r_")
    assert lines[1:7] == [
        "  goal             say hello",
        "● plan             1 step",
        "    write          compose  Write it",
        "▶ write            Write it",
        "✔ write            hello",
        "",
    ]
    assert "Done." in lines
    assert "! scripted model: " in ended.stdout


def test_with_json_each_line_is_an_event_and_there_is_nothing_else(tmp_path: Path) -> None:
    ended = steprelay("run", "say hello", "--json", *settings(tmp_path), cwd=tmp_path)
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == 0, ended.stderr
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["type"], events[-1]["type"]) == ("run.created", "run.ended")


def test_a_context_can_come_from_stdin(tmp_path: Path) -> None:
    option = settings(tmp_path)
    ended = steprelay("run", "say hello", "--context", "-", *option, cwd=tmp_path, stdin="known: all")
    run_id = listed(tmp_path, option)[0]["run_id"]
    exported = json.loads(answered("runs", "export", run_id, *option, cwd=tmp_path).stdout)
    assert (ended.returncode, exported["run"]["context"], exported["run"]["goal_label"]) == (0, "known: all", "user")


def test_a_plan_is_printed_changed_and_followed(tmp_path: Path) -> None:
    option = settings(tmp_path)
    printed = answered("plan", "say hello", *option, cwd=tmp_path)
    written = answered("plan", "say hello", "-o", "plan.yaml", *option, cwd=tmp_path)
    assert printed.stdout == "steps:\n- id: write\n  title: Write it\n  kind: compose\n  task: Write.\n"
    assert (written.stdout, (tmp_path / "plan.yaml").read_text()) == ("", printed.stdout)
    (tmp_path / "plan.yaml").write_text(printed.stdout.replace("Write it", "Write it well"))
    ended = answered("run", "say hello", "--plan", "plan.yaml", *option, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "▶ write            Write it well" in ended.stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plan.yaml", "steps:\n- id: write\n  kind: compose\n  task: Write.\n  task: Do not.\n"),
        (
            "plan.json",
            '{"steps": [{"id": "write", "kind": "compose",\n"task": "Write.",\n"x": 0,\n\n"task": "Do not."}]}',
        ),
    ],
)
def test_a_plan_that_says_something_twice_is_not_followed(tmp_path: Path, name: str, text: str) -> None:
    option = settings(tmp_path)
    (tmp_path / name).write_text(text)
    ended = answered("run", "x", "--plan", name, *option, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"{name}:5: 'task' stands twice; keep one" in ended.stderr


def test_an_invalid_plan_exits_2_with_everything_that_is_wrong_and_begins_no_run(tmp_path: Path) -> None:
    option = settings(tmp_path)
    steps = [{"id": "a", "kind": "call", "tool": "nope.x", "needs": ["zz"]}, {"id": "a", "kind": "walk"}]
    (tmp_path / "bad.json").write_text(json.dumps({"steps": steps}))
    (tmp_path / "none.json").write_text("[]")
    ended = answered("run", "x", "--plan", "bad.json", *option, cwd=tmp_path)
    detached = answered("run", "x", "--detach", "--plan", "bad.json", *option, cwd=tmp_path)
    none = answered("run", "x", "--plan", "none.json", *option, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "unknown tool 'nope.x'" in ended.stderr
    assert "kind 'walk' is unknown" in ended.stderr
    assert (detached.returncode, detached.stderr, none.returncode) == (2, ended.stderr, 2)
    assert listed(tmp_path, option) == []


def test_a_plan_for_a_server_that_is_not_there_names_the_server_first(tmp_path: Path) -> None:
    option = settings(tmp_path, missing=["gone", "lost"])
    steps = [{"id": "a", "kind": "call", "tool": "gone.x"}]
    (tmp_path / "plan.json").write_text(json.dumps({"steps": steps}))
    ended = answered("run", "x", "--plan", "plan.json", *option, cwd=tmp_path)
    first, second, third = ended.stderr.splitlines()
    assert (ended.returncode, first) == (2, "steprelay: the plan is not valid:")
    assert second.startswith("- tool server 'gone' is not there: command 'no-such-gone' was not found")
    assert third.startswith("- step 'a': unknown tool 'gone.x'")


def test_what_planning_warned_of_is_said_beside_the_plan_and_before_what_follows_from_it(tmp_path: Path) -> None:
    option = settings(tmp_path, missing=["gone"])
    missing = "tool server 'gone' is left out: command 'no-such-gone' was not found"
    printed = answered("plan", "say hello", *option, cwd=tmp_path)
    assert (printed.returncode, printed.stdout.startswith("steps:\n")) == (0, True)
    assert any(line.startswith(f"! {missing}") for line in printed.stderr.splitlines())
    lines = answered("run", "say hello", *option, cwd=tmp_path).stdout.splitlines()
    told = [number for number, line in enumerate(lines) if missing in line]
    planned = next(number for number, line in enumerate(lines) if line.startswith("● plan"))
    assert told[0] < planned < told[1]
    assert lines[told[1]].startswith(f"! {missing}")
    assert lines[told[1] + 1].startswith("! scripted model: ")


def test_without_a_model_it_exits_3_with_the_ways_to_get_one(tmp_path: Path) -> None:
    for words in (["run", "x"], ["run", "x", "--detach"], ["plan", "x"]):
        ended = answered(*words, cwd=tmp_path)
        assert (ended.returncode, ended.stdout) == (3, ""), ended.stderr
        assert "three ways to get one" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_run_exits_130_says_how_to_go_on_and_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    option = settings(tmp_path, delay=60)
    with open_terminal("run", "say hello", *option, cwd=tmp_path) as terminal:
        terminal.expect("Write it")
        if number is signal.SIGINT:
            terminal.process.send_signal(signal.SIGINT)
        else:
            terminal.process.terminate()
        assert terminal.end() == 130
    told = terminal.seen.partition("go on with: ")[2].split()
    settings(tmp_path)
    shown = answered(*told[1:3], told[3], *option, cwd=tmp_path)
    assert (told[1:3], shown.returncode) == (["runs", "resume"], 0), shown.stderr
    assert [run["status"] for run in listed(tmp_path, option)] == ["succeeded"]


def test_an_ended_run_is_reopened_with_another_budget(tmp_path: Path) -> None:
    option = settings(tmp_path)
    answered("run", "say hello", *option, cwd=tmp_path)
    run_id = listed(tmp_path, option)[0]["run_id"]
    again = answered("runs", "resume", run_id, "--budget", "usd=5", *option, cwd=tmp_path)
    exported = json.loads(answered("runs", "export", run_id, *option, cwd=tmp_path).stdout)
    assert again.returncode == 0, again.stderr
    assert (exported["run"]["options"]["reopened"], exported["run"]["options"]["budget"]["usd"]) == (1, 5.0)
    assert [event["type"] for event in exported["events"]].count("run.ended") == 2


def test_a_run_that_waits_for_a_limit_to_be_raised_goes_on_with_the_limit_that_is_given(tmp_path: Path) -> None:
    option = settings(tmp_path)
    low = {"model": "scripted:script.json", "budget": {"model_calls": 2}}
    (tmp_path / "settings.json").write_text(json.dumps(low))
    with open_terminal("run", "say hello", *option, cwd=tmp_path) as terminal:
        terminal.expect("raise, finish or later?")
        terminal.process.kill()
        terminal.end()
    [line] = listed(tmp_path, option)
    again = answered("runs", "resume", line["run_id"], "--budget", "model_calls=9", *option, cwd=tmp_path)
    shown = json.loads(answered("runs", "show", line["run_id"], "--json", *option, cwd=tmp_path).stdout)
    assert (line["status"], again.returncode) == ("awaiting_approval", 0), again.stdout
    assert (shown["status"], shown["budget"]["model_calls"], shown["actions"]) == ("succeeded", 9, [])


def test_a_limit_that_is_mistyped_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    option = settings(tmp_path)
    answered("run", "say hello", *option, cwd=tmp_path)
    run_id = listed(tmp_path, option)[0]["run_id"]
    before = json.loads(answered("runs", "export", run_id, *option, cwd=tmp_path).stdout)
    (tmp_path / "other.json").write_text((tmp_path / "settings.json").read_text())
    typed = answered("runs", "resume", run_id, "--budget", "nonsense=5", "--config", "other.json", cwd=tmp_path)
    after = json.loads(answered("runs", "export", run_id, *option, cwd=tmp_path).stdout)
    assert (typed.returncode, typed.stdout) == (2, "")
    assert after["run"] == before["run"]


@pytest.mark.parametrize("as_json", [True, False], ids=["events", "lines"])
def test_resuming_a_run_that_succeeded_says_so_first_and_shows_only_what_is_new(tmp_path: Path, as_json: bool) -> None:
    option = [*settings(tmp_path), *(["--json"] if as_json else [])]
    begun = answered("run", "say hello", *option, cwd=tmp_path)
    run_id = listed(tmp_path, option[:2])[0]["run_id"]
    again = answered("runs", "resume", run_id, *option, cwd=tmp_path)
    assert again.returncode == 0
    assert again.stderr == f"Run {run_id} had ended with success: only its answer is asked for again.\n"
    if as_json:
        last = json.loads(begun.stdout.splitlines()[-1])["seq"]
        events = [json.loads(line) for line in again.stdout.splitlines()]
        assert (events[0]["seq"], events[-1]["type"]) == (last + 1, "run.ended")
    else:
        assert again.stdout.startswith("\nDone.")


def test_a_detached_run_prints_its_id_and_ends_without_us(tmp_path: Path) -> None:
    option = settings(tmp_path, delay=1)
    ended = steprelay("run", "say hello", "--detach", *option, cwd=tmp_path)
    run_id = ended.stdout.strip()
    watched = steprelay("runs", "watch", run_id, *option, cwd=tmp_path)
    assert (ended.returncode, ended.stdout[:2], watched.returncode) == (0, "r_", 0), watched.stderr
    assert "✔ write            hello" in watched.stdout


@pytest.mark.parametrize("mode", ["deny", "all"])
def test_nobody_decides_for_a_detached_run_at_the_terminal_that_left_it(tmp_path: Path, mode: str) -> None:
    option = settings(tmp_path)
    ended = answered("run", "say hello", "--detach", "--approve", mode, *option, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--detach leaves the run to another process; leave one of them out" in ended.stderr
    assert listed(tmp_path, option) == []


def test_a_detached_run_prints_its_first_event_with_json(tmp_path: Path) -> None:
    option = settings(tmp_path)
    ended = steprelay("run", "say hello", "--detach", "--json", *option, cwd=tmp_path)
    event = json.loads(ended.stdout)
    assert (event["seq"], event["type"], event["data"]) == (1, "run.created", {"goal": "say hello"})
    assert answered("runs", "cancel", event["run"], *option, cwd=tmp_path).returncode == 0


def test_a_detached_run_can_be_cancelled(tmp_path: Path) -> None:
    option = settings(tmp_path, delay=60)
    run_id = steprelay("run", "say hello", "--detach", *option, cwd=tmp_path).stdout.strip()
    cancelled = answered("runs", "cancel", run_id, *option, cwd=tmp_path)
    again = answered("runs", "cancel", run_id, *option, cwd=tmp_path)
    watched = answered("runs", "watch", run_id, *option, cwd=tmp_path)
    assert (cancelled.returncode, again.returncode, watched.returncode) == (0, 0, 130)
    assert cancelled.stdout == f"Run {run_id} is cancelled.\n"


def test_a_run_that_nobody_can_drive_is_cancelled_here(tmp_path: Path) -> None:
    option = settings(tmp_path, delay=60)
    with open_terminal("run", "say hello", *option, cwd=tmp_path) as terminal:
        terminal.expect("Write it")
        os.kill(terminal.process.pid, signal.SIGKILL)
        terminal.end()
    run_id = listed(tmp_path, option)[0]["run_id"]
    watched = answered("runs", "watch", run_id, *option, cwd=tmp_path)
    cancelled = answered("runs", "cancel", run_id, "--reason", "no more", *option, cwd=tmp_path)
    assert (watched.returncode, cancelled.returncode) == (2, 0)
    assert "stands still" in watched.stderr
    assert [run["status"] for run in listed(tmp_path, option)] == ["cancelled"]
