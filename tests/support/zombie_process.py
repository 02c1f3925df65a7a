"""A process that begins a run and stops itself at a point, as by SIGSTOP: `zombie_process.py FOLDER POINT`.

Its time is that of the machine plus what the file `ahead` in FOLDER says. Continued, it says on stdout once it has
noticed that its run was taken over.
"""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from journal.world import World
from server.assembly import open_product
from server.product import Request
from server.settings import Found, load_settings

GOAL = "Keep what is posted."


def shifted_world(folder: Path, reach: Callable[[str], None] = lambda point: None) -> World:
    """The machine's time plus the seconds in `ahead`, for all processes that share the folder."""

    def ahead() -> float:
        return float((folder / "ahead").read_text())

    return World(now=lambda: time.time() + ahead(), monotonic=lambda: time.monotonic() + ahead(), reach=reach)


class StopsAt:
    """Stops the process, once, where it reaches the point."""

    def __init__(self, point: str) -> None:
        self._point: str | None = point

    def reach(self, point: str) -> None:
        if point == self._point:
            self._point = None
            os.kill(os.getpid(), signal.SIGSTOP)


class _Tells(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.msg == "run_taken_over":
            sys.stdout.write(f"{record.msg}\n")
            sys.stdout.flush()


async def main(folder: Path, point: str) -> None:
    logger = logging.getLogger("journal")
    logger.setLevel(logging.INFO)
    logger.addHandler(_Tells())
    loaded = load_settings(Found(folder / "steprelay.json", "option"), environ=os.environ)
    world = shifted_world(folder, StopsAt(point).reach)
    async with open_product(loaded, world=world) as product:
        await product.start(Request(GOAL))
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2])
