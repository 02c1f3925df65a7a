"""Leases: who is alive, told by a file lock and a heartbeat."""

import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from journals import LIMITS, Clock, change, create, ended, open_own_store, rows, until

from journal.errors import StoreError
from journal.lease import DEAD_SECONDS, HEARTBEAT_SECONDS, Lease, LeaseWatch, forget_dead, open_lease
from journal.local_engine import EngineOptions, open_local_engine
from journal.locks import check_locks, held, is_free, sweep
from journal.run_journal import Ending, RunJournal
from journal.store import Store

ROOT = Path(__file__).parent.parent


async def put_row(store: Store, lease_id: str, *, at: float, host: str | None = None) -> Lease:
    """The row of a process that is somewhere else, or gone."""
    lease = Lease(lease_id, 7, host or socket.gethostname(), "print", "settings.yaml", at)
    values = (lease.id, lease.pid, lease.host, lease.fingerprint, lease.settings_path, at, at)
    await change(store, "INSERT OR REPLACE INTO leases VALUES (?, 'me', ?, ?, ?, ?, ?, ?)", *values)
    return lease


IN_PLACE = pytest.mark.parametrize("in_place", [False, True], ids=["renamed", "as on Windows"])


@IN_PLACE
def test_a_held_lock_keeps_others_out_and_is_free_at_the_end(tmp_path: Path, in_place: bool) -> None:
    path = tmp_path / "folder" / "lock"
    with held(path, in_place=in_place):
        assert not is_free(path)
        assert [found.name for found in path.parent.iterdir()] == ["lock"]
    assert is_free(path)
    assert not path.exists()
    check_locks(tmp_path)


@pytest.mark.e2e
@IN_PLACE
def test_a_second_process_cannot_take_a_held_lock_and_sees_it_free_once_its_holder_was_killed(
    tmp_path: Path, in_place: bool
) -> None:
    path = tmp_path / "lock"
    script = (
        "import pathlib, sys\n"
        "from journal.locks import held\n"
        f"with held(pathlib.Path({str(path)!r}), in_place={in_place}):\n"
        "    sys.stdout.write('held\\n')\n"
        "    sys.stdout.flush()\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            assert not is_free(path)
            sweep(tmp_path)
            assert path.exists()
        finally:
            holder.kill()
    assert is_free(path)
    assert path.exists()
    sweep(tmp_path)
    assert not path.exists()


def test_a_lock_that_cannot_be_looked_at_counts_as_held(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("lock")
    assert not is_free(tmp_path / "lock")


@pytest.mark.e2e
@pytest.mark.parametrize("flock", ["lambda *_: None", "lambda *_: open('/nowhere/at/all')"], ids=["idle", "refused"])
def test_a_file_system_whose_locks_do_not_hold_is_refused(tmp_path: Path, flock: str) -> None:
    script = (
        f"import fcntl, pathlib; fcntl.flock = {flock}\n"
        "import anyio\n"
        "from journal.database import open_database\n"
        "from journal.world import World\n"
        "async def main():\n"
        f"    async with open_database(pathlib.Path({str(tmp_path / 'store.db')!r}), World()): pass\n"
        "anyio.run(main)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    last = ended.stderr.strip().splitlines()[-1]
    way = "set `store` to a file in a local folder"
    assert last == f"journal.errors.StoreError: {tmp_path / 'leases'}: file locks do not work here; {way}"


async def test_a_process_lives_as_long_as_its_lease_is_open(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store, open_own_store(tmp_path, clock.world) as other:
        async with open_lease(store, fingerprint="print", settings_path="settings.yaml") as lease:
            assert lease == Lease(lease.id, os.getpid(), socket.gethostname(), "print", "settings.yaml", clock.at)
            assert await LeaseWatch(other).living() == [lease]
        assert await LeaseWatch(other).living() == []
        assert await rows(store, "SELECT id FROM leases") == []


async def test_a_free_lock_means_dead_at_once(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        await put_row(store, "l_killed", at=clock.at)
        assert await LeaseWatch(store).living() == []


async def test_a_process_of_another_machine_is_told_by_its_heartbeat(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        watch = LeaseWatch(store)
        lease = await put_row(store, "l_far", at=clock.at, host="elsewhere")
        assert await watch.living() == [lease]
        clock.at += DEAD_SECONDS + 1
        assert await watch.living() == []


async def test_a_stopped_process_counts_as_dead_after_30_s_though_it_holds_its_lock(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        watch = LeaseWatch(store)
        with held(tmp_path / "leases" / "l_stopped"):
            lease = await put_row(store, "l_stopped", at=clock.at)
            assert await watch.living() == [lease]
            clock.at += DEAD_SECONDS
            assert await watch.living() == [lease]
            clock.at += 1
            assert await watch.living() == []


async def test_after_a_sleep_of_the_machine_all_have_time_for_a_heartbeat_before_anything_is_taken(
    tmp_path: Path,
) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        watch = LeaseWatch(store)
        with held(tmp_path / "leases" / "l_slept"):
            asleep = await put_row(store, "l_slept", at=clock.at - 3600)
            assert await watch.living() == [asleep]
            clock.at += HEARTBEAT_SECONDS
            awake = await put_row(store, "l_slept", at=clock.at)
            clock.at += HEARTBEAT_SECONDS
            assert await watch.living() == [awake]


async def test_a_lease_renewed_while_its_lock_is_free_refuses_the_store(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        watch = LeaseWatch(store)
        await put_row(store, "l_odd", at=clock.at)
        assert await watch.living() == []
        # One renewal may have been under way when the process was killed.
        clock.at += HEARTBEAT_SECONDS
        await put_row(store, "l_odd", at=clock.at)
        assert await watch.living() == []
        clock.at += HEARTBEAT_SECONDS
        await put_row(store, "l_odd", at=clock.at)
        with pytest.raises(StoreError, match="process 7 is alive but its lock is free, so locks do not work"):
            await watch.living()


async def test_where_a_lease_is_renewed_while_its_lock_is_free_nothing_is_driven_any_more(tmp_path: Path) -> None:
    async def finish(journal: RunJournal) -> None:
        await journal.finish(Ending("succeeded", "done", "Done.", "answer", {}))

    async def in_trouble() -> bool:
        return engine.trouble is not None

    clock, options = Clock(), EngineOptions("print", "s", 16, lambda run: LIMITS)
    async with open_own_store(tmp_path, clock.world) as store, open_local_engine(store, finish, options) as engine:
        await put_row(store, "l_odd", at=clock.at)
        # Its lock is free, so until it shows that it lives its runs are taken over.
        await ended(store, await create(store, driver="l_odd"))
        clock.at += 2 * HEARTBEAT_SECONDS
        await put_row(store, "l_odd", at=clock.at)
        run_id = await create(store, driver="l_odd", goal="another")
        await until(in_trouble)
        assert "locks do not work on this file system; set `store` to a file in a local folder" in str(engine.trouble)
        assert (await store.run(run_id)).epoch == 0


async def until_found(store: Store, sql: str, *expected: object) -> None:
    async def found() -> bool:
        return await rows(store, sql) == [expected]

    await until(found)


async def test_the_heartbeat_is_renewed_and_comes_back_where_others_had_forgotten_it(tmp_path: Path) -> None:
    clock = Clock()
    async with (
        open_own_store(tmp_path, clock.world) as store,
        open_lease(store, fingerprint="print", settings_path="s", every=0.01) as lease,
    ):
        clock.at += 100
        await until_found(store, "SELECT heartbeat_at FROM leases", clock.at)
        await change(store, "DELETE FROM leases")
        await until_found(store, "SELECT id, heartbeat_at FROM leases", lease.id, clock.at)


async def test_a_heartbeat_that_fails_is_logged_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def logged() -> bool:
        return bool(caplog.records)

    clock = Clock()
    sick = "CREATE TRIGGER sick BEFORE UPDATE ON leases BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END"
    async with (
        open_own_store(tmp_path, clock.world) as store,
        open_lease(store, fingerprint="print", settings_path="s", every=0.01),
    ):
        await change(store, sick)
        await until(logged)
        await change(store, "DROP TRIGGER sick")
        clock.at += 100
        await until_found(store, "SELECT heartbeat_at FROM leases", clock.at)
    assert {(record.levelno, record.msg) for record in caplog.records} == {(logging.ERROR, "heartbeat_failed")}
    assert "disk I/O error; free some space" in caplog.records[0].__dict__["error"]


async def test_a_lease_whose_row_cannot_be_removed_is_given_up_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_own_store(tmp_path) as store:
        async with open_lease(store, fingerprint="print", settings_path="s"):
            await change(store, "CREATE TRIGGER sick BEFORE DELETE ON leases BEGIN SELECT RAISE(ABORT, 'no'); END")
        assert [record.msg for record in caplog.records] == ["lease_left_behind"]
        assert await LeaseWatch(store).living() == []


async def test_an_error_within_the_lease_comes_out_as_it_is(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        with pytest.raises(KeyError, match="mine"):
            async with open_lease(store, fingerprint="print", settings_path="s"):
                raise KeyError("mine")


async def test_what_dead_processes_left_is_removed_unless_an_unfinished_run_names_it(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        await create(store, driver="l_named")
        for lease_id in ("l_old", "l_named"):
            await put_row(store, lease_id, at=clock.at - DEAD_SECONDS - 1)
        await put_row(store, "l_recent", at=clock.at - 1)
        for name in ("l_old", "l_recent", "l_without_row", "probe_x", "l_begun.part"):
            (tmp_path / "leases" / name).touch()
        with held(tmp_path / "leases" / "l_other"):
            await forget_dead(store, [])
            left = {path.name for path in (tmp_path / "leases").iterdir()}
        assert left == {"l_other", "l_begun.part"}
        assert await rows(store, "SELECT id FROM leases ORDER BY id") == [("l_named",), ("l_recent",)]
