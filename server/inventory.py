"""What the tool servers of the settings offer right now: each is opened, all at once, and compared with its pins."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from downstream.servers.catalogue import Catalogue
from downstream.servers.pool import Pool, open_pool
from downstream.settings import ServerSettings, Transport
from downstream.tools import ToolClass
from executors.built_in_tools import first_sentence
from journal.world import World

from .opened_store import open_settings_store
from .settings import Settings

State: TypeAlias = Literal["open", "needs_login", "unavailable", "off"]
Era: TypeAlias = Literal["modern", "legacy"]


@dataclass(frozen=True)
class ServerLine:
    """One server: `why` says what is wrong where it is not open."""

    name: str
    transport: Transport | None
    state: State
    protocol: str | None = None
    era: Era | None = None
    tools: int | None = None
    why: str | None = None


@dataclass(frozen=True)
class ToolLine:
    """One tool; a class of null and a reason are those of one in quarantine."""

    tool: str
    class_: ToolClass | None
    summary: str
    quarantined: str | None = None


@dataclass(frozen=True)
class Inventory:
    """Servers and tools, by name."""

    servers: tuple[ServerLine, ...]
    tools: tuple[ToolLine, ...]


async def take_inventory(settings: Settings, servers: Sequence[ServerSettings], *, world: World) -> Inventory:
    """Open these servers and list what they offer; those never seen before are pinned by it. Raises StoreError."""
    async with (
        open_settings_store(settings, world=world) as store,
        open_pool(servers, world, learn=store.outlet.learn) as pool,
    ):
        catalogue = Catalogue(pool, store.remembered, servers)
        await catalogue.tools(refresh=True)
        held = catalogue.quarantined()
        usable = [each for each in catalogue.known if each.full_name not in held]
        text = store.outlet.text
        tools = [ToolLine(each.full_name, each.class_, text(first_sentence(each.description))) for each in usable]
        tools += [ToolLine(name, None, "", store.outlet.text(why)) for name, why in held.items()]
        missing = {name: store.outlet.text(why) for name, why in catalogue.missing().items()}
        lines = [_server_line(server, pool, missing.get(server.name), tools=tools) for server in servers]
    # What is in quarantine was not opened anew where its server is gone.
    here = {line.name for line in lines if line.state == "open"}
    shown = [tool for tool in tools if tool.tool.partition(".")[0] in here]
    return Inventory(tuple(sorted(lines, key=lambda line: line.name)), tuple(sorted(shown, key=lambda each: each.tool)))


def _server_line(server: ServerSettings, pool: Pool, why: str | None, *, tools: Sequence[ToolLine]) -> ServerLine:
    if why is not None:
        state: State = "needs_login" if pool.needs_login(server.name) else "unavailable"
        return ServerLine(server.name, server.transport, state, why=why)
    protocol = pool.connection(server.name).protocol
    count = sum(tool.tool.partition(".")[0] == server.name for tool in tools)
    era: Era = "modern" if protocol in MODERN_PROTOCOL_VERSIONS else "legacy"
    return ServerLine(server.name, server.transport, "open", protocol, era, count)
