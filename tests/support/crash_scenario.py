"""Two runs that pass every boundary of the journal, in processes that die at one: `crash_scenario.py FOLDER STRIDE`.

Every STRIDE-th boundary gets a folder of its own: a process that dies there, for every third one more that dies while
it recovers, and one that goes on to the end. The names of all boundaries are printed, as JSON.
"""

import json
import os
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
from journals import LIMITS, NEW, ended, open_own_store

from journal.actions import Decision, NewAction
from journal.artifacts import NewArtifact
from journal.events import NewEvent
from journal.intents import NewIntent
from journal.ledger import Amount, Reservation, Spent
from journal.local_engine import EngineOptions, LocalEngine, open_local_engine
from journal.run_journal import Ending, Meaning, RunJournal
from journal.steps import StepRow
from journal.store import Store
from journal.tasks import open_tasks
from journal.world import World

DIED = 77
SEND = Meaning("send", {"to": "ada"})
STEP = StepRow("s", 0, 1, "call", "Send", None, False, False, "pending", "", {}, None, None)
QUESTION = NewAction("send/approval", "call", "person", "Send?", {}, {"to": "ada"}, "send", step="s", expires_in=900)
UNKNOWN = NewAction("send/unknown", "unknown", "person", "Was it sent?", {}, {}, "unknown", step="s")


class Boundaries:
    """Counts boundaries, by name; the process dies at number `fatal`."""

    def __init__(self, fatal: int | None) -> None:
        self.names: list[str] = []
        self._fatal = fatal
        self._lock = threading.Lock()

    def reach(self, point: str) -> None:
        with self._lock:
            self.names.append(point)
            if len(self.names) == self._fatal:
                os._exit(DIED)


def effects(folder: Path) -> list[str]:
    path = folder / "effects"
    return path.read_text().splitlines() if path.exists() else []


def make_effect(folder: Path, world: World) -> None:
    """What the tool server does: once too often would show."""
    with (folder / "effects").open("a") as file:
        file.write("sent\n")
        file.flush()
        os.fsync(file.fileno())
    world.reach("effect")


async def drive(folder: Path, journal: RunJournal) -> None:
    """Plan, ask a model, keep an artifact, send once approved, answer."""
    if await journal.cancel_reason() is not None:
        await journal.finish(Ending("cancelled", "cancelled", "Cancelled.", "", {}))
        return
    if journal.run.goal == "first":
        await prepare(journal)
        while not await send(folder, journal):
            if await journal.park(None):
                return
        await journal.put_step_status("s", "succeeded", summary="sent", events=[NewEvent("step.ended", {}, "s")])
    await journal.finish(Ending("succeeded", "done", "Done.", "answer", {}))


async def prepare(journal: RunJournal) -> None:
    if await journal.recall("plan", Meaning("plan", {})) is None:
        await journal.begin_call(Reservation("plan", Amount(model_calls=1, tokens=100)))
        await journal.end_call("plan", Meaning("plan", {}), ["s"], spent=Spent(10, 10))
        await journal.begin_call(Reservation("lost", Amount(model_calls=1, tokens=100)))
        await journal.abandon_call("lost", Spent(10, 0))
    await journal.put_plan([STEP], events=[])
    await journal.put_step_status("s", "running")
    await journal.warn("careful")
    if await journal.recall("artifact", Meaning("artifact", {})) is None:
        new = NewArtifact("s", "c_1", "text/plain", b"whole", frozenset({"user"}))
        kept = await journal.artifacts.add(journal.run.id, new)
        await journal.record("artifact", Meaning("artifact", {}), kept.id)


async def send(folder: Path, journal: RunJournal) -> bool:
    """Whether it is sent; false while a question waits."""
    if await journal.recall("send", SEND) is not None:
        return True
    question = QUESTION
    if (intent := await journal.intent("send")) is not None:
        question = UNKNOWN
        if intent.state == "begun":
            await journal.lose_call("send")
    action = await journal.action(question.key)
    if action is None or action.state == "consumed":
        action = await journal.ask(question)
    if action.state == "waiting":
        return False
    if action.choice == "done":
        await journal.settle_action(action)
    else:
        begun = NewIntent("c_1", "s", "mail.send", "write", {}, "hash", action.id, action.hash)
        await journal.begin_call(Reservation("send", Amount(tool_calls=1)), intent=begun)
        make_effect(folder, journal.world)
    await journal.end_call("send", SEND, "sent", intent="done")
    return True


async def decide(folder: Path, store: Store, engine: LocalEngine) -> None:
    """A person who approves, and looks before telling what became of a call."""
    while True:
        for action in await store.waiting_actions():
            sent = "done" if effects(folder) else "retry"
            choice = "approve" if action.kind == "call" else sent
            await store.decide(action, Decision(choice, "person", "terminal"))
            await engine.wake(action.run)
        await anyio.sleep(0.002)


async def both_runs(store: Store, engine: LocalEngine) -> None:
    """The first to its end; the second cancelled, reopened under other settings' path, and to its end."""
    for goal in ("first", "second"):
        run_id, _ = await store.create_or_attach(replace(NEW, goal=goal, idempotency_key=goal), driver=engine.lease.id)
        run = await store.run(run_id)
        if goal == "second" and not run.options:
            await store.request_cancel(run, "enough")
            await engine.wake(run_id)
            run = await ended(store, run_id)
            await store.rebind(run, fingerprint="print", settings_path="other.yaml")
            await store.reopen(run, options={"reopened": 1})
        await engine.wake(run_id)
        await ended(store, run_id)
        await store.mark_delivered(run_id)


async def go(folder: Path, boundaries: Boundaries) -> None:
    """All of it, or what is left to do."""
    options = EngineOptions("print", "settings.yaml", 16, lambda run: LIMITS)
    async with open_own_store(folder, World(reach=boundaries.reach)) as store:
        await store.remembered.put("test", "fact", 1)
        async with open_local_engine(store, partial(drive, folder), options) as engine, open_tasks() as group:
            group.start_soon(decide, folder, store, engine)
            await both_runs(store, engine)


def child(folder: Path, fatal: int | None = None) -> tuple[int, list[str]]:
    """The exit code of a process that does it, and the names that it passed if it came to its end."""
    folder.mkdir(exist_ok=True)
    if (pid := os.fork()) == 0:
        boundaries = Boundaries(fatal)
        anyio.run(go, folder, boundaries)
        (folder / "names").write_text(json.dumps(boundaries.names))
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, json.loads((folder / "names").read_text()) if code == 0 else []


def main(folder: Path, stride: int) -> None:
    code, names = child(folder / "whole")
    assert code == 0
    for number in range(1, len(names) + 1, stride):
        codes = [child(folder / str(number), number)[0]]
        if number % 3 == 0:
            codes.append(child(folder / str(number), 5)[0])
        codes.append(child(folder / str(number))[0])
        (folder / str(number) / "codes").write_text(json.dumps(codes))
    sys.stdout.write(json.dumps(names))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
