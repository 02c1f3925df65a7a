"""The runs in the stored databases of earlier schema versions, and how such a database is laid into a folder.

`stored_job.py FILE` makes a database of the present version: run it before the version changes, never afterwards.
"""

import json
import os
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from products import call_step
from quick_jobs import made, settings

from downstream.servers.listing import fingerprint_of
from journal.canonical import digest
from journal.world import World
from server.assembly import open_product
from server.product import Product, Request
from server.settings import Found, Settings, load_settings

STORED = Path(__file__).parent / "stored_databases"
FINISHED, WAITING, CUT = "Read one thing.", "Look, study, and drop one thing.", "Add one thing, and die over it."
"""The goals of a run that succeeded, of one that waits for an approval, and of one that was killed at a write."""
ANSWER = "It is so."
READ = {"tool": "quick.read", "arguments": {"key": "two"}}
FOUND = {"status": "done", "summary": "Studied.", "findings": [{"claim": "It stands.", "evidence": [0]}]}
STUDY = {"id": "study", "kind": "worker", "title": "Study", "worker": "researcher", "task": "Find out."}
PLANS: dict[str, list[Any]] = {
    FINISHED: [call_step("only", "quick.read", key="one")],
    WAITING: [
        call_step("look", "quick.read", key="one"),
        STUDY,
        call_step("gone", "quick.drop", "look", "study", key="old"),
        call_step("check", "quick.read", "gone", key="three"),
    ],
    CUT: [call_step("post", "quick.stuck", key="posted", gate="never")],
}
SCRIPT: dict[str, Any] = {
    "plan": [],
    "steps": {
        "study": {
            "attempts": [{"turns": [{"calls": [READ]}], "report": FOUND | {"confidence": 0.9, "plan_holds": True}}]
        }
    },
    "answer": ANSWER,
}


def job_settings(folder: Path) -> Settings:
    """The settings of the stored runs, in this folder."""
    return load_settings(Found(settings(folder, SCRIPT), "option"), environ=os.environ)


def lay(folder: Path, version: int) -> Settings:
    """Put the stored database of this version into the folder, as if its runs had been made there."""
    loaded = job_settings(folder)
    store = folder / "store"
    store.mkdir(mode=0o700)
    with sqlite3.connect(store / "steprelay.db") as database:
        database.executescript((STORED / f"version_{version}.sql").read_text())
        database.execute("UPDATE runs SET fingerprint = ?, settings_path = ?", (loaded.fingerprint, str(loaded.path)))
        _move_server(database, fingerprint_of(loaded.servers[0]))
    database.close()
    return loaded


def _move_server(database: sqlite3.Connection, now: str) -> None:
    """Approvals are bound to the command of the tool server, which names another folder here."""
    then = database.execute("SELECT name FROM remembered WHERE kind = 'catalogue'").fetchone()[0]
    database.execute("UPDATE remembered SET name = ? WHERE name = ?", (now, then))
    for action, binding in database.execute("SELECT id, binding FROM actions").fetchall():
        moved = binding.replace(then, now)
        hash_ = digest(json.loads(moved))
        database.execute("UPDATE actions SET binding = ?, hash = ? WHERE id = ?", (moved, hash_, action))


async def _make(folder: Path) -> None:
    async with open_product(job_settings(folder), world=World()) as product:
        for goal in (FINISHED, WAITING):
            run_id = await _start(product, goal)
            await product.until(run_id, lambda now: now.ended or now.status == "awaiting_approval")


async def _die(folder: Path) -> None:
    async with open_product(job_settings(folder), world=World()) as product:
        await _start(product, CUT)
        # Nothing in this process could tell of it.
        while ("stuck", "posted") not in made(folder):  # noqa: ASYNC110
            await anyio.sleep(0.01)
        os._exit(0)


async def _start(product: Product, goal: str) -> str:
    return await product.start(Request(goal, plan={"steps": PLANS[goal]}))


def _dump(folder: Path, file: Path) -> None:
    with sqlite3.connect(folder / "store" / "steprelay.db") as database:
        # The process is dead, and the name of its machine is nobody's business.
        database.execute("DELETE FROM leases")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        text = "\n".join(database.iterdump()).replace(str(folder), "/home/me")
        file.write_text(f"{text}\nPRAGMA user_version = {version};\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        anyio.run(_make, Path(place))
        if (pid := os.fork()) == 0:
            anyio.run(_die, Path(place))
        os.waitpid(pid, 0)
        _dump(Path(place), Path(sys.argv[1]))
