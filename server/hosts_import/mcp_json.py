"""Files with `mcpServers`: Claude Desktop, Claude Code, Cursor, Windsurf, Cline and Gemini CLI."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from journal.values import Json, JsonObject
from server.settings_file.located import is_list, is_map

from .places import HostFile
from .written import Written, in_milliseconds, renamed

_NAMES = {"serverUrl": "url", "httpUrl": "url", "transport": "type", "transportType": "type"}


def servers(data: JsonObject, file: HostFile) -> Iterator[Written]:
    """The servers in `mcpServers`, those of each project after them."""
    settings = data.get("mcp") if file.host == "gemini-cli" else None
    yield from _section(data, file, off=names_in(settings, "excluded"))
    projects = data.get("projects")
    if file.host != "claude-code" or not is_map(projects):
        return
    for folder, project in projects.items():
        if is_map(project):
            yield from _section(
                project, replace(file, project=Path(folder)), off=names_in(project, "disabledMcpServers")
            )


def host_by_keys(data: JsonObject) -> str:
    """The host that such a file is of, by keys that only it writes."""
    entries = data.get("mcpServers")
    keys = {key for entry in (entries.values() if is_map(entries) else ()) if is_map(entry) for key in entry}
    if "projects" in data:
        return "claude-code"
    if "httpUrl" in keys:
        return "gemini-cli"
    if "serverUrl" in keys:
        return "windsurf"
    return "cline" if "autoApprove" in keys else "mcp-json"


def _section(data: JsonObject, file: HostFile, *, off: set[str]) -> Iterator[Written]:
    entries = data.get("mcpServers")
    for name, entry in entries.items() if is_map(entries) else ():
        yield Written(name, _common(entry, file.host) if is_map(entry) else entry, file, name in off)


def _common(entry: JsonObject, host: str) -> JsonObject:
    common = renamed(entry, _NAMES)
    if host == "cline":
        common = in_milliseconds(common, "timeout")
    if "url" in entry and "type" not in common and (host in ("cline", "gemini-cli") and "httpUrl" not in entry):
        common["type"] = "sse"
    return common


def names_in(section: Json, key: str) -> set[str]:
    """The names in a list of a section, none where there is no such list."""
    names = section.get(key) if is_map(section) else None
    return {str(name) for name in names} if is_list(names) else set()
