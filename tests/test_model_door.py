"""The way to models: journal first, the purse, retries, fallbacks, limits, and what is told of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from run_at_hand import LIMITS, open_run

from downstream.budget import within_budget
from downstream.model_port import (
    FREE,
    FailureKind,
    FunctionUse,
    Message,
    ModelFailed,
    ModelReply,
    ModelRequest,
    Models,
    Place,
    Rate,
    Role,
)
from downstream.models.door import ATTEMPTS, Account, ModelDoor, NoModel
from downstream.models.limiter import CAPACITY, ModelLimiter
from downstream.settings import ModelsByRole, ModelSettings
from journal.errors import BudgetReached
from journal.ledger import Spent
from journal.remembered import Remembered
from journal.run_journal import Meaning, RunJournal
from journal.world import World

REQUEST = ModelRequest("worker", Place(step="s"), (Message("user", "x" * 400),), 50)
MEANING = Meaning("worker", {"step": "s"})
SPENT = Spent(100, 20, 10, 0.5)


def failure(kind: FailureKind, *, after: float | None = None, spent: Spent | None = None) -> ModelFailed:
    return ModelFailed("m", kind, "no", retry_after=after, spent=spent)


@dataclass
class Clock:
    """A clock that only sleeping moves."""

    time: float = 1000.0
    slept: list[float] = field(default_factory=list[float])

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds

    def world(self) -> World:
        return World(now=self.now, monotonic=self.now, chance=lambda: 0.5)


@dataclass
class Fake:
    """A model for every name: it says or raises what its script has next, then says `fine`."""

    says: dict[str, Sequence[ModelFailed | ModelReply]] = field(
        default_factory=dict[str, Sequence[ModelFailed | ModelReply]]
    )
    rate: Rate | None = FREE
    asked: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    async def complete(self, model: str, request: ModelRequest) -> ModelReply:
        said = list(self.says.get(model, ()))
        turn = sum(name == model for name, _ in self.asked)
        self.asked.append((model, request.place.retry))
        result = said[turn] if turn < len(said) else ModelReply(model, "fine", spent=SPENT)
        if isinstance(result, ModelFailed):
            raise result
        return result

    async def rate_of(self, model: str) -> Rate | None:
        return self.rate

    async def warm_up(self) -> None:
        """There is nothing to warm."""

    def door(self, remembered: Remembered, *fallbacks: str, clock: Clock | None = None, **options: bool) -> ModelDoor:
        settings = ModelSettings(model="m", models=ModelsByRole(answer="writer", fallbacks=fallbacks))
        models = Models(self.complete, self.rate_of, self.warm_up)
        return ModelDoor(models, settings, remembered, sleep=(clock or Clock()).sleep, **options)


async def test_a_recorded_reply_is_given_back_whole_and_nobody_is_asked_again(tmp_path: Path) -> None:
    said = ModelReply("m", "text", (FunctionUse("1", "f", "{}"),), "stop", SPENT, {"model": "m", "message": {"a": [1]}})
    fake = Fake({"m": [said]})
    async with open_run(tmp_path) as run:
        door = fake.door(run.store.remembered)
        first = await door.ask(await run.take(), "k", MEANING, REQUEST)
        again = await door.ask(await run.take(), "k", MEANING, REQUEST)
        assert (replace(first, raw=said.raw), again) == (said, replace(first, replayed=True))
        assert first.raw | said.raw == first.raw
        assert (fake.asked, await run.usage()) == (
            [("m", 0)],
            replace(
                await run.usage(), model_calls=1, input_tokens=100, output_tokens=20, cached_tokens=10, cost_usd=0.5
            ),
        )
        [event] = await run.events("model.called")
        assert (event.step, event.data) == (
            "s",
            {
                "role": "worker",
                "model": "m",
                "key": "k",
                "input_tokens": 100,
                "output_tokens": 20,
                "cached_tokens": 10,
                "reasoning_tokens": 0,
                "cost_usd": 0.5,
                "cost_known": True,
                "finish": "stop",
                "requests": 1,
                "retries": 0,
            },
        )


@pytest.mark.parametrize("kind", ["rate", "overload", "transport", "timeout", "malformed"])
async def test_what_may_go_better_is_tried_again_and_every_try_is_paid(tmp_path: Path, kind: FailureKind) -> None:
    lost = failure(kind, spent=Spent(7, 1, usd=0.25))
    fake, clock = Fake({"m": [lost, lost]}), Clock()
    async with open_run(tmp_path, world=clock.world()) as run:
        await fake.door(run.store.remembered, clock=clock).ask(await run.take(), "k", MEANING, REQUEST)
        usage = await run.usage()
        assert fake.asked == [("m", 0), ("m", 1), ("m", 2)]
        assert (usage.model_calls, usage.input_tokens, usage.output_tokens, usage.cost_usd) == (3, 114, 22, 1.0)
        assert await run.data("model.called", "retries", "input_tokens") == [{"retries": 2, "input_tokens": 114}]
    assert [round(pause, 3) for pause in clock.slept] == [0.5, 1.0]


async def test_a_server_says_how_long_to_wait(tmp_path: Path) -> None:
    fake, clock = Fake({"m": [failure("rate", after=3), failure("rate", after=59)]}), Clock()
    async with open_run(tmp_path, world=clock.world()) as run:
        await fake.door(run.store.remembered, clock=clock).ask(await run.take(), "k", MEANING, REQUEST)
    assert clock.slept == pytest.approx([3.15, 61.95])


async def test_a_server_that_wants_a_long_pause_is_not_asked_before_its_end_but_the_next_model_is(
    tmp_path: Path,
) -> None:
    fake, clock = Fake({"m": [failure("rate", after=3600)]}), Clock()
    async with open_run(tmp_path, world=clock.world(), limits=replace(LIMITS, seconds=1e6)) as run:
        door = fake.door(run.store.remembered, "spare", clock=clock)
        journal = await run.take()
        replies = [await door.ask(journal, key, MEANING, REQUEST) for key in ("k", "l")]
        clock.time += 3_800
        replies.append(await door.ask(journal, "m", MEANING, REQUEST))
    assert [reply.model for reply in replies] == ["spare", "spare", "m"]
    assert (fake.asked, clock.slept) == ([("m", 0), ("spare", 0), ("spare", 0), ("m", 0)], [])


async def test_what_a_model_does_not_take_is_in_the_event_and_an_effort_in_the_warnings(tmp_path: Path) -> None:
    said = ModelReply("m", "fine", spent=Spent(9, 5, reasoning_tokens=4), left_out=("reasoning_effort", "tool_choice"))
    async with open_run(tmp_path) as run:
        door = Fake({"m": [said]}).door(run.store.remembered)
        first = await door.ask(await run.take(), "k", MEANING, REQUEST)
        assert await door.ask(await run.take(), "k", MEANING, REQUEST) == replace(first, replayed=True)
        told = {"left_out": ["reasoning_effort", "tool_choice"], "reasoning_tokens": 4}
        assert await run.data("model.called", "left_out", "reasoning_tokens") == [told]
        assert (await run.store.run(run.id)).warnings == ("model m takes no reasoning_effort, so it was asked without",)


async def test_room_to_think_in_is_set_aside_as_well(tmp_path: Path) -> None:
    fake = Fake()

    async def room_of(model: str, role: Role) -> int:
        return LIMITS.tokens if (model, role) == ("m", "worker") else 0

    models = Models(fake.complete, fake.rate_of, fake.warm_up, room_of)
    async with open_run(tmp_path) as run:
        door = ModelDoor(models, ModelSettings(model="m"), run.store.remembered)
        with pytest.raises(BudgetReached, match="tokens"):
            await door.ask(await run.take(), "k", MEANING, REQUEST)


async def test_a_request_whose_end_nobody_saw_is_paid_with_all_that_it_may_have_taken(tmp_path: Path) -> None:
    fake = Fake({"m": [failure("timeout")]}, rate=Rate(5_000.0, 0.0))
    async with open_run(tmp_path) as run:
        await fake.door(run.store.remembered).ask(await run.take(), "k", MEANING, REQUEST)
        usage = await run.usage()
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (580, 70, 2.9)


async def test_the_failure_after_all_tries_is_recorded_and_raised_by_every_replay(tmp_path: Path) -> None:
    fake = Fake({"m": [failure("overload")] * 9})
    async with open_run(tmp_path) as run:
        door = fake.door(run.store.remembered)
        for _ in range(2):
            with pytest.raises(ModelFailed, match="model m: no") as failed:
                await door.ask(await run.take(), "k", MEANING, REQUEST)
            assert failed.value.kind == "overload"
        assert await run.data("model.called", "finish", "error", "retries") == [
            {"finish": "failed", "error": "overload", "retries": ATTEMPTS - 1}
        ]
    assert len(fake.asked) == ATTEMPTS


FALLS_BACK: dict[str, tuple[FailureKind, bool]] = {
    "overload": ("overload", True),
    "quota": ("quota", True),
    "context": ("context", True),
    "no litellm": ("unavailable", True),
    "a reply without an end": ("endless", True),
    "a wrong key": ("auth", False),
    "a script's gap": ("script", False),
}


@pytest.mark.parametrize("case", FALLS_BACK)
async def test_a_model_that_fails_for_good_gives_way_to_the_next_unless_a_person_must_mend_it(
    tmp_path: Path, case: str
) -> None:
    kind, falls_back = FALLS_BACK[case]
    fake = Fake({"m": [failure(kind)] * ATTEMPTS})
    async with open_run(tmp_path) as run:
        door = fake.door(run.store.remembered, "m", "spare")
        if not falls_back:
            with pytest.raises(ModelFailed):
                await door.ask(await run.take(), "k", MEANING, REQUEST)
            return
        reply = await door.ask(await run.take(), "k", MEANING, REQUEST)
        assert reply.model == "spare"
        assert await run.data("model.called", "model", "finish") == [
            {"model": "m", "finish": "failed"},
            {"model": "spare", "finish": "stop"},
        ]


async def test_a_format_that_a_server_does_not_take_is_no_reason_for_another_model(tmp_path: Path) -> None:
    fake = Fake({"m": [failure("bad_request")] * 2})
    async with open_run(tmp_path) as run:
        door = fake.door(run.store.remembered, "spare")
        with pytest.raises(ModelFailed):
            await door.ask(await run.take(), "k", MEANING, replace(REQUEST, schema={"type": "object"}))
        assert (await door.ask(await run.take(), "l", MEANING, REQUEST)).model == "spare"


async def test_who_is_asked_depends_on_role_and_worker(tmp_path: Path) -> None:
    fake = Fake()
    async with open_run(tmp_path) as run:
        journal, door = await run.take(), fake.door(run.store.remembered)
        await door.ask(journal, "a", MEANING, REQUEST, account=Account(worker="w", model="own"))
        await door.ask(journal, "b", MEANING, replace(REQUEST, role="answer"), account=Account(purpose="answer"))
        nobody = ModelDoor(door.models, ModelSettings(), run.store.remembered)
        with pytest.raises(NoModel, match="ANTHROPIC_API_KEY"):
            await nobody.ask(journal, "c", MEANING, REQUEST)
    assert [model for model, _ in fake.asked] == ["own", "writer"]


async def test_a_model_without_a_price_counts_as_unknown_and_is_refused_only_where_dollars_are_bounded(
    tmp_path: Path,
) -> None:
    unpriced = ModelReply("m", "x", spent=Spent(1, 1, cost_known=False))
    fake = Fake({"m": [unpriced]}, rate=None)
    async with open_run(tmp_path) as run:
        await fake.door(run.store.remembered).ask(await run.take(), "k", MEANING, REQUEST)
        assert (await run.usage()).cost_known is False
        with pytest.raises(ModelFailed, match=r"write model_options\.price") as failed:
            await fake.door(run.store.remembered, needs_price=True).ask(await run.take(), "l", MEANING, REQUEST)
        assert (failed.value.kind, len(fake.asked)) == ("price", 1)


async def test_the_worst_case_is_reserved_so_that_parallel_calls_can_not_overshoot(tmp_path: Path) -> None:
    limits = replace(LIMITS, tokens=800)
    fake = Fake()
    async with open_run(tmp_path, limits=limits) as run:
        journal, door = await run.take(), fake.door(run.store.remembered)
        await door.ask(journal, "a", MEANING, REQUEST)
        await door.ask(journal, "b", MEANING, REQUEST)
        for _ in range(2):
            with pytest.raises(BudgetReached, match="tokens"):
                await within_budget(journal, "c", MEANING, lambda: door.ask(journal, "c", MEANING, REQUEST), step="s")
        kept = await door.ask(journal, "d", MEANING, replace(REQUEST, max_tokens=10), account=Account("answer"))
        assert (kept.text, len(fake.asked)) == ("fine", 3)
        assert await run.data("budget.refused", "limit", "used") == [{"limit": "tokens", "used": 240.0}]


async def test_a_call_waits_for_what_others_under_way_have_set_aside_and_may_give_back(tmp_path: Path) -> None:
    release, begun = anyio.Event(), list[str]()

    async def slow(model: str, request: ModelRequest) -> ModelReply:
        begun.append(model)
        await release.wait()
        return ModelReply(model, "fine", spent=SPENT)

    async with open_run(tmp_path, limits=replace(LIMITS, tokens=800)) as run:
        journal = await run.take()
        door = ModelDoor(Models(slow, Fake().rate_of, Fake().warm_up), ModelSettings(model="m"), run.store.remembered)
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                for key in "ab":
                    group.start_soon(door.ask, journal, key, MEANING, REQUEST)
                while not begun:
                    await anyio.lowlevel.checkpoint()
                assert (await run.usage()).model_calls == 1
                release.set()
        assert (len(begun), (await run.usage()).input_tokens) == (2, 200)


async def test_retries_draw_on_the_purse_and_what_they_took_is_kept_when_it_is_empty(tmp_path: Path) -> None:
    fake = Fake({"m": [failure("malformed", spent=Spent(100, 40))] * ATTEMPTS})
    async with open_run(tmp_path, limits=replace(LIMITS, tokens=800)) as run:
        with pytest.raises(BudgetReached):
            await fake.door(run.store.remembered).ask(await run.take(), "k", MEANING, REQUEST)
        usage = await run.usage()
        assert (usage.model_calls, usage.input_tokens, usage.output_tokens) == (2, 200, 80)
        assert await run.data("model.called", "error", "input_tokens") == [{"error": "budget", "input_tokens": 200}]


async def test_a_cancelled_call_is_paid_with_all_that_it_may_have_taken_and_holds_nothing_back(tmp_path: Path) -> None:
    started = anyio.Event()

    async def hang(model: str, request: ModelRequest) -> ModelReply:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with open_run(tmp_path) as run:
        journal = await run.take()
        door = ModelDoor(Models(hang, Fake().rate_of, Fake().warm_up), ModelSettings(model="m"), run.store.remembered)
        async with anyio.create_task_group() as group:
            group.start_soon(door.ask, journal, "k", MEANING, REQUEST)
            await started.wait()
            group.cancel_scope.cancel()
        usage = await run.usage()
        assert (usage.model_calls, usage.input_tokens, usage.output_tokens) == (1, 480, 50)
        assert await journal.recall("k", MEANING) is None


async def test_waiting_before_another_try_can_be_cancelled(tmp_path: Path) -> None:
    waiting = anyio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await anyio.sleep_forever()

    fake = Fake({"m": [failure("overload", spent=Spent(5, 0))]})
    async with open_run(tmp_path) as run:
        journal: RunJournal = await run.take()
        models = Models(fake.complete, fake.rate_of, fake.warm_up)
        door = ModelDoor(models, ModelSettings(model="m"), run.store.remembered, sleep=sleep)
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(door.ask, journal, "k", MEANING, REQUEST)
                await waiting.wait()
                group.cancel_scope.cancel()
        assert (await run.usage()).input_tokens == 5


async def test_a_limiter_halves_on_refusal_waits_out_the_pause_and_recovers() -> None:
    clock = Clock()
    limiter, world = ModelLimiter(clock.sleep), clock.world()
    limiter.refused(world, 10.0, began=clock.time)
    limiter.refused(world, 4.0, began=clock.time)
    assert limiter.capacity == CAPACITY // 4
    async with limiter.slot(world):
        assert clock.slept == [10.5]
    async with limiter.slot(world):
        assert clock.slept == [10.5]
    for _ in range(16):
        limiter.answered()
    assert limiter.capacity == CAPACITY // 4 + 2
    for _ in range(10):
        limiter.refused(world, 0, began=clock.time)
    assert limiter.capacity == 1


async def test_requests_that_were_refused_together_halve_once() -> None:
    clock = Clock()
    limiter, world = ModelLimiter(clock.sleep), clock.world()
    began, clock.time = clock.time, clock.time + 1
    for _ in range(5):
        limiter.refused(world, 2.0, began=began)
    assert limiter.capacity == CAPACITY // 2
    async with limiter.slot(world) as later:
        limiter.refused(world, 2.0, began=later)
    assert limiter.capacity == CAPACITY // 4


async def test_a_refusal_to_one_step_holds_all_others_back(tmp_path: Path) -> None:
    fake, clock = Fake({"m": [failure("rate", after=8)]}), Clock()
    async with open_run(tmp_path, world=clock.world()) as run:
        door = fake.door(run.store.remembered, clock=clock)
        await door.ask(await run.take(), "k", MEANING, REQUEST)
        assert (door.limiter("m").capacity, door.limiter("other").capacity) == (CAPACITY // 2, CAPACITY)
        door.limiter("m").refused(clock.world(), 5, began=clock.time)
        before = clock.time
        await door.ask(await run.take(), "l", MEANING, REQUEST)
        assert clock.time - before >= 5
