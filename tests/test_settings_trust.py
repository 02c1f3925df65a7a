"""Where settings are found, and which of a project are trusted."""

import os
from pathlib import Path

import pytest

from journal.settings import state_folder
from server.settings import (
    Found,
    SettingsError,
    UntrustedSettings,
    find_settings,
    is_trusted,
    trust_file,
    what_it_runs,
)
from server.settings_file.found import user_settings_path

TEXT = """
model_options: {api_base: "https://models.example/${REGION}", api_key: "${KEY}"}
mcpServers:
  web: {url: "https://web.example/mcp", headers: {Authorization: "Bearer ${WEB_TOKEN}"}}
  fs:
    command: npx
    args: [-y, "a b", "\\e[31m${ROOT:-/}"]
    env: {API_KEY: written-out, PORT: 80, T: "${T}"}
    envFile: my.env
  odd: 5
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "steprelay.yaml"
    path.write_text(TEXT)
    return path


def test_the_option_goes_before_the_variable_and_the_users_file(tmp_path: Path, project: Path) -> None:
    user = user_settings_path()
    user.parent.mkdir(parents=True)
    user.write_text("{}")
    environ = {"STEPRELAY_CONFIG": str(project)}
    assert find_settings(user, environ=environ, cwd=tmp_path) == Found(user, "option")
    assert find_settings(None, environ=environ, cwd=tmp_path) == Found(project, "variable")
    found = find_settings(None, environ={"STEPRELAY_CONFIG": ""}, cwd=tmp_path)
    assert (found.path, found.source) == (user, "user")
    assert found.warnings == (f"{project} is not used, because {user} is there; to use it, give --config {project}",)
    assert find_settings(None, environ={}, cwd=None) == Found(user, "user")


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    gone = tmp_path / "gone.yaml"
    with pytest.raises(SettingsError, match=r"gone.yaml: no such file, though --config names it"):
        find_settings(gone, environ={}, cwd=None)
    with pytest.raises(SettingsError, match=r"gone.yaml: no such file, though \$STEPRELAY_CONFIG names it"):
        find_settings(None, environ={"STEPRELAY_CONFIG": str(gone)}, cwd=None)


def test_without_any_file_the_defaults_are_used_and_said(tmp_path: Path) -> None:
    found = find_settings(None, environ={}, cwd=tmp_path)
    assert (found.path, found.source) == (None, "defaults")
    assert str(user_settings_path()) in found.warnings[0]


def test_the_working_folder_is_not_read_where_none_is_given(project: Path) -> None:
    trust_file(project)
    assert find_settings(None, environ={}, cwd=None).path is None


def test_a_project_file_counts_only_once_trusted(tmp_path: Path, project: Path) -> None:
    with pytest.raises(UntrustedSettings, match=rf"not trusted.*steprelay config trust {project}"):
        find_settings(None, environ={}, cwd=tmp_path)
    trust_file(project)
    assert find_settings(None, environ={}, cwd=tmp_path) == Found(project, "project")
    record = state_folder() / "trusted.json"
    assert record.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("changed", ["steprelay.yaml", "my.env", "workers/new.md"])
def test_any_change_ends_the_trust(project: Path, changed: str) -> None:
    trust_file(project)
    assert is_trusted(project)
    path = project.parent / changed
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write("\n")
    assert not is_trusted(project)


def test_a_broken_record_trusts_nothing(project: Path) -> None:
    trust_file(project)
    (state_folder() / "trusted.json").write_text("[]")
    assert not is_trusted(project)
    (state_folder() / "trusted.json").write_text("{")
    assert not is_trusted(project)
    trust_file(project)
    assert is_trusted(project)


def test_a_file_that_cannot_be_read_can_be_told_apart_too(project: Path) -> None:
    project.write_text("a: [")
    trust_file(project)
    assert is_trusted(project)
    project.write_text("b: [")
    assert not is_trusted(project)


def test_what_it_runs_shows_commands_addresses_and_names_of_variables(project: Path) -> None:
    (project.parent / "workers").mkdir()
    worker = project.parent / "workers" / "a.md"
    worker.write_text("")
    folder = f"{project.parent}{os.sep}"
    assert what_it_runs(project) == [
        "server web: connects to https://web.example/mcp with headers Authorization",
        f"server fs: runs npx -y 'a b' '\\x1b[31m${{ROOT:-/}}' in {folder.rstrip(os.sep)} "
        "with API_KEY=…, PORT=80, T=${T}, all of my.env",
        "models: asks https://models.example/${REGION}",
        f"worker file: {worker}",
        "variables: KEY, REGION, ROOT, T, WEB_TOKEN",
    ]


def test_settings_that_run_nothing_say_so(tmp_path: Path) -> None:
    path = tmp_path / "steprelay.yaml"
    path.write_text("servers: {a: {url: 'http://x'}, b: {command: y}}\nmcpServers: 5\n")
    assert what_it_runs(path) == [
        "server a: connects to http://x",
        f"server b: runs y in {tmp_path}",
        "variables: none",
    ]
