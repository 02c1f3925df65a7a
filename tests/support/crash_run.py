"""A run with parallel steps, a retry, an approval, writes and a revision, in processes that die: `crash_run.py FOLDER
some|part NUMBER`.

`some` draws 10 of the points that a whole run passes, with NUMBER as seed; `part` takes every PARTS-th from NUMBER on;
every third dies once more as it recovers. Each history has a folder: processes that die there, and one that goes on to
the end. `deaths.json` says of each process with what code it ended and which intents were open then.
"""

import json
import os
import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from crash_scenario import Boundaries
from quick_jobs import made, settings

from journal.actions import Decision
from journal.tasks import open_tasks
from journal.world import World
from server.assembly import open_product
from server.product import Product, Request
from server.settings import Found, load_settings

GOAL = "Keep alpha-kept and bravo-kept, and drop charlie-gone."
EFFECTS = [("add", "alpha-kept"), ("add", "bravo-kept"), ("drop", "charlie-gone")]
ANSWER = "Two are kept, and one is gone."
AT_ONCE = 2
PARTS = 6


def step(id_: str, tool: str, *needs: str, **arguments: str) -> dict[str, Any]:
    return {"id": id_, "kind": "call", "title": id_, "tool": f"quick.{tool}", "needs": needs, "arguments": arguments}


READS = [{"tool": "quick.read", "arguments": {"key": key}} for key in ("two", "three")]
FOUND = {"status": "done", "summary": "Found.", "findings": [{"claim": "It is so.", "evidence": [0, 1]}]}
STUDY = {"id": "study", "kind": "worker", "title": "Study", "worker": "researcher", "task": "Find out."}
SCRIPT: dict[str, Any] = {
    "plan": [
        step("look", "read", key="one"),
        step("keep", "add", key="alpha-kept"),
        STUDY | {"tools": ["quick.read"]},
        step("bad", "fail", text="no"),
        step("late", "add", "bad", key="never-kept"),
        {"id": "draft", "kind": "compose", "title": "Draft", "needs": ["look", "keep", "study"], "task": "Write."},
        step("drop", "drop", "draft", key="charlie-gone"),
    ],
    "steps": {
        "study": {"attempts": [{"turns": [{"calls": READS, "delay": 0.05}], "report": FOUND | {"confidence": 0.9}}]},
        "draft": {"text": "Drafted."},
    },
    "revise": [
        {
            "decision": "revise",
            "drop": ["bad", "late"],
            "add": [
                step("again", "add", "look", key="bravo-kept"),
                step("check", "read", "again", "study", key="four"),
            ],
        }
    ],
    "answer": ANSWER,
}


async def decide(product: Product, folder: Path) -> None:
    """A person who approves, and looks before telling what became of a call."""
    while True:
        for action in await product.store.waiting_actions():
            happened = (str(action.tool).removeprefix("quick."), action.arguments["key"]) in made(folder)
            told = "done" if happened else "retry"
            choice = "approve" if action.kind == "call" else told
            await product.decide(action, Decision(choice, "person", "terminal"))
        await anyio.sleep(0.005)


async def go(folder: Path, boundaries: Boundaries) -> None:
    """The run, or what is left of it; its end is written to `end.json`."""
    loaded = load_settings(Found(folder / "steprelay.json", "option"), environ=os.environ)
    async with open_product(loaded, world=World(reach=boundaries.reach)) as product, open_tasks() as group:
        run_id = await product.start(Request(GOAL, idempotency_key="one"))
        group.start_soon(decide, product, folder)
        with anyio.fail_after(30):
            run = await product.until(run_id, lambda now: now.ended)
        end = {
            "status": run.status,
            "answer": run.answer,
            "warnings": run.warnings,
            "epoch": run.epoch,
            "steps": {row.id: row.status for row in await product.store.steps(run_id) if not row.dropped},
            "events": [[event.type, event.call, event.data] for event in await product.store.events(run_id)],
            "actions": [
                [action.kind, action.key, action.choice, action.handled]
                for action in await product.store.actions(run_id)
            ],
        }
        (folder / "end.json").write_text(json.dumps(end))
    passed = {"names": boundaries.names, "changes": product.store.database.changes}
    (folder / "passed.json").write_text(json.dumps(passed))


def child(folder: Path, fatal: int | None = None) -> tuple[int, list[str]]:
    """The exit code of a process that does it, and which intents were open when it ended."""
    if (pid := os.fork()) == 0:
        anyio.run(go, folder, Boundaries(fatal))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), open_intents(folder)


def open_intents(folder: Path) -> list[str]:
    """The keys of calls that were begun and not ended, from a copy, so that the store is left as the death left it."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        for path in (folder / "store").glob("steprelay.db*"):
            shutil.copy(path, place)
        database = sqlite3.connect(Path(place, "steprelay.db"))
        try:
            return [key for (key,) in database.execute("SELECT key FROM intents WHERE state = 'begun'")]
        except sqlite3.OperationalError:
            return []  # it died before there were tables
        finally:
            database.close()


def deaths(points: int, which: str, number: int) -> list[tuple[int, ...]]:
    """At which points the processes of each history die, one after the other."""
    every = range(1, points + 1)
    chosen = sorted(random.Random(number).sample(every, 10)) if which == "some" else every[number - 1 :: PARTS]
    # A recovery passes about 20 points before the run goes on.
    return [(point, 20 + point % 40) if place % 3 == 0 else (point,) for place, point in enumerate(chosen)]


def live_through(folder: Path, histories: Sequence[tuple[int, ...]]) -> int:
    """A process that lets these histories happen, each in a folder of its own."""
    if (pid := os.fork()) == 0:
        for fatal in histories:
            place = folder / str(fatal[0])
            settings(place, SCRIPT)
            (place / "deaths.json").write_text(json.dumps([child(place, point) for point in (*fatal, None)]))
        os._exit(0)
    return pid


def main(folder: Path, which: str, number: int) -> None:
    settings(folder / "whole", SCRIPT)
    assert child(folder / "whole") == (0, [])
    points = len(json.loads((folder / "whole" / "passed.json").read_text())["names"])
    histories = deaths(points, which, number)
    pids = [live_through(folder, histories[first::AT_ONCE]) for first in range(AT_ONCE)]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * AT_ONCE


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
