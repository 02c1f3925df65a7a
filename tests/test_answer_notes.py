"""What an answer notes besides its text: what was left undone, why the run was cut short, and its model's caveats."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from planner_rig import LIMITS, Steps, call, ending, failed, open_rig

from executors.contract import Finding, Outcome
from planner.reading import read_texts

Json = Any
TIME = "The time of the run was used up (budget.seconds)."
TOKENS = "A limit of the budget was reached (budget.tokens)."


@pytest.mark.parametrize(
    ("raw", "texts"),
    [
        (None, []),
        (5, []),
        (True, []),
        ({"a": "b"}, []),
        (" ", []),
        ("Price open.", ["Price open."]),
        (["one", "", None, 2], ["one", "2"]),
    ],
    ids=repr,
)
def test_texts_are_read_from_whatever_a_model_sends_for_them(raw: Json, texts: list[str]) -> None:
    assert read_texts(raw) == texts


@pytest.mark.parametrize(
    ("caveats", "notes"),
    [
        (5, ""),
        (True, ""),
        ({"a": "b"}, ""),
        ("Price open.", "\n\n**Please note**\n\n- Price open."),
        (["Price open.", " "], "\n\n**Please note**\n\n- Price open."),
    ],
    ids=repr,
)
async def test_caveats_of_any_shape_end_no_run(tmp_path: Path, caveats: Json, notes: str) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.answer = {"answer": "It is 7.", "caveats": caveats}
        run = await rig.run([call("a")])
        assert (run.status, run.answer) == ("succeeded", f"It is 7.{notes}")


@pytest.mark.parametrize("drop", [5, True, {"a": "b"}], ids=repr)
async def test_a_revision_that_drops_no_list_is_given_back(tmp_path: Path, drop: Json) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a"))})
        change: Json = {"decision": "revise", "add": [call("b")]}
        rig.models.revisions = [change | {"drop": drop}, change | {"drop": "a"}]
        run = await rig.run([call("a")])
        assert (run.status, rig.steps.calls) == ("succeeded", ["a", "b"])
        assert "- drop must be a list of ids of steps" in rig.models.texts("revise_plan")[1]


@pytest.mark.parametrize("decision", ["continue", "finish"])
async def test_where_nothing_is_to_be_dropped_its_shape_does_not_matter(tmp_path: Path, decision: str) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a"))})
        rig.models.revisions = [{"decision": decision, "drop": 5}]
        run = await rig.run([call("a"), call("b")])
        assert (run.ended, rig.models.count("revise_plan")) == (True, 1)


async def test_long_caveats_push_nothing_out_of_the_answer_that_code_says(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.answer = {"answer": "It is 7.", "caveats": [f"{number} " + "x" * 395 for number in range(6)]}
        rig.revise = "never"
        rig.steps = Steps({"b": ending(failed("b"))})
        run = await rig.run([call("a"), call("b")])
        assert "- Steps that did not succeed: b: failed.\n- Steps that succeeded: a.\n- 0 xx" in str(run.answer)
        assert str(run.answer).endswith("… (cut)")


async def test_an_answer_says_that_the_time_was_used_up_where_every_step_succeeded(tmp_path: Path) -> None:
    async def too_late(journal: Json, key: str) -> None:
        if key == "revise.1":
            await anyio.sleep_forever()

    async with open_rig(tmp_path) as rig:
        rig.limits = replace(LIMITS, seconds=1.0)
        rig.revise = "always"
        rig.models.before = too_late
        with anyio.fail_after(20):
            run = await rig.run([call("a")])
        assert (run.stop_reason, run.answer) == ("deadline", f"All is well.\n\n**Please note**\n\n- {TIME}")
        assert run.message == f"{TIME} 1 of 1 step succeeded."


@pytest.mark.parametrize("found", [True, False], ids=["by a model", "by code"])
async def test_an_answer_says_that_a_budget_was_reached(tmp_path: Path, found: bool) -> None:
    async with open_rig(tmp_path) as rig:
        findings = (Finding(claim="it is red"),) if found else ()
        rig.steps = Steps({"a": ending(Outcome("a", "partial", findings=findings, limit="tokens", over_budget=True))})
        run = await rig.run([call("a")])
        text = "All is well." if found else "**a** (partly done): no summary"
        assert run.stop_reason == "budget"
        assert f"{text}\n\n**Please note**\n\n- {TOKENS}\n- Steps that did not succeed" in str(run.answer)
