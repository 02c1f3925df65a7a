"""A chain of orchestrators ends at depth two."""

from pathlib import Path
from typing import Any

import pytest
from mcp_hosts import open_host, text_of
from products import open_test_product, script

from server.host.depth import TooDeep, depth_of


@pytest.mark.parametrize(
    ("environ", "meta", "depth"),
    [
        ({}, None, 0),
        ({"STEPRELAY_DEPTH": "1"}, None, 1),
        ({"STEPRELAY_DEPTH": ""}, {"steprelay/depth": 1}, 1),
        ({"STEPRELAY_DEPTH": "1"}, {"steprelay/depth": 0}, 1),
        ({}, {"steprelay/depth": "nonsense"}, 0),
        ({}, {"steprelay/depth": None}, 0),
        ({}, {"steprelay/depth": float("nan")}, 0),
    ],
)
def test_the_deeper_of_environment_and_call_counts(environ: dict[str, str], meta: Any, depth: int) -> None:
    assert depth_of(environ, meta) == depth


@pytest.mark.parametrize("meta", [{"steprelay/depth": 2}, {"steprelay/depth": "7"}, {"steprelay/depth": 2.0}])
def test_depth_two_is_too_deep(meta: Any) -> None:
    with pytest.raises(TooDeep, match="call the tool servers you need directly"):
        depth_of({}, meta)
    with pytest.raises(TooDeep):
        depth_of({"STEPRELAY_DEPTH": "2"}, {})


async def test_a_call_from_depth_two_starts_no_run_and_one_from_depth_one_does(tmp_path: Path) -> None:
    say: Any = {"id": "say", "kind": "compose", "title": "Say", "task": "Say it."}
    said = script(say, steps={"say": {"text": "Said."}})
    async with (
        open_test_product(tmp_path, script=said, servers={}) as (product, server),
        open_host(server, era="modern") as host,
    ):
        deep: Any = {"steprelay/depth": 2}
        refused = await host.client.call_tool("plan_and_execute", {"goal": "Deep."}, meta=deep)
        assert refused.is_error
        assert "depth 2" in text_of(refused)
        assert (await host.structured("list_runs")) == {"runs": []}
        shallow: Any = {"steprelay/depth": 1}
        done = await host.client.call_tool("plan_and_execute", {"goal": "Shallow."}, meta=shallow)
        assert not done.is_error
        (run,) = await product.store.runs()
        assert run.options["depth"] == 1
