"""A call step: references, one call, and what code makes of it."""

from dataclasses import replace
from pathlib import Path

import pytest
from executing import LIMITS, call_step, called, open_bench, tool

from downstream.door import Called, Refused, ToolCall, ToolEnd, Waiting
from executors.contract import Assignment, Outcome, Source
from journal.artifacts import NewArtifact
from journal.errors import BudgetReached
from journal.values import Value

PLAN = frozenset({"plan"})
NOTES = frozenset({"private:notes"})


async def test_a_call_gives_its_value_a_summary_and_its_source(tmp_path: Path) -> None:
    async with open_bench(
        tmp_path, act=lambda call: called(call, "\nTwo notes.\nmore"), tools=[tool("notes.search")]
    ) as bench:
        outcome = await bench.outcome(call_step())
        assert outcome == Outcome(
            "look",
            "succeeded",
            summary='notes.search answered "Two notes."',
            value=Value("\nTwo notes.\nmore", NOTES),
            sources=(Source("look", "notes.search", "c_10"),),
        )
        (sent,) = bench.sent
        assert sent.key.endswith("/attempt.1/call.0")
        assert sent.allowed == {"notes.search"}
        assert (sent.origin, sent.read) == ("plan", PLAN)


async def test_the_words_of_a_revision_are_a_models(tmp_path: Path) -> None:
    async with open_bench(tmp_path, act=called, tools=[tool("notes.search")]) as bench:
        assignment = Assignment(call_step(), {"first": Value("x", NOTES)}, "revision", NOTES | {"model"})
        await bench.execute(await bench.drive(), assignment)
        (sent,) = bench.sent
        assert (sent.origin, sent.arguments.label, sent.read) == ("revision", NOTES | {"model"}, NOTES | {"model"})


async def test_a_tool_that_nobody_knows_is_still_left_to_the_gate(tmp_path: Path) -> None:
    async with open_bench(
        tmp_path, act=lambda call: Refused(call.tool, "no such tool", by="gate", correctable=True)
    ) as bench:
        outcome = await bench.outcome(call_step(tool="nothing"))
        assert outcome.problem == "nothing was not called: no such tool"


async def test_arguments_are_resolved_with_the_values_of_other_steps(tmp_path: Path) -> None:
    step = call_step(arguments={"query": {"$step": "first.hits[0]"}}, needs=("first",))
    inputs = {"first": Value({"hits": ["a"]}, frozenset({"open:web"}))}
    async with open_bench(tmp_path, act=called, tools=[tool("notes.search")]) as bench:
        await bench.outcome(step, inputs)
        (sent,) = bench.sent
        assert sent.arguments.data == {"query": "a"}
        assert sent.arguments.parts == {"/query": frozenset({"open:web"})}


async def test_a_missing_path_fails_the_step_and_nothing_is_called(tmp_path: Path) -> None:
    step = call_step(arguments={"query": {"$step": "first.hits[3]"}}, needs=("first",))
    async with open_bench(tmp_path, tools=[tool("notes.search")]) as bench:
        outcome = await bench.outcome(step, {"first": Value({"hits": ["a"]}, NOTES)})
    assert (outcome.status, outcome.attempts) == ("failed", 1)
    assert outcome.problem == "first.hits[3] does not exist: first.hits is a list of 1"


async def test_an_artifact_of_a_needed_step_is_passed_and_one_of_another_step_is_not(tmp_path: Path) -> None:
    async with open_bench(tmp_path, act=called, tools=[tool("notes.search")]) as bench:
        new = NewArtifact("first", "c_0", "application/json", b'{"rows": [1, 2]}', NOTES)
        kept = await bench.store.artifacts.add(bench.run_id, new)
        step = call_step(arguments={"query": {"$artifact": kept.id, "path": "rows[1]"}})
        outcome = await bench.outcome(step, {"first": Value("x", NOTES)})
        assert (outcome.status, bench.sent[0].arguments.data) == ("succeeded", {"query": 2})
        other = call_step(id="other", arguments=step.arguments)
        refused = await bench.outcome(other, {"second": Value("x", NOTES)})
        assert refused.problem == f"artifact {kept.id} is not among this step's inputs and calls; there are none"


@pytest.mark.parametrize(
    ("content", "path", "problem"),
    [
        (b"plain", "rows", "is application/json, not JSON"),
        (b"null", None, None),
        (b"[[1], [2]]", "$[1][0]", None),
        (None, None, "was changed on disk"),
    ],
    ids=["no JSON", "null", "path from the root", "changed"],
)
async def test_an_artifact_that_cannot_be_read_fails_the_step(
    tmp_path: Path, content: bytes | None, path: str | None, problem: str | None
) -> None:
    async with open_bench(tmp_path, act=called, tools=[tool("notes.search")]) as bench:
        new = NewArtifact("look", "c_0", "application/json", content or b"{}", NOTES)
        kept = await bench.store.artifacts.add(bench.run_id, new)
        if content is None:
            (tmp_path / "artifacts" / bench.run_id / kept.id).write_bytes(b"{ }")
        reference = {"$artifact": kept.id} | ({"path": path} if path else {})
        outcome = await bench.outcome(call_step(arguments={"query": reference}))
        assert (outcome.status == "failed") is (problem is not None)
        assert (problem or "") in (outcome.problem or "")


async def test_an_error_of_the_tool_is_quoted_and_never_a_value(tmp_path: Path) -> None:
    def act(call: ToolCall) -> Called:
        return called(call, 'no such "note"\n' + "x" * 500, ok=False)

    async with open_bench(tmp_path, act=act, tools=[tool("notes.write", "write")]) as bench:
        outcome = await bench.outcome(call_step(tool="notes__write"))
    assert (outcome.status, outcome.value, outcome.failed_calls) == ("failed", None, ("notes.write c_10",))
    assert outcome.problem is not None
    assert outcome.problem.startswith(r'notes.write failed: "no such \"note\"\nxxx')
    assert len(outcome.problem) < 260


@pytest.mark.parametrize(
    ("end", "status", "problem"),
    [
        (
            Refused("notes.search", "a person said no", by="person"),
            "refused",
            "notes.search was refused: a person said no",
        ),
        (
            Refused("notes.search", "it has no x", by="gate", correctable=True),
            "failed",
            "notes.search was not called: it has no x",
        ),
    ],
    ids=["by a person", "for a mistake"],
)
async def test_a_refused_call_ends_the_step_and_is_not_tried_again(
    tmp_path: Path, end: Refused, status: str, problem: str
) -> None:
    async with open_bench(tmp_path, act=lambda _: end, tools=[tool("notes.search")]) as bench:
        outcome = await bench.outcome(call_step())
        assert (outcome.status, outcome.problem, len(bench.sent)) == (status, problem, 1)


async def test_a_waiting_call_leaves_nothing_behind_and_goes_on_once_decided(tmp_path: Path) -> None:
    ends: list[ToolEnd] = [Waiting("a_1", 5.0)]

    def act(call: ToolCall) -> ToolEnd:
        return ends.pop() if ends else called(call, effect=True)

    async with open_bench(tmp_path, act=act, tools=[tool("notes.search", "write")]) as bench:
        assert await bench.carry_out(call_step()) == Waiting("a_1", 5.0)
        outcome = await bench.outcome(call_step())
        assert (outcome.status, outcome.effects) == ("succeeded", ("notes.search c_10",))


async def test_a_reached_budget_is_an_outcome_with_its_limit(tmp_path: Path) -> None:
    def act(call: ToolCall) -> ToolEnd:
        raise BudgetReached("tool_calls", allowed=3, used=3)

    async with open_bench(tmp_path, act=act, tools=[tool("notes.search")]) as bench:
        outcome = await bench.outcome(call_step())
        assert (outcome.status, outcome.limit, outcome.attempts) == ("failed", "tool_calls", 1)
        assert await bench.outcome(call_step()) == outcome
        assert len(bench.sent) == 1


async def test_a_step_cut_short_by_a_budget_is_looked_at_again_once_a_person_raised_it(tmp_path: Path) -> None:
    def act(call: ToolCall) -> ToolEnd:
        if bench.limits.tool_calls == LIMITS.tool_calls:
            raise BudgetReached("tool_calls", allowed=3, used=3)
        return called(call)

    async with open_bench(tmp_path, act=act, tools=[tool("notes.search")]) as bench:
        assert (await bench.outcome(call_step())).limit == "tool_calls"
        bench.limits = replace(LIMITS, tool_calls=240)
        assert (await bench.outcome(call_step())).status == "succeeded"


async def test_a_finished_step_is_recalled_and_not_carried_out_again(tmp_path: Path) -> None:
    async with open_bench(tmp_path, act=called, tools=[tool("notes.search")]) as bench:
        first = await bench.outcome(call_step())
        assert await bench.outcome(call_step()) == first
        assert len(bench.sent) == 1
