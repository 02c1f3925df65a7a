"""Attempts: one that failed without effects is made once more."""

from dataclasses import replace
from pathlib import Path

import pytest
from executing import call_step, called, open_bench, prose, report, texts, tool, turns, uses, worker_step

from downstream.door import Called, ToolCall
from downstream.model_port import ModelFailed, ModelReply, ModelRequest
from downstream.tools import Tool
from executors.contract import Finding, Outcome
from executors.step import ComposeStep
from journal.values import Value

SEARCH = ("notes__search", {"query": "budget"})


def failing_first(request: ModelRequest) -> ModelReply:
    """The first attempt finds one thing and is blocked; the second is done."""
    if request.place.attempt == 1:
        return turns(uses(SEARCH), report(("old", ["c_110"]), status="blocked", summary="No access."))(request)
    return turns(uses(SEARCH), report(("new", ["c_210"])))(request)


async def test_a_failed_attempt_without_effects_is_made_again_with_its_error_as_data(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=failing_first, act=called, tools=[tool("notes.search")]) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.attempts, outcome.problem) == ("succeeded", 2, None)
        assert [finding.claim for finding in outcome.findings] == ["new", "old"]
        told = texts(bench.requests[2], "user")
        assert 'failed:\n<data from="attempt">\nthe worker reports that it is blocked\n</data>' in told
        assert [call.origin for call in bench.sent] == ["worker", "retry"]
        assert bench.sent[1].key.endswith("/attempt.2/turn.1/call.0")


async def test_what_a_failed_attempt_found_is_kept_when_the_next_fails_too(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.place.attempt == 2:
            raise ModelFailed("test/model", "script", "it has nothing for this")
        return failing_first(request)

    async with open_bench(tmp_path, say=say, act=called, tools=[tool("notes.search")]) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.attempts) == ("failed", 2)
        assert outcome.findings == (Finding(claim="old", evidence=("c_110",), supported=True),)
        assert [source.call for source in outcome.sources] == ["c_110"]
        assert outcome.problem == (
            "model test/model: it has nothing for this (attempt 1: the worker reports that it is blocked)"
        )


@pytest.mark.parametrize("status", ["done", "blocked"])
async def test_of_equal_claims_of_two_attempts_the_one_that_is_borne_out_is_kept(tmp_path: Path, status: str) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.place.attempt == 1:
            return failing_first(request)
        return turns(uses(SEARCH), report(("new", ["c_210"]), ("old", []), status=status))(request)

    async with open_bench(tmp_path, say=say, act=called, tools=[tool("notes.search")]) as bench:
        outcome = await bench.outcome(worker_step())
        assert outcome.attempts == 2
        assert outcome.findings == (
            Finding(claim="new", evidence=("c_210",), supported=True),
            Finding(claim="old", evidence=("c_110",), supported=True),
        )


async def test_an_attempt_in_which_something_was_changed_is_not_made_again(tmp_path: Path) -> None:
    def act(call: ToolCall) -> Called:
        return called(call, effect=True)

    async with open_bench(tmp_path, say=failing_first, act=act, tools=[tool("notes.search")]) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.attempts, outcome.effects) == ("failed", 1, ("notes.search c_110",))


async def test_an_attempt_whose_changes_may_be_made_again_is_made_again_and_they_are_told(tmp_path: Path) -> None:
    def act(call: ToolCall) -> Called:
        return called(call, changed=True)

    async with open_bench(tmp_path, say=failing_first, act=act, tools=[tool("notes.search")]) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.attempts) == ("succeeded", 2)
        assert outcome.effects == ("notes.search c_110", "notes.search c_210")


async def test_a_worker_that_wrote_what_may_be_written_again_is_not_said_to_have_changed_nothing(
    tmp_path: Path,
) -> None:
    say = turns(uses(SEARCH), report(("x", ["c_110"]), summary="I wrote the file."))
    used = tool("notes.search", "write", idempotent=True)
    async with open_bench(tmp_path, say=say, act=lambda call: called(call, changed=True), tools=[used]) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.summary, outcome.effects) == ("I wrote the file.", ("notes.search c_110",))


async def test_an_attempt_with_a_call_that_nobody_decided_in_time_is_not_made_again(tmp_path: Path) -> None:
    say = turns(uses(SEARCH), report(status="blocked", summary="Nobody decided."))

    def act(call: ToolCall) -> Called:
        return called(call, "no decision in 24 h", ok=False, lapsed=True)

    async with open_bench(tmp_path, say=say, act=act, tools=[tool("notes.search")]) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.attempts, len(bench.sent)) == ("failed", 1, 1)


@pytest.mark.parametrize("status", ["partial", "done"])
async def test_only_failed_attempts_are_made_again(tmp_path: Path, status: str) -> None:
    say = turns(uses(SEARCH), report(("x", ["c_110"]), status=status))
    async with open_bench(tmp_path, say=say, act=called, tools=[tool("notes.search")]) as bench:
        assert (await bench.outcome(worker_step())).attempts == 1


async def test_without_retries_there_is_one_attempt(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=failing_first, act=called, tools=[tool("notes.search")]) as bench:
        bench.retries = 0
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.attempts) == ("failed", 1)


@pytest.mark.parametrize(
    ("used", "attempts"),
    [
        (tool("notes.search", "read"), 2),
        (tool("notes.search", "egress"), 2),
        (tool("notes.search", "write", idempotent=True), 2),
        (tool("notes.search", "write"), 1),
        (tool("notes.search", "unknown"), 1),
        (tool("notes.other", "read"), 1),
    ],
    ids=["read", "egress", "idempotent", "write", "unknown", "gone"],
)
async def test_a_failed_call_step_is_called_again_only_where_that_is_safe(
    tmp_path: Path, used: Tool, attempts: int
) -> None:
    async with open_bench(tmp_path, act=lambda call: called(call, "busy", ok=False), tools=[used]) as bench:
        outcome = await bench.outcome(call_step())
        assert (outcome.status, outcome.attempts, len(bench.sent)) == ("failed", attempts, attempts)
        assert [call.origin for call in bench.sent] == ["plan", "retry"][:attempts]


async def test_a_call_that_was_sent_twice_already_is_not_made_by_another_attempt(tmp_path: Path) -> None:
    used = tool("notes.search", "read")
    async with open_bench(
        tmp_path, act=lambda call: called(call, "gone", ok=False, repeated=True), tools=[used]
    ) as bench:
        outcome = await bench.outcome(call_step())
        assert (outcome.status, outcome.attempts, len(bench.sent)) == ("failed", 1, 1)


async def test_a_call_that_nobody_decided_in_time_is_not_asked_about_by_another_attempt(tmp_path: Path) -> None:
    def act(call: ToolCall) -> Called:
        return called(call, "no decision in 24 h", ok=False, lapsed=True)

    async with open_bench(tmp_path, act=act, tools=[tool("notes.search", "egress")]) as bench:
        outcome = await bench.outcome(call_step())
        assert (outcome.status, outcome.attempts, len(bench.sent)) == ("failed", 1, 1)
        assert outcome.problem == 'notes.search failed: "no decision in 24 h"'


async def test_a_failed_call_that_may_be_made_again_is_told_as_what_it_may_have_changed(tmp_path: Path) -> None:
    used = tool("notes.search", "write", idempotent=True)
    async with open_bench(
        tmp_path, act=lambda call: called(call, "gone", ok=False, changed=True), tools=[used]
    ) as bench:
        outcome = await bench.outcome(call_step())
        assert (outcome.status, outcome.attempts) == ("failed", 2)
        assert outcome.effects == ("notes.search c_10", "notes.search c_20")


async def test_a_compose_step_is_asked_again_where_its_model_wrote_nothing(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        return prose(" " if request.place.attempt == 1 else "Dear all,\nthe budget stands.")

    step = ComposeStep(id="draft", kind="compose", task="Write to all.")
    async with open_bench(tmp_path, say=say) as bench:
        outcome = await bench.outcome(step, {"look": Value({"n": 1}, frozenset({"open:web"}))})
        label = frozenset({"plan", "open:web", "model"})
        assert outcome == Outcome(
            "draft",
            "succeeded",
            summary="Dear all,",
            value=Value("Dear all,\nthe budget stands.", label),
            attempts=2,
        )
        asked = texts(bench.requests[1], "user")
        assert asked.startswith('step: draft\n\nTask: Write to all.\n\n<data from="step look">\n{"n": 1}\n</data>')
        assert asked.endswith('<data from="attempt">\nmodel test/model wrote nothing\n</data>')
        assert not bench.requests[1].functions


@pytest.mark.parametrize(
    ("reply", "status", "problem"),
    [
        (ModelReply("test/model", "Dear", finish="length"), "partial", "the text was cut at 8192 tokens"),
        (ModelReply("test/model", "No.", finish="refusal"), "failed", "model test/model refused to write this"),
    ],
    ids=["cut", "refused"],
)
async def test_a_text_that_is_not_whole_is_said_to_be_so(
    tmp_path: Path, reply: ModelReply, status: str, problem: str
) -> None:
    step = ComposeStep(id="draft", kind="compose", task="Write to all.")
    async with open_bench(tmp_path, say=lambda _: reply) as bench:
        outcome = await bench.outcome(step)
        assert (outcome.status, outcome.problem, outcome.attempts) == (status, problem, 1)


@pytest.mark.parametrize(("kind", "attempts", "asked"), [("timeout", 2, 8), ("auth", 1, 1)])
async def test_a_model_that_fails_in_passing_has_the_step_tried_again(
    tmp_path: Path, kind: str, attempts: int, asked: int
) -> None:
    def say(request: ModelRequest) -> ModelReply:
        raise ModelFailed("test/model", kind, "its server failed")  # type: ignore[arg-type]

    for step in (ComposeStep(id="draft", kind="compose", task="Write."), worker_step()):
        async with open_bench(tmp_path / step.id, say=say) as bench:
            outcome = await bench.outcome(step)
            assert (outcome.status, outcome.attempts, len(bench.requests)) == ("failed", attempts, asked)
            assert outcome.problem is not None
            assert outcome.problem.startswith("model test/model: its server failed")


async def test_a_compose_step_beyond_the_budget_is_not_written(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        bench.limits = replace(bench.limits, tokens=100)
        outcome = await bench.outcome(ComposeStep(id="draft", kind="compose", task="Write."))
        assert (outcome.status, outcome.limit) == ("failed", "tokens")
        types = [event.type for event in await bench.store.events(bench.run_id)]
        assert types == ["run.created", "budget.refused"]


class Interrupted(Exception):
    """The process ends here."""


@pytest.mark.parametrize("at", range(1, 7))
async def test_attempts_that_are_interrupted_at_any_point_are_not_made_twice(tmp_path: Path, at: int) -> None:
    reached: list[str] = []
    ended: list[str] = []

    def pass_by(name: str) -> None:
        reached.append(name)
        if len(reached) == at:
            raise Interrupted
        ended.append(name)

    def say(request: ModelRequest) -> ModelReply:
        pass_by(f"attempt {request.place.attempt} turn {request.place.turn}")
        return failing_first(request)

    def act(call: ToolCall) -> Called:
        pass_by(call.key)
        return called(call)

    async with open_bench(tmp_path, say=say, act=act, tools=[tool("notes.search")]) as bench:
        with pytest.raises((Interrupted, ExceptionGroup)):
            await bench.outcome(worker_step())
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.attempts) == ("succeeded", 2)
        assert len(ended) == len(set(ended)) == 6
