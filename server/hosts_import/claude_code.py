"""What Claude Code keeps of a project beside its `.mcp.json`: which of those servers its user turned off."""

from server.settings_file.document import SettingsError
from server.settings_file.located import is_map

from .host_file import read_data
from .mcp_json import names_in
from .places import HostFile, Machine, known_files


def turned_off(file: HostFile, machine: Machine) -> set[str]:
    """Names of servers in a project's file that are turned off elsewhere; files that can't be read turn off nothing."""
    if file.host != "claude-code" or file.project is None:
        return set()
    off: set[str] = set()
    own = [known.path for known in known_files(machine) if known.host == "claude-code" and known.project is None]
    for path in (*own, *(file.project / ".claude" / name for name in ("settings.json", "settings.local.json"))):
        try:
            state = read_data(path)
        except SettingsError:
            continue
        projects = state.get("projects")
        section = projects.get(str(file.project)) if is_map(projects) else state
        off |= names_in(section, "disabledMcpjsonServers") | names_in(section, "disabledMcpServers")
    return off
