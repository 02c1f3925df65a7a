"""What becomes of a worker's report that has to be handed in once more: the better one counts, and nothing is lost."""

from pathlib import Path

import pytest
from executing import Say, called, open_bench, report, tool, turns, uses, worker_step

from downstream.model_port import ModelReply, ModelRequest
from executors.contract import Finding
from journal.values import Json, JsonObject

SEARCH = ("notes__search", {"query": "budget"})
TOOLS = [tool("notes.search")]
FIRST = "c_110"
SUPPORTED = Finding(claim="It is 400.", evidence=(FIRST,), supported=True)


def handed_in(report: JsonObject) -> ModelReply:
    return uses(("submit_report", report))


def said_twice(first: ModelReply, second: ModelReply) -> Say:
    """A worker that searches, reports, and says this where its report is given back."""

    def say(request: ModelRequest) -> ModelReply:
        return second if request.place.repair else turns(uses(SEARCH), first)(request)

    return say


async def test_findings_that_a_second_report_leaves_out_are_kept_as_not_supported(tmp_path: Path) -> None:
    first = report(("It is 400.", []), ("It was 300.", ["c_nowhere"]))
    say = said_twice(first, handed_in({"status": "failed", "findings": []}))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        bench.retries = 0
        outcome = await bench.outcome(worker_step())
        assert outcome.status == "failed"
        assert outcome.findings == (Finding(claim="It is 400."), Finding(claim="It was 300."))


async def test_a_second_report_that_does_cite_what_the_first_claimed_counts_once(tmp_path: Path) -> None:
    say = said_twice(report(("It is 400.", []), ("It was 300.", [])), report(("It is 400.", [FIRST])))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.findings) == ("succeeded", (SUPPORTED, Finding(claim="It was 300.")))


@pytest.mark.parametrize(
    "second",
    [uses(("submit_report", "{}")), uses(("submit_report", "{{{")), handed_in({"status": "done"})],
    ids=["empty", "no JSON", "worse than the first"],
)
async def test_a_second_report_that_is_worse_leaves_the_first_as_it_was(tmp_path: Path, second: ModelReply) -> None:
    first = report(data={"total": 400}, plan_holds=False, summary="The total is 400.")
    async with open_bench(tmp_path, say=said_twice(first, second), act=called, tools=TOOLS) as bench:
        bench.retries = 0
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.plan_holds) == ("failed", False)
        assert outcome.summary.endswith("it reported: The total is 400.")
        assert outcome.problem is not None
        assert outcome.problem.startswith("the report is not complete: findings: none of them cites")


@pytest.mark.parametrize("first", ["{{{", "{}"], ids=["no JSON", "empty"])
async def test_a_first_report_that_could_not_be_read_gives_way_to_any_that_can(tmp_path: Path, first: str) -> None:
    second = handed_in({"status": "done", "plan_holds": False})
    async with open_bench(
        tmp_path, say=said_twice(uses(("submit_report", first)), second), act=called, tools=TOOLS
    ) as bench:
        bench.retries = 0
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.plan_holds) == ("failed", False)
        assert outcome.problem is not None
        assert outcome.problem.startswith("the report is not complete: summary: a report that says done needs one")


AMOUNT: Json = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}


@pytest.mark.parametrize(
    ("data", "status", "value"),
    [
        ({"amount": 4}, "succeeded", {"amount": 4}),
        ({"amount": "lots"}, "partial", {"summary": "All is well.", "findings": [SUPPORTED.model_dump(mode="json")]}),
    ],
    ids=["fits", "does not fit"],
)
async def test_steps_that_follow_get_only_data_that_fits(
    tmp_path: Path, data: JsonObject, status: str, value: Json
) -> None:
    say = turns(uses(SEARCH), report(("It is 400.", [FIRST]), data=data))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        outcome = await bench.outcome(worker_step(output=AMOUNT))
        assert outcome.value is not None
        assert (outcome.status, outcome.value.data) == (status, value)
