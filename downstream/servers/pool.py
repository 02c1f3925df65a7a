"""The connections to all tool servers of this process, and the task that owns each of them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio

from downstream.settings import ServerSettings
from journal.world import World

from .connection import Connection, Inspect
from .stderr_tail import StderrTail
from .transports import Surroundings
from .watchdog import open_watchdog

_CLOSE_SECONDS = 4.0
"""After that long, what still closes is cancelled; killing a process that resists takes the SDK 2 s more at most."""


class Pool:
    """Connections by server name; made by `open_pool`. None of them is open before it is first used."""

    def __init__(self, connections: Sequence[tuple[Connection, StderrTail]]) -> None:
        self._connections = {each.server.name: each for each, _ in connections}
        self._tails = {each.server.name: tail for each, tail in connections}

    def connection(self, name: str) -> Connection:
        """The connection of a server of the settings; KeyError for any other name."""
        return self._connections[name]

    def stderr_tail(self, name: str) -> str:
        """The last lines that the server wrote to stderr, if it is a process."""
        return self._tails[name].text()

    def inspect_with(self, inspect: Inspect) -> None:
        """Show what each server lists, whenever it is opened, to `inspect`, before any call."""
        for connection in self._connections.values():
            connection.inspect = inspect


@asynccontextmanager
async def open_pool(servers: Sequence[ServerSettings], world: World) -> AsyncGenerator[Pool]:
    """Hold connections to these servers; at the end all are closed at once, within 6 s, and no child is left."""
    with open_watchdog() as watchdog:
        made: list[tuple[Connection, StderrTail]] = []
        for server in servers:
            tail = StderrTail(server.name)
            made.append((Connection(server, world, Surroundings(watchdog, tail)), tail))
        try:
            async with anyio.create_task_group() as owners:
                for connection, _ in made:
                    owners.start_soon(connection.run)
                try:
                    yield Pool(made)
                finally:
                    for connection, _ in made:
                        connection.stop()
                    owners.cancel_scope.deadline = anyio.current_time() + _CLOSE_SECONDS
        except BaseExceptionGroup as group:
            # Owners raise nothing, so this is what was raised within the block; it goes on as it was.
            raise group.exceptions[0] from None
