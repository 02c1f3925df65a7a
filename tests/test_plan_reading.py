"""How steps are read that are not written as they should be."""

from typing import Any

import pytest
from plan_bounds import bounds, errors_of, worker
from planner_rig import call

from executors.step import CallStep
from planner.checker import check_plan

Json = Any


def test_empty_and_null_fields_are_absent_and_open_objects_may_come_as_text() -> None:
    written = worker(
        tools=[], output_json='{"type": "object"}', output=None, title=None, needs=None, arguments_json="", junk=1
    )
    plan = check_plan(
        {"steps": [written, call("a", "w", needs="w", arguments=None, arguments_json='{"query": "x"}')]}, bounds()
    )
    assert plan.to_json() == [
        {"id": "w", "kind": "worker", "worker": "researcher", "task": "find it", "output": {"type": "object"}},
        {"id": "a", "kind": "call", "tool": "notes.search", "arguments": {"query": "x"}, "needs": ["w"]},
    ]


def test_needs_that_name_a_tool_or_a_worker_and_no_step_are_dropped() -> None:
    step = call("a", "notes.search", "w", "notes__read", "researcher")
    assert check_plan({"steps": [step, worker()]}, bounds()).by_id["a"].needs == ("w",)
    assert errors_of(call("a", needs=["notes.search", 7])) == ["step 'a': needs.0: input should be a valid string"]


def test_a_need_that_names_a_part_of_a_result_is_the_step_that_gives_it() -> None:
    step = call("a", "notes.search", "w.output", "w.findings[0]", "w")
    assert check_plan({"steps": [step, worker()]}, bounds()).by_id["a"].needs == ("w",)
    wrong = [{"$step": "w"}, ["w"]]
    assert [error for each in wrong for error in errors_of(call("a", needs=[each]))] == [
        "step 'a': needs.0: input should be a valid string",
        "step 'a': needs.0: input should be a valid string",
    ]


def test_an_output_that_is_no_schema_is_left_out_and_one_that_lists_fields_is_taken_for_them() -> None:
    found = check_plan({"steps": [worker(output={"date": "2023-09-15"}), worker("v", output={})]}, bounds())
    assert ["output" in step for step in found.to_json()] == [False, False]
    fields = {"date": {"type": "string"}}
    [step] = check_plan({"steps": [worker(output=fields)]}, bounds()).to_json()
    assert step["output"] == {"type": "object", "properties": fields}


def test_a_need_that_may_be_a_step_is_never_dropped() -> None:
    step = worker("researcher")
    assert check_plan({"steps": [call("a", "researcher"), step]}, bounds()).by_id["a"].needs == ("researcher",)
    assert errors_of(call("a", "writer"), used=frozenset({"writer"})) == [
        "step 'a' needs 'writer', which is no step of the plan; it has: a"
    ]
    kept = (CallStep(id="writer", kind="call", tool="notes.search"),)
    assert check_plan({"steps": [call("a", "writer")]}, bounds(kept=kept)).by_id["a"].needs == ("writer",)
    assert errors_of(call("a", "notes.serch")) == [
        "step 'a' needs 'notes.serch', which is no step of the plan; it has: a"
    ]


@pytest.mark.parametrize("tool", [None, ""], ids=["null", "empty"])
def test_a_call_takes_the_one_entry_of_its_tools_where_it_names_no_tool(tool: Json) -> None:
    plan = check_plan({"steps": [call("a", tool=tool, tools=["notes__search"])]}, bounds())
    assert plan.to_json() == [{"id": "a", "kind": "call", "tool": "notes.search", "arguments": {"query": "a"}}]
    two = call("a", tool=tool, tools=["notes.search", "notes.read"])
    assert errors_of(two) == ["step 'a': a call step needs 'tool'"]


def test_a_worker_step_takes_its_tool_for_its_list_where_it_has_none() -> None:
    def tools_of(**fields: Json) -> Json:
        [step] = check_plan({"steps": [worker(**fields)]}, bounds()).steps
        return step.model_dump()["tools"]

    assert tools_of(tool="notes/search") == ("notes.search",)
    assert tools_of(tool="notes.search", tools=["notes.read"]) == ("notes.read",)
    assert tools_of(tool="none") is None
    assert tools_of(tool=7) is None
