"""No version of the protocol is left out: servers by hand that insist on one of them, over each way in which it is
spoken."""

from pathlib import Path

import anyio
import pytest
from faulty_http import open_faulty_http, well, well_by_events
from tool_connections import by_hand, remote, text_of
from toy_servers.by_hand import MODERN, VERSIONS

from downstream.servers.pool import open_pool
from journal.world import World

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_server_on_stdio_is_spoken_to_in_its_version(tmp_path: Path, version: str) -> None:
    async with open_pool([by_hand("old", "well", version, tmp_path / "state")], World()) as pool:
        with anyio.fail_after(20):
            result = await pool.connection("old").call("look", {}, timeout=10)
    assert text_of(result) == f"looked, {version}"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_server_over_streamable_http_is_spoken_to_in_its_version(version: str) -> None:
    async with (
        open_faulty_http(well, version=version) as server,
        open_pool([remote("old", server.url)], World()) as pool,
    ):
        with anyio.fail_after(20):
            result = await pool.connection("old").call("look", {}, timeout=10)
    assert text_of(result) == f"looked, {version}"


@pytest.mark.parametrize("version", [version for version in VERSIONS if version != MODERN])
async def test_a_server_over_http_and_sse_is_spoken_to_in_its_version(version: str) -> None:
    async with (
        open_faulty_http(well_by_events, version=version, path="sse") as server,
        open_pool([remote("old", server.url)], World()) as pool,
    ):
        with anyio.fail_after(20):
            result = await pool.connection("old").call("look", {}, timeout=10)
    assert text_of(result) == f"looked, {version}"
