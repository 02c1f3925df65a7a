"""Two processes on one store: what a killed or stopped one drove is taken up by the other, if it fits."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from audit_chain import broken_line
from journals import LIMITS, change, create, ended, open_own_store, rows, take

from journal.lease import DEAD_SECONDS
from journal.local_engine import EngineOptions, LocalEngine, open_local_engine
from journal.run_journal import Ending, Meaning, RunJournal
from journal.store import Store
from journal.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.untraced]

SUPPORT = Path(__file__).parent / "support"
MEANING = Meaning("test", {})


class Process:
    """A driving_process.py that runs; `said` waits for its next line."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        command = [sys.executable, str(SUPPORT / "driving_process.py"), str(folder), fingerprint]
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=os.environ | {"PYTHONPATH": f"{SUPPORT.parent.parent}:{SUPPORT}"},
        )

    async def said(self, *words: object) -> list[str]:
        """The next line as words, which must begin with these."""
        assert self.popen.stdout is not None
        with anyio.fail_after(30):
            line = await anyio.to_thread.run_sync(self.popen.stdout.readline, abandon_on_cancel=True)
        assert line.split()[: len(words)] == [str(word) for word in words], line
        return line.split()

    def go_on(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write("\n")


@contextmanager
def process(folder: Path, fingerprint: str = "print") -> Generator[Process]:
    started = Process(folder, fingerprint)
    with started.popen:
        try:
            yield started
        finally:
            started.popen.kill()


def options(fingerprint: str = "print") -> EngineOptions:
    return EngineOptions(fingerprint, "settings.yaml", 16, lambda run: LIMITS)


async def finish(journal: RunJournal) -> None:
    """Goes on where another left off: `first` is there, `second` is not."""
    if journal.run.goal != "own":
        assert await journal.recall("first", MEANING) is not None
        await journal.record("second", MEANING, None)
    await journal.finish(Ending("succeeded", "done", "Done.", "answer", {}))


async def look_around(store: Store, engine: LocalEngine) -> None:
    """Has the engine look for work once more, which it has when a run of its own has ended."""
    run_id = await create(store, driver=engine.lease.id, goal="own")
    await engine.wake(run_id)
    await ended(store, run_id)
    await change(store, "DELETE FROM runs WHERE id = ?", run_id)


async def test_a_killed_process_is_replaced_within_2_s_by_one_with_the_same_settings_only(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        with process(tmp_path) as victim, process(tmp_path, "other") as stranger:
            (_, lease), _ = await victim.said("ready"), await stranger.said("ready")
            run_id = await create(store, driver=lease)
            await victim.said("driving", run_id, 1)
            async with open_local_engine(store, finish, options()) as engine:
                await look_around(store, engine)
                assert (await store.run(run_id)).epoch == 1
                killed_at = store.world.now()
                victim.popen.kill()
                assert ((await ended(store, run_id)).ended_at or 0) - killed_at < 2
        run = await store.run(run_id)
        assert (run.epoch, run.status) == (2, "succeeded")
        assert await rows(store, "SELECT key, epoch FROM memo ORDER BY key") == [("first", 1), ("second", 2)]
        assert lease in {path.name for path in (tmp_path / "leases").iterdir()}
        async with open_local_engine(store, finish, options()) as engine:
            assert [path.name for path in (tmp_path / "leases").iterdir()] == [engine.lease.id]


def die(folder: Path, point: str, goal: str = "-") -> None:
    """Have a process come to this crash point, and no further."""
    command = [sys.executable, str(SUPPORT / "dying_process.py"), str(folder), point, goal]
    env = os.environ | {"PYTHONPATH": f"{SUPPORT.parent.parent}:{SUPPORT}"}
    assert subprocess.run(command, env=env, timeout=60, check=False).returncode == 3


async def simply_finish(journal: RunJournal) -> None:
    await journal.finish(Ending("succeeded", "done", "Done.", "answer", {}))


@pytest.mark.parametrize(
    ("deaths", "epochs"),
    [
        ([("create.written", "goal")], None),
        ([("create.committed", "goal")], 0),
        ([("take.before", "goal")], 0),
        ([("take.committed", "goal")], 1),
        ([("create.committed", "goal"), ("take.before", "-")], 0),
        ([("create.committed", "goal"), ("take.committed", "-"), ("take.committed", "-")], 2),
    ],
    ids=["not created", "created", "not taken", "taken", "not adopted", "adopted twice"],
)
async def test_a_run_whose_every_driver_died_at_once_is_found(
    tmp_path: Path, deaths: list[tuple[str, str]], epochs: int | None
) -> None:
    for point, goal in deaths:
        await anyio.to_thread.run_sync(die, tmp_path, point, goal)
    async with open_own_store(tmp_path) as store:
        left = await store.runs()
        assert [(run.epoch, run.ended) for run in left] == ([] if epochs is None else [(epochs, False)])
        opened_at = store.world.now()
        async with open_local_engine(store, simply_finish, options()):
            for run in left:
                now = await ended(store, run.id)
                assert ((now.ended_at or 0) - opened_at < 2, now.epoch) == (True, run.epoch + 1)


@pytest.mark.parametrize("status", ["planning", "running"])
@pytest.mark.parametrize("driver", [None, "l_never"], ids=["null", "a lease that never was"])
async def test_a_run_without_a_real_driver_is_found_while_a_process_is_at_work(
    tmp_path: Path, status: str, driver: str | None
) -> None:
    async with open_own_store(tmp_path) as store:
        await change(store, "INSERT INTO leases VALUES ('l_far', 'me', 1, 'elsewhere', 'print', 's', 0, 9e12)")
        run_id, parked = await create(store, driver="l_far"), await create(store, driver="l_far", goal="parked")
        await change(store, "UPDATE runs SET status = 'awaiting_approval', driver = NULL WHERE id = ?", parked)
        async with open_local_engine(store, simply_finish, options()) as engine:
            await look_around(store, engine)
            assert (await store.run(run_id)).epoch == 0
            lost_at = store.world.now()
            await change(store, "UPDATE runs SET status = ?, driver = ? WHERE id = ?", status, driver, run_id)
            assert ((await ended(store, run_id)).ended_at or 0) - lost_at < 2
            left = await store.run(parked)
            assert (left.epoch, left.status) == (0, "awaiting_approval")


async def test_a_run_without_a_fitting_process_keeps_its_status(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await create(store, driver="l_dead")
        await take(store, run_id, driver="l_dead")
        with process(tmp_path, "other") as stranger:
            _, lease = await stranger.said("ready")
            other = await create(store, driver=lease, fingerprint="other", goal="other")
            await stranger.said("driving", other, 1)
            stranger.go_on()
            await stranger.said("ended", other)
        run = await store.run(run_id)
        assert (run.epoch, run.driver, run.status) == (1, "l_dead", "planning")


async def test_a_process_that_was_stopped_for_long_writes_nothing_after_its_run_was_taken_over(tmp_path: Path) -> None:
    ahead = [0.0]
    real = World()
    world = World(now=lambda: real.now() + ahead[0], monotonic=lambda: real.monotonic() + ahead[0])
    async with open_own_store(tmp_path, world) as store:
        with process(tmp_path) as sleeper:
            _, lease = await sleeper.said("ready")
            run_id = await create(store, driver=lease)
            await sleeper.said("driving", run_id, 1)
            sleeper.popen.send_signal(signal.SIGSTOP)
            async with open_local_engine(store, finish, options()) as engine:
                await look_around(store, engine)
                assert (await store.run(run_id)).epoch == 1
                ahead[0] = DEAD_SECONDS + 1
                await ended(store, run_id)
            sleeper.popen.send_signal(signal.SIGCONT)
            sleeper.go_on()
            await sleeper.said("fenced", run_id)
        assert await rows(store, "SELECT key, epoch FROM memo ORDER BY key") == [("first", 1), ("second", 2)]
        ends = [event for event in await store.events(run_id) if event.type == "run.ended"]
        assert len(ends) == 1
        assert await broken_line(store) is None


async def test_two_processes_share_the_runs_and_drive_none_twice(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        with process(tmp_path) as one, process(tmp_path) as two:
            leases = [(await one.said("ready"))[1], (await two.said("ready"))[1]]
            for number in range(10):
                await create(store, driver=leases[number % 2], goal=str(number))
            await change(store, "UPDATE runs SET driver = NULL WHERE goal > '5'")
            for _ in range(10):
                one.go_on()
                two.go_on()
            for run in await store.runs():
                await ended(store, run.id)
        assert await rows(store, "SELECT DISTINCT epoch, status FROM runs") == [(1, "succeeded")]
        assert await rows(store, "SELECT COUNT(*) FROM memo") == [(20,)]
