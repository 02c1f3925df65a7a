"""A step whose report is reviewed."""

from dataclasses import replace
from pathlib import Path

import pytest
from executing import Say, called, limited, open_bench, prose, report, texts, tool, turns, uses, worker, worker_step

from downstream.door import ToolCall, ToolEnd, Waiting
from downstream.model_port import ModelFailed, ModelReply, ModelRequest
from executors.contract import Finding
from executors.settings import REVIEWER
from journal.values import Json

SEARCH = ("notes__search", {"query": "budget"})
READ = ("notes__read", {"path": "a.md"})
TOOLS = [tool("notes.search"), tool("notes.read"), tool("web.fetch", "egress"), tool("notes.write", "write")]
STEP = worker_step(review=True, tools=["notes.search"])
WORKERS = [worker(), REVIEWER]


def review(accepted: Json, *problems: str) -> ModelReply:
    return uses(("submit_review", {"accepted": accepted, "problems": list(problems)}))


def reviewed_by(*replies: ModelReply) -> Say:
    """A worker that reports in its second turn, and a reviewer that says these by turn."""

    def say(request: ModelRequest) -> ModelReply:
        if request.role == "reviewer":
            return turns(*replies)(request)
        first = f"c_{request.place.attempt}10"
        done = report(("There is one.", [first]), ("Another.", []), summary="Trust me.", data_json='{"n": 1}')
        return turns(uses(SEARCH), done)(request)

    return say


async def test_an_accepted_report_stands(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=reviewed_by(review(True)), act=called, tools=TOOLS, workers=WORKERS) as bench:
        outcome = await bench.outcome(STEP)
        assert (outcome.status, outcome.attempts, outcome.findings[0].supported) == ("succeeded", 1, True)


async def test_the_reviewer_sees_claims_and_evidence_and_not_the_workers_prose(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=reviewed_by(review(True)), act=called, tools=TOOLS, workers=WORKERS) as bench:
        await bench.outcome(STEP)
        asked = bench.requests[2]
        user = texts(asked, "user")
        assert user.startswith("step: study\n\nThe claims answer this task: Study the budget.")
        assert "1. There is one.\n   evidence: c_110\n2. Another.\n   evidence: none" in user
        assert '[c_110]\n<data from="notes.search">\nfound\n</data>' in user
        assert '{"n": 1}' in user
        assert "Trust me." not in texts(asked)
        assert asked.place.number == 1


async def test_the_reviewer_has_only_read_tools_and_no_cached_results(tmp_path: Path) -> None:
    say = reviewed_by(uses(READ, ("notes__write", {})), review(True))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=WORKERS) as bench:
        await bench.outcome(STEP)
        offered = [function.name for function in bench.requests[2].functions]
        assert offered == ["notes__read", "notes__search", "read_artifact", "submit_review"]
        sent = bench.sent[1]
        assert (len(bench.sent), sent.tool, sent.fresh) == (2, "notes.read", True)
        assert sent.allowed == {"notes.read", "notes.search"}
        assert sent.key.endswith("/attempt.1/review/turn.1/call.0")
        assert sent.read == {"plan", "private:notes", "model"}


async def test_without_a_reviewer_in_the_settings_the_built_in_one_is_used(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=reviewed_by(review("true")), act=called, tools=TOOLS) as bench:
        assert (await bench.outcome(STEP)).status == "succeeded"
        assert "You check claims against evidence." in texts(bench.requests[2], "system")


async def test_a_verdict_written_as_bare_json_counts(tmp_path: Path) -> None:
    say = reviewed_by(prose('I looked it up. {"accepted": true, "problems": []}'))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=WORKERS) as bench:
        assert ((await bench.outcome(STEP)).status, len(bench.requests)) == ("succeeded", 3)


async def test_a_rejected_report_is_a_failed_attempt_and_made_again(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        verdict = review(False, "It is not there.") if request.place.number == 1 else review(True)
        return reviewed_by(verdict)(request)

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=WORKERS) as bench:
        outcome = await bench.outcome(STEP)
        assert (outcome.status, outcome.attempts) == ("succeeded", 2)
        assert 'the reviewer rejected the report: "It is not there."' in texts(bench.requests[3], "user")


async def test_claims_that_stay_rejected_are_kept_as_not_supported(tmp_path: Path) -> None:
    say = reviewed_by(review(False))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=WORKERS) as bench:
        outcome = await bench.outcome(STEP)
        assert (outcome.status, outcome.attempts, outcome.value) == ("failed", 2, None)
        assert [(each.claim, each.supported) for each in outcome.findings] == [
            ("There is one.", False),
            ("Another.", False),
        ]


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        ([prose("Looks good to me.")], "model test/model never called a tool and never reported"),
        ([review("perhaps")], "no verdict was handed in"),
    ],
    ids=["prose", "no verdict"],
)
async def test_a_report_that_could_not_be_reviewed_is_partial(
    tmp_path: Path, replies: list[ModelReply], why: str
) -> None:
    async with open_bench(tmp_path, say=reviewed_by(*replies), act=called, tools=TOOLS, workers=WORKERS) as bench:
        outcome = await bench.outcome(STEP)
        assert (outcome.status, outcome.attempts, len(outcome.findings)) == ("partial", 1, 2)
        assert outcome.problem == f"the report was not reviewed: {why}"


async def test_a_reviewer_whose_model_fails_leaves_the_report_unreviewed(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.role == "reviewer":
            raise ModelFailed("test/model", "auth", "its server does not accept the key")
        return reviewed_by()(request)

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=WORKERS) as bench:
        outcome = await bench.outcome(STEP)
        assert outcome.problem == "the report was not reviewed: model test/model: its server does not accept the key"


async def test_a_verdict_that_is_unclear_is_asked_for_once_more(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        return reviewed_by(review("yes") if request.place.repair else review("perhaps"))(request)

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=WORKERS) as bench:
        assert (await bench.outcome(STEP)).status == "succeeded"


@pytest.mark.parametrize(
    ("again", "status"),
    [
        (review(True), "succeeded"),
        (review(False, "It is not there."), "failed"),
        (review(True, "It is not there."), "failed"),
        (prose("Well."), "failed"),
    ],
    ids=["accepted", "rejected", "the same again", "nothing"],
)
async def test_an_acceptance_with_problems_is_said_again_and_else_the_problems_count(
    tmp_path: Path, again: ModelReply, status: str
) -> None:
    def say(request: ModelRequest) -> ModelReply:
        return reviewed_by(again if request.place.repair else review(True, "It is not there."))(request)

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=WORKERS) as bench:
        outcome = await bench.outcome(STEP)
        assert outcome.status == status
        assert ('the reviewer rejected the report: "It is not there."' in str(outcome.problem)) == (status == "failed")
        assert "accepted: is true, and yet problems are listed" in texts(bench.requests[3])


@pytest.mark.parametrize("problems", [["None."], [""], "no problems", None, [None]], ids=str)
async def test_a_word_for_no_problem_is_none(tmp_path: Path, problems: Json) -> None:
    say = reviewed_by(uses(("submit_review", {"accepted": True, "problems": problems})))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=WORKERS) as bench:
        assert ((await bench.outcome(STEP)).status, len(bench.requests)) == ("succeeded", 3)


async def test_a_call_of_the_reviewer_that_waits_has_the_step_wait(tmp_path: Path) -> None:
    ends: list[ToolEnd] = [Waiting("a_1", None)]

    def act(call: ToolCall) -> ToolEnd:
        return ends.pop() if call.tool == "notes.read" and ends else called(call)

    async with open_bench(tmp_path, say=reviewed_by(uses(READ), review(True)), act=act, tools=TOOLS) as bench:
        assert await bench.carry_out(STEP) == Waiting("a_1", None)
        assert (await bench.outcome(STEP)).status == "succeeded"
        assert len(bench.requests) == 4


async def test_where_no_data_is_handed_on_the_reviewer_sees_claims_only(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.role == "reviewer":
            return review(True)
        return turns(uses(SEARCH), report(("There is one.", ["c_110"])))(request)

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=WORKERS) as bench:
        assert (await bench.outcome(STEP)).status == "succeeded"
        assert "Data that is handed on" not in texts(bench.requests[2])


async def test_a_verdict_that_the_budget_does_not_let_be_asked_for_again_is_asked_for_once_it_does(
    tmp_path: Path,
) -> None:
    def say(request: ModelRequest) -> ModelReply:
        return reviewed_by(review(True) if request.place.repair else review("perhaps"))(request)

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=WORKERS) as bench:
        bench.limits = replace(bench.limits, model_calls=4)
        outcome = await bench.outcome(STEP)
        assert (outcome.status, outcome.limit) == ("partial", "model_calls")
        assert outcome.problem == "the report was not reviewed: stopped at its limit: model_calls"
        bench.limits = replace(bench.limits, model_calls=80)
        assert (await bench.outcome(STEP)).status == "succeeded"
        assert len(bench.requests) == 4


@pytest.mark.parametrize(
    ("end", "status", "began"),
    [
        (report(("x", ["c_110"]), status="blocked"), "failed", "the worker reports that it is blocked"),
        (uses(SEARCH), "partial", "stopped at its limit: turns"),
    ],
    ids=["says that it failed", "at a limit"],
)
async def test_findings_that_were_to_be_reviewed_and_were_not_are_not_supported_and_said_to_be_so(
    tmp_path: Path, end: ModelReply, status: str, began: str
) -> None:
    def say(request: ModelRequest) -> ModelReply:
        return report(("x", ["c_110"])) if request.force else turns(uses(SEARCH), end)(request)

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=[limited(turns=2)]) as bench:
        bench.retries = 0
        outcome = await bench.outcome(STEP)
        assert outcome.findings == (Finding(claim="x", evidence=("c_110",), supported=False),)
        assert outcome.value is not None
        assert outcome.value.data["findings"] == [{"claim": "x", "evidence": ["c_110"], "supported": False}]
        assert (outcome.status, outcome.problem) == (status, f"{began}; its findings were not reviewed")
        assert {request.role for request in bench.requests} == {"worker"}


async def test_claims_that_a_reviewer_rejected_are_gone_once_another_attempt_is_accepted(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.role == "reviewer":
            return review(request.place.number == 2)
        number = request.place.attempt
        return turns(uses(SEARCH), report((f"Claim {number}.", [f"c_{number}10"])))(request)

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=WORKERS) as bench:
        outcome = await bench.outcome(STEP)
        assert (outcome.status, [each.claim for each in outcome.findings]) == ("succeeded", ["Claim 2."])


async def test_a_rejected_attempt_is_not_made_again_where_that_would_ask_again_what_nobody_decided(
    tmp_path: Path,
) -> None:
    def act(call: ToolCall) -> ToolEnd:
        made = called(call)
        return made if call.tool == "notes.search" else replace(made, ok=False, text="no decision in 24 h", lapsed=True)

    def say(request: ModelRequest) -> ModelReply:
        if request.role == "reviewer":
            return review(False)
        return turns(uses(SEARCH, READ), report(("There is one.", ["c_110"])))(request)

    async with open_bench(tmp_path, say=say, act=act, tools=TOOLS, workers=WORKERS) as bench:
        outcome = await bench.outcome(worker_step(review=True))
        assert (outcome.status, outcome.attempts) == ("failed", 1)


@pytest.mark.parametrize("status", ["blocked", "failed"])
async def test_a_report_of_failure_is_not_reviewed(tmp_path: Path, status: str) -> None:
    say = turns(report(status=status))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=WORKERS) as bench:
        bench.retries = 0
        assert (await bench.outcome(STEP)).status == "failed"
        assert {request.role for request in bench.requests} == {"worker"}
