"""A process may die at any boundary of the journal: nothing is lost, and no effect happens twice."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from audit_chain import broken_line
from crash_scenario import DIED
from journals import open_own_store, rows

from journal.store import Store

pytestmark = pytest.mark.untraced

SUPPORT = Path(__file__).parent / "support"
WRITES = {
    *("create", "take", "memo", "begin", "intent", "result", "abandon", "action", "decide", "park", "step", "plan"),
    *("warning", "finish", "delivered", "cancel", "rebind", "reopen", "remembered", "artifact.row"),
    *("lease", "lease.end", "lease.forget"),
}
BOUNDARIES = {f"{write}.{point}" for write in WRITES for point in ("before", "written", "committed")}


async def check(store: Store, folder: Path) -> None:
    assert (folder / "effects").read_text() == "sent\n"
    runs = {run.goal: run for run in await store.runs()}
    assert {goal: run.status for goal, run in runs.items()} == {"first": "succeeded", "second": "succeeded"}
    first = runs["first"].id
    assert await rows(store, "SELECT key FROM memo ORDER BY key") == [("artifact",), ("plan",), ("send",)]
    assert [(intent.key, intent.state) for intent in await store.intents(first)] == [("send", "done")]
    assert await rows(store, "SELECT COUNT(*) FROM ledger WHERE state = 'reserved'") == [(0,)]
    assert [step.status for step in await store.steps(first)] == ["succeeded"]
    assert (await store.waiting_actions(), await rows(store, "SELECT 1 FROM actions WHERE handled = 0")) == ([], [])
    used = await rows(store, "SELECT COUNT(*) FROM actions WHERE kind = 'call' AND state = 'consumed'")
    assert used == [(1,)]
    for goal, ends in (("first", 1), ("second", 2)):
        events = await store.events(runs[goal].id)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        types = [event.type for event in events]
        assert (types.count("run.created"), types.count("run.ended")) == (1, ends)
    for artifact in await store.artifacts.of_run(first):
        assert await store.artifacts.content(artifact) == b"whole"
    assert await broken_line(store) is None


@pytest.mark.parametrize(
    "stride", [pytest.param(20, marks=pytest.mark.e2e), pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"]
)
async def test_whatever_the_boundary_a_killed_run_is_finished_with_its_effect_made_once(
    tmp_path: Path, stride: int
) -> None:
    command = [sys.executable, str(SUPPORT / "crash_scenario.py"), str(tmp_path), str(stride)]
    paths = os.environ | {"PYTHONPATH": f"{SUPPORT.parent.parent}:{SUPPORT}"}
    with anyio.fail_after(250):
        ended = await anyio.run_process(command, env=paths)
    names: Any = json.loads(ended.stdout)
    assert set(names) >= BOUNDARIES | {"effect", "artifact.file"}
    died: list[int] = []
    for number in range(1, len(names) + 1, stride):
        folder = tmp_path / str(number)
        codes: list[int] = json.loads((folder / "codes").read_text())
        died += codes[:-1]
        assert codes[-1] == 0, folder
        async with open_own_store(folder) as store:
            await check(store, folder)
    # At the very end a process may come through with one boundary less.
    assert died.count(DIED) >= len(died) - 3
