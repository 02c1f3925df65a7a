"""A run with its journal open, for tests of what is written down and what it costs."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from journal.events import Event
from journal.ledger import Limits, Usage
from journal.outlet import Outlet
from journal.run_journal import RunJournal
from journal.runs import NewRun
from journal.store import Store, open_store
from journal.values import JsonObject
from journal.world import World

LIMITS = Limits(model_calls=50, tool_calls=50, tokens=100_000, usd=10.0, usd_day=20.0, seconds=600.0)


@dataclass
class RunAtHand:
    """A run that a test drives itself; `take` begins the next epoch, as after a crash."""

    store: Store
    id: str
    limits: Limits = LIMITS

    async def take(self) -> RunJournal:
        """The journal of the run's next epoch."""
        taken = await self.store.take(await self.store.run(self.id), driver="test", limits=lambda run: self.limits)
        assert taken is not None
        return taken

    async def events(self, type_: str) -> list[Event]:
        """The run's events of one type."""
        return [event for event in await self.store.events(self.id) if event.type == type_]

    async def data(self, type_: str, *names: str) -> list[JsonObject]:
        """Those fields of the run's events of one type."""
        return [{name: event.data.get(name) for name in names} for event in await self.events(type_)]

    async def usage(self) -> Usage:
        """What the run has taken."""
        return await self.store.usage(await self.store.run(self.id))


@asynccontextmanager
async def open_run(folder: Path, *, limits: Limits = LIMITS, world: World | None = None) -> AsyncGenerator[RunAtHand]:
    """A new run in a store of its own below the folder."""
    async with open_store(folder / "store.db", world or World(), Outlet(), owner="me") as store:
        new = NewRun("me", "print", "settings.yaml", "goal", "user", "", {})
        run_id, _ = await store.create_or_attach(new, driver="test")
        yield RunAtHand(store, run_id, limits)
