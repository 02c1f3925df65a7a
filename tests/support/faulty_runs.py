"""A run whose disk fails at its n-th call: `faulty_runs.py FOLDER PART PARTS SAMPLES`, started on a FailingDisk.

The store is what the disk holds, the tool server's log lies elsewhere. First the run is made whole, to count its calls;
then each call (or a sample, with SAMPLES as seed and size; 0 is all) fails as on a full disk and as on a broken one, in
a process of its own that ends when the run has ended, or has said why it can't go on. A further process on a disk that
is well finishes the run. Of each history a line of JSON says how both went, in the file `out` of its lane's folder.
Every PARTS-th from PART on is done. All are forks of a process that has made the run once and so has all in memory.
"""

import gc
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
from audit_chain import broken_at
from failing_disk import Error, FailingDisk
from quick_jobs import made, settings

from journal.actions import Decision
from journal.errors import StoreError
from journal.outlet import Outlet
from journal.tasks import open_tasks
from journal.world import World
from server.assembly import open_product
from server.product import Product, Request
from server.settings import Found, load_settings
from server.terminal.log_file import start_logging

GOAL = "Keep alpha-kept and bravo-kept, and drop charlie-gone."
EFFECTS = [["add", "alpha-kept"], ["add", "bravo-kept"], ["drop", "charlie-gone"]]
ANSWER = "Two are kept, and one is gone."
LARGE = "x" * 20_000
SECONDS = 30.0
LANES = 4
"""Histories that happen at once: half of their time they wait."""


def step(id_: str, tool: str, *needs: str, **arguments: str) -> dict[str, Any]:
    return {"id": id_, "kind": "call", "title": id_, "tool": f"quick.{tool}", "needs": needs, "arguments": arguments}


READS = [{"tool": "quick.tell", "arguments": {"key": LARGE}}, {"tool": "quick.read", "arguments": {"key": "two"}}]
FOUND = {"status": "done", "summary": "Found.", "findings": [{"claim": "It is so.", "evidence": [0, 1]}]}
STUDY = {"id": "study", "kind": "worker", "title": "Study", "worker": "researcher", "task": "Find out."}
SCRIPT: dict[str, Any] = {
    "plan": [
        step("look", "read", key="one"),
        step("keep", "add", key="alpha-kept"),
        step("also", "add", "look", key="bravo-kept"),
        STUDY | {"tools": ["quick.read", "quick.tell"]},
        {"id": "draft", "kind": "compose", "title": "Draft", "needs": ["look", "keep", "study"], "task": "Write."},
        step("drop", "drop", "draft", key="charlie-gone"),
    ],
    "steps": {
        "study": {"attempts": [{"turns": [{"calls": READS}], "report": FOUND | {"confidence": 0.9}}]},
        "draft": {"text": "Drafted."},
    },
    "answer": ANSWER,
}


@dataclass(frozen=True)
class Fault:
    """Call number `at` fails, once or with all after it, for good or until the run has said so; or stores one half."""

    at: int
    error: Error
    lasts: Literal["once", "on", "until told"]
    halves: bool = False

    def begin(self, disk: FailingDisk) -> None:
        disk.fail(self.error, at=self.at, once=self.lasts == "once", halves=self.halves)


@dataclass(frozen=True)
class Faulty:
    """A disk, what is wrong with it if anything, and what a person was told whose decisions it did not take."""

    disk: FailingDisk
    fault: Fault | None
    undecided: list[str]

    @property
    def lasts(self) -> str | None:
        return None if self.fault is None else self.fault.lasts


FULL: tuple[Callable[[int], Fault], ...] = (
    partial(Fault, error="ENOSPC", lasts="once"),
    partial(Fault, error="ENOSPC", lasts="on"),
    partial(Fault, error="ENOSPC", lasts="until told", halves=True),
)
BROKEN: tuple[Callable[[int], Fault], ...] = (
    partial(Fault, error="EIO", lasts="once"),
    partial(Fault, error="EIO", lasts="on"),
)


async def decide(product: Product, folder: Path, undecided: list[str]) -> None:
    """A person who approves, and looks before telling what became of a call; a store that fails is asked again, and
    what it says is kept in `undecided`."""
    while True:
        try:
            for action in await product.store.waiting_actions():
                happened = (str(action.tool).removeprefix("quick."), action.arguments["key"]) in made(folder)
                told = "done" if happened else "retry"
                choice = "approve" if action.kind == "call" else told
                await product.decide(action, Decision(choice, "person", "terminal"))
        except StoreError as error:
            undecided.append(str(error))
            await anyio.sleep(0.05)
        await anyio.sleep(0.005)


async def go(folder: Path, disk: FailingDisk, fault: Fault | None) -> dict[str, Any]:
    """The run, or what is left of it, until it has ended or is held up for good."""
    loaded = load_settings(Found(folder / "steprelay.json", "option"), environ=os.environ)
    try:
        async with open_product(loaded, world=World()) as product, open_tasks() as group:
            try:
                run_id = await product.start(Request(GOAL, idempotency_key="one"))
            except StoreError as error:
                return {"refused": str(error)}
            undecided: list[str] = []
            group.start_soon(decide, product, folder, undecided)
            with anyio.fail_after(SECONDS):
                return await _end(product, run_id, Faulty(disk, fault, undecided))
    except StoreError as error:
        return {"unopened": str(error)}


async def _end(product: Product, run_id: str, faulty: Faulty) -> dict[str, Any]:
    held: list[str] = []
    while True:
        changed = product.store.bell.listen(run_id)
        try:
            run = await product.store.run(run_id)
        except StoreError as error:
            return {"unread": str(error)}
        if (trouble := product.trouble_of(run_id)) is not None and trouble not in held:
            held.append(trouble)
        if run.ended:
            asked = [action.key for action in await product.store.actions(run_id) if action.kind == "unknown"]
            return {"ended": run.status, "answer": run.answer, "message": run.message, "held": held, "asked": asked}
        if (held or faulty.undecided) and faulty.lasts == "on":
            return {"held": held} if held else {"undecided": faulty.undecided[0]}
        if (held or faulty.undecided) and faulty.lasts == "until told":
            faulty.disk.heal()
        with anyio.move_on_after(0.1):
            await changed.wait()


def child(folder: Path, disk: FailingDisk, work: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """How the work ended in a process of its own, which is killed if it does not end by itself."""
    began = time.monotonic()
    if (pid := os.fork()) == 0:
        signal.alarm(int(2 * SECONDS))
        out = os.open(folder / "stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        err = os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(out, 1)
        os.dup2(err, 2)
        start_logging(Outlet())
        (folder / "end.json").write_text(json.dumps(anyio.run(work)))
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    end: dict[str, Any] = json.loads((folder / "end.json").read_text()) if code == 0 else {}
    (folder / "end.json").unlink(missing_ok=True)
    said = {"stdout": (folder / "stdout").read_text(), "stderr": (folder / "stderr").read_text()}
    return {**end, "code": code, "calls": disk.calls, "failed": disk.failed, **said, "s": time.monotonic() - began}


def kept(path: Path) -> dict[str, Any]:
    """What the file holds: whether it is whole, whether its audit chain holds, and which intents are open."""
    if not path.exists() or not path.stat().st_size:
        return {"whole": "ok", "chain": None, "open": [], "runs": 0}
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        whole = connection.execute("PRAGMA integrity_check").fetchone()[0]
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchone():
            return {"whole": whole, "chain": None, "open": [], "runs": 0}
        rows = connection.execute("SELECT key FROM intents WHERE state IN ('begun', 'unknown')").fetchall()
        runs = connection.execute("SELECT COUNT(*) FROM runs").fetchone()[0]
        return {"whole": whole, "chain": broken_at(connection), "open": [row[0] for row in rows], "runs": runs}


def history(root: Path, disk: FailingDisk, name: str, fault: Fault | None) -> dict[str, Any]:
    """A run under this fault, and what a process on a disk that is well makes of it; no file of theirs is left."""
    folder, store = root / name, root / "disk" / name / "steprelay.db"
    settings(folder, SCRIPT, store=f"sqlite:///{store}")
    disk.heal()
    if fault is not None:
        fault.begin(disk)
    first = child(folder, disk, partial(go, folder, disk, fault))
    disk.heal()
    left = kept(store)
    second = child(folder, disk, partial(go, folder, disk, None))
    told = None if fault is None else [fault.at, fault.error, fault.lasts, fault.halves]
    whole = {"fault": told, "first": first, "left": left, "second": second, "after": kept(store), "made": made(folder)}
    shutil.rmtree(folder)
    shutil.rmtree(store.parent)
    return whole


def begin_lane(root: Path, faults: Sequence[Fault]) -> int:
    """A process that lets these histories happen one after the other, on a disk of its own."""
    if (pid := os.fork()) == 0:
        (root / "disk").mkdir(parents=True)
        disk = FailingDisk(Path(os.environ["LD_PRELOAD"]), root / "disk", root / "control")
        disk.take_on()
        with (root / "out").open("w") as out:
            for place, fault in enumerate(faults):
                out.write(json.dumps(history(root, disk, f"f{place}", fault)) + "\n")
        os._exit(0)
    return pid


def main(root: Path, part: int, parts: int, samples: int) -> None:
    disk = FailingDisk(*(Path(os.environ[name]) for name in FailingDisk.VARIABLES))
    settings(root / "warm", SCRIPT, store=f"sqlite:///{root / 'disk' / 'warm' / 'steprelay.db'}")
    anyio.run(go, root / "warm", disk, None)
    # Only a process without further threads may be forked; theirs end a moment after the loop.
    for thread in set(threading.enumerate()) - {threading.current_thread()}:
        thread.join()
    # What lives on is never looked at again, and so stays shared.
    gc.collect()
    gc.freeze()
    whole = history(root, disk, "whole", None)
    (root / "out").write_text(json.dumps(whole) + "\n")
    calls = range(1, whole["first"]["calls"] + 1)
    every = [kinds[at % len(kinds)](at) for at in calls for kinds in (FULL, BROKEN)]
    if samples:
        every = random.Random(samples).sample(every, samples)
    chosen = every[part::parts]
    pids = [begin_lane(root / str(lane), chosen[lane::LANES]) for lane in range(LANES)]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * LANES


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
