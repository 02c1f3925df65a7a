"""Requests that begin alike: one goes ahead, so that the others find the prefix in the provider's cache."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from downstream.model_port import ModelRequest
from journal.world import World

from .caching import prefix_of

LONGEST_WAIT = 5.0
"""Seconds after which the others go too: a prefix is kept once it was read, long before the reply is written."""
_KEPT = 240.0
"""Seconds for which a prefix counts as kept after its last use; the providers say five minutes."""


def shared_prefix(model: str, request: ModelRequest, *, caches_from: int | None) -> str | None:
    """What the requests have in common that are siblings of this one; None where no cache would keep it."""
    if caches_from is None:
        return None
    text, tokens = prefix_of(request)
    return hashlib.sha256(f"{model}\n{text}".encode(errors="replace")).hexdigest() if tokens >= caches_from else None


class Siblings:
    """Who goes ahead, for each prefix; one for all runs of the process."""

    def __init__(self, longest_wait: float = LONGEST_WAIT) -> None:
        self._longest_wait = longest_wait
        self._ahead: dict[str, anyio.Event] = {}
        self._kept_until: dict[str, float] = {}

    @asynccontextmanager
    async def turn(self, prefix: str | None, world: World) -> AsyncGenerator[None]:
        """Around a request: waits for the one ahead that begins alike, at most once in minutes and not for long.

        Where that one fails or is cancelled, the next goes ahead. None waits for nobody.
        """
        if prefix is None:
            yield
            return
        await self._wait(prefix, world)
        goes_ahead = not self._is_kept(prefix, world)
        if goes_ahead:
            self._ahead[prefix] = anyio.Event()
        try:
            yield
            self._keep(prefix, world)
        finally:
            if goes_ahead:
                self._ahead.pop(prefix).set()

    async def _wait(self, prefix: str, world: World) -> None:
        with anyio.move_on_after(self._longest_wait) as patience:
            while prefix in self._ahead and not self._is_kept(prefix, world):
                await self._ahead[prefix].wait()
        if patience.cancelled_caught:
            self._keep(prefix, world)

    def _is_kept(self, prefix: str, world: World) -> bool:
        return self._kept_until.get(prefix, 0.0) > world.monotonic()

    def _keep(self, prefix: str, world: World) -> None:
        now = world.monotonic()
        self._kept_until = {each: until for each, until in self._kept_until.items() if until > now}
        self._kept_until[prefix] = now + _KEPT
