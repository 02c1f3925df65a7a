"""How people are told to type our commands."""

import os
from pathlib import Path

import pytest

from server.installed import Spoken, installed_command


def _script(folder: Path) -> Path:
    """An interpreter with our command beside it."""
    folder.mkdir(parents=True)
    for name in ("python", "steprelay"):
        (folder / name).touch(mode=0o755)
    return folder / "python"


def test_a_command_on_the_path_is_typed_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = _script(tmp_path / "bin")
    monkeypatch.setenv("PATH", os.pathsep.join([str(python.parent), "/usr/bin"]))
    assert installed_command(python) == "steprelay"


def test_a_command_of_another_installation_on_the_path_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = _script(tmp_path / "my bin")
    monkeypatch.setenv("PATH", str(_script(tmp_path / "other").parent))
    assert installed_command(python) == f"'{tmp_path}/my bin/steprelay'"


def test_what_uvx_keeps_in_its_cache_is_run_by_uvx(tmp_path: Path) -> None:
    assert installed_command(_script(tmp_path / "uv" / "archive-v0" / "x" / "bin")) == "uvx steprelay"


def test_where_nothing_is_installed_the_name_must_do(tmp_path: Path) -> None:
    assert installed_command(tmp_path / "python") == "steprelay"


def test_the_settings_are_told_where_they_are_not_the_users_own() -> None:
    assert Spoken("steprelay")("runs list") == "steprelay runs list"
    assert Spoken("steprelay", Path("/a b.yaml"))("runs list") == "steprelay runs list --config '/a b.yaml'"
