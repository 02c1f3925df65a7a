"""Workers that misbehave: their step says what became of it, and no finding of any step is lost."""

from pathlib import Path
from typing import Any

import anyio
import model_server as m
import pytest
import toys
from bad_input import ANSWER, FOUND, LOOK, READ, STUDY, Asked, check_kept, check_words, kinds, open_asked_product

# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore")]

Json = Any

CLAIM = "It ships on Friday."
WORKERS = {"workers": [{"name": "researcher", "limits": {"turns": 8}, "tools": ["ledger.*"]}]}
REPORT = m.report(CLAIM, {CLAIM: [0]})
ECHOES = [[m.call("ledger.echo", text=str(number))] for number in range(20)]
DROP = m.call("ledger.drop_item", key="plan")


def broken(arguments: Json) -> m.Reply:
    return {"tool_calls": [{"name": "submit_report", "arguments": arguments}]}


async def run_with(folder: Path, rules: list[m.Rule]) -> tuple[Json, Asked]:
    """A run of a look-up and a worker step in which the worker's model says this."""
    rest = m.planner([LOOK, STUDY]) + m.reviser([{"decision": "continue"}]) + m.answer(ANSWER)
    with anyio.fail_after(60):
        async with open_asked_product(folder, rules + rest, settings=WORKERS) as asked:
            view = await asked.run()
    assert kinds(view)["look"] == "succeeded"
    assert FOUND in view["step_list"][0]["summary"]
    assert asked.model.unmatched == []
    await check_kept(folder, view, "look")
    return view, asked


FAILING: dict[str, tuple[list[m.Rule], str, tuple[str, ...]]] = {
    "writes only prose": (
        m.worker("study", ["I think it ships soon."]),
        "failed",
        ("model openai/scripted never called a tool and never reported",),
    ),
    "calls without end": (
        m.worker("study", ECHOES),
        "partial",
        ("stopped at its limit: turns; the worker handed in no report; 8 of 8 calls gave a result",),
    ),
    "loops on one call": (
        m.worker("study", [[READ]]),
        "partial",
        ("stopped at its limit: repeated call; the worker handed in no report; 3 of 3 calls gave a result",),
    ),
    "always calls a tool outside its list": (
        m.worker("study", [[DROP]]),
        "partial",
        ("stopped at its limit: repeated call; the worker handed in no report; 0 of 0 calls gave a result",),
    ),
    "reports what is no JSON": (
        m.worker("study", [broken("{{{")]),
        "failed",
        ("the report is not complete", "status: must be one of done, partial, blocked, failed"),
    ),
    "reports an empty object": (
        m.worker("study", [broken({})]),
        "failed",
        ("the report is not complete", "status: must be one of done, partial, blocked, failed"),
    ),
    "is done without a summary": (
        m.worker("study", [[READ]], REPORT | {"summary": ""}),
        "partial",
        ("the report is not complete: summary: a report that says done needs one; 1 of 1 calls gave a result",),
    ),
}


@pytest.mark.parametrize(("rules", "status", "told"), FAILING.values(), ids=FAILING.keys())
async def test_a_worker_that_reports_nothing_usable_costs_its_step_and_no_other(
    tmp_path: Path, rules: list[m.Rule], status: str, told: tuple[str, ...]
) -> None:
    view, asked = await run_with(tmp_path, rules)
    assert (view["status"], view["stop_reason"], kinds(view)["study"]) == ("partial", "error", status)
    check_words(view["step_list"][1]["summary"], *told)
    assert view["answer"].startswith(ANSWER)
    assert f"study (worker researcher): {status}" in view["answer"]
    assert len(asked.asked("worker")) <= 10
    assert toys.calls(asked.log, "drop_item") == []


@pytest.mark.parametrize("evidence", [["c_nowhere"], [], ["c_nowhere", "look"]], ids=["invented", "none", "a step"])
async def test_a_finding_that_cites_no_call_is_kept_and_marked_unsupported(tmp_path: Path, evidence: list[str]) -> None:
    view, asked = await run_with(tmp_path, m.worker("study", [[READ]], m.report(CLAIM, {CLAIM: evidence})))
    assert (view["status"], view["stop_reason"], kinds(view)["study"]) == ("partial", "error", "partial")
    told = asked.asked("worker")[-1].last("user")
    check_words(told, "none of them cites a call of yours that gave something", "c_")
    facts = asked.asked("answer")[0].text("user")
    assert f'"findings": [{{"claim": "{CLAIM}", "supported": false}}]' in facts


async def test_one_good_citation_beside_an_invented_one_is_enough_and_only_it_counts(tmp_path: Path) -> None:
    rules = m.worker("study", [[READ]], m.report(CLAIM, {CLAIM: [0, "c_nowhere"]}))
    view, asked = await run_with(tmp_path, rules)
    assert (view["status"], view["answer"]) == ("succeeded", ANSWER)
    (cited,) = [source["call"] for source in view["sources"] if source["step"] == "study"]
    assert cited in asked.asked("worker")[-1].text("tool")
    assert "c_nowhere" not in str(view)


async def test_a_worker_that_asks_for_a_tool_outside_its_list_is_told_so_and_can_still_report(tmp_path: Path) -> None:
    view, asked = await run_with(tmp_path, m.worker("study", [[DROP], [READ]], REPORT))
    assert (view["status"], kinds(view)["study"], view["answer"]) == ("succeeded", "succeeded", ANSWER)
    told = asked.asked("worker")[1].last("tool")
    check_words(
        told, "this step has no tool 'ledger__drop_item'", "it has ledger__echo, ledger__fail, ledger__read_item"
    )
    assert toys.calls(asked.log, "drop_item") == []


async def test_a_worker_that_loops_and_then_reports_keeps_its_findings(tmp_path: Path) -> None:
    view, asked = await run_with(tmp_path, m.worker("study", [[READ]] * 6, REPORT))
    assert (view["status"], kinds(view)["study"]) == ("partial", "partial")
    assert f'"findings": [{{"claim": "{CLAIM}", "supported": true}}]' in asked.asked("answer")[0].text("user")
    assert len(toys.calls(asked.log, "read_item")) <= 3
    check_words(asked.asked("worker")[-1].last("user"), "You have reached a limit (repeated call)")


async def test_what_a_failing_tool_said_reaches_no_reviser(tmp_path: Path) -> None:
    fail = m.call("ledger.fail", text="marker-of-a-tool")
    view, asked = await run_with(tmp_path, m.worker("study", [[fail]]))
    assert kinds(view)["study"] == "partial"
    assert [call["tool"] for call in toys.calls(asked.log)][-1] == "fail"
    assert ("worker", "study") in m.markers_in(asked.model.requests, "marker-of-a-tool")
    assert "reviser" not in {role for role, _ in m.markers_in(asked.model.requests, "marker-of-a-tool")}
