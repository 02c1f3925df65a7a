"""Kills processes at random while they drive runs of one store, and looks at what became of the runs:
`chaos.py FOLDER [--seed S] [--kills K] [--runs R] [--processes P …]`.

Every choice comes from the seed, which is printed first; when things happen is real time, so the same seed makes a
similar history and not the same one. Exit code 1 if anything is not as it must be.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import toys
from anyio.abc import TaskGroup
from chaos_jobs import SHAPES, gate, plan, script
from chaos_verdict import Verdict, judge
from journals import rows, until
from mcp_hosts import serve
from quick_jobs import made, settings

from journal.actions import Decision
from journal.errors import DecisionRefused
from journal.store import Store
from journal.tasks import open_tasks
from journal.world import World
from server.opened_store import open_settings_store
from server.product import Request, new_run
from server.settings import Found, Settings, load_settings

SUPPORT = Path(__file__).parent
NOBODY = "nobody"
AT_ONCE = 5
"""So many runs are under way while there are kills to come."""
IDLE = 0.02
"""How readily a process is killed or stopped that drives nothing."""
MOST_BETWEEN = 16
"""So many events at most are written between two kills, so that runs get on also where the machine is slow."""
KILLS_PER_STOP = 3
LAST_SECONDS = 90.0
FULL = 1 / 12
"""This part of the processes are whole `steprelay serve`, which take a second to start."""


@dataclass(frozen=True)
class Bounds:
    """How much chaos: at least so many runs, and kills of so many processes at once."""

    seed: int
    kills: int
    runs: int
    processes: int

    @property
    def scripted(self) -> int:
        return self.runs + self.kills


class Starter:
    """Starts processes that drive; all that were started end with the block."""

    def __init__(self, config: Path, log: Path) -> None:
        self._config = config
        self._env = os.environ | {"XDG_STATE_HOME": str(log.parent / "state")}
        life, self._held = os.pipe()
        command = [sys.executable, str(SUPPORT / "chaos_process.py"), str(config), str(log), str(life)]
        self._log = log.open("ab")
        self._forks = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            pass_fds=[life],
            bufsize=0,
            env=self._env,
        )
        os.close(life)
        self._whole: list[subprocess.Popen[bytes]] = []

    def start(self, *, whole: bool) -> int:
        """The pid of a new process."""
        if whole:
            command, pipe = serve(self._config), subprocess.PIPE
            self._whole.append(
                subprocess.Popen(command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=self._log, env=self._env)
            )
            return self._whole[-1].pid
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(b"\n")
        return int(self._forks.stdout.readline())

    def reap(self) -> None:
        for process in self._whole:
            process.poll()

    def close(self) -> None:
        os.close(self._held)
        for process in (self._forks, *self._whole):
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            process.wait()
        self._log.close()


@dataclass
class Chaos:
    """One store with its processes; `live` is all of it. Nobody is killed before there are `spared` events."""

    bounds: Bounds
    folder: Path
    settings: Settings
    store: Store
    starter: Starter
    tasks: TaskGroup
    random: random.Random
    living: list[int] = field(default_factory=list[int])
    stopped: set[int] = field(default_factory=set[int])
    runs: list[str] = field(default_factory=list[str])
    ending_servers: set[int] = field(default_factory=set[int])
    open_at_death: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    spared: int = 0
    kills: int = 0
    at_work: int = 0
    stops: int = 0

    async def live(self) -> None:
        """Chaos until there were enough runs and kills; then all come to their ends."""
        moves = {self.start: 6, self.begin: 4, self.kill: 6, self.stop: 1, self.decide: 6, self.open_gate: 2}
        while self.kills < self.bounds.kills or len(self.runs) < self.bounds.runs:
            [move] = self.random.choices(list(moves), list(moves.values()))
            await move()
            await anyio.sleep(self.random.uniform(0, 0.03))
        with anyio.fail_after(LAST_SECONDS):
            while not all(run.ended for run in [await self.store.run(run_id) for run_id in self.runs]):
                for move in (self.start, self.decide, self.open_gate):
                    await move()
                await anyio.sleep(0.01)

    async def start(self) -> None:
        if len(self.living) < self.bounds.processes:
            self.living.append(self.starter.start(whole=self.random.random() < FULL))

    async def begin(self) -> None:
        [(under_way,)] = await rows(self.store, "SELECT COUNT(*) FROM runs WHERE ended_at IS NULL")
        if under_way < AT_ONCE and len(self.runs) < self.bounds.scripted:
            number = len(self.runs)
            request = Request(f"Job {number}.", plan={"steps": plan(number)})
            new = new_run(self.settings, request, owner=self.store.owner)
            self.runs.append((await self.store.create_or_attach(new, driver=NOBODY))[0])

    async def kill(self) -> None:
        """End a process that drives something, in whatever it does now."""
        [(events,)] = await rows(self.store, "SELECT COUNT(*) FROM events")
        if events < self.spared or self.kills == self.bounds.kills or (pid := await self._victim()) is None:
            return
        self.stopped.discard(pid)
        os.kill(pid, signal.SIGSTOP)
        # While it is stopped nobody writes for its runs, so this is what it leaves behind.
        await until(partial(_is_stopped, pid))
        driven = [run for (run,) in await rows(self.store, _DRIVEN, pid)]
        servers = set(filter(_is_server, toys.children_of(pid)))
        before = await self._intents(driven, "begun", "unknown")
        os.kill(pid, signal.SIGKILL)
        self.living.remove(pid)
        self.ending_servers |= servers
        self.starter.reap()
        # What it had committed and not yet told may show only now.
        after = await self._intents(driven, "begun", "unknown")
        begun = {key for key, state in before.items() if state == "begun"}
        self.open_at_death |= begun | (after.keys() - before.keys())
        self.spared = events + self.random.randint(0, MOST_BETWEEN)
        self.kills += 1
        self.at_work += bool(driven)

    async def _victim(self) -> int | None:
        """Some process that drives a run; seldom one that does not."""
        if not self.living:
            return None
        pid = self.random.choice(self.living)
        return pid if self.random.random() < IDLE or await rows(self.store, _DRIVEN, pid) else None

    async def _intents(self, runs: list[str], *states: str) -> dict[tuple[str, str], str]:
        found = [intent for run in runs for intent in await self.store.intents(run)]
        return {(intent.run, intent.key): intent.state for intent in found if intent.state in states}

    async def stop(self) -> None:
        """Hold a process for a while that is too short for others to think it dead."""
        if self.stops * KILLS_PER_STOP >= self.kills or (pid := await self._victim()) is None:
            return
        if pid not in self.stopped:
            os.kill(pid, signal.SIGSTOP)
            self.stopped.add(pid)
            self.stops += 1
            # Whoever waits here for the store may wait for just this process.
            self.tasks.start_soon(self._go_on, pid, self.random.uniform(0.05, 0.5))

    async def _go_on(self, pid: int, seconds: float) -> None:
        await anyio.sleep(seconds)
        if pid in self.stopped:
            os.kill(pid, signal.SIGCONT)
            self.stopped.discard(pid)

    async def decide(self) -> None:
        """Answer one question as a person who approves, and who looks before telling what became of a call."""
        if not (waiting := await self.store.waiting_actions()):
            return
        action, choice = self.random.choice(waiting), "approve"
        if action.kind == "unknown":
            # A tool server may do what it was sent until it has ended.
            if toys.alive(self.ending_servers):
                return
            happened = (str(action.tool).removeprefix("quick."), action.arguments["key"]) in made(self.folder)
            true = ("done", "give_up") if happened else ("retry", "not_done", "give_up")
            choice = self.random.choices(true, (8, 1, 1)[: len(true)])[0]
        # The question may have been taken back meanwhile.
        with suppress(DecisionRefused):
            await self.store.decide(action, Decision(choice, "person", "terminal"))

    async def open_gate(self) -> None:
        if shut := [place for place in map(self._gate, range(len(self.runs))) if not place.exists()]:
            self.random.choice(shut).touch()

    def _gate(self, number: int) -> Path:
        return self.folder / gate(number)


_DRIVEN = "SELECT runs.id FROM runs JOIN leases ON runs.driver = leases.id WHERE pid = ? AND ended_at IS NULL"


async def _is_stopped(pid: int) -> bool:
    return toys.state_of(pid) == "T"


def _is_server(pid: int) -> bool:
    """Whether it is a tool server, and not one of the shells that watch over them."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().startswith(sys.executable)
    except OSError:
        return False


@asynccontextmanager
async def open_chaos(folder: Path, bounds: Bounds) -> AsyncGenerator[Chaos]:
    """A store of its own with nothing in it yet."""
    config = settings(folder, script(bounds.scripted))
    loaded = load_settings(Found(config, "option"), environ=os.environ)
    starter = Starter(config, folder / "processes.log")
    try:
        async with open_settings_store(loaded, world=World()) as store, open_tasks() as tasks:
            yield Chaos(bounds, folder, loaded, store, starter, tasks, random.Random(bounds.seed))
    finally:
        starter.close()


async def live_through(folder: Path, bounds: Bounds) -> Verdict:
    """The verdict on a store after so much chaos."""
    began = time.monotonic()
    async with open_chaos(folder, bounds) as chaos:
        await chaos.live()
        verdict = await judge(chaos.store, folder, chaos.runs, open_at_death=chaos.open_at_death)
    if bounds.kills:
        sys.stdout.write(
            f"processes {bounds.processes}, runs {len(chaos.runs)}, kills {chaos.kills} ({chaos.at_work} at work), "
            f"stops {chaos.stops}, effects twice {verdict.twice}, silently lost {verdict.lost}, asked "
            f"{dict(verdict.asked)}, {time.monotonic() - began:.0f} s\n"
        )
    return verdict


async def main(folder: Path, options: argparse.Namespace) -> list[str]:
    """What is wrong."""
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    sys.stdout.write(f"seed {seed}\n")
    sys.stdout.flush()
    quiet: list[Verdict] = []
    disturbed: list[Verdict] = []

    async def undisturbed() -> None:
        quiet.append(await live_through(folder / "undisturbed", Bounds(seed, 0, len(SHAPES), 1)))

    async with anyio.create_task_group() as group:
        group.start_soon(undisturbed)
        for processes in options.processes:
            bounds = Bounds(seed, options.kills, options.runs, processes)
            disturbed.append(await live_through(folder / f"by-{processes}", bounds))
    different = [text for verdict in disturbed for text in verdict.unlike(quiet[0])]
    return [*(text for verdict in (*quiet, *disturbed) for text in verdict.wrong), *different]


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 3])
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = read_options()
    WRONG = anyio.run(main, OPTIONS.folder.resolve(), OPTIONS)
    sys.stdout.write("".join(f"wrong: {text}\n" for text in WRONG))
    sys.exit(1 if WRONG else 0)
