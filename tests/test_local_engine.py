"""The engine of one process: what it drives, when, and what becomes of it where a drive or the store fails."""

import logging
from pathlib import Path

import anyio
import pytest
from engines import CANCELLED, DONE, finish, open_engine
from journals import Clock, change, create, ended, open_own_store, rows, take, until

from journal.actions import Decision, NewAction
from journal.artifacts import ArtifactLimits
from journal.engine import Drive
from journal.errors import Fenced
from journal.run_journal import Meaning, RunJournal
from journal.runs import Run
from journal.store import Store
from journal.tasks import open_tasks

CALL = NewAction("k/approval", "call", "host", "Send?", {}, {}, "subject")
ENDED = "SELECT COUNT(*) FROM runs WHERE ended_at IS NOT NULL"


async def has_parked(store: Store, run_id: str) -> bool:
    return (await store.run(run_id)).status == "awaiting_approval"


async def wait_for_yes(journal: RunJournal) -> None:
    """Ends once the action is approved or the run cancelled; parks until then."""
    action = await journal.ask(CALL) if (found := await journal.action(CALL.key)) is None else found
    if await journal.cancel_reason() is not None:
        await journal.finish(CANCELLED)
    elif action.state == "decided":
        await journal.settle_action(action)
        await journal.finish(DONE)
    elif not await journal.park(None):
        await wait_for_yes(journal)


async def test_a_run_is_driven_at_once_when_woken_and_listeners_hear_of_its_end(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store, open_engine(store, finish) as engine:
        run_id = await create(store, driver=engine.lease.id)
        rung = store.bell.listen(run_id)
        await engine.wake(run_id)
        assert rung.is_set()
        assert (await ended(store, run_id)).status == "succeeded"


async def test_what_another_process_decides_arrives_without_being_woken(tmp_path: Path) -> None:
    async with (
        open_own_store(tmp_path) as store,
        open_own_store(tmp_path) as terminal,
        open_engine(store, wait_for_yes) as engine,
    ):
        run_id = await create(store, driver=engine.lease.id)
        await engine.wake(run_id)
        await until(lambda: has_parked(store, run_id))
        (action,) = await terminal.waiting_actions()
        rung = store.bell.listen(run_id)
        await terminal.decide(action, Decision("approve", "person", "terminal"))
        await rung.wait()
        assert (await ended(store, run_id)).status == "succeeded"


async def test_a_parked_run_goes_on_when_its_time_has_come(tmp_path: Path) -> None:
    clock = Clock()

    async def drive(journal: RunJournal) -> None:
        if journal.run.epoch > 1:
            await journal.finish(DONE)
        else:
            assert await journal.park(clock.at + 60)

    async with open_own_store(tmp_path, clock.world) as store, open_engine(store, drive) as engine:
        run_id = await create(store, driver=engine.lease.id)
        await engine.wake(run_id)
        await until(lambda: has_parked(store, run_id))
        clock.at += 60
        assert (await ended(store, run_id)).epoch == 2


@pytest.mark.parametrize("fingerprint", ["print", "other"])
async def test_a_parked_run_is_cancelled_whatever_settings_it_belongs_to(tmp_path: Path, fingerprint: str) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await create(store, fingerprint=fingerprint)
        await wait_for_yes(await take(store, run_id))
        async with open_engine(store, wait_for_yes) as engine:
            assert await store.request_cancel(await store.run(run_id), "enough")
            await engine.wake(run_id)
            assert (await ended(store, run_id)).status == "cancelled"


async def test_no_more_runs_than_allowed_are_driven_at_once_and_a_queued_one_can_be_cancelled(tmp_path: Path) -> None:
    at_work: set[str] = set()
    most: list[int] = []
    go_on = anyio.Event()

    async def drive(journal: RunJournal) -> None:
        if await journal.cancel_reason() is None:
            at_work.add(journal.run.id)
            most.append(len(at_work))
            await go_on.wait()
            at_work.discard(journal.run.id)
        await finish(journal)

    async def all_ended() -> bool:
        return (await rows(store, ENDED)) == [(5,)]

    async def full() -> bool:
        return len(at_work) == 2

    async with open_own_store(tmp_path) as store, open_engine(store, drive, runs=2) as engine:
        ids = [await create(store, driver=engine.lease.id, goal=str(number)) for number in range(5)]
        await engine.wake(ids[0])
        await until(full)
        queued = await store.run(ids[4])
        assert (queued.status, queued.epoch) == ("planning", 0)
        await store.request_cancel(queued, "enough")
        await engine.wake(ids[4])
        assert (await ended(store, ids[4])).status == "cancelled"
        go_on.set()
        await until(all_ended)
    assert max(most) == 2


async def test_two_engines_on_one_store_never_drive_one_run_twice(tmp_path: Path) -> None:
    driven: list[tuple[str, str]] = []

    def drive_as(name: str) -> Drive:
        async def drive(journal: RunJournal) -> None:
            driven.append((journal.run.id, name))
            await journal.record("k", Meaning("test", {}), name)
            await finish(journal)

        return drive

    async def all_ended() -> bool:
        return (await rows(store, ENDED)) == [(40,)]

    async with (
        open_own_store(tmp_path) as store,
        open_own_store(tmp_path) as other,
        open_engine(store, drive_as("one")) as one,
        open_engine(other, drive_as("two")) as two,
    ):
        for number in range(40):
            drivers = (one.lease.id, two.lease.id, "l_dead", "l_dead")
            await create(store, driver=drivers[number % 4], goal=str(number))
            await one.wake("any")
            await two.wake("any")
        await until(all_ended)
        assert [run.epoch for run in await store.runs(limit=100)] == [1] * 40
        made = dict(driven)
        assert len(driven) == len(made) == 40
        assert {made[run.id] for run in await store.runs(limit=100) if int(run.goal) % 4 == 0} == {"one"}
        assert {made[run.id] for run in await store.runs(limit=100) if int(run.goal) % 4 == 1} == {"two"}


async def test_a_run_taken_between_the_look_and_the_take_is_left_to_who_took_it(tmp_path: Path) -> None:
    class Late(Store):
        async def run(self, run_id: str) -> Run:
            if not taken:
                taken.append(run_id)
                await take(store, run_id, driver="l_other")
            return await super().run(run_id)

    taken: list[str] = []
    async with open_own_store(tmp_path) as store, open_own_store(tmp_path) as plain:
        late = Late(plain.database, plain.world, plain.outlet, owner="me", limits=ArtifactLimits())
        await change(store, "INSERT INTO leases VALUES ('l_other', 'me', 1, 'elsewhere', 'print', 's', 0, 9e12)")
        run_id = await create(store, driver="l_dead")
        async with open_engine(late, finish) as engine:
            next_one = await create(store, driver=engine.lease.id, goal="next")
            await ended(store, next_one)
        run = await store.run(run_id)
        assert (run.epoch, run.driver, run.ended) == (1, "l_other", False)


async def test_a_drive_that_was_taken_over_stops_without_a_word_on_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def drive(journal: RunJournal) -> None:
        if journal.run.epoch == 1:
            await take(store, journal.run.id)
            await journal.say()
        await finish(journal)

    caplog.set_level(logging.INFO, "journal")
    async with open_own_store(tmp_path) as store, open_engine(store, drive) as engine:
        run_id = await create(store, driver=engine.lease.id)
        await engine.wake(run_id)
        assert (await ended(store, run_id)).epoch == 3
    assert [(record.levelno, record.msg) for record in caplog.records] == [(logging.INFO, "run_taken_over")]


async def test_where_the_store_fails_the_engine_says_so_once_and_goes_on_when_it_is_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def in_trouble() -> bool:
        return engine.trouble is not None

    async with open_own_store(tmp_path) as store, open_engine(store, finish) as engine:
        await change(store, "ALTER TABLE runs RENAME TO away")
        await until(in_trouble)
        assert str(engine.trouble).startswith(f"{store.database.path}: no such table: runs; ")
        for _ in range(3):
            await engine.wake("any")
            await anyio.wait_all_tasks_blocked()
        await change(store, "ALTER TABLE away RENAME TO runs")
        run_id = await create(store, driver=engine.lease.id)
        await engine.wake(run_id)
        await ended(store, run_id)
        assert engine.trouble is None
    assert [record.msg for record in caplog.records] == ["store_failed"]


async def test_a_run_left_open_at_the_end_of_one_engine_is_driven_by_the_next(tmp_path: Path) -> None:
    at_work = anyio.Event()

    async def stay(journal: RunJournal) -> None:
        at_work.set()
        await anyio.sleep_forever()

    async with open_own_store(tmp_path) as store:
        async with open_engine(store, stay) as engine:
            run_id = await create(store, driver=engine.lease.id)
            await engine.wake(run_id)
            await at_work.wait()
        async with open_engine(store, finish):
            assert (await ended(store, run_id)).epoch == 2


async def fail_twice() -> None:
    async def fail_first() -> None:
        raise ValueError("first")

    async with open_tasks() as group:
        group.start_soon(fail_first)
        try:
            await anyio.sleep_forever()
        finally:
            raise KeyError("second")


async def test_an_error_of_the_block_comes_out_as_it_is_and_of_several_none_is_lost(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        with pytest.raises(Fenced, match="run r_1"):
            async with open_engine(store, finish):
                raise Fenced("r_1")
    with pytest.raises(ExceptionGroup) as several:
        await fail_twice()
    assert {type(error) for error in several.value.exceptions} == {KeyError, ValueError}


async def test_a_thousand_waiting_runs_hold_no_task(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store, context="x" * 1000))
        assert await journal.park(None)
        fields = [name for (name,) in await rows(store, "SELECT name FROM pragma_table_info('runs')")]
        others = ", ".join(fields[1:])
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)"
        await change(store, f"INSERT INTO runs ({', '.join(fields)}) {numbers} SELECT 'r_' || i, {others} FROM runs, n")
        assert await rows(store, "SELECT COUNT(*) FROM runs") == [(1000,)]
        before = len(anyio.get_running_tasks())

        async def only_two_tasks() -> bool:
            return len(anyio.get_running_tasks()) == before + 2

        async with open_engine(store, finish) as engine:
            run_id = await create(store, driver=engine.lease.id)
            await engine.wake(run_id)
            await ended(store, run_id)
            # The heartbeat and the loop.
            await until(only_two_tasks)
            assert await rows(store, ENDED) == [(1,)]
