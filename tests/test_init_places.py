"""Where files of hosts are looked for, on each platform."""

from pathlib import Path

import pytest

from server.hosts_import.places import HOSTS, HostFile, Machine, known_files, named_host

CLINE = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"


def of_users(machine: Machine) -> list[tuple[str, str]]:
    return [(file.host, str(file.path)) for file in known_files(machine) if file.project is None]


def test_on_macos(tmp_path: Path) -> None:
    support = f"{tmp_path}/Library/Application Support"
    assert of_users(Machine("darwin", tmp_path, {}, tmp_path / "shop")) == [
        ("claude-desktop", f"{support}/Claude/claude_desktop_config.json"),
        ("claude-code", f"{tmp_path}/.claude.json"),
        ("vscode", f"{support}/Code/User/mcp.json"),
        ("vscode", f"{support}/Code - Insiders/User/mcp.json"),
        ("cursor", f"{tmp_path}/.cursor/mcp.json"),
        ("windsurf", f"{tmp_path}/.codeium/windsurf/mcp_config.json"),
        ("windsurf", f"{tmp_path}/.codeium/mcp_config.json"),
        ("cline", f"{tmp_path}/.cline/data/settings/cline_mcp_settings.json"),
        ("cline", f"{support}/Code/User/{CLINE}"),
        ("cline", f"{support}/Code - Insiders/User/{CLINE}"),
        ("gemini-cli", f"{tmp_path}/.gemini/settings.json"),
        ("codex", f"{tmp_path}/.codex/config.toml"),
        ("goose", f"{tmp_path}/.config/goose/config.yaml"),
    ]


@pytest.mark.parametrize("has_variables", [True, False])
def test_on_windows(tmp_path: Path, has_variables: bool) -> None:
    data = tmp_path / ("elsewhere" if has_variables else "AppData")
    package = data / "Local" / "Packages" / "Claude_pzs8sxrjxfjjc" / "LocalCache" / "Roaming" / "Claude"
    profile = data / "Roaming" / "Code" / "User" / "profiles" / "1a2b" / "mcp.json"
    package.mkdir(parents=True)
    profile.parent.mkdir(parents=True)
    profile.touch()
    environ = {"APPDATA": f"{data}/Roaming", "LOCALAPPDATA": f"{data}/Local"} if has_variables else {}
    found = of_users(Machine("win32", tmp_path, environ, tmp_path / "shop"))
    assert [path for host, path in found if host in ("claude-desktop", "vscode", "goose")] == [
        f"{package}/claude_desktop_config.json",
        f"{data}/Roaming/Claude/claude_desktop_config.json",
        f"{data}/Roaming/Code/User/mcp.json",
        f"{data}/Roaming/Code - Insiders/User/mcp.json",
        f"{profile}",
        f"{data}/Roaming/Block/goose/config/config.yaml",
    ]


def test_on_linux_variables_go_first(tmp_path: Path) -> None:
    environ = {
        "XDG_CONFIG_HOME": "/xdg",
        "CLAUDE_CONFIG_DIR": "/claude",
        "CODEX_HOME": "/codex",
        "CLINE_MCP_SETTINGS_PATH": "/cline/own.json",
    }
    found = of_users(Machine("linux", tmp_path, environ, tmp_path / "shop"))
    assert dict(reversed(found)) == {
        "claude-desktop": "/xdg/Claude/claude_desktop_config.json",
        "claude-code": "/claude/.claude.json",
        "vscode": "/xdg/Code/User/mcp.json",
        "cursor": f"{tmp_path}/.cursor/mcp.json",
        "windsurf": f"{tmp_path}/.codeium/windsurf/mcp_config.json",
        "cline": "/cline/own.json",
        "gemini-cli": f"{tmp_path}/.gemini/settings.json",
        "codex": "/codex/config.toml",
        "goose": "/xdg/goose/config.yaml",
    }
    assert {host for host, _ in found} == set(HOSTS)


def test_a_project_is_the_folder_and_the_root_of_its_repository(tmp_path: Path) -> None:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    folder = tmp_path / "shop" / "src"
    found = known_files(Machine("linux", tmp_path, {}, folder))
    assert [str(file.path.relative_to(tmp_path)) for file in found if file.project] == [
        f"{project}/{name}"
        for name in (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json", ".gemini/settings.json", ".codex/config.toml")
        for project in ("shop/src", "shop")
    ]


def test_in_the_home_folder_a_file_is_the_users_own(tmp_path: Path) -> None:
    found = known_files(Machine("linux", tmp_path, {}, tmp_path))
    assert HostFile("cursor", tmp_path / ".cursor" / "mcp.json") in found
    assert len({file.path for file in found}) == len(found)


def test_names_of_files_say_their_host(tmp_path: Path) -> None:
    assert named_host(tmp_path / ".mcp.json") == HostFile("claude-code", tmp_path / ".mcp.json", tmp_path)
    assert named_host(tmp_path / "mcp_config.json") == HostFile("windsurf", tmp_path / "mcp_config.json")
    assert named_host(tmp_path / "mcp.json") is None
