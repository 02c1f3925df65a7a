"""What open reservations hold: a retry counts itself once, and a refusal says whether there may be room later."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from journals import LIMITS, create, open_own_store, take

from journal.errors import BudgetReached
from journal.ledger import Amount, BudgetHeld, Reservation, Spent
from journal.run_journal import Meaning


async def test_a_retry_counts_its_own_reservation_once_in_the_day(tmp_path: Path) -> None:
    limits = replace(LIMITS, usd=10.0, usd_day=1.0)
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store), limits=limits)
        for _ in range(2):
            await journal.begin_call(Reservation("k", Amount(model_calls=1, usd=0.6)))
        with pytest.raises(BudgetReached, match="usd_day"):
            await journal.begin_call(Reservation("other", Amount(model_calls=1, usd=0.6)))


@pytest.mark.parametrize(
    ("amount", "kind"),
    [
        ({"tokens": 500}, BudgetHeld),
        ({"tokens": 901}, BudgetReached),
        ({"usd": 0.5}, BudgetHeld),
        ({"usd": 0.91}, BudgetReached),
    ],
    ids=str,
)
async def test_a_refusal_says_whether_calls_under_way_may_still_make_room(
    tmp_path: Path, amount: dict[str, Any], kind: type[BudgetReached]
) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        await journal.begin_call(Reservation("k", Amount(model_calls=1, tokens=600, usd=0.6)))
        with pytest.raises(BudgetReached) as held:
            await journal.begin_call(Reservation("other", Amount(model_calls=1, **amount)))
        assert type(held.value) is kind
        await journal.end_call("k", Meaning("model", {}), "reply", spent=Spent(600, usd=0.6))
        with pytest.raises(BudgetReached) as reached:
            await journal.begin_call(Reservation("other", Amount(model_calls=1, **amount)))
        assert type(reached.value) is BudgetReached


async def test_what_another_run_has_set_aside_of_the_day_is_not_waited_for(tmp_path: Path) -> None:
    limits = replace(LIMITS, usd=10.0, usd_day=1.0)
    async with open_own_store(tmp_path) as store:
        first = await take(store, await create(store, goal="one"), limits=limits)
        second = await take(store, await create(store, goal="two"), limits=limits)
        await first.begin_call(Reservation("k", Amount(model_calls=1, usd=0.6)))
        with pytest.raises(BudgetReached) as reached:
            await second.begin_call(Reservation("k", Amount(model_calls=1, usd=0.6)))
        assert type(reached.value) is BudgetReached
