"""How long after a decision its run goes on: decided in the process that drives it, and in another one."""

import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import quantiles

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.types import CallToolResult

from downstream.gate.sending import Outgoing
from journal.actions import Decision
from journal.outlet import Outlet
from journal.store import Store, open_store
from journal.world import World

from .places import Places, open_folder
from .rig import OWNER, Setting, answer_at_once, open_rig
from .sizes import Sizes
from .stored import Standing, fill, settings_in
from .table import Row, Table

_YES = Decision("approve", "person", "terminal")
_TICK = 0.5
"""A driving process looks this often, so decisions of others come at any point of such a span."""


def measure(places: Places, sizes: Sizes) -> list[Table]:
    """From right before the decision is recorded until the approved call is sent."""
    here = _among_parked(places, sizes, _same_process)
    there = _among_parked(places, sizes, _other_process)
    return [
        Table(
            "From an approval to its run going on",
            f"{sizes.approvals} approvals one after the other, from right before the decision is recorded until the"
            f" approved call is sent, while {sizes.parked:,} runs wait in the store. Held against what is promised.",
            (
                Row("decided in the driving process", _said(here), "100 ms", max(here) / 0.1),
                Row("decided in another process", _said(there), "1,000 ms", max(there) / 1.0),
            ),
        )
    ]


Decide = Callable[[Standing, Sequence[str]], Awaitable[list[float]]]


def _among_parked(places: Places, sizes: Sizes, decide: Decide) -> list[float]:
    with open_folder(places.disk) as folder:
        standing = settings_in(folder)
        ids = fill(standing, "send", sizes.approvals + sizes.parked, real=sizes.approvals)
        return anyio.run(partial(decide, standing, ids))


def _said(seconds: list[float]) -> str:
    cuts = quantiles([*seconds, *seconds], n=100, method="inclusive")
    return f"p50 {1000 * cuts[49]:.0f} ms, p99 {1000 * cuts[98]:.0f} ms, most {1000 * max(seconds):.0f} ms"


async def _same_process(standing: Standing, ids: Sequence[str]) -> list[float]:
    sent = {run_id: anyio.Event() for run_id in ids}

    async def send(out: Outgoing) -> CallToolResult:
        sent[out.run].set()
        return await answer_at_once(out)

    found: list[float] = []
    async with open_rig(Setting(standing.folder, standing.fingerprint, send=send)) as rig:
        for run_id in ids:
            await _pause()
            began = await _approve(rig.store, run_id)
            await rig.engine.wake(run_id)
            await sent[run_id].wait()
            found.append(time.perf_counter() - began)
    return found


async def _other_process(standing: Standing, ids: Sequence[str]) -> list[float]:
    """Decide here, as `steprelay approve` does, while a process of its own drives."""
    found: list[float] = []
    command = [sys.executable, "-m", "benchmarks.child", "wake", str(standing.config)]
    root = Path(__file__).parent.parent
    async with (
        open_store(standing.folder / "store.db", World(), Outlet(), owner=OWNER) as store,
        await anyio.open_process(command, cwd=root, stdin=None, stderr=None) as process,
    ):
        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)
        await lines.receive_until(b"\n", 100)
        for run_id in ids:
            await _pause()
            began = await _approve(store, run_id)
            if await lines.receive_until(b"\n", 100) != run_id.encode():
                raise RuntimeError("another run went on than the one that was approved")
            found.append(time.perf_counter() - began)
        process.terminate()
    return found


async def drive_and_tell(config: Path) -> None:
    """Drive the runs of these settings until terminated; the id of each whose call is sent goes to stdout."""
    standing = Standing.of(config)

    async def send(out: Outgoing) -> CallToolResult:
        _tell(out.run)
        return await answer_at_once(out)

    async with open_rig(Setting(standing.folder, standing.fingerprint, send=send)):
        _tell("ready")
        await anyio.sleep_forever()


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _pause() -> None:
    await anyio.sleep(random.uniform(0, _TICK))


async def _approve(store: Store, run_id: str) -> float:
    """The moment right before the decision."""
    (action,) = await store.actions(run_id)
    began = time.perf_counter()
    await store.decide(action, _YES)
    return began
