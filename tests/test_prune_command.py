"""Old runs are removed by serving processes and by a command, also by several at once and by one that dies."""

import json
import os
import sys
import time
from pathlib import Path

import anyio
import pytest
import toys
from command_line import OWN, called, steprelay
from journals import Clock, change, open_own_store, rows, until
from mcp import Client
from mcp_hosts import text_of
from old_runs import (
    FILE,
    RUN,
    chain_holds,
    kept_files,
    orphan,
    run_with_an_unknown,
    run_with_everything,
)
from products import call_step, open_test_product, script, write_settings
from quick_jobs import quick

from journal.archive.retention import DAY, Swept, sweep
from journal.errors import UnknownId
from journal.lease import open_lease
from journal.outlet import Outlet
from journal.store import open_store
from journal.world import World

ROOT = Path(__file__).parent.parent
PRUNED = "SELECT data FROM audit WHERE type = 'runs.pruned'"


@pytest.mark.e2e
async def test_a_serving_process_removes_old_runs_soon_after_its_start(tmp_path: Path) -> None:
    plan, servers = script(call_step("look", "quick.read", key="a")), {"quick": toys.entry(quick(tmp_path / "log"))}
    async with open_test_product(tmp_path, script=plan, servers=servers) as (_, server), Client(server) as host:
        view = (await host.call_tool("plan_and_execute", {"goal": "Look at the plan"})).structured_content
        assert view is not None
        assert view["status"] == "succeeded"
    later = World(now=lambda: time.time() + 91 * DAY)
    asked = {"run_id": view["run_id"]}
    async with (
        open_test_product(tmp_path, script=plan, servers=servers, world=later) as (product, server),
        Client(server) as host,
    ):
        [run] = await product.store.runs()
        assert (await host.call_tool("get_run", asked)).structured_content is not None

        async def is_gone() -> bool:
            return not await product.store.runs()

        await until(is_gone)
        told = await host.call_tool("get_run", asked)
        assert told.is_error
        assert text_of(told) == f"no run '{run.id}' is known here; list_runs and `steprelay runs list` show all"
        # What comes next is not hindered.
        again = (await host.call_tool("plan_and_execute", {"goal": "Look again"})).structured_content
        assert again is not None
        assert again["status"] == "succeeded"


@pytest.mark.e2e
async def test_runs_are_kept_for_ever_where_the_settings_say_so(tmp_path: Path) -> None:
    later = World(now=lambda: time.time() + 1000 * DAY)
    async with open_own_store(tmp_path) as store:
        await run_with_everything(store)
        await change(store, "UPDATE runs SET owner = 'local'")
    swept = orphan(tmp_path, Clock(time.time()), f"{RUN}/{FILE}", hours=0)
    forever = {"retention": {"days": None}}
    async with open_test_product(tmp_path, script={}, settings=forever, world=later) as (product, _):

        async def is_swept() -> bool:
            return not swept.exists()

        await until(is_swept)
        assert len(await product.store.runs()) == 1
    config = write_settings(tmp_path, script={}, settings=forever)
    refused = steprelay("runs", "prune", "--config", str(config), cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "retention.days is null, so runs are kept for ever; name an age with --older-than DAYS" in refused.stderr


_DIES = """
import os, sys, anyio
from pathlib import Path
from journals import open_own_store
from journal.archive.retention import prune
from journal.world import World

async def main():
    world = World(reach=lambda point: os._exit(9) if point == "prune.committed" else None)
    async with open_own_store(Path(sys.argv[1]), world) as store:
        await prune(store, days=0)

anyio.run(main)
"""


@pytest.mark.e2e
async def test_a_process_that_dies_between_rows_and_files_leaves_files_for_the_sweep(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await run_with_everything(store)
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "support")))
    child = [sys.executable, "-c", _DIES, str(tmp_path)]
    died = await anyio.run_process(child, env={**os.environ, "PYTHONPATH": path}, check=False)
    assert died.returncode == 9, died.stderr
    async with open_own_store(tmp_path) as store:
        with pytest.raises(UnknownId):
            await store.run(run_id)
        assert [name.partition("/")[0] for name in kept_files(tmp_path)] == [run_id, run_id]
        assert await sweep(store) == Swept(0, 0)
        assert await chain_holds(store)
    clock = Clock(time.time() + 3700)
    async with open_own_store(tmp_path, clock.world) as store:
        assert await sweep(store) == Swept(1, 9000)
    assert kept_files(tmp_path) == [] or kept_files(tmp_path) == [run_id]


@pytest.mark.e2e
async def test_two_processes_at_once_remove_each_run_once(tmp_path: Path) -> None:
    config = write_settings(tmp_path, script={})
    async with open_store(tmp_path / "store.db", World(), Outlet(), owner="local") as store:
        ids = {await run_with_everything(store, f"goal {number}") for number in range(24)}
    removed: list[str] = []

    async def remove() -> None:
        command = [*OWN, "runs", "prune", "--older-than", "0", "--json", "--config", str(config)]
        removed.extend(json.loads((await anyio.run_process(command)).stdout)["run_ids"])

    async with anyio.create_task_group() as group:
        group.start_soon(remove)
        group.start_soon(remove)
    assert (len(removed), set(removed)) == (24, ids)
    async with open_store(tmp_path / "store.db", World(), Outlet(), owner="local") as store:
        assert await chain_holds(store)
        assert sum(len(json.loads(data)["runs"]) for (data,) in await rows(store, PRUNED)) == 24


def old_store(folder: Path) -> str:
    """A store with a run that ended 31 days ago, one as old with an unanswered call, and an orphan; the run's id."""

    async def fill() -> str:
        clock = Clock(time.time() - 31 * DAY)
        async with open_store(folder / "store.db", clock.world, Outlet(), owner="local") as store:
            await run_with_an_unknown(store, asked=True)
            return await run_with_everything(store)

    run_id = anyio.run(fill)
    orphan(folder, Clock(time.time()), f"{RUN}/{FILE}", hours=2)
    return run_id


def test_the_command_says_what_it_would_remove_and_removes_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_settings(tmp_path, script={}, settings={"retention": {"days": 30}})
    run_id = old_store(tmp_path)

    def told(*words: str) -> str:
        assert called("runs", "prune", "--config", str(config), *words) == 0
        return capsys.readouterr().out

    kept = (
        "Kept 1 run as old with a call that may have run: nobody has said yet whether it was done "
        "(`steprelay approvals`).\n"
    )
    would = told("--dry-run")
    size = would.partition("earlier: ")[2].partition(" bytes.")[0]
    assert would == f"Would remove 1 run that ended 30 days ago or earlier: {size} bytes.\n{kept}"
    whole = {
        "dry_run": True,
        "older_than_days": 30,
        "runs": 1,
        "bytes": int(size.replace(",", "")),
        "run_ids": [run_id],
    }
    after = {"orphan_files": None, "orphan_bytes": None, "database_bytes": None}
    assert json.loads(told("--dry-run", "--json")) == whole | {"kept_unanswered": 1} | after
    lines = told().splitlines(keepends=True)
    assert lines[:3] == [
        f"Removed 1 run that ended 30 days ago or earlier: {size} bytes.\n",
        kept,
        "Removed 1 file that belonged to no run: 5 bytes.\n",
    ]
    assert all(line.startswith("The database is ") for line in lines[3:])


def test_where_nothing_is_old_enough_the_command_removes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_settings(tmp_path, script={})
    assert called("runs", "prune", "--config", str(config), "--older-than", "40", "--json") == 0
    nothing: dict[str, object] = {
        "dry_run": False,
        "older_than_days": 40,
        "runs": 0,
        "bytes": 0,
        "run_ids": [],
        "kept_unanswered": 0,
    }
    said = json.loads(capsys.readouterr().out)
    # A new file may have free pages, which go back to the disk.
    assert said.pop("database_bytes") >= 0
    assert said == nothing | {"orphan_files": 0, "orphan_bytes": 0}


@pytest.mark.e2e
async def test_the_command_says_why_the_database_keeps_its_size(tmp_path: Path) -> None:
    config = write_settings(tmp_path, script={})

    async def last_line() -> str:
        ended = await anyio.run_process([*OWN, "runs", "prune", "--config", str(config)], cwd=tmp_path)
        return ended.stdout.decode().splitlines()[-1]

    async with (
        open_store(tmp_path / "store.db", World(), Outlet(), owner="local") as store,
        open_lease(store, fingerprint="print", settings_path="settings.yaml"),
    ):
        assert await last_line() == (
            "The database keeps its size, with room for what comes next: another process is at work on it."
        )
