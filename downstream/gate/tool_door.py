"""Puts the door for tool calls together from the catalogue, the connections and the settings."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from mcp.types import CallToolResult

from downstream.door import CallTool
from downstream.policy_settings import PolicySettings
from downstream.resources import with_reading
from downstream.servers.caller import Caller
from downstream.servers.catalogue import Catalogue
from downstream.servers.failures import ServerUnavailable
from downstream.servers.pool import Pool
from downstream.settings import ApprovalSettings, ServerSettings
from journal.outlet import Outlet
from journal.signs import Signs
from journal.values import JsonObject

from .calls import ToolDoor
from .sending import Outgoing, Send
from .stages import Gate


@dataclass(frozen=True)
class Rules:
    """What the user's settings say about tool calls."""

    policy: PolicySettings
    approvals: ApprovalSettings
    servers: Sequence[ServerSettings]
    outlet: Outlet = field(default_factory=Outlet)


def make_gate(catalogue: Catalogue, rules: Rules, *, pool: Pool) -> Gate:
    """The gate over this catalogue; `edits` needs it too."""
    return Gate(
        tools=catalogue.tools_for,
        find=with_reading(catalogue.tool, lambda: catalogue.known),
        held=lambda name: catalogue.quarantined().get(name),
        pins=catalogue,
        policy=rules.policy,
        approvals=rules.approvals,
        servers={server.name: server for server in rules.servers},
        open=partial(_open, pool),
        needs_login=lambda name, asked: pool.needs_login(name, asked=asked),
        missing=lambda server: catalogue.missing().get(server),
        outlet=rules.outlet,
    )


async def _open(pool: Pool, run: str, server: str) -> None:
    with suppress(ServerUnavailable):
        await pool.connection(server, run=run).listing()


def sender(pool: Pool, meta: Callable[[Outgoing], JsonObject], signs: Signs) -> Send:
    """Sends over the connections of the pool, with `_meta` as `meta` gives it for a call; progress goes to `signs`."""

    async def send(out: Outgoing) -> CallToolResult:
        connection = pool.connection(out.tool.server, run=out.run)
        with signs.call(out.run, out.tool.full_name) as hear:
            caller = Caller(
                leave=out.leave,
                meta=meta(out),
                longest=out.longest,
                hear=hear,
                desk=out.desk,
                resumed=out.resumed,
                binding=out.tool.binding,
            )
            return await connection.call(out.tool.name, out.arguments, timeout=out.timeout, caller=caller)

    return send


def make_call_tool(
    gate: Gate, pool: Pool, meta: Callable[[Outgoing], JsonObject], *, signs: Signs | None = None
) -> CallTool:
    """The one way out for tool calls, for all runs of this process."""
    return ToolDoor(gate, sender(pool, meta, signs or Signs()))
