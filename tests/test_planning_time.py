"""Planning takes a third of a run's time at most: then a worker gets the goal, and every replay takes the same way."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from planner_rig import LIMITS, call, open_rig
from recorded_runs import Kind, open_recorded, said

from journal.run_journal import Meaning, RunJournal
from journal.world import World
from planner.patience import Patience, PlanningOver
from server.replaying import replay_run

Json = Any
BAD: Json = {"steps": [call("a", tool="notes.serch")]}
SEARCH: Json = {"search": "letters", "steps": []}
OVER = "planning used up its third of budget.seconds (600 s); the planner is asked no more"
MEANING = Meaning("submit_plan", 1)


@dataclass
class Clock:
    """Driven time, which only a test moves; `asked` are the questions before which it moved."""

    at: float = 0.0
    asked: list[str] = field(default_factory=list[str])

    @property
    def world(self) -> World:
        return World(monotonic=lambda: self.at)

    def moving(self, seconds: float) -> Callable[[RunJournal, str], Awaitable[None]]:
        """What happens at each question to the planner: so many seconds pass."""

        async def pass_by(journal: RunJournal, key: str) -> None:
            if key.startswith("plan."):
                self.asked.append(key)
                self.at += seconds

        return pass_by


async def reply() -> str:
    return "a reply"


@pytest.mark.parametrize(
    ("plan", "seconds", "asked"),
    [
        (BAD, 601.0, ["plan.1"]),
        (BAD, 301.0, ["plan.1", "plan.2"]),
        (SEARCH, 601.0, ["plan.1"]),
        (SEARCH, 301.0, ["plan.1", "plan.1/turn.2"]),
    ],
    ids=["an attempt", "two attempts", "a search", "two searches"],
)
async def test_once_a_third_of_the_time_is_used_the_planner_is_asked_no_more_and_a_worker_gets_the_goal(
    tmp_path: Path, plan: Json, seconds: float, asked: list[str]
) -> None:
    clock = Clock()
    async with open_rig(tmp_path, clock.world) as rig:
        rig.models.plans, rig.models.before = [plan], clock.moving(seconds)
        run = await rig.drive(await rig.new_run())
        assert (run.status, rig.steps.calls, clock.asked) == ("succeeded", ["goal"], asked)
        assert run.warnings == (
            f"the planner gave no plan: {OVER}",
            "there was no valid plan, so worker 'operator' works on the goal as one step",
        )


async def test_a_question_under_way_ends_when_the_time_for_planning_is_used(tmp_path: Path) -> None:
    clock, cut = Clock(), list[str]()

    async def endless(journal: RunJournal, key: str) -> None:
        await clock.moving(599.95)(journal, key)
        if key == "plan.2":
            try:
                await anyio.sleep_forever()
            finally:
                cut.append(key)

    async with open_rig(tmp_path, clock.world) as rig:
        rig.models.plans, rig.models.before = [BAD], endless
        # The question is the second; what is left for it is a twentieth of a second.
        rig.limits = replace(LIMITS, seconds=3 * (599.95 + 0.05))
        with anyio.fail_after(5):
            run = await rig.drive(await rig.new_run())
        assert (run.status, rig.steps.calls, cut) == ("succeeded", ["goal"], ["plan.2"])
        assert run.warnings[0] == f"the planner gave no plan: {OVER}"


async def test_that_planning_is_over_is_written_down_and_holds_whatever_the_clock_says_later(tmp_path: Path) -> None:
    clock = Clock()
    async with open_rig(tmp_path, clock.world) as rig:
        journal = await rig.take(run_id := await rig.new_run())
        patience = Patience(journal)
        clock.at = 601
        with pytest.raises(PlanningOver, match="600 s"):
            await patience.within("plan.2", MEANING, reply)
        rig.limits = replace(LIMITS, seconds=1e6)
        again = Patience(await rig.take(run_id))
        assert await again.within("plan.1", MEANING, reply) == "a reply"
        with pytest.raises(PlanningOver, match="600 s"):
            await again.within("plan.2", MEANING, reply)


async def test_time_before_the_first_question_does_not_count_and_that_of_earlier_drives_does(tmp_path: Path) -> None:
    clock = Clock()
    async with open_rig(tmp_path, clock.world) as rig:
        journal = await rig.take(run_id := await rig.new_run())
        clock.at = 700
        assert await Patience(journal).within("plan.1", MEANING, reply) == "a reply"
        # What is written keeps the time.
        await journal.warn("the process ends here")
        later = Patience(await rig.take(run_id))
        with pytest.raises(PlanningOver):
            await later.within("plan.1", MEANING, reply)


async def test_a_recorded_reply_is_read_again_however_late_it_is(tmp_path: Path) -> None:
    clock = Clock()
    async with open_rig(tmp_path, clock.world) as rig:
        journal = await rig.take(await rig.new_run())
        patience = Patience(journal)
        await journal.record("plan.1", MEANING, "as recorded")
        clock.at = 700

        async def again() -> Json:
            return await journal.memo("plan.1", MEANING, reply)

        assert await patience.within("plan.1", MEANING, again) == "as recorded"


@pytest.mark.e2e
async def test_a_run_whose_planning_was_cut_short_replays_to_the_same(tmp_path: Path) -> None:
    """Through the real door, on a scripted model that takes longer than it may."""
    kind = Kind(
        {
            "plan": {"steps": [call("a", tool="quick.read", arguments={"key": "x"})], "delay": 60},
            "steps": {"goal": {"attempts": [said("quick.read", key="Zanzibar")]}},
            "answer": "Kurt.",
        },
        ("succeeded", "done"),
        {"budget": {"seconds": 6.0}},
    )
    async with open_recorded(tmp_path, kind) as (product, run_id):
        run, usage = await product.store.run(run_id), await product.store.usage(await product.store.run(run_id))
        assert run.warnings[-2:] == (
            f"the planner gave no plan: {OVER.replace('600', '2')}",
            "there was no valid plan, so worker 'operator' works on the goal as one step",
        )
        # The call that was cut short counts, at its worst case.
        assert usage.output_tokens > 1_000
        replayed = await replay_run(product.store, product.settings, run_id)
        assert (replayed.differences, replayed.whole, replayed.steps) == ((), True, 1)
