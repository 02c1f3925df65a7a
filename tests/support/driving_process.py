"""A process that drives runs of a store until it is told to stop: `driving_process.py FOLDER FINGERPRINT`.

Its drive records `first`, says so on stdout, and waits for a line on stdin; then it records `second` and ends the run.
"""

import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
from journals import LIMITS, open_own_store

from journal.errors import Fenced
from journal.local_engine import EngineOptions, open_local_engine
from journal.run_journal import Ending, Meaning, RunJournal
from journal.world import World

MEANING = Meaning("test", {})


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def drive(journal: RunJournal) -> None:
    """Two records with a wait for stdin between them."""
    await journal.memo("first", MEANING, anyio.lowlevel.checkpoint)
    say("driving", journal.run.id, journal.run.epoch)
    await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    try:
        await journal.record("second", MEANING, None)
    except Fenced:
        say("fenced", journal.run.id)
        raise
    await journal.finish(Ending("succeeded", "done", "Done.", "answer", {}))
    say("ended", journal.run.id)


async def main(folder: Path, fingerprint: str) -> None:
    options = EngineOptions(fingerprint, "settings.yaml", 16, lambda run: LIMITS)
    async with open_own_store(folder, World()) as store, open_local_engine(store, drive, options) as engine:
        say("ready", engine.lease.id)
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2])
