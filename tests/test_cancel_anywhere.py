"""A run may be cancelled, or its process leave, at any await: nothing leaks, and no effect is unaccounted for."""

import asyncio
import os
import sys
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from audit_chain import broken_line
from awaits import Awaits
from journals import rows, until
from products import call_step, script
from quick_jobs import LOG, made, settings

from journal.actions import Decision
from journal.intents import Intent
from journal.store import Store
from journal.world import World
from server.assembly import open_product
from server.opened_store import open_settings_store
from server.product import Product, Request
from server.settings import Found, Settings, load_settings

pytestmark = pytest.mark.untraced

PARTS = 4
GATE = "go"
HELD = {"wait", "stuck"}
EFFECTS = [("add", "first"), ("add", "other"), ("stuck", "held"), ("add", "last")]
FOUND = {"status": "done", "summary": "Done.", "findings": [{"claim": "It is so.", "evidence": [0]}], "confidence": 0.9}


def worker(id_: str, name: str, *tools: str) -> dict[str, Any]:
    return {"id": id_, "kind": "worker", "title": id_, "worker": name, "task": "Do it.", "tools": list(tools)}


def calls(*made_calls: tuple[str, dict[str, str]]) -> dict[str, Any]:
    turn = {"calls": [{"tool": f"quick.{tool}", "arguments": arguments} for tool, arguments in made_calls]}
    return {"attempts": [{"turns": [turn], "report": FOUND}]}


SCRIPT = script(
    worker("study", "researcher", "quick.read", "quick.wait"),
    worker("act", "operator", "quick.add"),
    call_step("held", "quick.stuck", key="held", gate=GATE),
    {"id": "text", "kind": "compose", "title": "Text", "needs": ["study"], "task": "Write."},
    call_step("last", "quick.add", "text", "act", "held", key="last"),
    steps={
        "study": calls(("read", {"key": "a"}), ("wait", {"gate": GATE})),
        "act": calls(("add", {"key": "first"}), ("add", {"key": "other"})),
        "text": {"text": "So it is."},
    },
)
REQUEST = Request("Add first and other.", idempotency_key="one")


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[Product]:
    async with open_product(loaded(folder), world=World()) as product:
        yield product


def loaded(folder: Path) -> Settings:
    return load_settings(Found(folder / "steprelay.json", "option"), environ=os.environ)


async def until_ended(product: Product, folder: Path, run_id: str, *, awaits: Awaits | None = None) -> None:
    """A person who tells what became of calls, once the run has to be finished, and who else lets the two calls that
    wait for each other go once both are in flight. This task is made before `awaits` counts, so it does not count."""
    with anyio.fail_after(20):
        while not (await product.store.run(run_id)).ended:
            if awaits is None:
                (folder / GATE).touch()
                await tell(product, folder)
            elif not awaits.struck and {tool for tool, _ in made(folder)} >= HELD:
                (folder / GATE).touch()
            await anyio.sleep(0.002)


async def tell(product: Product, folder: Path) -> None:
    for action in await product.store.waiting_actions():
        assert action.kind == "unknown"
        happened = (str(action.tool).removeprefix("quick."), action.arguments["key"]) in made(folder)
        await product.decide(action, Decision("done" if happened else "retry", "person", "terminal"))


def effects(folder: Path) -> Counter[tuple[str, str]]:
    return Counter(made(folder, "add", "stuck", "drop"))


def open_keys(intents: Iterable[Intent]) -> set[str]:
    return {intent.key for intent in intents if intent.state in ("begun", "unknown")}


async def effects_are_journalled(store: Store, folder: Path, run_id: str) -> list[Intent]:
    """The intents of the run, of which each effect is one, made once; the events and the audit are whole."""
    intents = await store.intents(run_id)
    known = Counter((one.tool.removeprefix("quick."), one.arguments["key"]) for one in intents)
    assert effects(folder) <= known
    assert set(known.values()) <= {1}
    assert [event.seq for event in await store.events(run_id)] == list(range(1, (await store.run(run_id)).last_seq + 1))
    assert await broken_line(store) is None
    return intents


async def cut_calls(product: Product, run_id: str) -> list[str]:
    """The tools whose calls were begun and came to no end."""
    events = await product.store.events(run_id)
    ended = {event.call for event in events if event.type == "call.ended"}
    cut = [event.data["tool"] for event in events if event.type == "call.started" and event.call not in ended]
    return [tool.removeprefix("quick.") for tool in cut]


async def cancelled_downstream(folder: Path, tools: Collection[str]) -> None:
    """Returns once the server has heard that its calls of these tools are cancelled."""
    ids: set[int] = {call["id"] for call in toys.calls(folder / LOG) if call["tool"] in tools}
    heard = (folder / LOG).with_suffix(".cancelled")

    async def has_heard() -> bool:
        return ids <= ({line["id"] for line in toys.calls(heard)} if heard.exists() else set())

    await until(has_heard, within=5)


@dataclass(frozen=True)
class Cut:
    """What was in flight where a run was cut: calls that did not end, and those of which a person is asked."""

    calls: int
    asked: int


async def cancel_at(folder: Path, number: int) -> Cut | None:
    """Cancel the run at its await of this number; None if it has fewer."""
    started, cut, over = anyio.Event(), None, False

    async def cancel() -> None:
        await started.wait()
        await product.cancel(run_id, "enough")

    def strike() -> None:
        # Afterwards there are awaits only in closing, and no run that could be cancelled.
        if not over:
            group.start_soon(cancel)

    awaits = Awaits(number, strike)
    awaits.watch()
    async with opened(folder) as product, anyio.create_task_group() as group:
        awaits.arm()
        run_id = await product.start(REQUEST)
        started.set()
        await until_ended(product, folder, run_id, awaits=awaits)
        over = True
        if (await product.store.run(run_id)).status != "succeeded":
            cut = await check_cancelled(product, folder, run_id)
    return cut


async def check_cancelled(product: Product, folder: Path, run_id: str) -> Cut:
    """What a cancelled run leaves: a question for each write without an answer, and no call that the server goes on
    with unless it had the gate open."""
    run = await product.store.run(run_id)
    assert (run.status, run.stop_reason) == ("cancelled", "cancelled")
    intents = await effects_are_journalled(product.store, folder, run_id)
    asked = {one.key.removesuffix("/unknown") for one in await product.store.waiting_actions()}
    assert asked == open_keys(intents)
    assert "begun" not in {intent.state for intent in intents}
    cut = await cut_calls(product, run_id)
    assert len([tool for tool in cut if tool in ("add", "stuck")]) == len(asked)
    if not (folder / GATE).exists():
        await cancelled_downstream(folder, HELD & set(cut))
    assert await rows(product.store, "SELECT key FROM ledger WHERE state = 'reserved'") == []
    return Cut(len(cut), len(asked))


async def leave_at(folder: Path, number: int) -> Cut | None:
    """Leave the product's block at the await of this number, and go on with another; None if it has fewer."""
    with anyio.CancelScope() as scope:
        awaits = Awaits(number, scope.cancel)
        awaits.watch()
        async with opened(folder) as product:
            awaits.arm()
            await until_ended(product, folder, await product.start(REQUEST), awaits=awaits)
            return None
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert toys.children_of(os.getpid()) == []
    async with open_settings_store(loaded(folder), world=World()) as store:
        assert await rows(store, "SELECT id FROM leases") == []
        intents = [one for run in await store.runs() for one in await effects_are_journalled(store, folder, run.id)]
    return await go_on(folder, open_keys(intents))


async def go_on(folder: Path, open_then: Collection[str]) -> Cut:
    """Finish what is left of the run; a person is asked about the calls that were open, and about no others."""
    async with opened(folder) as product:
        run_id = await product.start(REQUEST)
        cut = await cut_calls(product, run_id)
        await until_ended(product, folder, run_id)
        run = await product.store.run(run_id)
        # Of a call that a person knows to be done the result is lost, so that a report cannot cite it.
        assert (run.status, run.answer) == ("succeeded", "All is done.") or (open_then and run.status == "partial")
        assert effects(folder) == Counter(EFFECTS)
        asked = {one.key.removesuffix("/unknown") for one in await product.store.actions(run_id)}
        assert asked == open_then
        assert await rows(product.store, "SELECT key FROM ledger WHERE state = 'reserved'") == []
        return Cut(len(cut), len(asked))


def left() -> tuple[list[int], set[threading.Thread], int]:
    """The processes below this one, its threads and how many files it has open."""
    return toys.children_of(os.getpid()), set(threading.enumerate()), len(os.listdir("/proc/self/fd"))


def wait_for_threads(before: Collection[threading.Thread]) -> None:
    """Wait for the threads that end by themselves: with their loop, or with the pipe of a server that was killed.

    A server and what it started have six seconds for that.
    """
    for thread in threading.enumerate():
        if thread not in before:
            thread.join(10)


@pytest.mark.parametrize("cut_at", [cancel_at, leave_at], ids=["cancelled", "left"])
@pytest.mark.parametrize(
    ("first", "stride"),
    [
        pytest.param(11, 110, marks=pytest.mark.e2e, id="some"),
        *(pytest.param(first, PARTS, marks=pytest.mark.slow, id=f"part {first}") for first in range(1, PARTS + 1)),
    ],
)
def test_whatever_the_await_that_is_cut_nothing_leaks_and_no_effect_is_unaccounted_for(
    tmp_path: Path, cut_at: Callable[[Path, int], Coroutine[Any, Any, Cut | None]], first: int, stride: int
) -> None:
    cuts: list[Cut] = []
    for number in count(first, stride):
        settings(tmp_path / str(number), SCRIPT)
        before = left()
        cut = anyio.run(cut_at, tmp_path / str(number), number)
        wait_for_threads(before[1])
        assert left() == before
        if cut is None:
            break
        cuts.append(cut)
    calls_cut, asked = sum(cut.calls for cut in cuts), sum(cut.asked for cut in cuts)
    sys.stdout.write(f"awaits cut {len(cuts)}, calls in flight {calls_cut}, asked {asked}, leaked 0\n")
    assert len(cuts) * stride > 200
