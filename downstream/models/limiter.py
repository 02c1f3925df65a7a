"""How many requests may be open at a model: fewer while its server asks for less, more again as it answers."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio

from journal.world import World

CAPACITY = 32
_REGAINED_AFTER = 8
"""Replies in a row after which one more request may be open."""

Sleep: TypeAlias = Callable[[float], Awaitable[None]]


class ModelLimiter:
    """One for each model and key, shared by all steps: a server that says 429 to one has said it to all."""

    def __init__(self, sleep: Sleep = anyio.sleep) -> None:
        self._tokens = anyio.CapacityLimiter(CAPACITY)
        self._sleep = sleep
        self._closed_until = 0.0
        self._refused_at = float("-inf")
        self._replies = 0

    @property
    def capacity(self) -> int:
        return int(self._tokens.total_tokens)

    def pause_left(self, world: World) -> float:
        """For how long the server has asked not to be asked, from now on."""
        return self._closed_until - world.monotonic()

    @asynccontextmanager
    async def slot(self, world: World) -> AsyncGenerator[float]:
        """Room for one request, once there is some and the server's own pause is over; gives the time of its begin."""
        async with self._tokens:
            while (left := self.pause_left(world)) > 0:
                # Spread out, so that those who waited do not all come back in the same instant.
                await self._sleep(left + world.chance() * left / 10)
            yield world.monotonic()

    def refused(self, world: World, pause: float, *, began: float) -> None:
        """The server had too much: half as many at once, and none before the pause is over.

        Requests that were on their way together are refused together; that halves once.
        """
        if began >= self._refused_at:
            self._tokens.total_tokens = max(1, self.capacity // 2)
        self._refused_at = world.monotonic()
        self._closed_until = max(self._closed_until, self._refused_at + pause)
        self._replies = 0

    def answered(self) -> None:
        self._replies += 1
        if self._replies >= _REGAINED_AFTER and self.capacity < CAPACITY:
            self._tokens.total_tokens = self.capacity + 1
            self._replies = 0
