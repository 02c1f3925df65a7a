"""How people are told where the page is."""

from dataclasses import dataclass

HOST = "127.0.0.1"
SITE = "localhost"
"""The same machine by the name that passkeys are for: they want one."""


@dataclass
class PageLink:
    """The page's address, as far as a living process serves it: `port` is None where none does."""

    port: int | None = None

    def of(self, action_id: str) -> str | None:
        """The address of an action on the page; it holds no secret."""
        return None if self.port is None else f"{self.address}a/{action_id}"

    @property
    def address(self) -> str | None:
        """The address of all that waits."""
        return None if self.port is None else f"http://{HOST}:{self.port}/"
