"""A run that cannot be replayed ends with all that it had, whatever had happened in it by then."""

from dataclasses import replace
from pathlib import Path

from journals import change
from planner_rig import Rig, Steps, call, ending, failed, open_rig, succeeded

from executors.contract import Finding
from journal.runs import Run

LOST = "The run cannot be replayed with the present settings and release, so it ended with what it had."


async def go_on(rig: Rig, run: Run, *, changed: str | None = None) -> Run:
    """Reopen the run and drive it, after its record under the key `changed` has come to mean something else."""
    await rig.store.reopen(run, options=run.options | {"reopened": run.options.get("reopened", 0) + 1})
    sql = "UPDATE memo SET hash = 'other' WHERE run = ? AND key = ?"
    assert await change(rig.store, sql, run.id, changed) == (changed is not None)
    return await rig.drive(run.id)


async def test_what_a_revision_dropped_and_added_is_told_as_far_as_it_ended(tmp_path: Path) -> None:
    found = replace(succeeded("c"), findings=(Finding(claim="kept"),))
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"b": ending(failed("b")), "c": ending(found)})
        rig.models.revisions = [{"decision": "revise", "reason": "", "drop": ["b", "d"], "add": [call("c", "a")]}]
        run = await rig.run([call("a"), call("b", "a"), call("d", "b")])
        assert (run.status, await rig.statuses(run.id)) == ("succeeded", {"a": "succeeded", "c": "succeeded"})
        run = await go_on(rig, await go_on(rig, run), changed="trigger.1")
        assert (run.status, run.stop_reason) == ("partial", "error")
        assert run.message == f"{LOST} 2 of 2 steps succeeded."
        assert run.answer == (
            "**a** (done): a done\n\n**b** (failed): b broke\n\n**c** (done): c done\n- kept (not confirmed)"
            "\n\n**Please note**\n\n- Steps that did not succeed and that a revision dropped: b: failed."
        )
        assert rig.steps.calls == ["a", "b", "c"]


async def test_a_run_whose_plan_was_not_shown_yet_has_nothing_to_keep(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        run = await rig.run([call("a")])
        await change(rig.store, "DELETE FROM steps")
        run = await go_on(rig, run, changed="plan")
        assert (run.status, run.stop_reason, run.message) == ("failed", "error", LOST)
        assert run.answer == "Nothing was found: no step gave a result."
