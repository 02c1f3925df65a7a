"""Where each host keeps the tool servers of its user and of a project."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HOSTS = ("claude-desktop", "claude-code", "vscode", "cursor", "windsurf", "cline", "gemini-cli", "codex", "goose")


@dataclass(frozen=True)
class Machine:
    """What decides where files lie; `platform` is as in `sys.platform`, `folder` the one being worked in."""

    platform: str
    home: Path
    environ: Mapping[str, str]
    folder: Path

    def roaming(self, *, mac: str, windows: str, linux: str) -> Path:
        """The folder of an application's settings, by its name on each platform."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support" / mac
        if self.platform == "win32":
            return Path(self.environ.get("APPDATA") or self.home / "AppData" / "Roaming") / windows
        return Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config") / linux

    def projects(self) -> list[Path]:
        """The folder worked in, and the root of its repository."""
        around = (self.folder, *self.folder.parents)
        return list(dict.fromkeys([self.folder, *(each for each in around if (each / ".git").exists())]))


@dataclass(frozen=True)
class HostFile:
    """A file of a host; `project` is the folder whose servers it holds, None where they are for everywhere."""

    host: str
    path: Path
    project: Path | None = None

    def __str__(self) -> str:
        return f"{self.host}, {self.path}" + (f", project {self.project}" if self.project else "")


def known_files(machine: Machine) -> list[HostFile]:
    """Every place that is looked at, in the order in which entries are taken."""
    of_user = dict(_of_user(machine))
    # By path, since where the project is the home folder, a file of it is the user's own.
    found: dict[Path, HostFile] = {}
    for host in HOSTS:
        for path in of_user[host]:
            found.setdefault(path, HostFile(host, path))
        for project in machine.projects():
            for name in _IN_PROJECT.get(host, ()):
                found.setdefault(project / name, HostFile(host, project / name, project))
    return list(found.values())


def named_host(path: Path) -> HostFile | None:
    """The host whose file has this name and place, wherever it lies."""
    for host, names in _IN_PROJECT.items():
        for name in names:
            parts = Path(name).parts
            if path.parts[-len(parts) :] == parts:
                return HostFile(host, path, path.parents[len(parts) - 1])
    return next((HostFile(host, path) for name, host in _BY_NAME.items() if path.name == name), None)


_IN_PROJECT = {
    "claude-code": (".mcp.json",),
    "vscode": (".vscode/mcp.json",),
    "cursor": (".cursor/mcp.json",),
    "gemini-cli": (".gemini/settings.json",),
    "codex": (".codex/config.toml",),
}
_BY_NAME = {
    "claude_desktop_config.json": "claude-desktop",
    ".claude.json": "claude-code",
    "mcp_config.json": "windsurf",
    "cline_mcp_settings.json": "cline",
}


def _of_user(machine: Machine) -> Iterator[tuple[str, list[Path]]]:
    home, environ = machine.home, machine.environ
    yield "claude-desktop", _claude_desktop(machine)
    yield "claude-code", [Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"]
    code = [machine.roaming(mac=name, windows=name, linux=name) / "User" for name in ("Code", "Code - Insiders")]
    profiles = [path for user in code for path in sorted(user.glob("profiles/*/mcp.json"))]
    yield "vscode", [*(user / "mcp.json" for user in code), *profiles]
    yield "cursor", [home / ".cursor" / "mcp.json"]
    yield "windsurf", [home / ".codeium" / "windsurf" / "mcp_config.json", home / ".codeium" / "mcp_config.json"]
    extension = Path("globalStorage") / "saoudrizwan.claude-dev" / "settings"
    own = environ.get("CLINE_MCP_SETTINGS_PATH")
    folders = [home / ".cline" / "data" / "settings", *(user / extension for user in code)]
    yield "cline", [*([Path(own)] if own else ()), *(folder / "cline_mcp_settings.json" for folder in folders)]
    yield "gemini-cli", [home / ".gemini" / "settings.json"]
    yield "codex", [Path(environ.get("CODEX_HOME") or home / ".codex") / "config.toml"]
    if machine.platform == "win32":
        yield "goose", [machine.roaming(mac="", windows="Block", linux="") / "goose" / "config" / "config.yaml"]
    else:
        yield "goose", [Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "goose" / "config.yaml"]


def _claude_desktop(machine: Machine) -> list[Path]:
    folders = [machine.roaming(mac="Claude", windows="Claude", linux="Claude")]
    if machine.platform == "win32":
        # Installed as a package, it sees a folder of its own in place of the roaming one.
        local = Path(machine.environ.get("LOCALAPPDATA") or machine.home / "AppData" / "Local")
        folders = [
            *sorted(local.glob(os.path.join("Packages", "Claude_*", "LocalCache", "Roaming", "Claude"))),
            *folders,
        ]
    return [folder / "claude_desktop_config.json" for folder in folders]
