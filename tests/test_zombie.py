"""A process that is stopped, replaced and continued writes nothing any more, and repeats no effect."""

import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from journals import dump, until
from products import call_step, script
from quick_jobs import LOG, made, settings
from stopped_processes import open_adopter, said, stop_again, the_run, until_stopped, zombie

from journal.actions import Decision
from journal.lease import DEAD_SECONDS
from server.product import Product

pytestmark = [pytest.mark.e2e, pytest.mark.untraced]

POST = script(call_step("post", "quick.add", key="posted"))
POINTS = {
    "send.begin": 0,
    "intent.committed": 0,
    "send.opening": 0,
    "send.leave": 0,
    "send.before": 1,
    "send.after": 1,
    "send.answered": 1,
}
"""From before the intent's transaction to before the result's, with how many calls the zombie itself gets out."""
FOUND, READ = {"tool": "quick.read"}, {"": {"equals": "did read"}}
SHORT = ("send.leave", "send.before")


async def decided(product: Product, pid: int, *, happened: bool) -> None:
    """What a person says who looks; `retry` is not carried out while the other process might join in."""
    (action,) = await product.store.waiting_actions()
    assert (action.kind, action.tool, action.level) == ("unknown", "quick.add", "person")
    assert f"process {pid}, which began it, is not dead and may still send it until " in action.reasons[1]
    await product.decide(action, Decision("done" if happened else "retry", "person", "terminal"))


async def waits_for_the_deadline(product: Product, run_id: str) -> None:
    """Until the run is let go of, to be driven again when the call's deadline has passed."""
    (intent,) = await product.store.intents(run_id)

    async def waits() -> bool:
        run = await product.store.run(run_id)
        return run.driver is None and run.wake_at == intent.deadline

    await until(waits)


async def stopped_at(folder: Path, point: str) -> str:
    """One history: stopped at the point, adopted, continued; returns what happened, in one line."""
    async with open_adopter(folder, settings(folder, POST)) as product:
        with zombie(folder, point) as process:
            await until_stopped(process)
            before = len(made(folder, "add"))
            (folder / "ahead").write_text(str(DEAD_SECONDS + 5))
            run = await the_run(product, "awaiting_approval", "succeeded")
            by_adopter = len(made(folder, "add")) - before
            kept, actions = await dump(product.store), await product.store.waiting_actions()
            process.send_signal(signal.SIGCONT)
            assert await said(process) == "run_taken_over"
            if POINTS[point]:
                with anyio.fail_after(20):
                    await toys.wait_for_calls(folder / LOG, "add")
            assert await dump(product.store) == kept
            by_zombie = len(made(folder, "add")) - by_adopter
            assert (run.epoch, by_zombie, by_adopter) == (2, POINTS[point], 0 if actions else 1)
            # It lives, and as any process it could take the run up again: that is the adopter's here.
            await stop_again(process, product.store.database.path)
            if actions:
                await decided(product, process.pid, happened=by_zombie == 1)
                if not by_zombie:
                    await waits_for_the_deadline(product, run.id)
                    assert made(folder, "add") == []
                    (folder / "ahead").write_text("300")
            await the_run(product, "succeeded")
    assert made(folder, "add") == [("add", "posted")]
    asked = "asked as unknown, then " + ("done" if by_zombie else "retry") if actions else "nothing asked"
    return f"{point}: {by_zombie} sent by the zombie, {by_adopter} by its adopter, 0 rows written, {asked}"


@pytest.mark.parametrize(
    ("options", "calls", "said"),
    [
        ({"idempotency_key": "key"}, 2, []),
        pytest.param({"reconcile": FOUND | {"done": READ}}, 1, ["was done, so it counts"], marks=pytest.mark.slow),
        pytest.param({"reconcile": FOUND | {"not_done": READ}}, 2, ["not done, so it is sent"], marks=pytest.mark.slow),
    ],
    ids=["with a key", "found done", "found not done"],
)
async def test_a_killed_process_is_replaced_without_a_question_where_the_settings_help(
    tmp_path: Path, options: Any, calls: int, said: list[str]
) -> None:
    keyed = "idempotency_key" in options
    plan = script(call_step("post", "quick.add", **({} if keyed else {"key": "posted"})))
    path = settings(tmp_path, plan, server_options={"quick": {"tools": {"add": options}}})
    async with open_adopter(tmp_path, path) as product:
        with zombie(tmp_path, "send.answered") as process:
            await until_stopped(process)
            process.kill()
            run = await the_run(product, "succeeded", "awaiting_approval")
    key = f"{run.id}:post:attempt.1/call.0" if keyed else "posted"
    assert (run.status, made(tmp_path, "add")) == ("succeeded", [("add", key)] * calls)
    told = [warning for warning in run.warnings if "gave no answer" in warning]
    assert len(told) == len(said)
    assert all(words in warning for words, warning in zip(said, told, strict=True))


async def test_a_stopped_process_that_was_replaced_sends_nothing_it_has_not_begun_to_send(tmp_path: Path) -> None:
    for point in SHORT:
        sys.stdout.write(f"{await stopped_at(tmp_path / point, point)}\n")


@pytest.mark.slow
async def test_a_stopped_process_that_was_replaced_does_nothing_at_any_point(tmp_path: Path) -> None:
    for point in POINTS:
        sys.stdout.write(f"{await stopped_at(tmp_path / point, point)}\n")
