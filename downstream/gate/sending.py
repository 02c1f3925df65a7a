"""A call as it leaves the gate, and the leave without which its bytes may not go out."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from mcp.types import CallToolResult

from downstream.servers.asking import NO_DESK, NOT_RESUMED, Desk, Resumed
from downstream.servers.exchange import AskLeave, Leave
from downstream.settings import ServerOptions
from downstream.tools import Tool
from journal.run_journal import RunJournal
from journal.values import JsonObject

from .asked_back import OpenDesk
from .restored import filled_in
from .stages import Case, Gate

_GOOD_SECONDS = 15.0
"""Leave is good for so long at most: less than what it takes until another process counts this one as dead."""


@dataclass(frozen=True)
class Outgoing:
    """A call as it is sent: nothing can change it any more. Progress buys it time, up to `longest`.

    `desk` and `resumed` are for what its server asks, meanwhile and before it begins.
    """

    run: str
    tool: Tool
    arguments: JsonObject
    timeout: float
    leave: AskLeave
    longest: float | None = None
    desk: Desk = NO_DESK
    resumed: Resumed = NOT_RESUMED


Send: TypeAlias = Callable[[Outgoing], Awaitable[CallToolResult]]
"""Put a call on the wire, with leave. Raises CallFailed, which says whether it may have run, and Fenced."""


def outgoing(gate: Gate, journal: RunJournal, case: Case, resumed: Resumed = NOT_RESUMED) -> Outgoing:
    """The case's call as it is sent: here alone its server's own secrets are filled in again."""
    timeout = _call_timeout(gate, case.tool)
    ask = partial(_leave, journal, case.call.key, seconds=timeout)
    server = gate.servers.get(case.tool.server)
    longest = server.longest_call if server else None
    return Outgoing(
        run=case.run.id,
        tool=case.tool,
        arguments=filled_in(case.tool, case.call.arguments.data, gate.outlet),
        timeout=timeout,
        leave=ask,
        longest=longest,
        desk=OpenDesk(gate, journal, case).desk,
        resumed=resumed,
    )


def deadline(gate: Gate, tool: Tool, *, now: float) -> float:
    """Until when a call that begins now may go out or be answered; one that waits for others is given more then."""
    server = gate.servers.get(tool.server)
    start = (server.options if server else ServerOptions()).start_timeout
    return now + start + _call_timeout(gate, tool)


def _call_timeout(gate: Gate, tool: Tool) -> float:
    server = gate.servers.get(tool.server)
    return server.call_timeout if server else ServerOptions().call_timeout


async def _leave(journal: RunJournal, key: str, *, seconds: float) -> Leave:
    """Leave to send, since this drive still has the run. Raises Fenced."""
    world = journal.world
    monotonic, now = world.monotonic(), world.now()
    await journal.sending.clear(key, seconds=seconds)

    def holds() -> bool:
        # Either clock may stand still where the other tells that this process slept.
        gone = max(world.monotonic() - monotonic, world.now() - now)
        return gone <= min(_GOOD_SECONDS, seconds)

    return holds
