"""The bell tells waiters of one process that a run has changed."""

import gc
import weakref

from journal.bell import Bell
from journal.world import new_id


async def test_a_ring_reaches_all_who_listened_before_it_and_nobody_after() -> None:
    bell = Bell()
    one, two, other = bell.listen("r_1"), bell.listen("r_1"), bell.listen("r_2")
    bell.ring("r_1")
    assert (one.is_set(), two.is_set(), other.is_set(), bell.listen("r_1").is_set()) == (True, True, False, False)
    bell.ring("r_unknown")
    bell.ring_all()
    assert other.is_set()


async def test_nothing_is_held_for_runs_to_which_nobody_listens_any_more() -> None:
    bell = Bell()
    events = [weakref.ref(bell.listen(f"r_{number}")) for number in range(100)]
    gc.collect()
    assert [event for event in events if event() is not None] == []


def test_ids_have_their_prefix_and_26_base32_characters() -> None:
    ids = {new_id("r") for _ in range(100)}
    assert len(ids) == 100
    assert all(len(id_) == 28 and set(id_[2:]) <= set("abcdefghijklmnopqrstuvwxyz234567") for id_ in ids)
    assert all(id_.startswith("r_") for id_ in ids)
