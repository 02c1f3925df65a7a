"""Starts processes that drive the runs of a store: `chaos_process.py SETTINGS LOG LIFE`.

A line on stdin starts one, by a fork of this process, which has all imported, and its pid is said on stdout. All of
them end when nobody holds the other end of the pipe LIFE any more. What they log goes to LOG.
"""

import os
import signal
import sys
import threading
from pathlib import Path

import anyio

from journal.world import World
from server.assembly import open_product
from server.settings import Found, load_settings


async def serve(config: Path) -> None:
    """What `steprelay serve` does, but for a host in front of it."""
    loaded = load_settings(Found(config, "option"), environ=os.environ, lenient=True)
    async with open_product(loaded, world=World()):
        await anyio.sleep_forever()


def end_with(life: int) -> None:
    os.read(life, 1)
    os._exit(1)


def drive(config: Path, log: Path, life: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    target = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(target, 1)
    os.dup2(target, 2)
    threading.Thread(target=end_with, args=(life,), daemon=True).start()
    anyio.run(serve, config)


def main(config: Path, log: Path, life: int) -> None:
    # Nobody here waits for those that are killed.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in sys.stdin:
        if (pid := os.fork()) == 0:
            drive(config, log, life)
            os._exit(0)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
