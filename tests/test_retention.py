"""Runs that ended long ago go, with all that is theirs; what somebody may still need stays."""

import json
import os
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from journals import LIMITS, Clock, change, create, dump, open_own_store, rows, take, until
from old_runs import (
    ENDING,
    FILE,
    MEANING,
    OTHER,
    RUN,
    USD,
    chain_holds,
    kept_files,
    orphan,
    run_with_an_unknown,
    run_with_everything,
)

from journal.actions import Decision
from journal.archive.retention import DAY, OF_RUN, Pruned, Swept, prune, prune_daily, shrink, sweep
from journal.artifact_files import remove_unknown
from journal.artifacts import ArtifactLost
from journal.errors import BudgetReached, StoreError, UnknownId
from journal.lease import open_lease
from journal.tasks import open_tasks
from server.commands.runs_prune import shrunk
from server.installed import Spoken
from server.views.view import run_view

NOTHING = Pruned((), 0, 0)


async def test_a_run_goes_once_it_is_old_enough_with_all_that_is_its_own_and_leaves_the_audit(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        run_id = await run_with_everything(store)
        clock.at += 90 * DAY - 1
        other = await run_with_everything(store, "another", ends=False)
        before, lines = await dump(store), await rows(store, "SELECT * FROM audit")
        assert await prune(store, days=90) == NOTHING
        assert await dump(store) == before
        clock.at += 1
        would = await prune(store, days=90, dry_run=True)
        assert await dump(store) == before
        assert (would.runs, would.unanswered, 9_000 < would.size < 20_000) == ((run_id,), 0, True)
        assert await prune(store, days=90) == would
        after = await dump(store)
        left = {name: [row for row in whole if run_id in row] for name, whole in after.items() if name != "audit"}
        assert not any(left.values())
        # Nothing of the other run is touched.
        assert all(row in after[name] for name, whole in before.items() for row in whole if other in row)
        audit = await rows(store, "SELECT run, type, data FROM audit ORDER BY seq")
        assert audit[-1][:2] == (None, "runs.pruned")
        assert json.loads(audit[-1][2]) == {"ended_before": clock.at - 90 * DAY, "runs": [run_id]}
        assert len(audit) == len(lines) + 1
        assert await chain_holds(store)
        assert kept_files(tmp_path)[0] == other
        assert await prune(store, days=90) == NOTHING


async def test_every_table_with_rows_of_a_run_is_known_to_what_removes_them(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        sql = (
            "SELECT t.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table' AND c.name = 'run'"
        )
        of_run = {name for (name,) in await rows(store, sql)}
    assert of_run == {*OF_RUN, "ledger", "audit", "grants"}


async def test_an_unfinished_run_stays_however_old_it_is(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        parked = await take(store, await create(store, goal="parked"))
        await parked.park(None)
        await create(store, goal="never driven")
        reopened = await run_with_everything(store)
        await store.reopen(await store.run(reopened), options={})
        clock.at += 1000 * DAY
        before = await dump(store)
        assert await prune(store, days=0) == NOTHING
        assert await dump(store) == before


async def test_a_run_stays_until_somebody_said_what_became_of_its_call(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        run_id = await run_with_an_unknown(store, asked=True)
        never_asked = await run_with_an_unknown(store, asked=False)
        clock.at += 91 * DAY
        assert await prune(store, days=90) == Pruned((), 0, 2)
        [action] = await store.actions(run_id)
        await store.decide(action, Decision("give_up", "person", "terminal"))
        pruned = await prune(store, days=90)
        assert (pruned.runs, pruned.unanswered) == ((run_id,), 1)
        assert (await store.run(never_asked)).ended


async def test_a_call_that_was_sent_again_is_no_answered_one(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        run_id = await run_with_an_unknown(store, asked=True)
        [action] = await store.actions(run_id)
        await store.decide(action, Decision("retry", "person", "terminal"))
        clock.at += 91 * DAY
        assert await prune(store, days=90) == Pruned((), 0, 1)


async def test_an_imported_run_is_kept_from_its_import_on_and_asks_nobody_here(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        run_id = await run_with_an_unknown(store, asked=True)
        await change(store, "UPDATE ledger SET owner = 'imported', usd = 1 WHERE run = ?", run_id)
        clock.at += 365 * DAY
        await change(store, "INSERT INTO imports VALUES (?, 'me', '{}', ?)", run_id, clock.at)
        clock.at += 90 * DAY - 1
        assert await prune(store, days=90) == NOTHING
        clock.at += 1
        assert (await prune(store, days=90)).runs == (run_id,)
        assert await rows(store, "SELECT * FROM imports UNION SELECT run, owner, '', at FROM ledger") == []


async def test_what_was_spent_today_counts_after_its_run_is_gone_and_is_swept_later(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        gone = await run_with_everything(store)
        await prune(store, days=0)
        journal = await take(store, await create(store, goal="next"), limits=replace(LIMITS, usd_day=0.7))
        with pytest.raises(BudgetReached, match=r"usd_day does not reach: 0\.25 of 0\.7"):
            await journal.begin_call(USD)
        assert await rows(store, "SELECT * FROM ledger WHERE run = ?", gone) == []
        clock.at += 2 * DAY - 1
        await sweep(store)
        assert await rows(store, "SELECT run, usd FROM ledger WHERE usd > 0") == [("", 0.25)]
        clock.at += 1
        await sweep(store)
        assert await rows(store, "SELECT * FROM ledger WHERE run = ''") == []


async def test_runs_of_another_owner_stay(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        run_id = await run_with_everything(store)
        await change(store, "UPDATE runs SET owner = 'you' WHERE id = ?", run_id)
        clock.at += 91 * DAY
        assert await prune(store, days=90) == NOTHING


async def test_files_that_no_row_names_are_swept_once_they_are_an_hour_old(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        kept = await run_with_everything(store)
        [artifact] = await store.artifacts.of_run(kept)
        orphan(tmp_path, clock, f"{kept}/{artifact.id}", hours=100)
        for name in (f"{RUN}/{FILE}", f"{kept}/{FILE}.part", f"import_{'d' * 26}/{FILE}"):
            orphan(tmp_path, clock, name, hours=1.1)
        orphan(tmp_path, clock, f"{OTHER}/{FILE}", hours=0.9)
        empty = orphan(tmp_path, clock, f"{OTHER.replace('b', 'e')}/{FILE}", hours=2)
        empty.unlink()
        os.utime(empty.parent, (0, 0))
        assert await sweep(store) == Swept(files=3, size=15)
        assert kept_files(tmp_path) == sorted([kept, f"{kept}/{artifact.id}", OTHER, f"{OTHER}/{FILE}"])
        assert await sweep(store) == Swept(0, 0)


async def test_what_is_not_ours_is_left_alone_and_no_link_leads_out(tmp_path: Path) -> None:
    clock, outside = Clock(time.time() + DAY), tmp_path / "outside"
    outside.mkdir()
    (outside / FILE).write_text("mine")
    async with open_own_store(tmp_path, clock.world) as store:
        gone = await run_with_everything(store)
        await prune(store, days=0)
        (tmp_path / "artifacts" / gone).symlink_to(outside)
        for name in ("build/app.zip", f"build/{FILE}", f"{RUN}/notes.txt", FILE, "r_1/f_1"):
            orphan(tmp_path, clock, name, hours=100)
        (tmp_path / "artifacts" / OTHER).mkdir()
        (tmp_path / "artifacts" / OTHER / FILE).symlink_to(outside / FILE)
        before = kept_files(tmp_path)
        # The link itself is a file of that name that no row names; that leaves its folder empty.
        assert (await sweep(store)).files == 1
        assert kept_files(tmp_path) == [name for name in before if not name.startswith(OTHER)]
        assert (outside / FILE).read_text() == "mine"


def test_a_folder_that_another_process_has_just_removed_is_as_good_as_swept(tmp_path: Path) -> None:
    assert remove_unknown(tmp_path / RUN, (), before=time.time()) == []


async def test_a_folder_that_was_replaced_by_a_link_is_not_emptied_with_its_run(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    async with open_own_store(tmp_path) as store:
        run_id = await run_with_everything(store)
        (tmp_path / "artifacts" / run_id).rename(outside)
        (tmp_path / "artifacts" / run_id).symlink_to(outside)
        assert (await prune(store, days=0)).runs == (run_id,)
        assert len(list(outside.iterdir())) == 1


async def test_a_file_that_cannot_be_removed_is_left(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await run_with_everything(store)
        [artifact] = await store.artifacts.of_run(run_id)
        (path := tmp_path / "artifacts" / run_id / artifact.id).unlink()
        path.mkdir()
        assert (await prune(store, days=0)).runs == (run_id,)
        assert path.is_dir()


async def test_removed_rows_leave_the_disk_where_nobody_else_is_at_work(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        kept = await run_with_everything(store)
        journal = await take(store, await create(store, goal="large"))
        await journal.record("large", MEANING, "find me" * 300_000)
        await journal.finish(ENDING)
        await change(store, "UPDATE runs SET ended_at = ended_at + 9 WHERE id = ?", kept)
        await prune(store, days=-5 / DAY)
        order = "SELECT rowid, id FROM actions ORDER BY rowid"
        before = await rows(store, order)
        async with open_lease(store, fingerprint="print", settings_path="settings.yaml"):
            assert await shrink(store) is None
        freed = await shrink(store)
        assert freed is not None
        assert freed > 2_000_000
        assert await rows(store, order) == before
        assert await shrink(store) == 0
    assert b"find me" not in (tmp_path / "store.db").read_bytes()
    assert not (tmp_path / "store.db-wal").exists()


async def test_a_database_that_cannot_be_made_smaller_is_named(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as busy:
            busy.execute("BEGIN IMMEDIATE")
            said = f"{tmp_path}/store.db was not made smaller: database is locked; nothing of it is lost"
            with pytest.raises(StoreError, match=said):
                await shrink(store)
            assert await shrunk(store) == (None, said)


async def test_a_store_that_fails_is_looked_at_again_the_next_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_own_store(tmp_path) as store:
        pass

    async def is_said() -> bool:
        return "prune_failed" in caplog.messages

    async with open_tasks() as group:
        group.start_soon(prune_daily, store, 90)
        await until(is_said)


async def test_a_run_that_is_removed_while_it_is_looked_at_is_unknown_and_never_half_there(tmp_path: Path) -> None:
    seen, told = anyio.Event(), list[str]()

    async def look(run_id: str) -> None:
        while True:
            try:
                view = await run_view(store, run_id, spoken=Spoken("steprelay"), detail=True)
            except UnknownId as error:
                told.append(str(error))
                return
            seen.set()
            assert (view.steps.total, view.usage.cost_usd, len(view.step_list or ())) == (1, 0.25, 1)

    async with open_own_store(tmp_path) as store:
        ids = [await run_with_everything(store, f"goal {number}") for number in range(15)]
        run, [artifact] = await store.run(ids[0]), await store.artifacts.of_run(ids[0])
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for run_id in ids:
                    group.start_soon(look, run_id)
                await seen.wait()
                assert len((await prune(store, days=0)).runs) == 15
        assert sorted(told) == sorted(
            f"no run {id_!r} is known here; list_runs and `steprelay runs list` show all" for id_ in ids
        )
        for later in (
            store.usage(run),
            store.steps(run.id),
            store.actions(run.id),
            store.intents(run.id),
            store.events(run.id),
        ):
            with pytest.raises(UnknownId, match=f"no run '{run.id}' is known here"):
                await later
        with pytest.raises(UnknownId, match=f"no artifact '{artifact.id}' is known here"):
            await store.artifacts.content(artifact)


async def test_a_lost_file_of_a_run_that_is_there_is_still_said_to_be_lost(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await run_with_everything(store)
        [artifact] = await store.artifacts.of_run(run_id)
        (tmp_path / "artifacts" / run_id / artifact.id).unlink()
        with pytest.raises(ArtifactLost):
            await store.artifacts.content(artifact)
