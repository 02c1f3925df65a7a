"""Planning without running: however it ends, no run is left that anybody would carry out."""

import sys
from pathlib import Path

import anyio
from journals import until
from products import call_step, open_test_product, script

from server.plan_only import make_plan

QUICK = {"server_options": {"silent": {"start_timeout": 1}}}
SILENT = {"silent": {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}}


async def test_a_plan_that_is_interrupted_leaves_no_run_to_anybody(tmp_path: Path) -> None:
    steps = script(call_step("keep", "silent.add"))

    async def begun() -> bool:
        return bool(await product.store.runs())

    async with open_test_product(tmp_path, script=steps, servers=SILENT, settings=QUICK) as (product, _):
        async with anyio.create_task_group() as group:
            group.start_soon(make_plan, product, "Keep it.", "")
            await until(begun)
            group.cancel_scope.cancel()
        [run] = await product.store.runs()
        assert run.cancel_reason == "planned only"
        with anyio.fail_after(10):
            ended = await product.until(run.id, lambda now: now.ended)
    assert ended.status == "cancelled"
