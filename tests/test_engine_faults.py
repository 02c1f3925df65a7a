"""What becomes of a run, and of all others, where its drive, its end or the store fails under the engine."""

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from engines import finish, open_engine
from journals import LIMITS, change, create, ended, open_own_store, until

from journal.artifacts import ArtifactLost
from journal.engine import Drive
from journal.errors import StoreError
from journal.ledger import Limits
from journal.outlet import Outlet
from journal.run_journal import RunJournal
from journal.runs import Run
from journal.steps import StepRow


async def fail(journal: RunJournal) -> None:
    raise KeyError("a fault of ours")


async def fail_in_a_group(journal: RunJournal) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(fail, journal)


async def leave_open(journal: RunJournal) -> None:
    """Neither ends nor parks the run."""


async def lose(journal: RunJournal) -> None:
    raise ArtifactLost("artifact f_1 was changed on disk")


@pytest.mark.parametrize("status", ["succeeded", "failed"])
@pytest.mark.parametrize("drive", [fail, fail_in_a_group, leave_open, lose])
async def test_a_drive_that_fails_ends_its_run_with_an_error_and_no_other(
    tmp_path: Path, drive: Drive, status: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def drive_one(journal: RunJournal) -> None:
        if journal.run.goal == "good":
            await finish(journal)
            return
        step = StepRow("s", 0, 1, "call", "Send", None, False, False, status, "", {}, None, None)
        await journal.put_plan([step], events=[])
        await drive(journal)

    async with open_own_store(tmp_path) as store, open_engine(store, drive_one) as engine:
        bad = await create(store, driver=engine.lease.id, goal="bad")
        good = await create(store, driver=engine.lease.id, goal="good")
        await engine.wake(bad)
        run = await ended(store, bad)
        assert (await ended(store, good)).status == "succeeded"
    assert (run.status, run.stop_reason) == ("partial" if status == "succeeded" else "failed", "error")
    assert run.message is not None
    assert run.message.startswith("The run ended by an internal error; the log has the details.")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


class Choking(Outlet):
    """Fails, so often, where it is given the message of a run that ends by a fault."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def text(self, text: str) -> str:
        if "internal error" in text and self.left:
            self.left -= 1
            raise KeyError("another fault of ours")
        return super().text(text)


async def test_a_fault_while_a_broken_run_is_ended_ends_neither_the_engine_nor_a_second_drive(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driven: list[str] = []

    async def drive(journal: RunJournal) -> None:
        driven.append(journal.run.goal)
        await (fail if journal.run.goal == "bad" else finish)(journal)

    async with (
        open_own_store(tmp_path, outlet=Choking(2)) as store,
        open_engine(store, drive, hold_off=0.01) as engine,
    ):
        bad = await create(store, driver=engine.lease.id, goal="bad")
        await engine.wake(bad)
        run = await ended(store, bad)
        good = await create(store, driver=engine.lease.id, goal="good")
        await engine.wake(good)
        assert (await ended(store, good)).status == "succeeded"
    assert (run.status, run.stop_reason, driven) == ("failed", "error", ["bad", "good"])
    assert [record.msg for record in caplog.records] == ["run_stopped"] * 3


async def test_a_broken_run_whose_store_fails_at_its_end_is_driven_anew(tmp_path: Path) -> None:
    async def drive(journal: RunJournal) -> None:
        epochs.append(journal.run.epoch)
        if len(epochs) > 1:
            await finish(journal)
            return
        await change(store, "ALTER TABLE audit RENAME TO away")
        await fail(journal)

    async def held() -> bool:
        return "no such table" in str(engine.trouble_of(bad))

    epochs: list[int] = []
    async with open_own_store(tmp_path) as store, open_engine(store, drive, hold_off=0.01) as engine:
        bad = await create(store, driver=engine.lease.id)
        await engine.wake(bad)
        await until(held)
        await change(store, "ALTER TABLE away RENAME TO audit")
        assert (await ended(store, bad)).status == "succeeded"
    assert epochs[0] == 1


async def test_a_run_whose_store_failed_is_tried_again_later_and_keeps_its_memo(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    epochs: list[int] = []

    async def sick_at_first(journal: RunJournal) -> None:
        epochs.append(journal.run.epoch)
        if len(epochs) < 3:
            raise StoreError("disk full")
        await finish(journal)

    async def drive(journal: RunJournal) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(sick_at_first, journal)

    async with open_own_store(tmp_path) as store, open_engine(store, drive, hold_off=0.01) as engine:
        run_id = await create(store, driver=engine.lease.id)
        await engine.wake(run_id)
        assert (await ended(store, run_id)).status == "succeeded"
    assert epochs == [1, 2, 3]
    assert [record.msg for record in caplog.records] == ["run_stopped"] * 2


async def test_a_run_whose_limits_can_not_be_told_ends_nothing_but_its_own_try(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[str] = []

    def limits(run: Run) -> Limits:
        tries.append(run.id)
        return LIMITS if len(tries) > 1 else run.options["budget"]

    async with open_own_store(tmp_path) as store, open_engine(store, finish, limits=limits, hold_off=0.0) as engine:
        run_id = await create(store, driver=engine.lease.id)
        await engine.wake(run_id)
        assert (await ended(store, run_id)).status == "succeeded"
    assert [record.msg for record in caplog.records] == ["run_stopped"]
