"""All tools of all servers as runs may use them: remembered, pinned, classed and named for models."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import anyio

from downstream.gate.prompt_text import quoted
from downstream.settings import ServerSettings
from downstream.tool_names import ToolNameError, read_tool_name
from downstream.tools import Tool, ToolClass
from journal.errors import StoreError
from journal.remembered import Remembered
from journal.values import Json

from .confirmed import confirmed_classes, with_confirmed
from .failures import ServerUnavailable
from .listing import Definition, Listing, class_of, fingerprint_of, shown
from .look_alikes import server_troubles
from .names import clean_text, wire_names
from .pins import Change, Pins, Refusals
from .pool import Pool

_KIND = "catalogue"
_LONGEST_PAUSE = 60.0
_SUGGESTIONS = 3


class Catalogue:
    """Servers of the user's settings are pinned at their first listing; each later one is compared with that.

    Each time a server is opened its listing is compared before any call; what changed may not be called until a person
    accepts it, and models go on seeing what is pinned. A server whose name can be taken for another is never opened.
    """

    def __init__(self, pool: Pool, remembered: Remembered, servers: Sequence[ServerSettings]) -> None:
        self._pool = pool
        self._remembered = remembered
        self._confusing = server_troubles(server.name for server in servers)
        self._servers = {server.name: server for server in servers if server.name not in self._confusing}
        self._known: dict[str, Pins] = {}
        self._missing = dict(self._confusing)
        self._failures: dict[str, int] = {}
        self._retry_at: dict[str, float] = {}
        self._unkept: dict[str, StoreError] = {}
        self._tools: tuple[Tool, ...] = ()
        self._by_name: dict[str, Tool] = {}
        self._confirmed: dict[str, ToolClass] = {}
        self._asking = {name: anyio.Lock() for name in self._servers}
        pool.inspect_with(self._inspect)

    async def tools(self, *, refresh: bool = False) -> tuple[Tool, ...]:
        """What models may see, by full name, opening servers never seen, or all to `refresh`; raises StoreError only.

        A server that could not be listed is asked again a second later at the earliest, and ever more rarely. What is
        in quarantine is looked up anew, since a person may have accepted it by another process.
        """
        return await self._learned(list(self._servers.values()), refresh=refresh)

    async def tools_for(self, name: str) -> tuple[Tool, ...]:
        """The same for a call of the tool of this name, in any form: no server but its own is waited for."""
        with suppress(ToolNameError):
            name = read_tool_name(name)
        server = self._servers.get(name.partition(".")[0])
        return await self._learned([] if server is None else [server])

    async def _learned(self, servers: Sequence[ServerSettings], *, refresh: bool = False) -> tuple[Tool, ...]:
        for server in servers:
            if (pins := self._known.get(server.name)) is not None and pins.difference.quarantined:
                await self._reread(server)
        unseen = [server for server in servers if refresh or not await self._recall(server)]
        async with anyio.create_task_group() as group:
            for server in unseen:
                group.start_soon(self._ask, server, refresh)
        unkept = [self._unkept.pop(server.name) for server in servers if server.name in self._unkept]
        if unkept:
            raise unkept[0]
        if any(tool.class_ == "unknown" for tool in self._tools):
            confirmed = await confirmed_classes(self._remembered)
            if confirmed != self._confirmed:
                self._confirmed = confirmed
                self._index()
        return self._tools

    @property
    def known(self) -> tuple[Tool, ...]:
        """The tools as the last `tools` left them; those that changed since stand as they are pinned."""
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
            f"{server}.{tool}": f"{reason}; until a person accepts that, it is not used{_way_out(server)}"
            for server, known in sorted(self._known.items())
            for tool, reason in known.difference.quarantined.items()
        }

    def changed(self, server: str) -> tuple[str, ...]:
        """The tools of a server that read differently since they were pinned; models go on seeing the pinned words."""
        return self._known[server].difference.reworded if server in self._known else ()

    def pins(self, server: str) -> Pins | None:
        """What is pinned of a server and what it listed last, if it was ever listed."""
        return self._known.get(server)

    def change(self, name: str) -> Change | None:
        """What a person has to accept before the tool of a full name may be used, if anything."""
        server, _, tool = name.partition(".")
        if (pins := self._known.get(server)) is None or tool not in pins.difference.quarantined:
            return None
        now = pins.found.tool(tool)
        assert now is not None, "only what is listed is in quarantine"
        return Change(server, pins.difference.quarantined[tool], pins.pinned.tool(tool), now)

    def changes(self, server: str) -> list[Change]:
        """All that a person has to accept of a server, by name of the tool."""
        quarantined = self._known[server].difference.quarantined if server in self._known else ()
        return [change for tool in sorted(quarantined) if (change := self.change(f"{server}.{tool}")) is not None]

    async def accept(self, change: Change) -> None:
        """Pin a tool as a person was shown it; where its server lists yet another by now, that stays in quarantine."""
        await self._repin(change.server, lambda pinned: pinned.with_tool(change.now))

    async def accept_all(self, server: str, listing: Listing) -> None:
        """Pin all of a listing as a person was shown it."""
        await self._repin(server, lambda pinned: listing)

    def news(self, server: str) -> Sequence[str]:
        """A sentence for the run where a server describes itself in other words than the pinned ones."""
        difference = self._known[server].difference if server in self._known else None
        return self._new_words(server) if difference and (difference.reworded or difference.instructions) else ()

    def warnings(self) -> list[str]:
        """Sentences for the run: servers left out, tools in quarantine, and words that changed."""
        missing = [f"tool server {name!r} is left out: {reason}" for name, reason in self.missing().items()]
        closed = [f"tool {quoted(name)} is in quarantine: {reason}" for name, reason in self.quarantined().items()]
        known = sorted(self._known.items())
        notes = [f"tool server {name!r}: {note}" for name, pins in known for note in pins.found.notes]
        return [*missing, *closed, *notes, *(text for name, _ in known for text in self._new_words(name))]

    def _new_words(self, server: str) -> list[str]:
        difference = self._known[server].difference
        names = ", ".join(quoted(name) for name in difference.reworded[:_SUGGESTIONS])
        more = len(difference.reworded) - _SUGGESTIONS
        what = [f"{names}{f' and {more} more' if more > 0 else ''}"] if names else []
        what += ["its instructions"] if difference.instructions else []
        again = f"models go on seeing what was accepted{_way_out(server)}"
        return [f"tool server {server!r} describes {' and '.join(what)} differently now; {again}"] if what else []

    async def _ask(self, server: ServerSettings, fresh: bool) -> None:
        async with self._asking[server.name]:
            # Somebody else may just have asked it.
            if fresh or not (server.name in self._known or anyio.current_time() < self._retry_at.get(server.name, 0.0)):
                await self._list(server, fresh=fresh)

    async def _list(self, server: ServerSettings, *, fresh: bool) -> None:
        began = anyio.current_time()
        try:
            await self._pool.listing(server.name, fresh=fresh)
        except ServerUnavailable as error:
            # A store that fails says nothing against the server.
            if server.name not in self._unkept:
                self._missing[server.name] = error.reason
                # That a login has come is seen without asking the server.
                wait = 0.0 if self._pool.needs_login(server.name) else self._pause(server.name, began)
                self._retry_at[server.name] = anyio.current_time() + wait

    def _pause(self, server: str, began: float) -> float:
        """From a second up; a server that takes its time to fail is not to hold up every other call."""
        self._failures[server] = failures = self._failures.get(server, 0) + 1
        return min(max(2.0 ** min(failures - 1, 6), 2 * (anyio.current_time() - began)), _LONGEST_PAUSE)

    async def _recall(self, server: ServerSettings) -> bool:
        return server.name in self._known or await self._reread(server)

    async def _reread(self, server: ServerSettings) -> bool:
        recorded = await self._remembered.get(_KIND, fingerprint_of(server))
        if recorded is not None:
            self._take(server, Pins.from_json(recorded))
        return recorded is not None

    async def _inspect(self, server: ServerSettings, found: Listing) -> Callable[[], Mapping[str, str]]:
        if (why := self._confusing.get(server.name)) is not None:
            raise ServerUnavailable(server.name, why)
        try:
            await self._note(server, found)
        except StoreError as error:
            self._unkept[server.name] = error
            raise
        self._missing.pop(server.name, None)
        self._failures.pop(server.name, None)
        return Refusals(lambda: self._known[server.name].pinned, found)

    async def _note(self, server: ServerSettings, found: Listing) -> None:
        """Compare with what is pinned now, by whichever process; the first listing is what is pinned."""
        await self._reread(server)
        if server.name not in self._known or self._known[server.name].found != found:
            await self._change(server, lambda pinned: pinned or found.first_pins(), found)

    async def _repin(self, server: str, accept: Callable[[Listing], Listing]) -> None:
        pins = self._known[server]
        await self._change(self._servers[server], lambda pinned: accept(pinned or pins.pinned), pins.found)

    async def _change(self, server: ServerSettings, pin: Callable[[Listing | None], Listing], found: Listing) -> None:
        def work(recorded: Json | None) -> Json:
            return Pins(pin(None if recorded is None else Pins.from_json(recorded).pinned), found).to_json()

        changed = await self._remembered.update(_KIND, fingerprint_of(server), work)
        self._take(server, Pins.from_json(changed))

    def _take(self, server: ServerSettings, known: Pins) -> None:
        self._known[server.name] = known
        self._index()

    def _index(self) -> None:
        self._tools = with_confirmed(_tools_of(self._known, self._servers), self._confirmed)
        held = self.quarantined()
        free = [tool for tool in self._tools if tool.full_name not in held]
        self._by_name = {tool.wire: tool for tool in free} | {tool.full_name: tool for tool in free}


async def remembered_tools(remembered: Remembered, servers: Sequence[ServerSettings]) -> tuple[Tool, ...]:
    """The usable tools of these servers as far as they were ever listed; opens none of them."""
    known: dict[str, Pins] = {}
    for server in servers:
        if (recorded := await remembered.get(_KIND, fingerprint_of(server))) is not None:
            known[server.name] = Pins.from_json(recorded)
    tools = _tools_of(known, {server.name: server for server in servers})
    return with_confirmed(tools, await confirmed_classes(remembered))


def _tools_of(known: Mapping[str, Pins], servers: Mapping[str, ServerSettings]) -> tuple[Tool, ...]:
    definitions = {
        f"{name}.{tool.name}": (servers[name], tool)
        for name, each in known.items()
        for tool in shown(each.pinned, each.found)
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
        private=server.options.private,
        entry=fingerprint_of(server),
    )


def _way_out(server: str) -> str:
    return f" (steprelay servers trust {server})"
