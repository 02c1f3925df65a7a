"""A server that says that its tools changed is listed again, compared with its pins, and not for ever."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from gate_case import open_runs
from tool_connections import by_hand, open_older_http, remote, text_of
from toy_servers.by_hand import MODERN

from downstream.servers.catalogue import Catalogue
from downstream.servers.changes import Changes
from downstream.servers.failures import CallFailed
from downstream.servers.pool import Pool, open_pool
from journal.world import World

pytestmark = pytest.mark.e2e


@asynccontextmanager
async def open_changing(folder: Path, fault: str, version: str) -> AsyncGenerator[tuple[Pool, Catalogue]]:
    servers = [by_hand("box", fault, version, folder / "state")]
    async with open_runs(folder) as runs, open_pool(servers, World()) as pool:
        catalogue = Catalogue(pool, runs.store.remembered, servers)
        with anyio.fail_after(20):
            await catalogue.tools()
            yield pool, catalogue


async def settled(catalogue: Catalogue) -> None:
    while not catalogue.quarantined():  # noqa: ASYNC110 - another process tells
        await anyio.sleep(0.01)


@pytest.mark.parametrize("version", ["2025-06-18", MODERN])
async def test_tools_changed_while_connected_are_quarantined_and_not_called(tmp_path: Path, version: str) -> None:
    async with open_changing(tmp_path, "tools_change", version) as (pool, catalogue):
        if version == MODERN:
            while not (tmp_path / "state.listening").exists():  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.01)
        assert text_of(await pool.connection("box").call("look", {}, timeout=10)) == f"looked, {version}"
        await settled(catalogue)
        with pytest.raises(CallFailed, match=r"box\.look may not be called: its arguments changed") as failed:
            await pool.connection("box").call("look", {}, timeout=10)
        assert not failed.value.may_have_run
        assert list(catalogue.quarantined()) == ["box.added", "box.look"]
        assert [tool.full_name for tool in await catalogue.tools()] == ["box.look"]
        assert catalogue.tool("box.look") is None


@pytest.mark.parametrize("path", ["mcp", "older", "sse"])
async def test_tools_changed_over_http_are_listed_again_and_held_against_their_pins(tmp_path: Path, path: str) -> None:
    async with open_older_http(tmp_path / "log", module="changing_http_server") as toy, open_runs(tmp_path) as runs:
        servers = [remote("box", toy.url.replace("mcp", path))]
        async with open_pool(servers, World()) as pool:
            catalogue, box = Catalogue(pool, runs.store.remembered, servers), pool.connection("box")
            with anyio.fail_after(20):
                assert [tool.full_name for tool in await catalogue.tools()] == ["box.grow"]
                # Over HTTP the stream for such news is opened when the connection already stands.
                while not catalogue.quarantined():
                    await box.call("grow", {}, timeout=10)
                    await anyio.sleep(0.1)
                with pytest.raises(CallFailed, match=r"box\.added may not be called: it was added since"):
                    await box.call("added", {}, timeout=10)
                assert box.protocol == ("2025-11-25" if path == "older" else MODERN)
                assert [tool.full_name for tool in await catalogue.tools()] == ["box.grow"]


async def test_a_flood_of_changes_is_listed_a_few_times_only(tmp_path: Path) -> None:
    async with open_changing(tmp_path, "tools_flood", "2025-06-18") as (pool, catalogue):
        await pool.connection("box").call("look", {}, timeout=10)
        await settled(catalogue)
        with pytest.raises(CallFailed, match="may not be called"):
            await pool.connection("box").call("look", {}, timeout=10)
    assert len((tmp_path / "state.lists").read_text()) <= 4


async def test_a_change_told_in_the_pause_after_a_listing_is_listed_after_it_and_holds_up_no_call() -> None:
    changes, listed = Changes(), list[float]()

    async def list_again() -> None:
        listed.append(anyio.current_time())

    async with anyio.create_task_group() as group:
        group.start_soon(changes.list_after_changes, list_again)
        with anyio.fail_after(10):
            changes.tell()
            assert not changes.settled.is_set()
            await changes.settled.wait()
            changes.tell()
            assert changes.settled.is_set()
            while len(listed) < 2:  # noqa: ASYNC110 - the list is what the test is about
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert 0.9 < listed[1] - listed[0] < 5
