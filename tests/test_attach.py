"""Waiting with a run: what begins and ends a wait, and that nothing but a cancellation ends the run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from mcp.client import ClientRequestContext
from mcp.types import ElicitRequestParams, ElicitResult
from mcp_hosts import Era, open_host, text_of
from products import call_step, open_test_product, script

from journal.runs import Run
from server.host.attach import Host as Client
from server.host.progress import Progress
from server.product import Product

pytestmark = pytest.mark.e2e

ERAS: list[Era] = ["legacy", "modern"]
MEET = call_step("meet", "ledger.meet", name="gate", parties=2, timeout=60)
SAY: dict[str, Any] = {"id": "say", "kind": "compose", "title": "Say", "task": "Say it."}
SAID = script(SAY, steps={"say": {"text": "Said."}}, answer="It is said.")


async def _ended(product: Product, run_id: str) -> Run:
    with anyio.fail_after(30):
        return await product.until(run_id, lambda run: run.ended)


async def _the_run(product: Product) -> str:
    """The id of the one run, once there is one."""
    with anyio.fail_after(30):
        # Which run it is to be is not known yet, so nobody can listen for it.
        while not (runs := await product.store.runs()):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    (run,) = runs
    return run.id


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_answers_when_its_run_has_ended(tmp_path: Path, era: Era) -> None:
    async with (
        open_test_product(tmp_path, script=SAID, servers={}) as (_, server),
        open_host(server, era=era) as host,
    ):
        result = await host.call("plan_and_execute", {"goal": "Say it."})
    view: Any = result.structured_content
    assert (view["status"], view["stop_reason"], view["answer"]) == ("succeeded", "done", "It is said.")
    assert [part.type for part in result.content] == ["text", "resource_link"]
    assert "It is said." in text_of(result)
    assert result.content[1].model_dump(mode="json")["uri"] == f"run://{view['run_id']}/report"


async def test_a_wait_that_is_over_shows_the_run_at_work_which_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "ledger.log"
    async with (
        open_test_product(tmp_path, script=script(MEET)) as (_, server),
        open_host(server) as host,
    ):
        view = await host.structured("plan_and_execute", {"goal": "Meet.", "wait_seconds": 0})
        assert (view["status"], view["stop_reason"], view["step_list"]) == ("planning", None, None)
        assert view["next_actions"] == [f'get_run(run_id="{view["run_id"]}", wait_seconds=30) shows how it goes on']
        with anyio.fail_after(30):
            await toys.wait_for_calls(log, "meet")
        toys.open_gate(log, "gate")
        asked = {"run_id": view["run_id"], "wait_seconds": 30}
        while view["stop_reason"] is None:
            view = await host.structured("get_run", asked)
        assert (view["status"], len(toys.calls(log, "meet"))) == ("succeeded", 1)


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_call_ends_the_wait_and_never_the_run(tmp_path: Path, era: Era) -> None:
    log = tmp_path / "ledger.log"
    async with (
        open_test_product(tmp_path, script=script(MEET)) as (product, server),
        open_host(server, era=era) as host,
    ):
        async with anyio.create_task_group() as group:
            group.start_soon(host.call, "plan_and_execute", {"goal": "Meet."})
            with anyio.fail_after(30):
                await toys.wait_for_calls(log, "meet")
            group.cancel_scope.cancel()
        run_id = await _the_run(product)
        assert not (await product.store.run(run_id)).ended
        toys.open_gate(log, "gate")
        assert (await _ended(product, run_id)).stop_reason == "done"


async def test_a_lost_connection_ends_the_wait_and_never_the_run(tmp_path: Path) -> None:
    log = tmp_path / "ledger.log"
    async with open_test_product(tmp_path, script=script(MEET)) as (product, server):
        async with anyio.create_task_group() as group, open_host(server) as host:
            group.start_soon(host.call, "plan_and_execute", {"goal": "Meet."})
            with anyio.fail_after(30):
                await toys.wait_for_calls(log, "meet")
            group.cancel_scope.cancel()
        toys.open_gate(log, "gate")
        run_id = await _the_run(product)
        assert (await _ended(product, run_id)).stop_reason == "done"
        async with open_host(server) as again:
            view = await again.structured("plan_and_execute", {"goal": "Meet."})
        assert (view["run_id"], view["status"]) == (run_id, "succeeded")


async def test_only_cancel_run_ends_a_run_early_and_once(tmp_path: Path) -> None:
    log = tmp_path / "ledger.log"
    async with (
        open_test_product(tmp_path, script=script(MEET)) as (_, server),
        open_host(server) as host,
    ):
        view = await host.structured("plan_and_execute", {"goal": "Meet.", "wait_seconds": 0})
        with anyio.fail_after(30):
            await toys.wait_for_calls(log, "meet")
        cancelled = await host.structured("cancel_run", {"run_id": view["run_id"], "reason": "Changed my mind."})
        assert (cancelled["status"], cancelled["stop_reason"]) == ("cancelled", "cancelled")
        assert (cancelled["steps"]["skipped"], cancelled["steps"]["total"]) == (1, 1)
        assert cancelled["answer"]
        again = await host.structured("cancel_run", {"run_id": view["run_id"]})
        assert (again["status"], again["message"]) == ("cancelled", cancelled["message"])


async def test_a_repeated_request_attaches_until_its_result_was_delivered(tmp_path: Path) -> None:
    async with (
        open_test_product(tmp_path, script=SAID, servers={}) as (product, server),
        open_host(server) as host,
    ):
        first = await host.structured("plan_and_execute", {"goal": "Say it.", "wait_seconds": 0})
        await _ended(product, first["run_id"])
        second = await host.structured("plan_and_execute", {"goal": "Say it."})
        third = await host.structured("plan_and_execute", {"goal": "Say it."})
        other = await host.structured("plan_and_execute", {"goal": "Say it.", "context": "Loudly."})
    assert (second["run_id"], second["status"]) == (first["run_id"], "succeeded")
    assert len({view["run_id"] for view in (first, third, other)}) == 3


async def test_an_idempotency_key_attaches_for_good_and_belongs_to_one_goal(tmp_path: Path) -> None:
    keyed = {"goal": "Say it.", "idempotency_key": "k1"}
    async with (
        open_test_product(tmp_path, script=SAID, servers={}) as (_, server),
        open_host(server) as host,
    ):
        runs = [(await host.structured("plan_and_execute", keyed))["run_id"] for _ in range(2)]
        refused = await host.call("plan_and_execute", keyed | {"goal": "Something else."})
    assert runs[0] == runs[1]
    assert refused.is_error
    assert f"'k1' belongs to run {runs[0]} with another goal or context; use a new key" in text_of(refused)


async def test_a_run_of_other_settings_is_left_alone_and_names_its_file(tmp_path: Path) -> None:
    keyed = {"goal": "Say it.", "idempotency_key": "k1", "review_plan": True}
    async with open_test_product(tmp_path, script=SAID, servers={}) as (_, server), open_host(server) as host:
        first = await host.structured("plan_and_execute", keyed)
    store = {"store": f"sqlite:///{tmp_path}/store.db"}
    async with (
        open_test_product(tmp_path / "other", script=SAID, servers={}, settings=store) as (_, server),
        open_host(server) as host,
    ):
        second = await host.structured("plan_and_execute", keyed)
        (line,) = (await host.structured("list_runs"))["runs"]
    assert (second["run_id"], second["status"]) == (first["run_id"], "awaiting_approval")
    assert f"it needs {tmp_path}/steprelay.json" in second["message"]
    assert line["needs"] == f"settings: {tmp_path}/steprelay.json"


async def test_without_a_model_no_run_begins_and_those_there_are_can_be_looked_at(tmp_path: Path) -> None:
    async with (
        open_test_product(tmp_path, script=SAID, servers={}, settings={"model": None}) as (_, server),
        open_host(server) as host,
    ):
        refused = await host.call("plan_and_execute", {"goal": "Say it."})
        assert refused.is_error
        assert "model" in text_of(refused)
        assert await host.structured("list_runs") == {"runs": []}


async def test_a_call_may_only_lower_the_budget(tmp_path: Path) -> None:
    async with (
        open_test_product(tmp_path, script=SAID, servers={}, settings={"budget": {"usd": 1.0}}) as (_, server),
        open_host(server) as host,
    ):
        budget = {"usd": 5.0, "tool_calls": 7, "steps": 3}
        view = await host.structured("plan_and_execute", {"goal": "Say it.", "budget": budget})
    assert (view["budget"]["usd"], view["budget"]["tool_calls"], view["budget"]["steps"]) == (1.0, 7, 3)
    assert "budget.usd stays at 1.0: a call may only lower it, not raise it to 5.0" in view["warnings"]


async def test_a_plan_is_shown_first_where_that_is_asked_for(tmp_path: Path) -> None:
    async with (
        open_test_product(tmp_path, script=SAID, servers={}) as (_, server),
        open_host(server) as host,
    ):
        view = await host.structured("plan_and_execute", {"goal": "Say it.", "review_plan": True})
        (action,) = view["actions"]
        assert (action["kind"], action["tool"], action["level"]) == ("plan", None, "host")
        assert [step["id"] for step in action["arguments"]["steps"]] == ["say"]
        yes = {"action_id": action["action_id"], "decision": "approve"}
        bare = await host.structured("approve_action", yes)
        assert bare["status"] == "awaiting_approval"
        assert "`arguments` repeated exactly" in bare["message"]
        done = await host.structured("approve_action", yes | {"arguments": action["arguments"]})
    assert done["status"] == "succeeded"


async def test_get_run_returns_early_only_for_what_matters(tmp_path: Path) -> None:
    log = tmp_path / "ledger.log"
    more = call_step("more", "ledger.meet", "meet", name="second", parties=2, timeout=60)
    async with (
        open_test_product(tmp_path, script=script(MEET, more)) as (product, server),
        open_host(server) as host,
    ):
        view = await host.structured("plan_and_execute", {"goal": "Meet.", "wait_seconds": 0})
        with anyio.fail_after(30):
            await toys.wait_for_calls(log, "meet")
        run_id, got = view["run_id"], anyio.Event()

        async def look() -> None:
            nonlocal view
            view = await host.structured("get_run", {"run_id": run_id, "wait_seconds": 40, "detail": True})
            got.set()

        async with anyio.create_task_group() as group:
            group.start_soon(look)
            for _ in range(20):
                product.store.bell.ring(run_id)  # something happened that nobody asked about
                await product.view(run_id)
            assert not got.is_set()
            toys.open_gate(log, "gate")
            with anyio.fail_after(20):
                await got.wait()
        assert view["step_list"][0]["status"] == "succeeded"
        assert view["stop_reason"] is None
        toys.open_gate(log, "second")
        await _ended(product, run_id)


async def test_progress_is_told_at_each_change_with_numbers_that_grow(tmp_path: Path) -> None:
    numbers: list[float] = []
    lines: list[str] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        numbers.append(progress)
        lines.append(message or "")
        assert total is None

    async with (
        open_test_product(tmp_path, script=SAID, servers={}) as (_, server),
        open_host(server) as host,
    ):
        await host.client.call_tool("plan_and_execute", {"goal": "Say it."}, progress_callback=note)
    assert numbers == sorted(set(numbers))
    assert len(set(lines)) == len(lines)
    assert lines[0].startswith("planning · 0 calls · 0 tok · $0.00")
    assert any(line.startswith("0/1 · Say · 0 calls · ") for line in lines)
    assert lines[-1].startswith("1/1 · 0 calls · ")


async def test_a_host_hears_something_every_ten_seconds(tmp_path: Path) -> None:
    told: list[float] = []

    class Ear:
        async def report_progress(
            self, progress: float, total: float | None = None, message: str | None = None
        ) -> None:
            told.append(progress)

    async with (
        open_test_product(tmp_path, script=SAID, servers={}) as (product, server),
        open_host(server) as host,
    ):
        run_id = (await host.structured("plan_and_execute", {"goal": "Say it."}))["run_id"]
        now = anyio.current_time()
        times = iter([now, now + 3, now + 9.9, now + 10, now + 10.1])
        progress = Progress(product.store, Ear(), run_id, clock=lambda: next(times))
        for _ in range(5):
            await progress.report()
    assert told == [1, 2]


@pytest.mark.parametrize(
    ("name", "wanted", "patience"),
    [
        ("somebody", None, 45),
        ("somebody", 600, 45),
        ("somebody", 3, 3),
        ("claude-code", None, 300),
        ("claude-code", 600, 300),
        ("claude-code", 0, 0),
    ],
)
async def test_a_wait_is_never_longer_than_the_host_is_known_to_bear(
    name: str, wanted: float | None, patience: float
) -> None:
    seen: list[float] = []
    async with open_host(_measuring(seen, lambda host: host.patience(wanted)), name=name) as host:
        await host.client.list_tools()
    assert seen == [patience]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("with_forms", [True, False])
async def test_whether_a_host_shows_forms_is_what_it_declared(era: Era, with_forms: bool) -> None:
    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        raise AssertionError("nobody asked")

    seen: list[bool] = []
    server = _measuring(seen, lambda host: host.shows_forms)
    async with open_host(server, era=era, on_elicit=answer if with_forms else None) as host:
        await host.client.list_tools()
    assert seen == [with_forms]


def _measuring(seen: list[Any], look: Callable[[Client], object]) -> Any:
    """A server that looks at whoever lists its tools."""
    from mcp.server.lowlevel import Server
    from mcp_types import ListToolsResult

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        seen.append(look(Client(context)))
        return ListToolsResult(tools=[])

    return Server("measuring", on_list_tools=list_tools)
