"""A run in which nothing was found or done: code says so, and no model is asked for words."""

from pathlib import Path

import pytest
from planner_rig import Steps, call, ending, failed, open_rig, succeeded

from executors.contract import Finding, Outcome


@pytest.mark.parametrize(
    ("outcome", "asked", "begins"),
    [
        (failed("a"), 0, "**Search** (failed): a broke"),
        (Outcome("a", "partial", summary="I saw it all"), 0, "**Search** (partly done): I saw it all"),
        (failed("a", findings=(Finding(claim="it is red", supported=False),)), 1, "All is well."),
        (failed("a", effects=("outbox.send c_1",)), 1, "All is well."),
        (succeeded("a"), 1, "All is well."),
    ],
    ids=["nothing", "words only", "a finding", "an effect", "a value"],
)
async def test_no_model_writes_the_answer_of_a_run_in_which_nothing_was_found_or_done(
    tmp_path: Path, outcome: Outcome, asked: int, begins: str
) -> None:
    async with open_rig(tmp_path) as rig:
        rig.revise = "never"
        rig.steps = Steps({"a": ending(outcome)})
        run = await rig.run([call("a", title="Search")])
        assert (rig.models.count("submit_answer"), str(run.answer).startswith(begins)) == (asked, True)
