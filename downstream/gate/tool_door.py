"""Puts the door for tool calls together from the catalogue, the connections and the settings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcp.types import CallToolResult

from downstream.door import CallTool
from downstream.policy_settings import PolicySettings
from downstream.servers.catalogue import Catalogue
from downstream.servers.pool import Pool
from downstream.settings import ApprovalSettings, ServerSettings
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


def make_gate(catalogue: Catalogue, rules: Rules) -> Gate:
    """The gate over this catalogue; `edits` needs it too."""
    return Gate(
        tools=catalogue.tools,
        find=catalogue.tool,
        held=lambda name: catalogue.quarantined().get(name),
        policy=rules.policy,
        approvals=rules.approvals,
        servers={server.name: server for server in rules.servers},
    )


def sender(pool: Pool, meta: Callable[[Outgoing], JsonObject]) -> Send:
    """Sends over the connections of the pool, with `_meta` as `meta` gives it for a call."""

    async def send(out: Outgoing) -> CallToolResult:
        connection = pool.connection(out.tool.server)
        return await connection.call(out.tool.name, out.arguments, timeout=out.timeout, meta=meta(out), leave=out.leave)

    return send


def make_call_tool(gate: Gate, pool: Pool, meta: Callable[[Outgoing], JsonObject]) -> CallTool:
    """The one way out for tool calls, for all runs of this process."""
    return ToolDoor(gate, sender(pool, meta))
