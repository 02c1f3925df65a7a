"""The README keeps its word: short, its commands are there, its settings load, its host entries start us."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from mcp_hosts import STEPRELAY, open_stdio_host

from server.settings import find_settings, load_settings

pytestmark = pytest.mark.untraced

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_readme_has_at_most_150_lines() -> None:
    assert len(README.splitlines()) <= 150


def test_every_file_that_the_readme_names_is_there() -> None:
    named = set(re.findall(r"`((?:docs|examples)/[\w./-]*|\w+/)`", README))
    assert named
    assert [name for name in sorted(named) if name != "artifacts/" and not (ROOT / name).exists()] == []


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^\$ make ([\w-]+)$", "\n".join(blocks("console")), re.MULTILINE)
    assert targets == ["demo", "test"]
    assert all(f"\n{target}:" in makefile for target in targets)


def test_the_settings_sample_loads(tmp_path: Path) -> None:
    (sample,) = blocks("yaml")
    path = tmp_path / "config.yaml"
    path.write_text(sample, encoding="utf-8")
    settings = load_settings(find_settings(path, environ={}, cwd=None), environ={})
    assert ([server.name for server in settings.servers], settings.budget.usd) == (["files"], 0.5)


@pytest.mark.e2e
def test_the_demo_says_what_the_readme_shows_of_it() -> None:
    done = subprocess.run([STEPRELAY, "demo", "--approve", "all"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = [" ".join(line.split()) for line in done.stdout.splitlines()]
    demo = next(block for block in blocks("console") if "make demo" in block)
    for line in demo.splitlines():
        if line.startswith("$") or line == "…":
            continue
        # An ellipsis stands for what is left out; what stands around it must be said.
        parts = [" ".join(part.split()) for part in line.split("…")]
        assert any(all(part in one for part in parts) for one in said), line


@pytest.mark.e2e
async def test_the_entry_for_a_host_starts_a_server_that_answers() -> None:
    entry = json.loads(blocks("json")[0])["mcpServers"]["steprelay"]
    assert [entry["command"], *entry["args"]] == ["uvx", "steprelay", "serve"]
    async with open_stdio_host([str(STEPRELAY), *entry["args"][1:]]) as host:
        listed = await host.client.list_tools()
    assert sorted(tool.name for tool in listed.tools) == [
        "approve_action",
        "cancel_run",
        "get_run",
        "list_runs",
        "panel_class",
        "panel_decide",
        "panel_edit",
        "panel_state",
        "plan_and_execute",
    ]
