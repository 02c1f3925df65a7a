"""The door over real connections: what a host's settings say reaches a real tool server, and nothing else does."""

import json
from pathlib import Path

import anyio
import pytest
import toys
from gate_case import call, open_runs
from tool_connections import stdio

from downstream.door import Called, Refused, ToolEnd, Waiting
from downstream.gate.tool_door import Rules, make_call_tool, make_gate
from downstream.policy_settings import PolicySettings
from downstream.servers.catalogue import Catalogue
from downstream.servers.pool import open_pool
from downstream.settings import ApprovalSettings
from journal.values import JsonObject
from journal.world import World

pytestmark = pytest.mark.e2e


def made(log: Path) -> list[str]:
    return [json.loads(line)["tool"] for line in log.read_text().splitlines()] if log.exists() else []


async def test_a_call_of_a_server_that_is_not_there_says_so_and_why(tmp_path: Path) -> None:
    servers = [stdio("box", ["no-such-command"])]
    async with open_runs(tmp_path) as runs, open_pool(servers, World()) as pool:
        catalogue = Catalogue(pool, runs.store.remembered, servers)
        gate = make_gate(catalogue, Rules(PolicySettings(), ApprovalSettings(), servers), pool=pool)
        door, journal = make_call_tool(gate, pool, lambda out: {}), await runs.drive()
        with anyio.fail_after(30):
            refused = [await door(journal, call(f"{name}.look", key=name)) for name in ("box", "chest")]
    why = "command 'no-such-command' was not found; install it or give its full path"
    assert refused == [
        Refused("box.look", f"box.look cannot be called: tool server box is not connected: {why}", "gate", True),
        Refused(
            "chest.look",
            'no server has a tool "chest.look"; this step lists it, but it is there no longer',
            "gate",
            True,
        ),
    ]


async def test_a_call_does_not_wait_while_another_server_is_opened_for_somebody_else(tmp_path: Path) -> None:
    servers = [stdio("box", toys.ledger(tmp_path / "ledger", k="v")), stdio("mute", toys.bad("hang"), start_timeout=60)]
    async with open_runs(tmp_path) as runs, open_pool(servers, World()) as pool:
        catalogue = Catalogue(pool, runs.store.remembered, servers)
        gate = make_gate(catalogue, Rules(PolicySettings(), ApprovalSettings(), servers), pool=pool)
        door, journal, ends = make_call_tool(gate, pool, lambda out: {}), await runs.drive(), list[ToolEnd]()
        async with anyio.create_task_group() as planning:
            planning.start_soon(catalogue.tools)
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(30):
                listed = frozenset({"box.read_item"})
                ends.append(await door(journal, call("box__read_item", {"key": "k"}, allowed=listed)))
            planning.cancel_scope.cancel()
    assert [end.value.data for end in ends if isinstance(end, Called)] == [{"key": "k", "value": "v"}]


async def test_calls_reach_a_real_server_only_as_settings_and_people_let_them(tmp_path: Path) -> None:
    log = tmp_path / "ledger"
    servers = [stdio("box", toys.ledger(log))]
    policy = PolicySettings.model_validate({"rules": [{"deny": "box.drop_*"}]}, strict=False)
    item: JsonObject = {"key": "k1", "value": "v1"}
    async with open_runs(tmp_path) as runs, open_pool(servers, World()) as pool:
        catalogue = Catalogue(pool, runs.store.remembered, servers)
        gate = make_gate(catalogue, Rules(policy, ApprovalSettings(), servers), pool=pool)
        door, journal = make_call_tool(gate, pool, lambda out: {"depth": 1}), await runs.drive()
        with anyio.fail_after(60):
            waiting = await door(journal, call("box__add_item", item, key="1", allowed=frozenset({"box.add_item"})))
            assert isinstance(waiting, Waiting)
            refused = await door(journal, call("box.drop_item", {"key": "k1"}, key="2"))
            assert isinstance(refused, Refused)
            missing = await door(journal, call("box.read_item", {"key": "k1"}, key="3"))
            assert isinstance(missing, Called)
            await runs.decide(waiting.action, "approve", level="host", via="form")
            added = await door(journal, call("box__add_item", item, key="1", allowed=frozenset({"box.add_item"})))
            read = await door(journal, call("box.read_item", {"key": "k1"}, key="4"))
    assert isinstance(added, Called)
    assert isinstance(read, Called)
    assert (missing.ok, added.ok, added.effect, read.ok) == (False, True, True, True)
    assert (read.value.data, read.value.label) == (item, frozenset({"private:box"}))
    assert made(log) == ["read_item", "add_item", "read_item"]
