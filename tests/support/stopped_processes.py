"""A process that drives a run until it stops itself at a point, and a product in this process that takes it over."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import toys
from journals import until
from zombie_process import shifted_world

from journal.runs import Run
from server.assembly import open_product
from server.product import Product
from server.settings import Found, load_settings

SUPPORT = Path(__file__).parent


@asynccontextmanager
async def open_adopter(folder: Path, config: Path) -> AsyncGenerator[Product]:
    """A product on these settings, whose time is that of all zombies of the folder."""
    (folder / "ahead").write_text("0")
    loaded = load_settings(Found(config, "option"), environ=os.environ)
    async with open_product(loaded, world=shifted_world(folder)) as product:
        yield product


@contextmanager
def zombie(folder: Path, point: str) -> Generator["subprocess.Popen[str]"]:
    """A process that stops at the point; nothing that it started is left."""
    command = [sys.executable, str(SUPPORT / "zombie_process.py"), str(folder), point]
    env = os.environ | {"PYTHONPATH": f"{SUPPORT.parent.parent}:{SUPPORT}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as started:
        try:
            yield started
        finally:
            children = toys.children_of(started.pid)
            started.kill()
            for child in toys.alive(children):
                os.kill(child, signal.SIGKILL)


async def until_stopped(process: "subprocess.Popen[str]") -> None:
    async def stopped() -> bool:
        state = (await anyio.Path(f"/proc/{process.pid}/stat").read_text()).rpartition(")")[2].split()[0]
        return state == "T"

    await until(stopped, within=40)


async def stop_again(process: "subprocess.Popen[str]", database: Path) -> None:
    """Stop it, but not in the middle of a heartbeat's transaction: the database would be locked for as long."""

    async def stopped() -> bool:
        process.send_signal(signal.SIGSTOP)
        await until_stopped(process)
        with closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                process.send_signal(signal.SIGCONT)
                return False
        return True

    await until(stopped)


async def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    with anyio.fail_after(30):
        return (await anyio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)).strip()


async def the_run(product: Product, *statuses: str) -> Run:
    """The only run, once it has one of these statuses and nobody drives it."""

    async def there() -> bool:
        runs = await product.store.runs()
        return bool(runs) and runs[0].status in statuses and runs[0].driver is None

    await until(there, within=40)
    return (await product.store.runs())[0]
