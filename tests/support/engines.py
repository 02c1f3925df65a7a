"""What tests of the engine share: an engine on a store, and the simplest drive."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
from journals import LIMITS

from journal.engine import Drive
from journal.ledger import Limits
from journal.local_engine import EngineOptions, LocalEngine, open_local_engine
from journal.run_journal import Ending, RunJournal
from journal.runs import Run
from journal.store import Store

DONE = Ending("succeeded", "done", "Done.", "answer", {})
CANCELLED = Ending("cancelled", "cancelled", "Cancelled.", "answer", {})


def same_limits(run: Run) -> Limits:
    return LIMITS


@asynccontextmanager
async def open_engine(store: Store, drive: Drive, **changes: Any) -> AsyncGenerator[LocalEngine]:
    with anyio.fail_after(20):
        async with open_local_engine(
            store, drive, replace(EngineOptions("print", "s", 16, same_limits), **changes)
        ) as engine:
            yield engine


async def finish(journal: RunJournal) -> None:
    await journal.finish(CANCELLED if await journal.cancel_reason() else DONE)
