"""A project file that somebody changes while it is read."""

from pathlib import Path
from typing import Any

import pytest

from server.settings import UntrustedSettings, find_settings, load_settings, trust_file


class Meddling(dict[str, str]):
    """Variables, and somebody who changes the file while they are looked up."""

    def __init__(self, project: Path) -> None:
        super().__init__()
        self.project = project

    def get(self, key: str, default: object = None) -> Any:
        self.project.write_text("mcpServers: {a: {command: other}}\n")
        return super().get(key, default)


def test_a_file_that_changes_between_the_look_at_its_trust_and_its_reading_is_not_used(
    tmp_path: Path,
) -> None:
    project = tmp_path / "steprelay.yaml"
    project.write_text("mcpServers: {a: {command: '${COMMAND:-true}'}}\n")
    trust_file(project)
    found = find_settings(None, environ={}, cwd=tmp_path)
    assert load_settings(found, environ={}).servers[0].command == "true"
    with pytest.raises(UntrustedSettings):
        load_settings(found, environ=Meddling(project))
