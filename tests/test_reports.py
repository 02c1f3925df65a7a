"""Checking a report by code."""

from typing import Any

import pytest

from executors.contract import Finding
from executors.worker.reports import Expected, check_report

CALLS = ("c_a", "c_b")
OUTPUT = {
    "type": "object",
    "properties": {"count": {"type": "integer", "minimum": 1}},
    "required": ["count"],
}
DONE = {"status": "done", "summary": "Found it.", "findings": [{"claim": "It is there.", "evidence": ["c_a"]}]}


def expected(*, citable: tuple[str, ...] = CALLS, had_tools: bool = True, output: Any = None) -> Expected:
    return Expected(citable, had_tools, output)


def test_a_report_that_cites_a_call_that_gave_something_counts() -> None:
    checked = check_report(DONE, expected())
    assert checked.problems == ()
    assert checked.report.findings == (Finding(claim="It is there.", evidence=("c_a",), supported=True),)


@pytest.mark.parametrize(
    "evidence",
    [["[c_a]"], "c_a", "[c_a], c_zz", ["c_a, c_nowhere"], [" c_a "], [None, "c_a", 3]],
    ids=["brackets", "one text", "text with two", "two in one", "blanks", "nonsense between"],
)
def test_evidence_may_be_written_in_many_ways(evidence: Any) -> None:
    checked = check_report(DONE | {"findings": [{"claim": "x", "evidence": evidence}]}, expected())
    assert checked.report.findings[0].evidence == ("c_a",)
    assert checked.problems == ()


def test_a_finding_that_cites_nothing_valid_is_kept_and_marked() -> None:
    findings = [{"claim": "x", "evidence": ["c_made_up"]}, {"claim": "y", "evidence": ["c_b", "c_made_up"]}, "z"]
    checked = check_report(DONE | {"findings": findings}, expected())
    assert [(each.claim, each.evidence, each.supported) for each in checked.report.findings] == [
        ("x", (), False),
        ("y", ("c_b",), True),
        ("z", (), False),
    ]
    assert checked.problems == ()


def test_all_that_is_wrong_is_told_at_once() -> None:
    submitted = {"status": "finished", "findings": [{"evidence": ["c_a"]}], "data_json": "{"}
    checked = check_report(submitted, expected(output=OUTPUT))
    assert [problem.partition(":")[0] for problem in checked.problems] == ["status", "findings[0].claim", "data_json"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"summary": " "}, "summary: a report that says done needs one"),
        ({"findings": []}, "findings: none of them cites a call of yours that gave something; the calls"),
        ({"findings": [{"claim": "x", "evidence": ["c_gone"]}]}, "findings: none of them cites"),
    ],
    ids=["no summary", "no findings", "cites what does not exist"],
)
def test_done_needs_a_summary_and_something_that_bears_it_out(changes: dict[str, Any], problem: str) -> None:
    checked = check_report(DONE | changes, expected())
    assert len(checked.problems) == 1
    assert checked.problems[0].startswith(problem)


def test_suggestions_are_few_and_short() -> None:
    checked = check_report(DONE | {"suggestions": ["y" * 1_000] * 20}, expected())
    assert [len(each) for each in checked.report.suggestions] == [300] * 10


def test_a_worker_without_tools_needs_no_evidence() -> None:
    assert check_report(DONE | {"findings": []}, expected(citable=(), had_tools=False)).problems == ()


def test_where_no_call_gave_anything_the_problem_says_so() -> None:
    (problem,) = check_report(DONE, expected(citable=())).problems
    assert problem.endswith("no call did")


@pytest.mark.parametrize("status", ["partial", "blocked", "failed"])
def test_other_reports_than_done_need_nothing(status: str) -> None:
    checked = check_report({"status": status.upper()}, expected(output=OUTPUT))
    assert (checked.report.status, checked.problems) == (status, ())


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        ({"data": {"count": 2}}, ()),
        ({"data_json": '{"count": 2}'}, ()),
        ({"data": '{"count": 2}'}, ()),
        ({"data": None}, ("data: the step asks for it and it is missing",)),
        ({"data": {"count": 0}}, ("data.count: 0 is less than the minimum of 1",)),
        ({"data": {}}, ("data: 'count' is a required property",)),
        ({"data": [1]}, ("data: must be a JSON object", "data: the step asks for it and it is missing")),
    ],
    ids=["object", "as text", "as text under its own name", "missing", "wrong value", "missing field", "list"],
)
def test_data_is_held_against_the_steps_output(data: dict[str, Any], problems: tuple[str, ...]) -> None:
    assert check_report(DONE | data, expected(output=OUTPUT)).problems == problems


def test_data_that_does_not_fit_the_output_is_not_handed_on() -> None:
    fitting, other = (check_report(DONE | {"data": {"count": n}}, expected(output=OUTPUT)) for n in (2, "lots"))
    assert (fitting.report.data, other.report.data) == ({"count": 2}, None)
    assert other.problems == ("data.count: 'lots' is not of type 'integer'",)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ({"type": "nonsense"}, "is not a JSON Schema"),
        ({"$ref": "http://127.0.0.1:1/schema.json"}, "cannot be used"),
        ({"properties": {"count": {"pattern": "("}}}, "cannot be used"),
    ],
    ids=["no schema", "elsewhere", "broken pattern"],
)
def test_an_output_schema_that_cannot_be_used_is_a_problem_and_nothing_is_fetched(
    output: dict[str, Any], said: str
) -> None:
    (problem,) = check_report(DONE | {"data": {"count": "x"}}, expected(output=output)).problems
    assert said in problem


@pytest.mark.parametrize(
    ("written", "confidence"),
    [(0.3, 0.3), ("0.4", 0.4), ("80 %", 0.8), ("35%", 0.35), (7, 1.0), (-1, 0.0), ("", 1.0), (None, 1.0)],
    ids=str,
)
def test_confidence_is_read_with_patience(written: Any, confidence: float) -> None:
    assert check_report(DONE | {"confidence": written}, expected()).report.confidence == confidence


@pytest.mark.parametrize(
    "written",
    ["low", "nan", "very low %", [], {"of": 1}, 10**400, -(10**400)],
    ids=["word", "nan", "no number before %", "list", "object", "huge", "huge below"],
)
def test_a_confidence_that_cannot_be_read_is_none_and_loses_nothing_else(written: Any) -> None:
    checked = check_report(DONE | {"confidence": written}, expected())
    assert (checked.report.confidence, checked.problems) == (0.0, ())
    assert checked.report.findings == (Finding(claim="It is there.", evidence=("c_a",), supported=True),)


def test_long_and_odd_fields_are_made_fit() -> None:
    submitted = DONE | {"summary": "x" * 2_000, "suggestions": "look again", "plan_holds": "false", "more": 1}
    report = check_report(submitted, expected()).report
    assert (len(report.summary), report.suggestions, report.plan_holds) == (1_200, ("look again",), False)


ERROR = "Error executing tool fail: the disk is full of water"


@pytest.mark.parametrize(
    ("claim", "gave", "supported"),
    [
        (ERROR, "Ship on Friday.", False),
        ("The disk  is full of WATER", "Ship on Friday.", False),
        (f"It says: {ERROR}", "Ship on Friday.", False),
        ("the disk is full of water", "Note: the disk is full of water.", True),
        ("the disk", "Ship on Friday.", True),
        ("It ships on Friday.", "Ship on Friday.", True),
    ],
    ids=["copied", "in part", "quoted", "a result says so too", "too short to tell", "another claim"],
)
def test_the_text_of_an_error_is_no_finding_whatever_it_cites(claim: str, gave: str, supported: bool) -> None:
    expected = Expected(["c_1"], had_tools=True, errors=(ERROR,), gave={"c_1": gave})
    submitted = {"status": "done", "summary": "x", "findings": [{"claim": claim, "evidence": ["c_1"]}]}
    assert check_report(submitted, expected).report.findings[0].supported is supported
