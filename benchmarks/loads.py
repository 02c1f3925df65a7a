"""A load of runs, carried out in this process: what it took in time, processor, memory and commits."""

import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import anyio

from journal.engine import Drive
from journal.run_journal import Ending, Meaning, RunJournal
from journal.values import JsonObject

from .rig import Act, Rig, Setting, open_rig, plan_of

Kind: TypeAlias = Literal["look", "note", "memo"]
"""Whole runs whose steps read or write, or the floor: the same number of memo rows and nothing else."""

_CHAINS = 8
_MEANING = Meaning("benchmark", None)
_DONE = Ending("succeeded", "done", "Done.", "Done.", {})


@dataclass(frozen=True)
class Load:
    """So many runs at once, each of 2 + 8 x `length` steps, on a store in a folder of its own `within` another."""

    kind: Kind
    within: str
    runs: int = 1
    length: int = 6

    @property
    def steps(self) -> int:
        """In all runs together."""
        return self.runs * (2 + _CHAINS * self.length)


@dataclass(frozen=True)
class Taken:
    """What a load took: seconds on the clock and of the processor, peak MiB, commits, and changes that shared them."""

    steps: int
    seconds: float
    cpu: float
    peak_mib: float
    commits: int
    changes: int

    @property
    def ms(self) -> float:
        """A step, on the clock."""
        return 1000 * self.seconds / self.steps

    @property
    def cpu_ms(self) -> float:
        """A step, of the processor."""
        return 1000 * self.cpu / self.steps


async def carry_out(load: Load, folder: Path) -> Taken:
    """Create the runs on a store in this folder, then drive all of them to their end at once."""
    left, go, done = load.runs, anyio.Event(), anyio.Event()

    def ended() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done.set()

    drive = _memos(load.length) if load.kind == "memo" else None
    setting = Setting(folder, runs=load.runs, drive=drive, begin=go.wait, ended=ended)
    async with open_rig(setting) as rig:
        await _create(rig, load)
        database, clock, cpu = rig.store.database, time.perf_counter(), time.process_time()
        commits, changes = database.commits, database.changes
        go.set()
        await rig.engine.wake("all")
        await done.wait()
        seconds, used = time.perf_counter() - clock, time.process_time() - cpu
        counted = database.commits - commits, database.changes - changes
        statuses = {run.status for run in await rig.store.runs(limit=load.runs)}
        if statuses != {"succeeded"}:
            raise RuntimeError(f"the load did not succeed: {sorted(statuses)}")
    return Taken(load.steps, seconds, used, _peak_mib(), *counted)


async def _create(rig: Rig, load: Load) -> None:
    act: Act = "note" if load.kind == "note" else "look"
    plan = plan_of(act, chains=_CHAINS, length=load.length)
    async with anyio.create_task_group() as group:
        for number in range(load.runs):
            group.start_soon(_create_one, rig, plan, f"run {number}")


async def _create_one(rig: Rig, plan: JsonObject, goal: str) -> None:
    await rig.create(plan, goal=goal)


def _memos(length: int) -> Drive:
    async def drive(journal: RunJournal) -> None:
        await journal.record("first", _MEANING, "value")
        async with anyio.create_task_group() as group:
            for number in range(_CHAINS):
                group.start_soon(chain, journal, number)
        await journal.record("last", _MEANING, "value")
        await journal.finish(_DONE)

    async def chain(journal: RunJournal, number: int) -> None:
        for place in range(length):
            await journal.record(f"c{number}_{place}", _MEANING, "value")

    return drive


def _peak_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)
