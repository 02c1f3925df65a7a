"""Requests that begin alike: one fills the provider's cache, and the others follow once that can be read."""

import gc
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from model_server import ModelServer, on, serve_model
from pydantic import SecretStr
from run_at_hand import LIMITS, RunAtHand, open_run

from downstream.model import open_models
from downstream.model_port import FREE, Message, ModelFailed, ModelReply, ModelRequest, Models, Place, Rate, Traits
from downstream.models.door import ModelDoor
from downstream.models.siblings import Siblings, shared_prefix
from downstream.settings import ModelOptions, ModelSettings
from journal.errors import BudgetReached
from journal.ledger import Spent
from journal.outlet import Outlet
from journal.run_journal import Meaning, RunJournal
from journal.world import World

CLAUDE, FLAT = "anthropic/claude-sonnet-4-5", "openai/claude-sonnet-4-5"
SYSTEM = Message("system", "Work with care. " * 400)
MANY = 8


def request(number: int, system: Message = SYSTEM) -> ModelRequest:
    """A step's first request: no two are the same, and all begin alike."""
    step = f"step_{number}"
    return ModelRequest("worker", Place(step=step), (system, Message("user", f"step: {step}")), 50)


@dataclass
class Provider:
    """A model whose requests end when the test says so; `open` are on their way, `come` counts those to be sent."""

    caches_from: int | None = 1024
    asked: list[str] = field(default_factory=list[str])
    open: set[str] = field(default_factory=set[str])
    most: int = 0
    come: int = 0
    told: dict[str, anyio.Event] = field(default_factory=dict[str, anyio.Event])
    fails: dict[str, ModelFailed] = field(default_factory=dict[str, ModelFailed])

    async def complete(self, model: str, request: ModelRequest) -> ModelReply:
        step = str(request.place.step)
        self.asked.append(step)
        self.open.add(step)
        self.most = max(self.most, len(self.open))
        try:
            await self.told.setdefault(step, anyio.Event()).wait()
        finally:
            self.open.discard(step)
        if (failed := self.fails.pop(step, None)) is not None:
            raise failed
        return ModelReply(model, "fine", spent=Spent(10, 1))

    def tell(self, *numbers: int) -> None:
        for number in numbers:
            self.told.setdefault(f"step_{number}", anyio.Event()).set()

    async def rate_of(self, model: str) -> Rate | None:
        return FREE

    async def warm_up(self) -> None:
        """There is nothing to warm."""

    async def traits_of(self, model: str) -> Traits:
        self.come += 1
        return Traits(caches_from=self.caches_from)

    def door(self, run: RunAtHand, longest_wait: float = 60.0) -> ModelDoor:
        models = Models(self.complete, self.rate_of, self.warm_up, traits_of=self.traits_of)
        return ModelDoor(
            models,
            ModelSettings(model=CLAUDE),
            run.store.remembered,
            sleep=lambda _: anyio.lowlevel.checkpoint(),
            longest_wait=longest_wait,
        )


async def ask(door: ModelDoor, journal: RunJournal, number: int, system: Message = SYSTEM) -> None:
    meaning = Meaning("worker", {"step": number})
    await door.ask(journal, f"k{number}", meaning, request(number, system))


@asynccontextmanager
async def asking(
    run: RunAtHand, provider: Provider, door: ModelDoor, numbers: Sequence[int] = range(MANY), *, sent: int = 1
) -> AsyncGenerator[None]:
    """All of them asked for, and so many sent; at the end of the block all have ended."""
    journal, come = await run.take(), provider.come
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in numbers:
                group.start_soon(ask, door, journal, number)
            await until(lambda: provider.come == come + len(numbers) and len(provider.open) >= sent)
            yield


async def until(reached: Callable[[], bool]) -> None:
    """Until it is so, and nothing moves any more."""
    while not reached():
        await anyio.to_thread.run_sync(int)
    await anyio.wait_all_tasks_blocked()


async def test_of_siblings_one_goes_ahead_and_the_others_follow_once_it_has_its_reply(tmp_path: Path) -> None:
    provider = Provider()
    async with open_run(tmp_path) as run:
        async with asking(run, provider, provider.door(run)):
            assert provider.asked == ["step_0"]
            provider.tell(0)
            await until(lambda: len(provider.open) == MANY - 1)
            assert provider.most == MANY - 1
            provider.tell(*range(MANY))
        assert (await run.usage()).model_calls == MANY


async def test_a_prefix_that_was_kept_a_moment_ago_is_waited_for_by_nobody(tmp_path: Path) -> None:
    provider, time = Provider(), [1000.0]
    async with open_run(tmp_path, world=World(monotonic=lambda: time[0])) as run:
        door = provider.door(run)
        for numbers, together, later in (([0, 1], 1, 200), ([2, 3], 2, 200), ([4, 5], 2, 300), ([6, 7], 1, 0)):
            async with asking(run, provider, door, numbers, sent=together):
                assert len(provider.open) == together
                provider.tell(*numbers)
            # Each use keeps it for some minutes more.
            time[0] += later


@pytest.mark.parametrize(
    ("caches_from", "system"),
    [(None, SYSTEM), (4096, SYSTEM), (1024, Message("system", "Work."))],
    ids=["a provider without cache", "a provider that keeps long prefixes only", "a short prefix"],
)
async def test_where_no_prefix_would_be_kept_all_go_at_once(
    tmp_path: Path, caches_from: int | None, system: Message
) -> None:
    provider = Provider(caches_from)
    async with open_run(tmp_path) as run:
        door, journal = provider.door(run), await run.take()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for number in range(MANY):
                    group.start_soon(ask, door, journal, number, system)
                await until(lambda: len(provider.open) == MANY)
                provider.tell(*range(MANY))


async def test_requests_that_begin_in_another_way_wait_for_none(tmp_path: Path) -> None:
    provider = Provider()
    other = Message("system", f"Else. {SYSTEM.content}")
    async with open_run(tmp_path) as run:
        door, journal = provider.door(run), await run.take()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for number, system in enumerate((SYSTEM, other, SYSTEM, other)):
                    group.start_soon(ask, door, journal, number, system)
                await until(lambda: provider.come == 4 and len(provider.open) >= 2)
                assert provider.open == {"step_0", "step_1"}
                provider.tell(*range(4))


async def test_after_a_failure_of_the_first_the_next_goes_ahead_and_the_first_comes_back_behind_it(
    tmp_path: Path,
) -> None:
    provider = Provider(fails={"step_0": ModelFailed(CLAUDE, "overload", "busy", spent=Spent())})
    async with open_run(tmp_path) as run:
        door = provider.door(run)
        async with asking(run, provider, door):
            provider.tell(0)
            await until(lambda: bool(provider.open) and provider.open != {"step_0"})
            assert (provider.open, provider.asked) == ({"step_1"}, ["step_0", "step_1"])
            # The refusal halves what may be open at once, and that stops nobody for good.
            assert door.limiter(CLAUDE).capacity == 16
            provider.tell(*range(MANY))
        assert (await run.usage()).model_calls == MANY + 1


async def test_when_the_first_is_cancelled_the_next_goes_ahead(tmp_path: Path) -> None:
    provider = Provider()
    async with open_run(tmp_path) as run:
        door, journal = provider.door(run), await run.take()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                async with anyio.create_task_group() as ahead:
                    ahead.start_soon(ask, door, journal, 0)
                    await until(lambda: provider.open == {"step_0"})
                    group.start_soon(ask, door, journal, 1)
                    group.start_soon(ask, door, journal, 2)
                    await until(lambda: provider.come == 3)
                    assert provider.open == {"step_0"}
                    ahead.cancel_scope.cancel()
                await until(lambda: bool(provider.open))
                assert provider.open == {"step_1"}
                provider.tell(1, 2)


async def test_one_that_waits_can_be_cancelled_and_nobody_notices(tmp_path: Path) -> None:
    provider = Provider()
    async with open_run(tmp_path) as run:
        door, journal = provider.door(run), await run.take()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(ask, door, journal, 0)
                await until(lambda: provider.open == {"step_0"})
                async with anyio.create_task_group() as waiting:
                    waiting.start_soon(ask, door, journal, 1)
                    await until(lambda: provider.come == 2)
                    waiting.cancel_scope.cancel()
                group.start_soon(ask, door, journal, 2)
                await until(lambda: provider.come == 3)
                assert provider.open == {"step_0"}
                provider.tell(0, 2)
        # What never went out took nothing.
        assert (await run.usage()).model_calls == 2


async def test_a_first_that_takes_long_holds_the_others_back_for_a_moment_only(tmp_path: Path) -> None:
    provider = Provider()
    async with open_run(tmp_path) as run, asking(run, provider, provider.door(run, longest_wait=0.01)):
        await until(lambda: len(provider.open) == MANY)
        assert provider.asked[0] == "step_0"
        provider.tell(*range(MANY))


async def test_no_sibling_deadlocks_where_one_request_may_be_open_at_a_time(tmp_path: Path) -> None:
    provider = Provider()
    async with open_run(tmp_path) as run:
        door = provider.door(run)
        for _ in range(6):
            door.limiter(CLAUDE).refused(World(), 0.0, began=float("inf"))
        assert door.limiter(CLAUDE).capacity == 1
        async with asking(run, provider, door):
            provider.tell(*range(MANY))
        assert (len(provider.asked), provider.most) == (MANY, 1)


async def test_seconds_that_were_waited_count_for_the_budget(tmp_path: Path) -> None:
    provider, time = Provider(), [1000.0]
    world = World(now=lambda: time[0], monotonic=lambda: time[0])
    reached: list[str] = []

    async def late(door: ModelDoor, journal: RunJournal) -> None:
        with pytest.raises(BudgetReached) as error:
            await ask(door, journal, 1)
        reached.append(error.value.limit)

    async with open_run(tmp_path, world=world, limits=replace(LIMITS, seconds=100.0)) as run:
        door, journal = provider.door(run), await run.take()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(ask, door, journal, 0)
                await until(lambda: provider.open == {"step_0"})
                group.start_soon(late, door, journal)
                await until(lambda: provider.come == 2)
                time[0] += 101.0
                provider.tell(0, 1)
    assert (reached, provider.asked) == (["seconds"], ["step_0"])


async def test_a_prefix_is_known_by_its_model_its_functions_its_schema_and_its_system_message() -> None:
    base = request(1)
    known = shared_prefix(CLAUDE, base, caches_from=1024)
    assert known == shared_prefix(CLAUDE, request(2), caches_from=1024)
    others = {
        shared_prefix("m", base, caches_from=1024),
        shared_prefix(CLAUDE, replace(base, schema={"type": "object"}), caches_from=1024),
        shared_prefix(CLAUDE, request(1, Message("system", "Else. " * 1000)), caches_from=1024),
    }
    assert len(others | {known}) == 4
    assert shared_prefix(CLAUDE, base, caches_from=None) is None
    async with Siblings().turn(None, World()):
        """Nobody is waited for."""


def open_at(server: ModelServer, count: int) -> None:
    server.wait_for(lambda _: len(server.requests) >= count, timeout=50)


@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("model", "first", "most"), [(CLAUDE, 1, MANY - 1), (FLAT, MANY, MANY)])
async def test_a_server_of_claude_sees_one_request_and_then_seven_and_any_other_server_all_eight(
    tmp_path: Path, model: str, first: int, most: int
) -> None:
    script = [*on({"text": "fine", "hold": "first"}, times=1), *on({"text": "fine", "hold": "rest"})]
    async with open_run(tmp_path) as run:
        with anyio.fail_after(90), serve_model(script) as server:
            base = server.url if model == CLAUDE else f"{server.url}/v1"
            options = ModelOptions(api_base=base, api_key=SecretStr("sk-0123456789"), timeout=60.0)
            settings = ModelSettings(model=model, options=options)
            async with open_models(settings, Outlet()) as models, anyio.create_task_group() as group:
                door, journal = ModelDoor(models, settings, run.store.remembered, longest_wait=60.0), await run.take()
                for number in range(MANY):
                    group.start_soon(ask, door, journal, number)
                await anyio.to_thread.run_sync(open_at, server, first)
                await anyio.wait_all_tasks_blocked()
                assert len(server.requests) == first
                server.release("first")
                await anyio.to_thread.run_sync(open_at, server, MANY)
                server.release("rest")
            gc.collect()
            assert (server.max_in_flight, len(server.requests)) == (most, MANY)
