"""The tool servers: each is started, its tools are counted, and those that nobody knows the effect of are named."""

from collections.abc import Iterator

from journal.errors import StoreError
from journal.world import World
from server.inventory import Inventory, ServerLine, ToolLine, take_inventory
from server.settings import Settings
from server.views.words import counted

from .finding import Finding

_NAMED = 5


async def tool_servers(settings: Settings, world: World) -> list[Finding]:
    """One finding or more for each server of the settings."""
    if not settings.servers and not settings.off:
        return [Finding("servers", "warning", "there are no tool servers", "steprelay init takes those of your hosts")]
    gaps = settings.gaps_of_servers
    try:
        startable = [server for server in settings.servers if server.name not in gaps]
        found = await take_inventory(settings, startable, world=world)
    except StoreError as error:
        return [Finding("servers", "problem", str(error))]
    off = [Finding(f"server {name}", "ok", "it is off") for name in settings.off if name not in gaps]
    unset = [Finding(f"server {name}", "warning", f"it is not started: {why}") for name, why in gaps.items()]
    return [*(finding for line in found.servers for finding in _of_server(line, found)), *unset, *off]


def _of_server(line: ServerLine, found: Inventory) -> Iterator[Finding]:
    check = f"server {line.name}"
    if line.state == "needs_login":
        yield Finding(check, "warning", "nobody is logged in", f"steprelay servers login {line.name}")
    elif line.why is not None:
        yield Finding(check, "problem", line.why, "correct its entry in mcpServers, or set disabled: true there")
    else:
        own = [tool for tool in found.tools if tool.tool.partition(".")[0] == line.name]
        yield Finding(check, "ok", f"{counted(len(own), 'tool')}, protocol {line.protocol} ({line.era})")
        yield from _of_tools(line.name, own)


def _of_tools(name: str, tools: list[ToolLine]) -> Iterator[Finding]:
    check = f"server {name}"
    if held := [tool.tool for tool in tools if tool.quarantined]:
        text = f"in quarantine, for they changed: {_listed(held)}"
        yield Finding(check, "warning", text, f"steprelay servers trust {name}")
    if unknown := [tool.tool for tool in tools if tool.class_ == "unknown"]:
        text = f"nobody says what these do, so that a person is asked at each call: {_listed(unknown)}"
        yield Finding(check, "warning", text, f"say it in server_options.{name}.effects, or confirm it on the page")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
