"""The connection to one tool server: opened when first needed, held by one task, opened again when it was lost."""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TypeAlias, cast

import anyio
from mcp import Client, MCPError
from mcp.types import CallToolResult, Implementation, InputRequiredResult, RequestParamsMeta, TextContent
from pydantic import ValidationError

from downstream.settings import ServerSettings
from journal.values import Json, JsonObject
from journal.world import World

from .exchange import AskLeave, Exchange, free_leave, new_exchange
from .failures import AnsweredBadly, CallFailed, ServerUnavailable, asks_back, explain, why_not_open
from .listing import Listing
from .listing_read import read_listing
from .results import DID_RUN
from .transports import Surroundings, open_transport

log = logging.getLogger(__name__)

RawResult: TypeAlias = CallToolResult
"""What a server answered to a call, as the SDK read it; `results.normalise` makes it ours."""

Inspect: TypeAlias = Callable[[ServerSettings, Listing], Awaitable[Mapping[str, str]]]
"""Looks at what a server lists each time it is opened; says which of its tools may not be called, and why."""

_US = "steprelay"
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0
_CLOSE_SECONDS = 4.0


@dataclass
class _Session:
    """An open connection; `refused` is what the inspection of its listing said."""

    client: Client
    lost: anyio.Event
    listing: Listing
    refused: Mapping[str, str]


@dataclass
class _Opening:
    """One turn of the owner task: `wanted` asks for it, and it `ended` when it is open or has failed with `error`."""

    wanted: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    error: str | None = None


class Connection:
    """One server. `run` is its owner task, started by the pool; everything else may be used from any task."""

    def __init__(self, server: ServerSettings, world: World, around: Surroundings) -> None:
        self.server = server
        self.inspect: Inspect | None = None
        self._world = world
        self._around = around
        self._slots = anyio.CapacityLimiter(server.options.max_parallel)
        self._session: _Session | None = None
        self._opening = _Opening()
        self._scope = anyio.CancelScope()
        self._stopped = anyio.Event()

    @property
    def is_open(self) -> bool:
        """Whether there is a connection that is not known to be lost."""
        return self._session is not None and not self._session.lost.is_set()

    async def listing(self, *, fresh: bool = False) -> Listing:
        """What the server lists, opening it where it is not; `fresh` asks it again. Raises ServerUnavailable."""
        was_open = self._session is not None
        session = await self._ready()
        if fresh and was_open:
            try:
                with anyio.fail_after(self.server.options.start_timeout):
                    session.listing, session.refused = await self._list(session.client)
            except (MCPError, ValidationError, RuntimeError, TimeoutError) as error:
                session.lost.set()
                raise ServerUnavailable(self.server.name, why_not_open(error, said="")) from error
        return session.listing

    async def call(
        self,
        tool: str,
        arguments: JsonObject,
        *,
        timeout: float,  # noqa: ASYNC109 - counts only from the moment of sending
        meta: Mapping[str, Json] | None = None,
        leave: AskLeave = free_leave,
    ) -> RawResult:
        """Call a tool (its name without the server), waiting for a free slot and for the server to be open.

        The deadline counts from then on, and so does the leave to send, which is asked for then. An answer that is an
        error, or does not fit, is a result with `is_error`. A call that surely did not run since the connection was
        lost, or its leave had lapsed, is sent once more. Raises CallFailed, and what `leave` raises.
        """
        async with self._slots:
            try:
                return await self._send(tool, arguments, within=timeout, meta=meta, ask_leave=leave)
            except CallFailed as failed:
                if not failed.lost:
                    raise
            return await self._send(tool, arguments, within=timeout, meta=meta, ask_leave=leave)

    async def run(self) -> None:
        """Open whenever somebody wants it, hold, close; ends after `stop`. Nothing but cancellation is raised."""
        failures = 0
        while True:
            opening = self._opening
            await opening.wanted.wait()
            if self._stopped.is_set():
                break
            try:
                await self._hold(opening)
            # Whatever ends a connection is told to those who wait for it, and costs no other connection.
            except Exception as error:
                log.debug("server_ended", extra={"server": self.server.name}, exc_info=True)
                await self._around.tail.settle()
                self._end(opening, why_not_open(error, said=self._around.tail.short()))
            failures = failures + 1 if opening.error else 0
            with anyio.move_on_after(self._pause(failures)):
                await self._stopped.wait()
        self._end(opening, "steprelay is closing")

    def stop(self) -> None:
        """Close in good order and open no more; `run` ends within 6 s."""
        self._stopped.set()
        self._opening.wanted.set()
        if self._session is None:
            self._scope.cancel()
        else:
            self._session.lost.set()

    async def _hold(self, opening: _Opening) -> None:
        server, lost = self.server, anyio.Event()
        seconds = server.options.start_timeout
        try:
            with anyio.move_on_after(seconds) as self._scope:
                transport = open_transport(server, self._around, on_end=lost.set)
                info = Implementation(name=_US, version=version(_US))
                async with Client(transport, client_info=info, cache=None) as client:
                    self._session = _Session(client, lost, *await self._list(client))
                    self._scope.deadline = math.inf
                    self._end(opening)
                    await lost.wait()
                    self._session = None
                    self._scope.deadline = anyio.current_time() + _CLOSE_SECONDS
        finally:
            self._session = None
        if not opening.ended.is_set():
            way_out = f"try it on its own, or raise server_options.{server.name}.start_timeout"
            raise ServerUnavailable(server.name, f"it did not answer within {seconds:g} s; {way_out}")

    async def _list(self, client: Client) -> tuple[Listing, Mapping[str, str]]:
        if client.server_info is not None and client.server_info.name == _US:
            raise ServerUnavailable(self.server.name, "it is steprelay itself; take it out of mcpServers")
        listing = await read_listing(client)
        return listing, await self.inspect(self.server, listing) if self.inspect else {}

    async def _ready(self) -> _Session:
        if self._session is not None and not self._session.lost.is_set():
            return self._session
        opening = self._opening
        opening.wanted.set()
        await opening.ended.wait()
        if self._session is None:
            raise ServerUnavailable(self.server.name, opening.error or "it ended right after it was opened")
        return self._session

    async def _send(
        self,
        tool: str,
        arguments: JsonObject,
        *,
        within: float,
        meta: Mapping[str, Json] | None,
        ask_leave: AskLeave,
    ) -> RawResult:
        name, session = self.server.name, await self._ready_for(tool)
        exchange = Exchange(await ask_leave(), self._world.reach)
        self._world.reach("send.leave")
        result: RawResult | InputRequiredResult | None = None
        with new_exchange(exchange), anyio.move_on_after(within):
            try:
                result = await session.client.session.call_tool(
                    tool, arguments, meta=_meta(meta), allow_input_required=True
                )
            except (MCPError, ValidationError, RuntimeError) as error:
                meant = explain(name, error, exchange)
                if isinstance(meant, AnsweredBadly):
                    said, mark = TextContent(type="text", text=str(meant)), {DID_RUN: True} if meant.did_run else None
                    return CallToolResult(content=[said], is_error=True, _meta=mark)
                if meant.lost:
                    session.lost.set()
                raise meant from error
        if result is None:
            raise CallFailed(f"{name}.{tool} gave no answer within {within:g} s", may_have_run=exchange.sent, late=True)
        if isinstance(result, InputRequiredResult):
            raise asks_back(name)
        self._world.reach("send.answered")
        return result

    async def _ready_for(self, tool: str) -> _Session:
        self._world.reach("send.opening")
        try:
            session = await self._ready()
        except ServerUnavailable as error:
            raise CallFailed(str(error), may_have_run=False) from error
        if tool in session.refused:
            why = f"{self.server.name}.{tool} may not be called: {session.refused[tool]}"
            raise CallFailed(why, may_have_run=False)
        return session

    def _end(self, opening: _Opening, error: str | None = None) -> None:
        if not opening.ended.is_set():
            opening.error = error
            self._opening = _Opening()
            opening.ended.set()

    def _pause(self, failures: int) -> float:
        longest = min(_FIRST_PAUSE * 2**failures, _LONGEST_PAUSE) if failures else 0.0
        return longest * (0.5 + self._world.chance() / 2)


def _meta(meta: Mapping[str, Json] | None) -> RequestParamsMeta | None:
    return cast("RequestParamsMeta", dict(meta)) if meta else None
