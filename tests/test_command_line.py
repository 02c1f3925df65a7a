"""The commands that need no model: what they print, for people and for programs, and which code they end with."""

import json
import subprocess
import sys
from functools import partial
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any

import anyio
import pytest
from command_line import ROOT, answered, called, steprelay
from stored_runs import action_now, stored_action, stored_run

from journal.runs import StopReason
from journal.settings import state_folder
from server.app import build_app
from server.commands.runs_change import changed_budget
from server.commands.serve import read_address
from server.settings import hash_of
from server.terminal.exit_codes import UsageProblem

HEAVY = {"litellm", "mcp", "rich", "jsonschema", "ruamel", "httpx2", "uvicorn"}


def loaded_by(*words: str) -> set[str]:
    """The heavy modules that a command has loaded when it ends."""
    program = (
        "import sys\nsys.argv = ['steprelay', *sys.argv[1:]]\nfrom server.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('\\n' + ' '.join({name.split('.')[0] for name in sys.modules}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    return HEAVY & set(ended.stderr.split("\n")[-1].split())


def json_of(*words: str, cwd: Path) -> Any:
    return json.loads(answered(*words, cwd=cwd).stdout)


@pytest.mark.e2e
@pytest.mark.parametrize("words", [("--help",), ("runs", "list"), ("approvals",)], ids=" ".join)
def test_what_must_be_quick_loads_nothing_heavy(words: tuple[str, ...]) -> None:
    assert loaded_by(*words) == set()


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert (called("--version"), capsys.readouterr().out) == (0, f"steprelay {version('steprelay')}\n")


@pytest.mark.e2e
def test_help_lists_what_is_built_and_nothing_else(tmp_path: Path) -> None:
    listed = answered("--help", cwd=tmp_path).stdout.partition("Commands:\n")[2]
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ")]
    assert names == [
        *(
            "serve",
            "run",
            "plan",
            "demo",
            "init",
            "doctor",
            "approvals",
            "approve",
            "deny",
            "ui",
            "runs",
            "servers",
            "approver",
        ),
        *("audit", "policy", "config", "tool-server"),
    ]
    listed = answered("runs", "--help", cwd=tmp_path).stdout.partition("Commands:\n")[2]
    assert [line.split()[0] for line in listed.splitlines() if line[2:3].strip()] == [
        *("list", "show", "watch", "resume", "cancel", "export", "import", "replay", "prune"),
    ]
    assert "--grants" in answered("run", "--help", cwd=tmp_path).stdout


def test_config_may_stand_after_every_command() -> None:
    app = build_app()
    groups = [group.typer_instance for group in app.registered_groups if group.typer_instance is not None]
    commands = [command.callback for each in (app, *groups) for command in each.registered_commands]
    lacking = [each.__qualname__ for each in commands if each and "config" not in signature(each).parameters]
    assert (lacking, len(commands) > 30) == ([], True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", " "), "the goal is empty"),
        (("run", "x" * 20_001), "at most 20,000 are taken"),
        (("run", "x", "--grants", "f"), "f: cannot be read"),
        (("run", "x", "--plan", "nowhere.yaml"), "cannot be read"),
        (("run", "x", "--context", "nowhere.txt"), "cannot be read"),
        (("run", "x", "--approve", "maybe"), "'ask', 'deny', 'all'"),
        (("runs", "show", "r_x"), "no run 'r_x' is known here"),
        (("runs", "watch", "r_x"), "no run 'r_x' is known here"),
        (("runs", "resume", "r_x"), "no run 'r_x' is known here"),
        (("runs", "cancel", "r_x"), "no run 'r_x' is known here"),
        (("runs", "export", "r_x"), "no run 'r_x' is known here"),
        (("runs", "list", "--status", "odd"), "there are: planning, running"),
        (("deny", "a_x"), "no action 'a_x' is known here"),
        (("config", "trust", "nowhere.yaml"), "no such file"),
        (("tool-server", "notes", "nowhere"), "it does not exist"),
        (("serve", "--http", "8080"), "--http takes HOST:PORT"),
        (("serve", "--http", "0.0.0.0:8080", "--no-auth"), "--no-auth is for loopback only"),
        (("serve", "--no-auth"), "--no-auth goes with --http"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value)[:40],
)
def test_a_command_that_can_do_nothing_says_so_and_exits_2(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = called(*words), capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert told in printed.err


@pytest.mark.parametrize("words", [("runs", "show", "r_x"), ("deny", "a_x")], ids=" ".join)
def test_an_id_that_is_not_there_names_the_store_and_the_way_to_another(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    other = "--config FILE looks into the store of other settings"
    assert called(*words) == 2
    place = state_folder() / "steprelay.db"
    assert capsys.readouterr().err.splitlines()[1:] == [
        f"Looked in {place} (the state folder, since no settings name a `store`). {other}; XDG_STATE_HOME moves the "
        "state folder."
    ]
    file, store = tmp_path / "own.yaml", tmp_path / "own.db"
    file.write_text(f"store: sqlite:///{store}\n")
    assert called(*words, "--config", str(file)) == 2
    assert capsys.readouterr().err.splitlines()[1:] == [f"Looked in {store} (`store` in {file}). {other}."]


@pytest.mark.parametrize("words", [("run", "x"), ("runs", "list"), ("approvals",), ("config", "show")], ids=" ".join)
def test_settings_that_cannot_be_used_exit_3_with_file_line_and_fix(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("revise: never\nbudgett: {}\n")
    code, printed = called(*words, "--config", str(broken)), capsys.readouterr()
    assert (code, printed.out) == (3, "")
    assert printed.err == f"steprelay: {broken}:2: unknown key 'budgett'; did you mean 'budget'?\n"


@pytest.mark.e2e
def test_a_project_file_is_used_only_after_it_was_trusted(tmp_path: Path) -> None:
    file = tmp_path / "steprelay.yaml"
    file.write_text('mcpServers: {fs: {command: npx, args: ["-y", "server"], env: {TOKEN: "${FS_TOKEN:-}"}}}\n')
    before = answered("config", "path", cwd=tmp_path)
    trusted = answered("config", "trust", "steprelay.yaml", "--sha256", hash_of(file), cwd=tmp_path)
    after = answered("config", "path", cwd=tmp_path)
    assert (before.returncode, trusted.returncode, after.returncode) == (3, 0, 0)
    assert "steprelay config trust" in before.stderr
    assert "server fs: runs npx -y server" in trusted.stdout
    assert "variables: FS_TOKEN" in trusted.stdout
    assert after.stdout == f"{file}\n"


def test_config_show_leaves_secrets_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FS_TOKEN", "hunter2-hunter2")
    file = tmp_path / "settings.yaml"
    file.write_text('mcpServers: {fs: {command: x, args: ["${FS_TOKEN}"], env: {FS_TOKEN: "${FS_TOKEN}", HOME: /h}}}\n')
    called("config", "show", "--json", "--config", str(file))
    shown = json.loads(capsys.readouterr().out)
    assert shown["servers"][0]["env"] == {"FS_TOKEN": "…", "HOME": "/h"}
    assert "hunter2" not in json.dumps(shown)


@pytest.mark.parametrize(
    "words",
    [("runs", "show"), ("runs", "list", "--status"), ("deny",), ("approve",), ("runs", "resume"), ("runs", "cancel")],
    ids=" ".join,
)
def test_no_secret_comes_back_in_an_error(
    tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FS_TOKEN", "hunter2-hunter2")
    file = tmp_path / "settings.yaml"
    file.write_text(f"secrets: [FS_TOKEN]\nstore: sqlite:///{tmp_path}/store.db\n")
    code, told = called(*words, "hunter2-hunter2", "--config", str(file)), capsys.readouterr().err
    assert (code, "hunter2" in told, "[secret:FS_TOKEN]" in told) == (2, False, True)


def test_config_schema_is_a_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("config", "schema") == 0
    assert "mcpServers" in json.loads(capsys.readouterr().out)["properties"]


@pytest.mark.e2e
def test_a_parked_run_is_listed_shown_watched_and_exported(tmp_path: Path) -> None:
    run_id = anyio.run(stored_run)
    action = anyio.run(stored_action, run_id)
    listed = json_of("runs", "list", "--json", cwd=tmp_path)["runs"]
    shown = json_of("runs", "show", run_id, "--json", cwd=tmp_path)
    text = answered("runs", "show", run_id, cwd=tmp_path).stdout
    watched = answered("runs", "watch", run_id, "--json", cwd=tmp_path)
    exported = json_of("runs", "export", run_id, cwd=tmp_path)
    waiting = json_of("approvals", "--json", cwd=tmp_path)["actions"]
    assert [(line["run_id"], line["status"]) for line in listed] == [(run_id, "awaiting_approval")]
    assert (shown["status"], shown["driver"]) == ("awaiting_approval", None)
    assert shown["stands_on"] == f"on a decision about mail.send ({action.id})"
    assert f"approve {action.id}" in text
    assert "driver   nobody" in text
    assert watched.returncode == 5
    types = ["run.created", "step.started", "action.waiting"]
    assert [json.loads(line)["type"] for line in watched.stdout.splitlines()] == types
    assert [event["type"] for event in exported["events"]] == types
    assert [step["id"] for step in exported["steps"]] == ["send"]
    assert exported["actions"][0]["arguments"] == action.arguments
    assert [(each["action_id"], each["run_id"]) for each in waiting] == [(action.id, run_id)]


@pytest.mark.e2e
def test_what_was_typed_as_plain_text_reaches_the_terminal_escaped(tmp_path: Path) -> None:
    run_id = anyio.run(partial(stored_run, goal="Clear\x1b[2J the \u202escreen"))
    anyio.run(stored_action, run_id, {"to": "\x1b]0;owned\x07"})
    for words in (("runs", "show", run_id), ("approvals",), ("runs", "list"), ("runs", "watch", run_id)):
        printed = answered(*words, cwd=tmp_path).stdout
        assert printed
        assert "\x1b" not in printed
        assert "\u202e" not in printed


@pytest.mark.e2e
def test_export_writes_a_file_that_only_holds_the_run(tmp_path: Path) -> None:
    run_id = anyio.run(stored_run)
    ended = answered("runs", "export", run_id, "-o", "run.json", cwd=tmp_path)
    refused = answered("runs", "export", run_id, "-o", "no/such/run.json", cwd=tmp_path)
    assert (ended.returncode, ended.stdout, refused.returncode) == (0, "", 2)
    assert json.loads((tmp_path / "run.json").read_text())["run"]["id"] == run_id


@pytest.mark.e2e
async def test_a_denied_action_says_how_its_run_goes_on(tmp_path: Path) -> None:
    action = await stored_action(await stored_run())
    ended = steprelay("deny", action.id, cwd=tmp_path)
    assert (ended.returncode, (await action_now(action.id)).choice) == (0, "deny")
    assert f"runs resume {action.run}" in ended.stdout


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("usd", "is no K=V"),
        ("dollars=5", "is no K=V with one of: steps, revisions"),
        ("usd=much", "no number"),
        ("usd=true", "no number"),
        ("steps=0", "greater than or equal to 1"),
        ("steps=1.5", "valid integer"),
    ],
)
def test_a_budget_that_is_none_is_refused(change: str, told: str) -> None:
    with pytest.raises(UsageProblem, match=told):
        changed_budget({}, [change])


def test_a_budget_changes_only_what_was_typed() -> None:
    changed = changed_budget({"budget": {"usd": 1.0, "steps": 3}, "depth": 1}, ["usd=5", "tokens=10"])
    assert (changed["depth"], changed["budget"]["usd"], changed["budget"]["steps"], changed["budget"]["tokens"]) == (
        *(1, 5.0, 3, 10),
    )


@pytest.mark.parametrize(
    ("text", "read"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:8765", ("::1", 8765)), ("localhost:1", ("localhost", 1))],
)
def test_an_address_is_a_host_and_a_port(text: str, read: tuple[str, int]) -> None:
    assert read_address(text) == read


@pytest.mark.parametrize("text", ["80", ":80", "host", "host:99999", "::1:80"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="HOST:PORT"):
        read_address(text)


@pytest.mark.parametrize(
    ("reason", "code"),
    [("done", 0), ("budget", 6), ("deadline", 6), ("refused", 7), ("no_progress", 4), ("error", 4), ("cancelled", 130)],
)
async def test_the_exit_code_follows_the_stop_reason(reason: StopReason, code: int) -> None:
    from dataclasses import replace

    from stored_runs import settings_now

    from journal.world import World
    from server.opened_store import open_settings_store
    from server.terminal.exit_codes import code_of_run

    run_id = await stored_run()
    async with open_settings_store(settings_now(), world=World()) as store:
        run = await store.run(run_id)
    assert (code_of_run(run), code_of_run(replace(run, stop_reason=reason))) == (5, code)


def test_own_processes_do_not_take_the_folder_they_start_in_for_ours(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "__init__.py").write_text("raise SystemExit('not ours')")

    assert steprelay("--help", cwd=tmp_path).returncode == 0
