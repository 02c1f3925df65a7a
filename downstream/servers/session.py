"""An open connection, and what its server lists."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from mcp import Client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from downstream.settings import ServerSettings

from .changes import Changes
from .failures import ServerUnavailable
from .life import Life
from .listing import Listing
from .listing_mend import Mender
from .listing_read import read_listing

US = "steprelay"

Refused: TypeAlias = Callable[[], Mapping[str, str]]
"""Which tools of a listing may not be called, and why, at the time of asking."""

Inspect: TypeAlias = Callable[[ServerSettings, Listing], Awaitable[Refused]]
"""Looks at what a server lists each time it is opened, and from then on says which of its tools may not be called."""


@dataclass
class Session:
    """`refused` is what the inspection of its listing said; `id` names what the server may hold for it."""

    server: ServerSettings
    client: Client
    life: Life
    changes: Changes
    id: str
    inspect: Inspect | None
    mender: Mender
    listing: Listing = field(default_factory=lambda: Listing("", ()))
    refused: Refused = dict[str, str]

    @property
    def memory(self) -> str | None:
        """Names what the server may remember between calls; None where by the protocol it keeps nothing."""
        stateless = self.server.transport == "http" and self.client.protocol_version in MODERN_PROTOCOL_VERSIONS
        return None if stateless else self.id

    async def list_tools(self) -> None:
        """Ask the server for its tools and have them inspected. Raises what the SDK and `inspect` raise."""
        if self.client.server_info is not None and self.client.server_info.name == US:
            raise ServerUnavailable(self.server.name, "it is steprelay itself; take it out of mcpServers")
        listing = await read_listing(self.client, self.mender)
        self.refused = await self.inspect(self.server, listing) if self.inspect else dict
        self.listing = listing

    def why_not(self, tool: str, binding: str | None) -> str | None:
        """Why a tool may not be called: a person has to accept it, or it is none any more that was asked for."""
        if (why := self.refused().get(tool)) is not None:
            return why
        now = self.listing.tool(tool)
        changed = binding is not None and now is not None and now.binding != binding
        return "it changed after the call was decided on" if changed else None
