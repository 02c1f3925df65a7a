"""Settings that name a variable which is not set: what does not need its value works, and all else says so."""

import json
from pathlib import Path

import anyio
import pytest
from command_line import answered, called
from stored_runs import stored_action, stored_run

from server.settings import Found, Settings, SettingsError, load_settings

SERVERS = """
mcpServers:
  box: {command: no-such-box, env: {BOX_TOKEN: "${NO_TOKEN}"}, envFile: "${NO_FILE}"}
  web: {url: "${NO_URL}"}
  map: {command: no-such-map, args: ["${NO_PLACE}"]}
"""
MODEL = 'model: "${NO_MODEL}"\nmodel_options: {api_key: "${NO_KEY}", timeout: "${NO_TIME}"}\n'


def write(folder: Path, text: str) -> str:
    path = folder / "steprelay.yaml"
    path.write_text(f"store: sqlite:///{folder / 'store.db'}\n{text}")
    return str(path)


def loaded(folder: Path, text: str, *, with_gaps: bool = True) -> Settings:
    return load_settings(Found(Path(write(folder, text)), "option"), environ={}, with_gaps=with_gaps)


def test_a_text_stays_as_it_is_written_and_what_it_does_not_fit_is_left_out(tmp_path: Path) -> None:
    auth = "server_options: {box: {effects: {look: read}, auth: {kind: oauth, redirect_port: '${NO_PORT}'}}}\n"
    settings = loaded(tmp_path, MODEL + SERVERS + auth)
    assert [(gap.names, gap.hides) for gap in settings.gaps] == [
        (("NO_PORT",), True),
        (("NO_TOKEN",), True),
        (("NO_FILE",), False),
        (("NO_URL",), False),
        (("NO_PLACE",), False),
        (("NO_MODEL",), False),
        (("NO_KEY",), False),
        (("NO_TIME",), False),
    ]
    assert settings.model.model == "${NO_MODEL}"
    assert (settings.model.options.timeout, settings.secrets) == (120.0, ())
    box, place = settings.servers
    assert (box.env, box.options.auth, box.options.effects) == ({"BOX_TOKEN": "${NO_TOKEN}"}, None, {"look": "read"})
    assert (place.args, settings.off) == (("${NO_PLACE}",), ("web",))
    assert settings.gaps_of_servers.keys() == {"box", "web", "map"}


def test_the_fingerprint_is_that_of_the_same_settings_with_all_values(tmp_path: Path) -> None:
    text = "mcpServers: {a: {command: x, env: {A: '${NO_A}'}}}"
    whole = load_settings(Found(Path(write(tmp_path, text)), "option"), environ={"NO_A": "a"})
    assert loaded(tmp_path, text).fingerprint == whole.fingerprint


@pytest.mark.parametrize("text", ["mcpServers: {a: {command: x, argz: []}, b: {url: '${NO_B}'}}", "budget: {usd: x}"])
def test_what_is_wrong_besides_is_wrong_all_the_same(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError):
        loaded(tmp_path, text)


def test_a_store_that_nobody_can_name_is_looked_into_by_no_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "steprelay.yaml"
    path.write_text('store: "sqlite:////${NO_FOLDER}/store.db"\n')
    assert called("runs", "list", "--config", str(path)) == 3
    assert "store: variable NO_FOLDER is not set" in capsys.readouterr().err


WORKING = [
    ("runs", "list"),
    ("runs", "prune"),
    ("config", "show"),
    ("audit", "verify"),
    ("audit", "export"),
    ("policy", "explain", "box.look"),
]
REFUSED = [("run", "x"), ("plan", "x"), ("runs", "resume", "r_x"), ("servers", "list"), ("ui",)]
SHOWING = [("runs", "show", "r_x"), ("runs", "export", "r_x"), ("approvals",)]


@pytest.mark.parametrize("words", WORKING, ids=" ".join)
def test_a_command_that_opens_no_server_and_asks_no_model_works_and_says_what_is_not_set(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    config = write(tmp_path, f"{MODEL}{SERVERS}server_options: {{box: {{effects: {{look: read}}}}}}\n")
    assert called(*words, "--config", config) == 0
    names = "NO_FILE, NO_KEY, NO_MODEL, NO_PLACE, NO_TIME, NO_TOKEN, NO_URL"
    said = f"steprelay: {config}: not set: {names}; this command does without, others may not\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_command_that_needs_the_value_says_where_it_is_missing(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    config = write(tmp_path, MODEL)
    assert called(*words, "--config", config) == 3
    assert f"{config}:3: model_options.api_key: variable NO_KEY is not set; set it" in capsys.readouterr().err


@pytest.mark.parametrize("words", SHOWING, ids=" ".join)
def test_what_runs_carried_is_shown_only_where_the_secrets_of_servers_are_known(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    without_model = called(*words, "--config", write(tmp_path, MODEL))
    assert without_model == (0 if words == ("approvals",) else 2)
    capsys.readouterr()
    assert called(*words, "--config", write(tmp_path, SERVERS)) == 3
    [line] = capsys.readouterr().err.splitlines()
    assert "mcpServers.box.env.BOX_TOKEN: variable NO_TOKEN is not set" in line
    assert line.endswith("its value is a secret, which could not be told and hidden in what is shown")


def test_config_show_lists_what_is_not_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write(tmp_path, SERVERS)
    assert called("config", "show", "--json", "--config", config) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [gap.partition(": variable ")[2].partition(" ")[0] for gap in shown["gaps"]] == [
        "NO_TOKEN",
        "NO_FILE",
        "NO_URL",
        "NO_PLACE",
    ]


@pytest.mark.parametrize("tool", ["web.get", "map.find"])
def test_a_server_that_lacks_a_value_is_not_opened_to_learn_of_a_tool(
    tmp_path: Path, tool: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("policy", "explain", tool, "--config", write(tmp_path, SERVERS)) == 2
    said = capsys.readouterr().err
    assert f"{tool} is not known yet, and its server cannot be opened" in said
    assert "is not set; set it" in said


def test_a_no_is_recorded_and_its_run_left_to_a_process_that_has_the_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPRELAY_CONFIG", write(tmp_path, "mcpServers: {a: {command: x, env: {A_KEY: '${NO_KEY}'}}}"))
    monkeypatch.setenv("NO_KEY", "a value that was there")
    run_id = anyio.run(stored_run)
    action = anyio.run(stored_action, run_id)
    monkeypatch.delenv("NO_KEY")
    said = answered("deny", action.id, cwd=tmp_path)
    assert (said.returncode, said.stdout.startswith(f"Recorded. Run {run_id} goes on once a process with")) == (0, True)
    asked = answered("approve", action.id, cwd=tmp_path)
    assert (asked.returncode, "NO_KEY is not set" in asked.stderr) == (3, True)
