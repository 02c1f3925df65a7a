"""The connections to all tool servers of this process, and the task that owns each of them."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager

import anyio

from downstream.auth.access import Learn, access_to, unlearned
from downstream.settings import ServerSettings
from journal.world import World

from .connection import Connection
from .listing import Listing
from .session import Inspect
from .stderr_tail import StderrTail
from .transports import Surroundings
from .watchdog import Watchdog, open_watchdog

_CLOSE_SECONDS = 4.0
"""After that long, what still closes is cancelled; killing a process that resists takes 2 s more at most."""


class Pool:
    """Connections by server name; made by `open_pool`. None of them is open before it is first used."""

    def __init__(
        self, servers: Sequence[ServerSettings], world: World, watchdog: Watchdog, *, learn: Learn = unlearned
    ) -> None:
        self._access = {server.name: access_to(server, world, learn) for server in servers}
        self._world = world
        self._watchdog = watchdog
        self._inspect: Inspect | None = None
        self._tails = {server.name: StderrTail(server.name) for server in servers}
        self._shared = {server.name: self._make(server) for server in servers}
        self._of_runs: dict[str, dict[str, Connection]] = {}

    @property
    def shared(self) -> Iterable[Connection]:
        """The connections that belong to no run."""
        return self._shared.values()

    def connection(self, name: str, *, run: str | None = None) -> Connection:
        """The connection of a server of the settings, the run's own where it has one; KeyError for any other name."""
        return self._of_runs.get(run or "", {}).get(name) or self._shared[name]

    async def listing(self, name: str, *, fresh: bool = False) -> Listing:
        """What a server lists; one that serves each run by itself is not kept open for it. Raises ServerUnavailable."""
        connection = self._shared[name]
        try:
            return await connection.listing(fresh=fresh)
        finally:
            if connection.server.options.session == "run":
                connection.let_go()

    def needs_login(self, name: str, *, asked: bool = False) -> bool:
        """Whether calls of this server are of no use before somebody logs in; `asked` as in `Access.is_due`."""
        access = self._access.get(name)
        return access is not None and access.is_due(asked=asked)

    def stderr_tail(self, name: str) -> str:
        """The last lines that the server wrote to stderr, if it is a process."""
        return self._tails[name].text()

    def inspect_with(self, inspect: Inspect) -> None:
        """Show what each server lists, whenever it is opened, to `inspect`, before any call."""
        self._inspect = inspect
        for connection in self._shared.values():
            connection.inspect = inspect

    @asynccontextmanager
    async def open_run(self, run: str) -> AsyncGenerator[None]:
        """Give a run connections of its own where settings say so; all are closed at the end, within 6 s."""
        servers = [each.server for each in self.shared if each.server.options.session == "run"]
        own = {server.name: self._make(server) for server in servers}
        async with _open_owners(own.values()):
            self._of_runs[run] = own
            try:
                yield
            finally:
                del self._of_runs[run]

    def _make(self, server: ServerSettings) -> Connection:
        around = Surroundings(self._watchdog, self._tails[server.name], self._access[server.name])
        connection = Connection(server, self._world, around)
        connection.inspect = self._inspect
        return connection


@asynccontextmanager
async def open_pool(
    servers: Sequence[ServerSettings], world: World, *, learn: Learn = unlearned
) -> AsyncGenerator[Pool]:
    """Hold connections to these servers; at the end all are closed at once, within 6 s, and no child is left.

    `learn` is told of every token before it is sent.
    """
    with open_watchdog() as watchdog:
        pool = Pool(servers, world, watchdog, learn=learn)
        async with _open_owners(pool.shared):
            yield pool


@asynccontextmanager
async def _open_owners(connections: Iterable[Connection]) -> AsyncGenerator[None]:
    try:
        async with anyio.create_task_group() as owners:
            for connection in connections:
                owners.start_soon(connection.run)
            try:
                yield
            finally:
                for connection in connections:
                    connection.stop()
                owners.cancel_scope.deadline = anyio.current_time() + _CLOSE_SECONDS
    except BaseExceptionGroup as group:
        first, *others = group.exceptions
        if others:
            raise
        # Owners raise nothing but faults of ours, so this is what was raised within the block; it goes on as it was.
        raise first from None
