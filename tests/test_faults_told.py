"""What hosts are told when steprelay itself fails: never the words of an exception, whatever they called."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from journals import change
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitRequestParams, ElicitResult
from mcp_hosts import Era, open_host, text_of
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from products import STATE_KEY, Opened, call_step, open_test_product, script

from journal.errors import SteprelayError
from server.host.mcp_server import build_host_server
from server.product import Product, Request
from server.views.run_view import RunView

CALLS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "resources/list": lambda client: client.list_resources(),
    "resources/read": lambda client: client.read_resource("run://r_1"),
    "prompts/get": lambda client: client.get_prompt("delegate", {"goal": "Tidy up."}),
}


async def out_of_memory() -> Product:
    raise OSError("/home/me/.ssh: a secret place")


async def of_another_shape() -> Product:
    RunView.model_validate({"status": "a secret word"})
    raise AssertionError


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("fails", [out_of_memory, of_another_shape], ids=["of the system", "of a shape"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_fault_of_ours_is_told_without_its_words_and_is_logged(
    method: str, fails: Callable[[], Awaitable[Product]], era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_host(build_host_server(fails, state_key=STATE_KEY), era=era) as host:
        with pytest.raises(MCPError) as told:
            await CALLS[method](host.client)
        again = await host.client.list_tools()
    assert told.value.error.code == INTERNAL_ERROR
    assert told.value.error.message == "steprelay failed inside; its log says why. list_runs shows the runs."
    assert "list_runs" in [tool.name for tool in again.tools]
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert (record.msg, record.__dict__["call"], record.exc_info is not None) == ("call_failed", method, True)


@pytest.mark.parametrize("fails", [out_of_memory, of_another_shape], ids=["of the system", "of a shape"])
async def test_a_tool_that_fails_inside_answers_so_that_the_model_reads_it(
    fails: Callable[[], Awaitable[Product]], caplog: pytest.LogCaptureFixture
) -> None:
    async with open_host(build_host_server(fails, state_key=STATE_KEY)) as host:
        answer = await host.call("list_runs")
    assert answer.is_error
    assert text_of(answer) == "steprelay failed inside; its log says why. list_runs shows the runs."
    assert [record.__dict__["call"] for record in caplog.records if record.exc_info] == ["list_runs"]


async def test_what_is_refused_on_purpose_says_why(tmp_path: Path) -> None:
    async with open_test_product(tmp_path, script=script(), servers={}) as (_, server), open_host(server) as host:
        with pytest.raises(MCPError, match="there is no resource 'run:nothing'") as told:
            await host.client.read_resource("run:nothing")
    assert told.value.error.code == INVALID_PARAMS


@pytest.mark.e2e
async def test_a_problem_while_an_older_host_shows_a_form_is_told_with_its_way_out(tmp_path: Path) -> None:
    shown = anyio.Event()

    async def open_for_ever(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        shown.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def remove(opened: Opened) -> None:
        await shown.wait()
        store = opened.product.store
        [action] = await store.waiting_actions()
        await change(store, "DELETE FROM actions")
        store.bell.ring(action.run)

    keep = call_step("keep", "ledger.add_item", key="a", value="b")
    async with open_test_product(tmp_path, script=script(keep)) as opened, anyio.create_task_group() as group:
        group.start_soon(remove, opened)
        async with open_host(opened.server, era="legacy", on_elicit=open_for_ever) as host:
            answer = await host.call("plan_and_execute", {"goal": "Do what is needed."})
            assert answer.is_error
            assert text_of(answer).endswith("is known here; `steprelay approvals` lists what waits")


async def test_a_problem_that_every_call_is_told_of_keeps_nothing_of_the_calls_before(tmp_path: Path) -> None:
    lengths: list[int] = []
    async with open_test_product(tmp_path, script=script(), servers={}) as (product, _):
        without = replace(product, problem=SteprelayError("There is no model."))
        for _ in range(3):
            with pytest.raises(SteprelayError) as told:
                await without.start(Request("Tidy up."))
            lengths.append(len(told.traceback))
    assert len(set(lengths)) == 1
