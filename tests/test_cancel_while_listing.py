"""A run may be cancelled while a tool server that was never seen keeps it waiting for its list of tools."""

import os
from pathlib import Path

import anyio
import pytest
import toys
from journals import until
from products import open_test_product, script

from server.product import Request

pytestmark = pytest.mark.e2e


async def test_a_run_that_waits_for_a_silent_server_is_cancelled_at_once(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    servers = {"silent": toys.entry(toys.bad("hang", starts))}
    options = {"server_options": {"silent": {"start_timeout": 60}}}

    async def is_asked() -> bool:
        return starts.exists()

    async with open_test_product(tmp_path, script=script(), servers=servers, settings=options) as (product, _):
        run_id = await product.start(Request("Say when it ships."))
        await until(is_asked, within=20)
        await product.cancel(run_id, "enough")
        with anyio.fail_after(20):
            ended = await product.until(run_id, lambda run: run.ended)
        events = [event.type for event in await product.store.events(run_id)]
    assert (ended.status, ended.stop_reason) == ("cancelled", "cancelled")
    assert (events[0], events[-1], "model.called" in events) == ("run.created", "run.ended", False)
    assert await toys.wait_until_gone(toys.children_of(os.getpid())) == []
