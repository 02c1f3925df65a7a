"""A run with a revision among parallel steps, in processes that die: `revision_kills.py FOLDER some|part NUMBER`.

`some` draws 20 of the points that a whole run passes, with NUMBER as seed; `part` takes every PARTS-th from NUMBER on,
every third with a second death. Each gets a folder: a process that dies there, and one that goes on to the end. The
number of all points is printed.
"""

import json
import os
import random
import sys
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
            "actions": [[action.kind, action.choice, action.handled] for action in await product.store.actions(run_id)],
        }
        (folder / "end.json").write_text(json.dumps(end))


def child(folder: Path, fatal: int | None = None) -> tuple[int, int]:
    """The exit code of a process that does it, and how many points it passed if it came to its end."""
    if (pid := os.fork()) == 0:
        boundaries = Boundaries(fatal)
        anyio.run(go, folder, boundaries)
        (folder / "points").write_text(str(len(boundaries.names)))
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, int((folder / "points").read_text()) if code == 0 else 0


def deaths(points: int, which: str, number: int) -> list[tuple[int, ...]]:
    """At which points the processes of each history die, one after the other."""
    if which == "some":
        return [(point,) for point in sorted(random.Random(number).sample(range(1, points + 1), 20))]
    chosen = range(number, points + 1, PARTS)
    # A recovery passes about 20 points before the run goes on.
    return [(point, 20 + point % 40) if place % 3 == 0 else (point,) for place, point in enumerate(chosen)]


def live_through(folder: Path, histories: Sequence[tuple[int, ...]]) -> int:
    """A process that lets these histories happen, each in a folder of its own."""
    if (pid := os.fork()) == 0:
        for fatal in histories:
            place = folder / str(fatal[0])
            settings(place, SCRIPT)
            codes = [child(place, point)[0] for point in fatal]
            codes.append(child(place)[0])
            (place / "codes").write_text(json.dumps(codes))
        os._exit(0)
    return pid


def main(folder: Path, which: str, number: int) -> None:
    settings(folder / "whole", SCRIPT)
    code, points = child(folder / "whole")
    assert code == 0
    histories = deaths(points, which, number)
    pids = [live_through(folder, histories[first::AT_ONCE]) for first in range(AT_ONCE)]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * AT_ONCE
    sys.stdout.write(str(points))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
