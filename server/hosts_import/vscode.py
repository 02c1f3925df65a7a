"""VS Code: `servers` in mcp.json, or below `mcp` in settings.json and in a dev container."""

from collections.abc import Iterator

from journal.values import JsonObject
from server.settings_file.located import is_map

from .places import HostFile
from .written import Written


def servers(data: JsonObject, file: HostFile) -> Iterator[Written]:
    """All servers; its `inputs` are not read, since references name them and their defaults may be secret."""
    for name, entry in section(data).items():
        yield Written(name, entry, file)


def section(data: JsonObject) -> JsonObject:
    """The servers by name, empty where this is no such file."""
    for place in ((), ("mcp",), ("customizations", "vscode", "mcp")):
        inside = data
        for key in place:
            below = inside.get(key)
            inside = below if is_map(below) else {}
        found = inside.get("servers")
        if is_map(found):
            return found
    return {}
