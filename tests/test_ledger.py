"""One purse: worst cases are set aside first, settled after, and nothing is counted twice or forgotten."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from journals import LIMITS, Clock, create, open_own_store, rows, take

from journal.errors import BudgetReached
from journal.intents import NewIntent
from journal.ledger import Amount, Purpose, Reservation, Spent, Usage
from journal.run_journal import Meaning, RunJournal

MEANING = Meaning("model", {})


def model(key: str, *, purpose: Purpose = "work", **amount: Any) -> Reservation:
    return Reservation(key, Amount(**({"model_calls": 1} | amount)), purpose, "s", "worker", "researcher", "m")


@pytest.mark.parametrize(
    ("amount", "limit", "allowed"),
    [
        ({"model_calls": 10}, "model_calls", 10),
        ({"model_calls": 0, "tool_calls": 11}, "tool_calls", 10),
        ({"tokens": 901}, "tokens", 1000),
        ({"usd": 0.91}, "usd", 1.0),
        ({"usd": 0.9}, "usd_day", 0.5),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_reservation_that_does_not_fit_is_refused_by_the_name_of_its_limit(
    tmp_path: Path, amount: dict[str, Any], limit: str, allowed: float
) -> None:
    limits = replace(LIMITS, usd_day=0.5) if limit == "usd_day" else LIMITS
    async with open_own_store(tmp_path, Clock().world) as store:
        journal = await take(store, await create(store), limits=limits)
        with pytest.raises(BudgetReached) as refused:
            await journal.begin_call(model("k", **amount))
        assert (refused.value.limit, refused.value.allowed, refused.value.used) == (limit, allowed, 0)
        assert await journal.usage() == Usage()


@pytest.mark.parametrize(
    "amount", [{"model_calls": 9}, {"tokens": 900}, {"usd": 0.9}], ids=["model_calls", "tokens", "usd"]
)
async def test_a_tenth_and_at_least_one_call_is_kept_for_the_answer(tmp_path: Path, amount: dict[str, Any]) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        await journal.begin_call(model("work", **amount))
        with pytest.raises(BudgetReached):
            await journal.begin_call(model("more", tokens=1, usd=0.01))
        rest = {"tokens": 100, "usd": 0.1}
        await journal.begin_call(model("answer", purpose="answer", **(rest if "model_calls" not in amount else {})))


async def test_parallel_calls_can_not_overshoot(tmp_path: Path) -> None:
    ends: list[str] = []

    async def begin(journal: RunJournal, number: int) -> None:
        try:
            await journal.begin_call(model(f"k{number}", tokens=300))
            ends.append("begun")
        except BudgetReached as error:
            ends.append(error.limit)

    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                for number in range(9):
                    group.start_soon(begin, journal, number)
    assert sorted(ends) == ["begun"] * 3 + ["tokens"] * 6


async def test_what_was_taken_replaces_what_was_set_aside(tmp_path: Path) -> None:
    async with open_own_store(tmp_path, Clock().world) as store:
        journal = await take(store, await create(store))
        await journal.begin_call(model("k", tokens=900, usd=0.9))
        assert await journal.usage() == Usage(model_calls=1)
        await journal.end_call("k", MEANING, "reply", spent=Spent(100, 20, 5, 0.25))
        assert await journal.usage() == Usage(1, 0, 100, 20, 5, 0.25, cost_known=True, seconds=0)
        assert await store.usage(await store.run(journal.run.id)) == await journal.usage()
        await journal.begin_call(model("k2", tokens=780, usd=0.6))
        await journal.end_call("k2", MEANING, "reply", spent=Spent(1, 1, cost_known=False))
        assert not (await journal.usage()).cost_known


async def test_a_call_made_again_under_its_key_counts_again(tmp_path: Path) -> None:
    async with open_own_store(tmp_path, Clock().world) as store:
        journal = await take(store, await create(store))
        for _ in range(2):
            await journal.begin_call(model("k", tokens=400))
            await journal.abandon_call("k", Spent(300, 100))
        assert await journal.usage() == Usage(model_calls=2, input_tokens=600, output_tokens=200)
        with pytest.raises(BudgetReached, match="the budget tokens does not reach: 800 of 1000 is used"):
            await journal.begin_call(model("k", tokens=400))


async def test_a_reservation_that_is_still_open_is_replaced_by_a_new_one_under_its_key(tmp_path: Path) -> None:
    async with open_own_store(tmp_path, Clock().world) as store:
        journal = await take(store, await create(store))
        for tokens in (500, 900):
            await journal.begin_call(model("k", tokens=tokens))
        assert await rows(store, "SELECT key, tokens, state FROM ledger") == [("k", 900, "reserved")]


async def test_what_an_earlier_drive_had_set_aside_is_lost_but_for_tool_calls_without_an_intent(tmp_path: Path) -> None:
    async with open_own_store(tmp_path, Clock().world) as store:
        old = await take(store, await create(store))
        await old.begin_call(model("known", tokens=300, usd=0.3))
        await old.begin_call(replace(model("unpriced", tokens=100), cost_known=False))
        await old.begin_call(Reservation("look", Amount(tool_calls=1)))
        await old.begin_call(
            Reservation("send", Amount(tool_calls=1)), intent=NewIntent("c_1", "s", "t.send", "write", {}, "h")
        )
        await old.begin_call(model("done", tokens=50))
        await old.end_call("done", MEANING, "reply", spent=Spent(10, 5))
        new = await take(store, old.run.id)
        assert await new.usage() == Usage(3, 1, 410, 5, 0, 0.3, cost_known=False)
        found = await rows(store, "SELECT key, state, tokens, epoch FROM ledger ORDER BY key")
        assert found == [
            ("done", "settled", 15, 1),
            ("known", "lost", 300, 1),
            ("send", "lost", 0, 1),
            ("unpriced", "lost", 100, 1),
        ]
        await new.begin_call(model("known", tokens=300))
        with pytest.raises(BudgetReached, match="the budget tokens does not reach: 715 of 1000 is used"):
            await new.begin_call(model("more", tokens=200))


async def test_the_day_bounds_all_runs_of_an_owner_together(tmp_path: Path) -> None:
    clock, limits = Clock(), replace(LIMITS, usd=10.0, usd_day=5.0)
    async with open_own_store(tmp_path, clock.world) as store:
        first = await take(store, await create(store, goal="one"), limits=limits)
        await first.begin_call(model("k", usd=4.0))
        second = await take(store, await create(store, goal="two"), limits=limits)
        with pytest.raises(BudgetReached, match="the budget usd_day does not reach: 4 of 5 is used"):
            await second.begin_call(model("k", usd=2.0))
        await second.begin_call(model("free", usd=0.0))
        clock.at += 86_400
        fresh = await take(store, second.run.id, limits=replace(limits, seconds=1e9))
        await fresh.begin_call(model("k", usd=2.0))
