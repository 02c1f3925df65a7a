"""A process with a lease that dies at a crash point: `dying_process.py FOLDER POINT GOAL`, where - is no goal.

With a goal it creates a run first; then its engine looks for runs to drive.
"""

import os
import sys
from pathlib import Path

import anyio
from journals import LIMITS, create, open_own_store

from journal.local_engine import EngineOptions, open_local_engine
from journal.run_journal import RunJournal
from journal.world import World


async def drive(journal: RunJournal) -> None:
    raise AssertionError("it should have died before")


async def main(folder: Path, point: str, goal: str) -> None:
    def reach(name: str) -> None:
        if name == point:
            os._exit(3)

    options = EngineOptions("print", "settings.yaml", 16, lambda run: LIMITS)
    async with (
        open_own_store(folder, World(reach=reach)) as store,
        open_local_engine(store, drive, options) as engine,
    ):
        if goal != "-":
            await engine.wake(await create(store, driver=engine.lease.id, goal=goal))
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], sys.argv[3])
