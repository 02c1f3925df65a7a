"""A run's history for readers, and the chain of hashes over all decisions and effects."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from audit_chain import broken_line
from journals import Clock, change, create, open_own_store, rows, take, unguard

from journal.audit import AuditLine, append_audit
from journal.database import Transaction
from journal.events import NewEvent
from journal.outlet import Outlet
from journal.store import Store


async def test_events_are_numbered_from_1_in_each_run_and_read_on_from_any(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        one, other = await create(store, goal="one"), await create(store, goal="other")
        journal = await take(store, one)
        await journal.say(
            NewEvent("step.started", {"kind": "call"}, step="s"), NewEvent("call.started", {}, "s", "c_1")
        )
        await (await take(store, other)).say(NewEvent("warning", {"text": "x"}))
        events = await store.events(one, after=1)
        assert [event.seq for event in await store.events(other)] == [1, 2]
        assert (await store.run(one)).last_seq == 3
    assert [event.to_json() for event in events] == [
        {"seq": 2, "at": clock.at, "run": one, "type": "step.started", "step": "s", "data": {"kind": "call"}},
        {"seq": 3, "at": clock.at, "run": one, "type": "call.started", "step": "s", "call": "c_1", "data": {}},
    ]


async def test_no_secret_and_no_broken_text_gets_into_events_and_audit(tmp_path: Path) -> None:
    outlet = Outlet([("KEY", "very-secret")])
    async with open_own_store(tmp_path, outlet=outlet) as store:
        run_id = await create(store, goal="a very-secret goal")
        await (await take(store, run_id)).say(NewEvent("warning", {"very-secret": ["\ud83d"]}))
        await put_lines(store, "very-secret \ud83d")
        events = [event.data for event in await store.events(run_id)]
        assert events == [{"goal": "a [secret:KEY] goal"}, {"[secret:KEY]": ["?"]}]
        assert await rows(store, "SELECT data FROM audit") == [('{"text":"[secret:KEY] ?"}',)]


async def put_lines(store: Store, *texts: str) -> None:
    for number, text in enumerate(texts):
        line = AuditLine("test", {"text": text}, run=None if number % 2 else "r_1")
        put = partial(append_audit, line=line, owner="me", at=store.world.now(), outlet=store.outlet)
        await store.database.write("audit", put)


async def test_a_chain_that_nobody_touched_holds(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        assert await broken_line(store) is None
        await put_lines(store, "a", "b", "c")
    async with open_own_store(tmp_path) as store:
        await put_lines(store, "d")
        assert await rows(store, "SELECT seq FROM audit ORDER BY seq") == [(1,), (2,), (3,), (4,)]
        assert await broken_line(store) is None


@pytest.mark.parametrize("column", ["owner", "at", "run", "type", "data", "prev", "hash"])
async def test_a_change_of_any_field_is_found_at_its_line(tmp_path: Path, column: str) -> None:
    async with open_own_store(tmp_path) as store:
        await put_lines(store, "a", "b", "c", "d")
        value = 1.0 if column == "at" else "other"
        await unguard(store)
        await change(store, f"UPDATE audit SET {column} = ? WHERE seq = 3", value)
        assert await broken_line(store) == 3


async def test_a_line_that_is_dropped_repeated_or_moved_is_found(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        await put_lines(store, "a", "b", "c")
        await unguard(store)
        await change(store, "CREATE TABLE told AS SELECT * FROM audit")
        orders = [order for length in range(1, 5) for order in product(range(1, 4), repeat=length)]
        unnoticed = [order for order in orders if await told_in(store, order) is None]
    # What is missing at the end can't be told.
    assert unnoticed == [(1,), (1, 2), (1, 2, 3)]


async def told_in(store: Store, order: Sequence[int]) -> int | None:
    """Where the audit breaks first if these of its lines stand there in this order."""

    def rewrite(tx: Transaction) -> None:
        tx.change("DELETE FROM audit")
        for number, seq in enumerate(order, start=1):
            sql = "INSERT INTO audit SELECT ?, owner, at, run, type, data, prev, hash FROM told WHERE seq = ?"
            tx.change(sql, (number, seq))

    await store.database.write("by_hand", rewrite)
    return await broken_line(store)
