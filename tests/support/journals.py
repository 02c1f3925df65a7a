"""Stores, runs and clocks for tests of the journal."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from journal.database import Transaction
from journal.ledger import Limits
from journal.outlet import Outlet
from journal.run_journal import RunJournal
from journal.runs import NewRun, Run
from journal.store import Store, open_store
from journal.values import Json
from journal.world import World

LIMITS = Limits(model_calls=10, tool_calls=10, tokens=1000, usd=1.0, usd_day=5.0, seconds=60.0)
NEW = NewRun("me", "print", "/home/me/settings.yaml", "goal", "user", "", {})


@dataclass
class Clock:
    """Time that only the test moves; wall clock and monotonic clock are one."""

    at: float = 1_000_000.0

    def __call__(self) -> float:
        return self.at

    @property
    def world(self) -> World:
        return World(now=self, monotonic=self)


@asynccontextmanager
async def open_own_store(
    folder: Path, world: World | None = None, *, outlet: Outlet | None = None
) -> AsyncGenerator[Store]:
    """The store of this folder, for the owner `me`."""
    async with open_store(folder / "store.db", world or World(), outlet or Outlet(), owner="me") as store:
        yield store


async def create(store: Store, *, driver: str = "driver", **changes: Any) -> str:
    """The id of a new run; `changes` are fields of NewRun."""
    run_id, created = await store.create_or_attach(replace(NEW, **changes), driver=driver)
    assert created
    return run_id


async def take(store: Store, run_id: str, *, driver: str = "driver", limits: Limits = LIMITS) -> RunJournal:
    """The journal of the run's next epoch."""
    journal = await store.take(await store.run(run_id), driver=driver, limits=lambda run: limits)
    assert journal is not None
    return journal


async def until(holds: Callable[[], Awaitable[bool]], *, within: float = 20.0) -> None:
    """Wait for something that another process or a thread brings about."""
    with anyio.fail_after(within):
        # Nothing in this process could tell of it.
        while not await holds():  # noqa: ASYNC110
            await anyio.sleep(0.005)


async def ended(store: Store, run_id: str) -> Run:
    """The run, once it has ended."""

    async def has_ended() -> bool:
        return (await store.run(run_id)).ended

    await until(has_ended)
    return await store.run(run_id)


async def rows(store: Store, sql: str, *parameters: Json) -> list[tuple[Any, ...]]:
    """What a query finds, as plain tuples."""
    return await store.database.read(lambda tx: [tuple(row) for row in tx.rows(sql, parameters)])


async def change(store: Store, sql: str, *parameters: Json) -> int:
    """Do to the store what nothing in the product does."""

    def by_hand(tx: Transaction) -> int:
        return tx.change(sql, parameters)

    return await store.database.write("by_hand", by_hand)


async def unguard(store: Store) -> None:
    """Make the audit's lines changeable, as anybody can who may write the file."""
    for (name,) in await rows(store, "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit'"):
        await change(store, f"DROP TRIGGER {name}")


async def dump(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the store, by table, but for leases."""
    names = await rows(store, "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'leases'")
    return {name: await rows(store, f"SELECT * FROM {name}") for (name,) in names}
