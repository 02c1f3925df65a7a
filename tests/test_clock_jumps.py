"""The wall clock jumps by an hour or a day, either way: nothing is done twice, hangs, or lapses before its time.

Time in the store is Unix time, which knows no daylight saving. A laptop that slept is a wall clock that jumped forward
while the monotonic one stood still. What waits for a person for 24 hours waits for that long by the wall clock.
"""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
import quick_jobs
import toys
from journals import LIMITS, NEW, create, ended, open_own_store, take, until
from products import call_step, open_test_product, script

from journal.actions import Decision
from journal.database import Transaction
from journal.errors import BudgetReached, DecisionRefused
from journal.intents import NewIntent
from journal.lease import LeaseWatch
from journal.ledger import Amount, Reservation, Spent
from journal.local_engine import EngineOptions, open_local_engine
from journal.locks import held
from journal.outlet import Outlet
from journal.run_journal import Ending, Meaning, RunJournal
from journal.store import Store, open_store
from journal.world import World
from server.product import Product, Request

HOUR, DAY = 3600.0, 86_400.0
JUMPS = {"an hour forward": HOUR, "a day forward": DAY, "an hour back": -HOUR, "a day back": -DAY}
DONE = Ending("succeeded", "done", "Done.", "answer", {})

jumps = pytest.mark.parametrize("jump", list(JUMPS.values()), ids=list(JUMPS))


@dataclass
class Clocks:
    """A wall clock that jumps, and a monotonic one that only tests move."""

    wall: float = 2_000_000_000.0
    steady: float = 1000.0

    @property
    def world(self) -> World:
        return World(now=lambda: self.wall, monotonic=lambda: self.steady)

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


async def put_lease(store: Store, id_: str, *, at: float) -> None:
    def change(tx: Transaction) -> int:
        sql = "INSERT OR REPLACE INTO leases VALUES (?, 'me', 7, ?, 'print', 's', ?, ?)"
        return tx.change(sql, (id_, socket.gethostname(), at, at))

    await store.database.write("lease", change)


@jumps
async def test_no_run_is_taken_from_a_living_process_whose_heartbeat_looks_old_or_early(
    tmp_path: Path, jump: float
) -> None:
    clocks = Clocks()
    async with open_own_store(tmp_path, clocks.world) as store:
        watch = LeaseWatch(store)
        with held(tmp_path / "leases" / "l_living"):
            for _ in range(3):
                await put_lease(store, "l_living", at=clocks.wall)
                assert len(await watch.living()) == 1
                clocks.wall += jump
                for _ in range(5):
                    clocks.pass_by(1)
                    assert len(await watch.living()) == 1


@jumps
async def test_a_stopped_process_is_taken_for_dead_soon_whatever_the_clock_says(tmp_path: Path, jump: float) -> None:
    clocks = Clocks()
    async with open_own_store(tmp_path, clocks.world) as store:
        watch = LeaseWatch(store)
        with held(tmp_path / "leases" / "l_stopped"):
            await put_lease(store, "l_stopped", at=clocks.wall)
            assert len(await watch.living()) == 1
            clocks.wall += jump
            clocks.pass_by(31)
            assert await watch.living() == []


@jumps
async def test_a_run_goes_on_through_a_jump_in_its_middle_and_nothing_is_done_twice(
    tmp_path: Path, jump: float
) -> None:
    clocks = Clocks()
    plan = script(
        call_step("one", "quick.add", key="first"),
        call_step("hold", "quick.wait", "one", gate="go"),
        call_step("two", "quick.add", "hold", key="second"),
    )
    rules: dict[str, Any] = {"policy": {"rules": [{"allow": "quick.add"}]}}
    quick = {"quick": toys.entry(quick_jobs.quick(tmp_path / "quick.log"))}
    async with open_test_product(tmp_path, script=plan, servers=quick, settings=rules, world=clocks.world) as (
        product,
        _,
    ):
        run_id = await product.start(Request("Add first, then second."))
        with anyio.fail_after(20):
            await toys.wait_for_calls(tmp_path / "quick.log", "wait")
            clocks.wall += jump
            (tmp_path / "go").touch()
            run = await product.until(run_id, lambda now: now.ended)
        events = await product.store.events(run_id)
    assert (run.status, run.epoch, run.driven_seconds) == ("succeeded", 1, 0.0)
    assert quick_jobs.made(tmp_path, "add") == [("add", "first"), ("add", "second")]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert (events[-1].at - events[0].at, events[-1].type) == (jump, "run.ended")


@asynccontextmanager
async def open_waiting(folder: Path, clocks: Clocks) -> AsyncGenerator[tuple[Product, str]]:
    """A product with a run that waits for a person."""
    plan = script(call_step("drop", "quick.drop", key="gone"))
    quick = {"quick": toys.entry(quick_jobs.quick(folder / "quick.log"))}
    async with open_test_product(folder, script=plan, servers=quick, world=clocks.world) as (product, _):
        run_id = await product.start(Request("Drop gone."))
        with anyio.fail_after(20):
            await product.until(run_id, lambda now: now.status == "awaiting_approval" and now.driver is None)
        yield product, run_id


@jumps
async def test_what_waits_for_a_person_lapses_after_24_hours_of_the_clock_and_a_decision_wakes_it_at_once(
    tmp_path: Path, jump: float
) -> None:
    clocks = Clocks()
    async with open_waiting(tmp_path, clocks) as (product, run_id):
        clocks.pass_by(1)
        clocks.wall += jump
        (action,) = [each for each in await product.store.actions(run_id) if each.state == "waiting"]
        yes = Decision("approve", "person", "terminal")
        if jump == DAY:
            with pytest.raises(DecisionRefused, match="has expired"):
                await product.decide(action, yes)
            await product.engine.wake(run_id)
        else:
            await product.decide(action, yes)
        with anyio.fail_after(20):
            run = await product.until(run_id, lambda now: now.ended)
    assert run.status == ("failed" if jump == DAY else "succeeded")
    assert quick_jobs.made(tmp_path, "drop") == ([] if jump == DAY else [("drop", "gone")])


@jumps
async def test_a_waiting_run_can_be_cancelled_after_a_jump(tmp_path: Path, jump: float) -> None:
    clocks = Clocks()
    async with open_waiting(tmp_path, clocks) as (product, run_id):
        clocks.wall += min(jump, HOUR)
        with anyio.fail_after(20):
            await product.cancel(run_id, "enough")
        assert (await product.store.run(run_id)).status == "cancelled"


@pytest.mark.parametrize("opened", ["before", "after"])
async def test_a_run_that_sleeps_for_a_minute_does_not_sleep_for_a_day_when_the_clock_is_set_back(
    tmp_path: Path, opened: str
) -> None:
    clocks = Clocks()
    looked: list[float] = []

    async def drive(journal: RunJournal) -> None:
        looked.append(clocks.wall)
        if len(looked) > 1:
            await journal.finish(DONE)
        else:
            assert await journal.park(clocks.wall + 60)

    async def is_parked() -> bool:
        return (await store.run(run_id)).status == "awaiting_approval"

    options = EngineOptions("print", "s", 16, lambda run: LIMITS)
    async with open_own_store(tmp_path, clocks.world) as store:
        async with open_local_engine(store, drive, options) as engine:
            run_id = await create(store, driver=engine.lease.id)
            await engine.wake(run_id)
            await until(is_parked)
            if opened == "before":
                clocks.wall -= DAY
                await ended(store, run_id)
        if opened == "after":
            clocks.wall -= DAY
            async with open_local_engine(store, drive, options):
                await ended(store, run_id)
    assert len(looked) == 2


async def test_a_run_that_waits_longer_is_not_looked_at_again_and_again_after_the_clock_was_set_back(
    tmp_path: Path,
) -> None:
    clocks = Clocks()
    looked: list[float] = []

    async def drive(journal: RunJournal) -> None:
        looked.append(clocks.wall)
        assert await journal.park(Clocks().wall + DAY)

    async def looked_twice() -> bool:
        return len(looked) == 2 and (await store.run(run_id)).status == "awaiting_approval"

    options = EngineOptions("print", "s", 16, lambda run: LIMITS)
    async with open_own_store(tmp_path, clocks.world) as store, open_local_engine(store, drive, options) as engine:
        run_id = await create(store, driver=engine.lease.id)
        await engine.wake(run_id)
        await until(lambda: _parked(store, run_id))
        clocks.wall -= HOUR
        await engine.wake("any")
        await until(looked_twice)
        other = await create(store, driver=engine.lease.id, goal="other")
        await engine.wake(other)
        await until(lambda: _parked(store, other))
    assert len(looked) == 3


async def _parked(store: Store, run_id: str) -> bool:
    return (await store.run(run_id)).status == "awaiting_approval"


@jumps
async def test_the_seconds_of_a_budget_are_driven_time_and_know_no_wall_clock(tmp_path: Path, jump: float) -> None:
    clocks = Clocks()
    async with open_own_store(tmp_path, clocks.world) as store:
        run_id = await create(store)
        journal = await take(store, run_id)
        clocks.pass_by(10)
        clocks.wall += jump
        await journal.record("k", Meaning("test", {}), None)
        assert journal.driven_seconds == 10
        await journal.begin_call(Reservation("call", Amount(tool_calls=1)))
        assert (await take(store, run_id)).driven_seconds == 10


@pytest.mark.parametrize(
    ("jump", "fits"),
    [(HOUR, False), (DAY + 1, True), (-HOUR, False), (-DAY, False)],
    ids=["+1 h", "+1 d", "-1 h", "-1 d"],
)
async def test_the_money_of_a_day_is_that_of_24_hours_of_the_clock_and_what_lies_ahead_counts(
    tmp_path: Path, jump: float, fits: bool
) -> None:
    clocks = Clocks()
    limits = replace(LIMITS, usd_day=1.0)
    async with open_own_store(tmp_path, clocks.world) as store:
        journal = await take(store, await create(store), limits=limits)
        await journal.begin_call(Reservation("one", Amount(model_calls=1, usd=0.8)))
        await journal.end_call("one", Meaning("test", {}), None, spent=Spent(usd=0.8))
        clocks.wall += jump
        other = await take(store, await create(store, goal="other"), limits=limits)
        if fits:
            await other.begin_call(Reservation("two", Amount(model_calls=1, usd=0.8)))
        else:
            with pytest.raises(BudgetReached, match="usd_day"):
                await other.begin_call(Reservation("two", Amount(model_calls=1, usd=0.8)))


@jumps
async def test_a_request_that_is_repeated_within_10_minutes_of_the_clock_finds_its_run(
    tmp_path: Path, jump: float
) -> None:
    clocks = Clocks()
    async with open_own_store(tmp_path, clocks.world) as store:
        run_id = await create(store)
        keyed = await create(store, goal="keyed", idempotency_key="one")
        clocks.wall += jump
        # After an hour forward it is as if somebody asked an hour later; a key holds for ever.
        assert (await create_again(store) == run_id) == (jump < 0)
        assert await create_again(store, goal="keyed", idempotency_key="one") == keyed


async def create_again(store: Store, **changes: Any) -> str:
    return (await store.create_or_attach(replace(NEW, **changes), driver="driver"))[0]


@jumps
async def test_a_call_that_another_process_may_still_send_is_looked_at_again_soon(tmp_path: Path, jump: float) -> None:
    clocks = Clocks()
    new = NewIntent("c_1", "s", "quick.add", "write", {"key": "x"}, "hash", deadline=clocks.wall + 90)
    async with open_own_store(tmp_path, clocks.world) as store:
        with held(tmp_path / "leases" / "l_stopped"):
            run_id = await create(store)
            stopped = await take(store, run_id, driver="l_stopped")
            await stopped.begin_call(Reservation("call", Amount(tool_calls=1)), intent=new)
            clocks.wall += jump
            journal = await take(store, run_id, driver="l_other")
            intent = await journal.intent("call")
            assert intent is not None
            # An hour or a day later by the clock, its own leave to send has lapsed as well.
            sender = await journal.sending.elsewhere(intent)
            assert (None if sender is None else sender.until) == (None if jump > 0 else clocks.wall + 90)


@pytest.mark.parametrize("jump", [HOUR, DAY, -HOUR], ids=["an hour forward", "a day forward", "an hour back"])
async def test_an_approval_given_right_before_a_jump_is_used_once_or_asked_for_again(
    tmp_path: Path, jump: float
) -> None:
    clocks = Clocks()
    async with open_waiting(tmp_path, clocks) as (product, run_id):
        earlier = World(now=lambda: clocks.wall - jump, monotonic=lambda: clocks.steady)
        async with open_store(product.store.database.path, earlier, Outlet(), owner=product.store.owner) as before:
            (action,) = await before.waiting_actions()
            await before.decide(action, Decision("approve", "person", "terminal"))
        if jump < 0:
            # By the clock it is given in an hour, and must not hold for all that time.
            await until(lambda: _asks_anew(product, action.id))
            (again,) = await product.store.waiting_actions()
            await product.decide(again, Decision("approve", "person", "terminal"))
        with anyio.fail_after(20):
            run = await product.until(run_id, lambda now: now.ended)
    assert run.status == "succeeded"
    assert quick_jobs.made(tmp_path, "drop") == [("drop", "gone")]


async def _asks_anew(product: Product, old: str) -> bool:
    return any(action.id != old for action in await product.store.waiting_actions())
