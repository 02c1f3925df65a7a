"""Tools as the settings and earlier listings tell of them, for commands that call none."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from downstream.resources import with_reading
from downstream.servers.catalogue import Catalogue, remembered_tools
from downstream.servers.pool import Pool, open_pool
from downstream.settings import Effect, ServerSettings
from downstream.tool_names import ToolNameError, has_glob, read_tool_name
from downstream.tools import Tool
from journal.store import Store
from journal.world import World

from .opened_store import open_settings_store
from .settings import Settings
from .terminal.exit_codes import UsageProblem

Source: TypeAlias = Literal["listed", "effects", "given"]
"""What tells a tool's class: its server's listing, with the settings' word on it; that word alone; or a test case."""


class NoSuchTool(UsageProblem):
    """A name under which nothing is known, with the way out."""


@dataclass(frozen=True)
class Known:
    """A tool, and what is known of it: without a listing, neither its arguments nor its words are."""

    tool: Tool
    source: Source


class KnownTools:
    """Made by `open_known_tools`."""

    def __init__(self, settings: Settings, store: Store, pool: Pool) -> None:
        self._servers = {server.name: server for server in settings.servers}
        self._gaps = settings.gaps_of_servers
        self._store = store
        self._pool = pool
        self._listed: tuple[Tool, ...] | None = None

    async def listed(self) -> Sequence[Tool]:
        """All tools that were ever listed."""
        if self._listed is None:
            self._listed = await remembered_tools(self._store.remembered, tuple(self._servers.values()))
        return self._listed

    async def find(self, name: str, *, class_: Effect | None = None) -> Known:
        """The tool of this name. Its server is opened only if nothing else tells its class. Raises NoSuchTool."""
        full = _full_name(name)
        server_name, _, short = full.partition(".")
        listed = await self.listed()
        tool = with_reading({each.full_name: each for each in listed}.get, lambda: listed)(full)
        if tool is not None:
            return Known(tool, "listed")
        server = self._servers.get(server_name)
        effect = server.options.effect_of(short) if server is not None else None
        if (said := class_ or effect) is not None:
            return Known(_unlisted(server_name, short, said), "given" if class_ else "effects")
        if (why := self._gaps.get(server_name)) is not None:
            raise NoSuchTool(f"{full} is not known yet, and its server cannot be opened: {why}")
        if server is None:
            known = ", ".join(self._servers) or "none"
            raise NoSuchTool(f"{full}: the settings have no server {server_name!r} that is on; they have: {known}")
        return Known(await self._look(server, full), "listed")

    async def _look(self, server: ServerSettings, full: str) -> Tool:
        catalogue = Catalogue(self._pool, self._store.remembered, (server,))
        await catalogue.tools()
        self._listed = None
        if (tool := catalogue.tool(full)) is not None:
            return tool
        if (why := catalogue.missing().get(server.name)) is not None:
            way = f"mend that, or say its class in server_options.{server.name}.effects"
            raise NoSuchTool(f"{full} is not known yet, and its server cannot be opened: {why}; {way}")
        if (why := catalogue.quarantined().get(full)) is not None:
            raise NoSuchTool(f"{full} may not be used: {why}")
        meant = catalogue.suggest(full)
        hint = f"did you mean {meant[0]}?" if meant else f"`servers tools {server.name}` lists what there is"
        raise NoSuchTool(f"server {server.name!r} has no tool {full!r}; {hint}")


@asynccontextmanager
async def open_known_tools(settings: Settings, *, world: World) -> AsyncGenerator[KnownTools]:
    """What is known of these settings' tools. Raises StoreError."""
    async with (
        open_settings_store(settings, world=world) as store,
        open_pool(settings.servers, world, learn=store.outlet.learn) as pool,
    ):
        yield KnownTools(settings, store, pool)


def _full_name(name: str) -> str:
    try:
        full = read_tool_name(name)
    except ToolNameError as error:
        raise NoSuchTool(str(error)) from error
    if has_glob(full):
        raise NoSuchTool(f"{name!r} names many tools; write one, as in fs.read_file")
    return full


def _unlisted(server: str, name: str, class_: Effect) -> Tool:
    return Tool(server, name, f"{server}__{name}", "", "", {"type": "object"}, None, {}, class_)
