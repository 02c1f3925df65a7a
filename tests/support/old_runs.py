"""Runs with rows in every table, runs with a call of which nobody knows, and files without a row."""

import os
from dataclasses import replace
from pathlib import Path

import anyio
from audit_chain import broken_line
from journals import LIMITS, Clock, create, take

from journal.actions import NewAction
from journal.artifacts import NewArtifact
from journal.events import NewEvent
from journal.intents import NewIntent
from journal.ledger import Amount, Reservation, Spent
from journal.run_journal import Ending, Meaning
from journal.steps import StepRow
from journal.store import Store

MEANING = Meaning("test", {})
ENDING = Ending("succeeded", "done", "Done.", "The answer.", {"sources": []})
USD = Reservation("model", Amount(model_calls=1, usd=0.5))
RUN, OTHER, FILE = f"r_{'a' * 26}", f"r_{'b' * 26}", f"f_{'c' * 26}"
"""Ids as the product makes them."""


async def run_with_everything(store: Store, goal: str = "goal", *, ends: bool = True) -> str:
    """A run with rows in each table that a run can have rows in, and an artifact."""
    run_id = await create(store, goal=goal, owner=store.owner)
    journal = await take(store, run_id, limits=replace(LIMITS, usd_day=1000.0))
    step = StepRow("a", 0, 1, "call", "Do a", None, False, False, "pending", "", {"id": "a"}, None, None)
    await journal.put_plan([step], events=[NewEvent("plan.accepted", {"version": 1})])
    await journal.memo("plan.1", MEANING, anyio.lowlevel.checkpoint)
    await journal.begin_call(USD)
    await journal.end_call("model", MEANING, None, spent=Spent(100, 20, usd=0.25))
    await journal.begin_call(Reservation("call", Amount(tool_calls=1)), intent=intent())
    await journal.end_call("call", MEANING, None, intent="done")
    await journal.ask(NewAction("ask", "plan", "host", "Do it?", {}, {"run": run_id}, subject="plan"))
    await journal.artifacts.add(run_id, NewArtifact("a", "c_1", "text/plain", b"x" * 9000, frozenset({"user"})))
    if ends:
        await journal.finish(ENDING)
    return run_id


def intent() -> NewIntent:
    """A call with an effect."""
    return NewIntent("c_1", "a", "mail.send", "write", {"to": "ana"}, "hash")


async def run_with_an_unknown(store: Store, *, asked: bool) -> str:
    """A run that ended while a call of it may have run; with `asked` a person is to say whether it did."""
    journal = await take(store, await create(store, goal=f"unknown {asked}", owner=store.owner))
    await journal.begin_call(Reservation("call", Amount(tool_calls=1)), intent=intent())
    await journal.lose_call("call")
    if asked:
        question = NewAction("call/unknown", "unknown", "person", "Was it done?", {}, {}, subject="call")
        await journal.ask(question)
    await journal.finish(ENDING)
    return journal.run.id


def kept_files(folder: Path) -> list[str]:
    """What lies in the folder of artifacts."""
    return sorted(str(path.relative_to(folder / "artifacts")) for path in (folder / "artifacts").rglob("*"))


async def chain_holds(store: Store) -> bool:
    """Whether the audit is whole."""
    return await broken_line(store) is None


def orphan(folder: Path, clock: Clock, name: str, *, hours: float) -> Path:
    """A file without a row, last changed so many hours ago by this clock; its folder is as old."""
    path = folder / "artifacts" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"12345")
    for each in (path, path.parent):
        os.utime(each, (clock.at - hours * 3600, clock.at - hours * 3600))
    return path
