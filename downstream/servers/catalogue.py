"""All tools of all servers as runs may use them: remembered, pinned, classed and named for models."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import anyio

from downstream.settings import ServerSettings
from downstream.tool_names import ToolNameError, read_tool_name
from downstream.tools import Tool
from journal.errors import StoreError
from journal.remembered import Remembered
from journal.values import Json, JsonObject

from .failures import ServerUnavailable
from .listing import Definition, Difference, Listing, class_of, compare, fingerprint_of, usable
from .names import clean_text, wire_names
from .pool import Pool

_KIND = "catalogue"
_RETRY_SECONDS = 60.0
_SUGGESTIONS = 3


@dataclass(frozen=True)
class _Known:
    """What a server listed when it was pinned, and what it lists now."""

    pinned: Listing
    found: Listing

    # Every call of every tool asks for it.
    @cached_property
    def difference(self) -> Difference:
        return compare(self.pinned, self.found)

    def to_json(self) -> JsonObject:
        return {"pinned": self.pinned.to_json(), "found": self.found.to_json()}

    @classmethod
    def from_json(cls, data: Json) -> "_Known":
        return cls(Listing.from_json(data["pinned"]), Listing.from_json(data["found"]))


class Catalogue:
    """Servers of the user's settings are pinned at their first listing; each later one is compared with that.

    Each time a server is opened its listing is compared before any call; what changed may not be called.
    """

    def __init__(self, pool: Pool, remembered: Remembered, servers: Sequence[ServerSettings]) -> None:
        self._pool = pool
        self._remembered = remembered
        self._servers = {server.name: server for server in servers}
        self._known: dict[str, _Known] = {}
        self._missing: dict[str, str] = {}
        self._retry_at: dict[str, float] = {}
        self._unkept: StoreError | None = None
        self._tools: tuple[Tool, ...] = ()
        self._by_name: dict[str, Tool] = {}
        self._learning = anyio.Lock()
        pool.inspect_with(self._inspect)

    async def tools(self, *, refresh: bool = False) -> tuple[Tool, ...]:
        """The usable tools by full name, opening servers never seen, or all to `refresh`; raises StoreError only.

        A server that could not be listed is asked again a minute later at the earliest.
        """
        async with self._learning:
            unseen = [server for server in self._servers.values() if refresh or not await self._recall(server)]
            async with anyio.create_task_group() as group:
                for server in unseen:
                    if refresh or anyio.current_time() >= self._retry_at.get(server.name, 0.0):
                        group.start_soon(self._ask, server, refresh)
            if (unkept := self._unkept) is not None:
                self._unkept = None
                raise unkept
        return self._tools

    @property
    def known(self) -> tuple[Tool, ...]:
        """The usable tools as the last `tools` left them."""
        return self._tools

    def tool(self, name: str) -> Tool | None:
        """The usable tool of a full name, a name for models, or a name as hosts write it."""
        if name in self._by_name:
            return self._by_name[name]
        try:
            return self._by_name.get(read_tool_name(name))
        except ToolNameError:
            return None

    def suggest(self, name: str) -> list[str]:
        """Full names that someone who wrote `name` may have meant, the likeliest first."""
        by_tool = [tool.full_name for tool in self._tools if tool.name == name.rpartition(".")[2]]
        alike = difflib.get_close_matches(name, [tool.full_name for tool in self._tools], _SUGGESTIONS)
        return list(dict.fromkeys([*by_tool, *alike]))[:_SUGGESTIONS]

    def missing(self) -> dict[str, str]:
        """Why a server could not be listed, by its name."""
        return dict(sorted(self._missing.items()))

    def quarantined(self) -> dict[str, str]:
        """Why a tool that its server lists may not be used, by its full name."""
        return {
            f"{server}.{tool}": f"{reason}; until a person accepts that, it is not used"
            for server, known in sorted(self._known.items())
            for tool, reason in known.difference.quarantined.items()
        }

    def changed(self, server: str) -> tuple[str, ...]:
        """The tools of a server that read differently since they were pinned; models go on seeing the pinned words."""
        return self._known[server].difference.reworded if server in self._known else ()

    def warnings(self) -> list[str]:
        """Sentences for the run: servers left out, tools in quarantine, and words that changed."""
        missing = [f"tool server {name!r} is left out: {reason}" for name, reason in self.missing().items()]
        closed = [f"tool {_quoted(name)} is left out: {reason}" for name, reason in self.quarantined().items()]
        return [*missing, *closed, *(text for name in sorted(self._known) for text in self._new_words(name))]

    def _new_words(self, server: str) -> list[str]:
        difference = self._known[server].difference
        names = ", ".join(_quoted(name) for name in difference.reworded[:_SUGGESTIONS])
        more = len(difference.reworded) - _SUGGESTIONS
        what = [f"{names}{f' and {more} more' if more > 0 else ''}"] if names else []
        what += ["its instructions"] if difference.instructions else []
        again = "models go on seeing the text of the first listing"
        return [f"tool server {server!r} describes {' and '.join(what)} differently now; {again}"] if what else []

    async def _ask(self, server: ServerSettings, fresh: bool) -> None:
        try:
            await self._pool.listing(server.name, fresh=fresh)
        except ServerUnavailable as error:
            # A store that fails says nothing against the server.
            if self._unkept is None:
                self._missing[server.name] = error.reason
                # That a login has come is seen without asking the server.
                wait = 0.0 if self._pool.needs_login(server.name) else _RETRY_SECONDS
                self._retry_at[server.name] = anyio.current_time() + wait

    async def _recall(self, server: ServerSettings) -> bool:
        if server.name not in self._known:
            recorded = await self._remembered.get(_KIND, fingerprint_of(server))
            if recorded is not None:
                self._take(server, _Known.from_json(recorded))
        return server.name in self._known

    async def _inspect(self, server: ServerSettings, found: Listing) -> Mapping[str, str]:
        try:
            known = await self._pinned(server, found)
        except StoreError as error:
            self._unkept = error
            raise
        self._missing.pop(server.name, None)
        self._take(server, known)
        return known.difference.quarantined

    async def _pinned(self, server: ServerSettings, found: Listing) -> _Known:
        await self._recall(server)
        before = self._known.get(server.name)
        known = replace(before, found=found) if before else _Known(pinned=found, found=found)
        if known != before:
            await self._remembered.put(_KIND, fingerprint_of(server), known.to_json())
        return known

    def _take(self, server: ServerSettings, known: _Known) -> None:
        self._known[server.name] = known
        self._tools = _tools_of(self._known, self._servers)
        self._by_name = {tool.wire: tool for tool in self._tools} | {tool.full_name: tool for tool in self._tools}


async def remembered_tools(remembered: Remembered, servers: Sequence[ServerSettings]) -> tuple[Tool, ...]:
    """The usable tools of these servers as far as they were ever listed; opens none of them."""
    known: dict[str, _Known] = {}
    for server in servers:
        if (recorded := await remembered.get(_KIND, fingerprint_of(server))) is not None:
            known[server.name] = _Known.from_json(recorded)
    return _tools_of(known, {server.name: server for server in servers})


def _tools_of(known: Mapping[str, _Known], servers: Mapping[str, ServerSettings]) -> tuple[Tool, ...]:
    definitions = {
        f"{name}.{tool.name}": (servers[name], tool)
        for name, each in known.items()
        for tool in usable(each.pinned, each.found)
    }
    wires = wire_names(definitions)
    return tuple(_tool(*definitions[full], wire=wires[full]) for full in sorted(definitions))


def _tool(server: ServerSettings, definition: Definition, *, wire: str) -> Tool:
    options = server.options.for_tool(definition.name)
    trusted = server.options.trust == "annotations"
    return Tool(
        server=server.name,
        name=definition.name,
        wire=wire,
        title=clean_text(definition.title),
        description=clean_text(definition.description),
        input_schema=definition.input_schema,
        output_schema=definition.output_schema,
        annotations=definition.annotations,
        class_=class_of(definition, server.options),
        idempotent=options.idempotent or (trusted and definition.annotations.get("idempotentHint") is True),
        cache=options.cache,
        filled=options.idempotency_key,
    )


def _quoted(name: str) -> str:
    return repr(clean_text(name)[:120])
