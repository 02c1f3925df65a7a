"""Runs as rows: found again by a repeated request, listed, taken, cancelled, bound anew and reopened."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from journals import LIMITS, NEW, Clock, change, create, open_own_store, take

from journal.actions import ActionKind, Decision, NewAction
from journal.database import Transaction
from journal.errors import Fenced, UnknownId
from journal.run_journal import Ending
from journal.runs import KeyInUse, Ready, ready_runs
from journal.store import Store

DONE = Ending("succeeded", "done", "Done.", "answer", {})


async def end(store: Store, run_id: str) -> None:
    await (await take(store, run_id)).finish(DONE)


async def repeat(store: Store, **changes: Any) -> tuple[str, bool]:
    return await store.create_or_attach(replace(NEW, **changes), driver="other")


async def test_a_new_run_is_planned_by_whoever_made_it_and_its_history_begins(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        run = await store.run(await create(store, context="facts", options={"depth": 1}))
        events = await store.events(run.id)
    assert (run.status, run.driver, run.epoch, run.ended) == ("planning", "driver", 0, False)
    assert (run.goal, run.context, run.options, run.warnings, run.result) == ("goal", "facts", {"depth": 1}, (), {})
    assert [event.to_json() for event in events] == [
        {"seq": 1, "at": clock.at, "run": run.id, "type": "run.created", "data": {"goal": "goal"}}
    ]


@pytest.mark.parametrize(
    "changes",
    [{"goal": "other"}, {"context": "other"}, {"fingerprint": "other"}, {"owner": "other"}],
    ids=lambda changes: next(iter(changes)),
)
async def test_a_repeated_request_finds_its_run_and_any_other_makes_one(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await create(store)
        assert await repeat(store) == (run_id, False)
        assert await repeat(store, options={"review_plan": True}) == (run_id, False)
        assert (await repeat(store, **changes))[1]


async def test_a_repeated_request_attaches_for_10_minutes_and_until_its_result_was_delivered(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        first = await create(store)
        await store.mark_delivered(first)
        assert await repeat(store) == (first, False), "what has not ended was not delivered"
        await end(store, first)
        assert await repeat(store) == (first, False), "its end reached nobody yet"
        await store.mark_delivered(first)
        second, created = await repeat(store)
        assert created
        clock.at += 599
        assert await repeat(store) == (second, False)
        clock.at += 1
        assert (await repeat(store))[1]


async def test_an_idempotency_key_finds_its_run_for_ever_and_refuses_another_goal(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        run_id = await create(store, idempotency_key="k")
        await end(store, run_id)
        await store.mark_delivered(run_id)
        clock.at += 1_000_000
        assert await repeat(store, idempotency_key="k") == (run_id, False)
        assert await repeat(store, idempotency_key="k", fingerprint="other") == (run_id, False)
        assert (await repeat(store, idempotency_key="k", owner="other"))[1]
        assert (await repeat(store))[1], "a request without a key never finds one with a key"
        for changes in ({"goal": "other"}, {"context": "other"}):
            with pytest.raises(KeyInUse, match=f"'k' belongs to run {run_id} with another goal or context"):
                await repeat(store, idempotency_key="k", **changes)


async def test_runs_are_listed_newest_first_and_by_status(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        ids: list[str] = []
        for number in range(3):
            clock.at += 1
            ids.append(await create(store, goal=f"goal {number}"))
        await create(store, goal="not mine", owner="other")
        await end(store, ids[1])
        assert [run.id for run in await store.runs()] == ids[::-1]
        assert [run.id for run in await store.runs(limit=2)] == ids[:0:-1]
        assert [run.id for run in await store.runs(status="succeeded")] == [ids[1]]


async def test_a_run_of_somebody_else_is_as_unknown_as_one_that_never_was(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await create(store, owner="other")
        for id_ in (run_id, "r_none"):
            with pytest.raises(UnknownId, match=f"no run '{id_}' is known here; list_runs and"):
                await store.run(id_)


async def test_a_run_is_taken_once_per_epoch_and_never_after_its_end(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run = await store.run(await create(store))
        journal = await store.take(run, driver="one", limits=lambda run: LIMITS)
        assert journal is not None
        assert (journal.run.epoch, journal.run.driver, journal.run.status) == (1, "one", "planning")
        assert await store.take(run, driver="two", limits=lambda run: LIMITS) is None
        await journal.put_plan([], events=())
        again = await take(store, run.id, driver="two")
        assert (again.run.epoch, again.run.driver, again.run.status) == (2, "two", "running")
        await again.finish(DONE)
        assert await store.take(await store.run(run.id), driver="one", limits=lambda run: LIMITS) is None


async def test_a_cancel_is_recorded_once_and_refused_after_the_end(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run = await store.run(await create(store))
        journal = await take(store, run.id)
        assert await journal.cancel_reason() is None
        rung = store.bell.listen(run.id)
        assert await store.request_cancel(run, "enough")
        assert await store.request_cancel(run, "really")
        assert rung.is_set()
        assert await journal.cancel_reason() == "enough"
        await journal.finish(DONE)
        assert not await store.request_cancel(run, "late")


async def decided(store: Store, run_id: str, key: str, choice: str, *, kind: Any = "call") -> str:
    journal = await take(store, run_id)
    action = await journal.ask(NewAction(key, kind, "host", "?", {}, {}, key))
    return (await store.decide(action, Decision(choice, "person", "terminal"))).id


async def test_binding_to_other_settings_keeps_the_memo_drops_approvals_and_fences_the_old_drive(
    tmp_path: Path,
) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await create(store)
        yes = await decided(store, run_id, "yes", "approve")
        no = await decided(store, run_id, "no", "deny")
        retry = await decided(store, run_id, "retry", "retry", kind="unknown")
        done = await decided(store, run_id, "done", "done", kind="unknown")
        old = await take(store, run_id)
        await store.rebind(await store.run(run_id), fingerprint="other", settings_path="other.yaml")
        run = await store.run(run_id)
        states = {action: (await store.action(action)).state for action in (yes, no, retry, done)}
        with pytest.raises(Fenced):
            await old.say()
    assert (run.fingerprint, run.settings_path, run.driver, run.wake_at) == ("other", "other.yaml", None, 0)
    assert states == {yes: "superseded", no: "decided", retry: "superseded", done: "decided"}


async def test_binding_to_the_same_settings_only_wakes_the_run(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await create(store)
        yes = await decided(store, run_id, "yes", "approve")
        journal = await take(store, run_id)
        await store.rebind(await store.run(run_id), fingerprint="print", settings_path="elsewhere.yaml")
        await journal.say()
        run = await store.run(run_id)
        assert (run.wake_at, run.driver, (await store.action(yes)).state) == (0, "driver", "decided")


async def test_an_ended_run_can_be_reopened(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await create(store)
        journal = await take(store, run_id)
        await store.request_cancel(journal.run, "enough")
        await journal.finish(DONE)
        await store.reopen(await store.run(run_id), options={"reopened": 1})
        run = await store.run(run_id)
        assert (run.status, run.stop_reason, run.ended_at, run.cancel_reason) == ("running", None, None, None)
        assert (run.options, run.driver, run.wake_at, run.epoch) == ({"reopened": 1}, None, 0, 2)
        with pytest.raises(Fenced):
            await journal.say()


async def test_an_open_run_goes_on_under_new_options_and_its_question_about_a_limit_falls(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await create(store)
        journal = await take(store, run_id)
        kinds: tuple[ActionKind, ...] = ("budget", "call")
        asked = [(await journal.ask(NewAction(kind, kind, "host", "?", {}, {}, kind))).id for kind in kinds]
        assert await journal.park(None)
        before = await store.run(run_id)
        await store.reopen(before, options={"reopened": 1})
        run = await store.run(run_id)
        assert (run.options, run.status, run.driver, run.wake_at) == ({"reopened": 1}, before.status, None, 0)
        assert await ready(store) == [run_id]
        assert [(await store.action(id_)).state for id_ in asked] == ["superseded", "waiting"]
        with pytest.raises(Fenced):
            await journal.say()


async def ready(store: Store, fingerprint: str = "print") -> list[str]:
    return [found.id for found in await store.ready(fingerprint=fingerprint)]


async def test_ready_is_what_is_open_and_does_not_wait(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        queued = await create(store, goal="queued")
        parked, timed, ended, other = [await create(store, goal=goal) for goal in ("parked", "timed", "ended", "other")]
        assert await (await take(store, parked)).park(None)
        assert await (await take(store, timed)).park(clock.at + 10)
        await end(store, ended)
        await change(store, "UPDATE runs SET fingerprint = 'other' WHERE id = ?", other)
        assert await store.ready(fingerprint="print") == [Ready(queued, 0, "driver", cancelled=False)]
        assert await ready(store, "other") == [other]
        clock.at += 10
        assert set(await ready(store)) == {queued, timed}
        await store.request_cancel(await store.run(parked), "enough")
        await store.request_cancel(await store.run(other), "enough")
        assert set(await ready(store)) == {queued, timed, parked, other}
        assert Ready(parked, 1, None, cancelled=True) in await store.ready(fingerprint="print")


async def test_looking_for_work_reads_an_index_and_no_goals(tmp_path: Path) -> None:
    async with open_own_store(tmp_path):
        asked: list[str] = []
        connection = sqlite3.connect(tmp_path / "store.db")
        connection.set_trace_callback(asked.append)
        ready_runs(Transaction(connection), owner="me", fingerprint="print", at=0)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {asked[0]}").fetchall()
        connection.close()
    assert "COVERING INDEX runs_unfinished" in str(plan)
