"""A run says no more than its outcomes bear out: where nothing is required, and where revisions drop what failed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planner_rig import Steps, call, ending, failed, open_rig, succeeded

from executors.contract import Finding, Outcome, Source
from journal.runs import Run
from planner.plan import Plan
from planner.planning import read_steps
from planner.progress import Change, Progress

Json = Any
COMPOSE: Json = {"id": "text", "kind": "compose", "task": "Say hello."}
DOUBTED = replace(succeeded("a"), confidence=0.1)


def worker(id_: str, **fields: Json) -> Json:
    return {"id": id_, "kind": "worker", "worker": "researcher", "task": f"Study {id_}."} | fields


def revise(*add: Json, drop: tuple[str, ...] = ()) -> Json:
    return {"decision": "revise", "drop": list(drop), "add": list(add)}


def read(step: str) -> Outcome:
    """A step that succeeded by a call."""
    return replace(succeeded(step), sources=(Source(step, "notes.read", f"c_{step}"),))


def end(run: Run) -> tuple[str, str | None, str | None]:
    return run.status, run.stop_reason, run.message


OPTIONAL: dict[str, tuple[Outcome, tuple[str, str, str]]] = {
    "failed": (
        failed("a"),
        ("failed", "error", "Every step was optional, and none succeeded. 0 of 2 steps succeeded."),
    ),
    "a finding": (
        Outcome("a", "partial", findings=(Finding(claim="it is red"),)),
        ("partial", "error", "Every step was optional, and none succeeded. 0 of 2 steps succeeded."),
    ),
    "refused": (
        Outcome("a", "refused"),
        ("failed", "error", "Every step was optional, and none succeeded. 0 of 2 steps succeeded."),
    ),
    "one succeeded": (
        read("a"),
        ("succeeded", "done", "Every step that was needed succeeded. 1 of 2 steps succeeded."),
    ),
}


@pytest.mark.parametrize(("outcome", "ended"), OPTIONAL.values(), ids=OPTIONAL.keys())
async def test_a_run_whose_steps_are_all_optional_succeeds_only_if_one_does(
    tmp_path: Path, outcome: Outcome, ended: tuple[str, str, str]
) -> None:
    async with open_rig(tmp_path) as rig:
        rig.revise = "never"
        rig.steps = Steps({"a": ending(outcome), "b": ending(failed("b"))})
        assert end(await rig.run([call("a", optional=True), call("b", optional=True)])) == ended


async def test_a_run_of_optional_steps_whose_revision_is_used_up_made_no_progress(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.budget = rig.budget.model_copy(update={"revisions": 1})
        rig.steps = Steps({"a": ending(failed("a", confidence=0.1)), "b": ending(failed("b"))})
        rig.models.revisions = [revise(call("b", optional=True))]
        run = await rig.run([call("a", optional=True)])
        assert (run.status, run.stop_reason) == ("partial", "no_progress")


async def test_what_finish_leaves_of_a_plan_has_to_have_succeeded(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a", confidence=0.1))})
        rig.models.revisions = [{"decision": "finish", "drop": ["b"]}]
        run = await rig.run([call("a", optional=True), call("b", "a")])
        assert (run.status, run.stop_reason, rig.steps.calls) == ("failed", "error", ["a"])
        assert "Steps that a revision dropped before they ended: b." in str(run.answer)


async def test_a_text_after_look_ups_that_all_failed_does_not_pass_for_a_result(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a", failed_calls=("notes.read c_1",)))})
        run = await rig.run([call("a", optional=True), COMPOSE | {"needs": ["a"]}])
        assert end(run) == ("succeeded", "done", "No call of a tool gave a result. 1 of 2 steps succeeded.")


REPLACED: dict[str, tuple[Json, Json, str]] = {
    "a worker by a text": (worker("a"), COMPOSE, "partial"),
    "a call by a text": (call("a"), COMPOSE, "partial"),
    "a text by a text": (COMPOSE | {"id": "a"}, COMPOSE, "succeeded"),
    "a text by a worker": (COMPOSE | {"id": "a"}, worker("text", worker="writer"), "succeeded"),
    "a worker by a call": (worker("a"), call("text"), "succeeded"),
    "a call by an optional call": (call("a"), call("text", optional=True), "partial"),
}


@pytest.mark.parametrize(("step", "new", "status"), REPLACED.values(), ids=REPLACED.keys())
async def test_a_failed_step_counts_unless_what_replaces_it_could_do_its_work(
    tmp_path: Path, step: Json, new: Json, status: str
) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a")), "text": ending(read("text"))})
        rig.models.answer = "All done."
        rig.models.revisions = [revise(new, drop=("a",))]
        run = await rig.run([step])
        name = "a (worker researcher)" if step["kind"] == "worker" else "a"
        if status == "succeeded":
            assert end(run) == (status, "done", "Every step that was needed succeeded. 1 of 1 step succeeded.")
            assert f"- Steps that did not succeed and that a revision dropped: {name}: failed." in str(run.answer)
        else:
            assert end(run) == (status, "error", "Not every step that was needed succeeded. 1 of 2 steps succeeded.")
            assert f"- Steps that did not succeed: {name}: failed." in str(run.answer)


def progress(*steps: Json) -> Progress:
    return Progress(Plan(read_steps(list(steps))))


def change(drop: str, *add: Json) -> Change:
    return Change("revise", drop=(drop,), add=read_steps(list(add)))


def test_a_replacement_that_is_dropped_before_it_ended_replaced_nothing() -> None:
    now = progress(call("a"), call("z"))
    now.take(failed("a"), limit=None)
    now.apply(change("a", call("b")))
    assert (list(now.counting), now.left_out) == ([], [])
    now.apply(change("b"))
    assert (list(now.counting), [step.id for step in now.left_out]) == (["a"], ["b"])


def test_a_replacement_that_is_replaced_counts_by_the_last_one() -> None:
    now = progress(call("a"), call("z"))
    now.take(failed("a"), limit=None)
    now.apply(change("a", call("b")))
    now.apply(change("b", call("c")))
    assert (list(now.counting), now.left_out) == ([], [])
    now.take(failed("c"), limit=None)
    now.apply(change("c", COMPOSE))
    assert list(now.counting) == ["c"]


async def test_a_failure_whose_replacement_a_later_revision_drops_counts_after_all(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a")), "c": ending(replace(succeeded("c"), plan_holds=False))})
        rig.models.revisions = [revise(call("c"), call("b", "c"), drop=("a",)), {"decision": "finish", "drop": ["b"]}]
        run = await rig.run([call("a")])
        # The other step that came for it is there, and whether that did its work nobody can tell but by its word.
        assert (run.status, run.stop_reason, rig.steps.calls) == ("succeeded", "done", ["a", "c"])
        assert "Steps that did not succeed and that a revision dropped: a: failed." in str(run.answer)
    async with open_rig(tmp_path / "only") as rig:
        rig.steps = Steps({"a": ending(failed("a")), "z": ending(replace(succeeded("z"), plan_holds=False))})
        rig.models.revisions = [revise(call("b", "z"), drop=("a",)), {"decision": "finish", "drop": ["b"]}]
        rig.budget = rig.budget.model_copy(update={"parallel": 1})
        run = await rig.run([call("a"), call("z")])
        assert (run.status, run.stop_reason, rig.steps.calls) == ("partial", "error", ["a", "z"])
        assert "- Steps that did not succeed: a: failed." in str(run.answer)


async def test_required_steps_that_finish_drops_before_they_ran_are_named(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(DOUBTED)})
        rig.models.revisions = [{"decision": "finish", "drop": ["b", "c"]}]
        run = await rig.run([call("a"), worker("b", needs=["a"]), call("c", "b", optional=True)])
        assert run.status == "succeeded"
        assert run.answer == (
            "All is well.\n\n**Please note**\n\n"
            "- Steps that a revision dropped before they ended: b (worker researcher)."
        )


def test_what_a_budget_cut_short_and_a_revision_dropped_still_counts_in_a_reopened_run() -> None:
    now = progress(call("a"), call("z"))
    now.take(failed("a"), limit="usd")
    now.take(failed("z"), limit="usd")
    now.apply(change("a", COMPOSE))
    now.reopen(1)
    assert (list(now.counting), list(now.outcomes)) == (["a"], ["a"])
