"""Workers whose models do not do as they are told."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from executing import (
    Say,
    called,
    last_message,
    open_bench,
    prose,
    report,
    texts,
    tool,
    turns,
    uses,
    worker,
    worker_step,
)

from downstream.model_port import ModelFailed, ModelReply, ModelRequest
from downstream.models.habits import habit
from downstream.models.scripted import ScriptedModels
from downstream.tools import Tool
from executors.settings import WorkerLimits
from executors.step import ComposeStep
from journal.errors import Fenced

Json = Any
NOTES = frozenset({"private:notes"})
SEARCH = ("notes__search", {"query": "budget"})
READ = ("notes__read", {"path": "a.md"})
TOOLS = [tool("notes.search"), tool("notes.read")]
FIRST = "c_110"


async def test_a_report_in_the_text_is_taken(tmp_path: Path) -> None:
    written = json.dumps({"status": "partial", "summary": "Half.", "findings": []})
    async with open_bench(tmp_path, say=turns(prose(f"Here it is:\n```json\n{written}\n```"))) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.summary) == ("partial", "Half.")


async def test_a_model_that_writes_prose_is_reminded_once_and_then_asked_for_its_next_action(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.schema is None:
            return prose("I shall search now.")
        if request.place.turn == 3:
            return prose('{"tool": "notes__search", "arguments_json": "{\\"query\\": \\"budget\\"}"}')
        return prose(json.dumps({"tool": "submit_report", "arguments": json.loads(done)}))

    done = report(("x", ["c_130"])).uses[0].arguments
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        outcome = await bench.outcome(worker_step())
        assert outcome.status == "succeeded"
        assert [request.name for request in bench.requests] == [None, None, "next_action", "next_action"]
        assert "Call a function now" in last_message(bench.requests[1]).content
        asked = bench.requests[3]
        assert not asked.functions
        assert "notes__search: Does search." in texts(asked, "system")
        assert all(message.role in ("system", "user", "assistant") and not message.uses for message in asked.messages)
        await bench.outcome(worker_step(id="other"))
        assert bench.requests[4].name == "next_action"


async def test_a_model_that_had_called_nothing_is_not_shown_its_prose_when_it_is_asked_in_another_way(
    tmp_path: Path,
) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.schema is None:
            return prose("The festival is on 15 October.")
        return prose('{"tool": "submit_report", "arguments": {"status": "partial", "summary": "Nothing."}}')

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        await bench.outcome(worker_step())
        told = [texts(request) for request in bench.requests]
        assert ["15 October" in each for each in told] == [False, True, False]


async def test_by_grammar_a_call_written_as_text_is_taken_and_the_next_asked_for_with_its_own_arguments(
    tmp_path: Path,
) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.schema is None:
            return prose('{"name": "notes__search", "arguments": {"query": "budget"}}')
        done = json.loads(report(("x", ["c_110"])).uses[0].arguments)
        return prose(json.dumps({"tool": "submit_report", "arguments": done}))

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        bench.by_grammar = True
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, [request.name for request in bench.requests]) == ("succeeded", [None, "next_action"])
        first, asked = bench.requests
        assert [function.name for function in first.functions][-2:] == ["read_artifact", "submit_report"]
        assert "read_artifact" not in texts(asked, "system")
        assert (asked.strict, last_message(asked).content) == (
            False,
            "reply with JSON: next_action\nOne JSON object and nothing else.",
        )
        assert asked.schema is not None
        taken = asked.schema["properties"]["arguments"]["anyOf"]
        # Both tools take the same.
        assert [[*each["properties"]][:1] for each in taken] == [["query"], ["findings"]]
        assert [each["additionalProperties"] for each in taken] == [False, False]
        await bench.outcome(worker_step(id="other"))
        assert bench.requests[2].name == "next_action"


async def test_by_grammar_prose_from_before_the_first_call_is_not_shown_again(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.place.turn == 1:
            return prose("The festival is on 15 October.")
        if request.schema is None:
            return prose('{"name": "notes__search", "arguments": {"query": "budget"}}')
        return prose('{"tool": "submit_report", "arguments": {"status": "partial", "summary": "Nothing."}}')

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        bench.by_grammar = True
        await bench.outcome(worker_step())
        told = [texts(request) for request in bench.requests]
        assert ["15 October" in each for each in told] == [False, True, False]
        assert ["budget" in each for each in told[2:]] == [True]


def choices(request: ModelRequest) -> list[str]:
    """The functions that a request by schema lets the model choose."""
    assert request.schema is not None
    names: list[str] = request.schema["properties"]["tool"]["enum"]
    return names


async def by_grammar_to_the_end(tmp_path: Path, *, limits: WorkerLimits) -> list[ModelRequest]:
    """What a model is asked for that makes the same call as long as it may."""

    def say(request: ModelRequest) -> ModelReply:
        if request.schema is None or "notes__search" in choices(request):
            return prose('{"tool": "notes__search", "arguments": {"query": "budget"}}')
        done = json.loads(report(("x", ["c_110"])).uses[0].arguments)
        return prose(json.dumps({"tool": "submit_report", "arguments": done}))

    mine = [worker(limits=limits)]
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS, workers=mine) as bench:
        bench.by_grammar = True
        outcome = await bench.outcome(worker_step())
        assert outcome.findings[0].supported
        assert (outcome.status, outcome.problem is None) == (
            ("succeeded", True) if limits.turns > 3 else ("partial", False)
        )
        return bench.requests


async def test_by_grammar_who_makes_the_same_call_again_can_only_report(tmp_path: Path) -> None:
    first, *asked = await by_grammar_to_the_end(tmp_path, limits=WorkerLimits())
    assert (first.schema, first.stream) == (None, False)
    assert [choices(each) for each in asked] == [["notes__read", "notes__search", "submit_report"], ["submit_report"]]
    assert [(each.stream, each.listen is not None) for each in asked] == [(True, True), (True, True)]
    assert "Does that answer the task? Then submit_report now" in asked[0].messages[-2].content


@pytest.mark.parametrize("turns_", [2, 12])
async def test_by_grammar_a_request_begins_with_all_that_the_one_before_said(tmp_path: Path, turns_: int) -> None:
    _, *asked = await by_grammar_to_the_end(tmp_path, limits=WorkerLimits(turns=turns_))
    assert (len(asked), choices(asked[-1])) == (2, ["submit_report"])
    for earlier, later in pairwise(asked):
        told = earlier.messages[:-1]
        assert later.messages[: len(told)] == told


async def test_by_grammar_very_many_arguments_are_left_open(tmp_path: Path) -> None:
    schema: Json = {"type": "object", "properties": {f"{'x' * 50}{each}": {"type": "string"} for each in range(300)}}
    wide = [replace(tool("notes.search"), input_schema=schema)]

    def say(request: ModelRequest) -> ModelReply:
        return prose('{"tool": "submit_report", "arguments": {"status": "partial", "summary": "Nothing."}}')

    async with open_bench(tmp_path, say=say, act=called, tools=wide) as bench:
        bench.by_grammar = True
        await bench.outcome(worker_step())
        await bench.outcome(worker_step(id="other"))
        asked = bench.requests[-1].schema
        assert asked is not None
        assert asked["properties"]["arguments"] == {"type": "object"}


async def test_a_model_whose_json_breaks_off_is_told_where(tmp_path: Path) -> None:
    replies = turns(prose('{"tool": "notes__search", "arguments": {"query": "bud'), report())
    async with open_bench(tmp_path, say=replies, act=called, tools=TOOLS) as bench:
        await bench.outcome(worker_step())
        told = last_message(bench.requests[1]).content
        assert told.startswith('not JSON: it breaks off within the string that begins "\\"bud"\n')
        assert "Call a function now" in told


async def test_a_model_that_never_calls_anything_fails_the_step(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=turns(prose("Let me think about it."))) as bench:
        bench.retries = 0
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, len(bench.requests)) == ("failed", 6)
        assert outcome.problem == "model test/model never called a tool and never reported"


async def test_a_model_that_fails_for_good_fails_the_step_at_once(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        raise ModelFailed("test/model", "auth", "its server does not accept the key")

    async with open_bench(tmp_path, say=say, tools=TOOLS) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.attempts) == ("failed", 1)
        assert outcome.problem == "model test/model: its server does not accept the key"


async def test_a_model_that_refuses_fails_the_step_at_once(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=lambda _: ModelReply("test/model", "I can't.", finish="refusal")) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.problem) == ("failed", "model test/model refused to go on")


async def test_a_reply_cut_by_its_length_is_asked_for_shorter(tmp_path: Path) -> None:
    long = ModelReply("test/model", "First I would like to", finish="length")
    async with open_bench(
        tmp_path, say=turns(long, uses(SEARCH), report(("x", ["c_120"]))), act=called, tools=TOOLS
    ) as bench:
        assert (await bench.outcome(worker_step())).status == "succeeded"
        assert "cut off for its length" in last_message(bench.requests[1]).content


async def test_a_server_that_takes_no_functions_is_asked_by_schema_and_then_in_words(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.functions or request.schema:
            raise ModelFailed("test/model", "bad_request", "it does not know tools")
        return prose('{"tool": "submit_report", "arguments": {"status": "partial", "summary": "Half."}}')

    async with open_bench(tmp_path, say=say, tools=TOOLS) as bench:
        assert (await bench.outcome(worker_step())).status == "partial"
        assert len(bench.requests) == 3


def reporting_at_once(request: ModelRequest) -> ModelReply:
    """A model that hands in without a call where it is offered functions, and calls one where it is asked by schema."""
    if request.schema is None:
        return report()
    if request.place.turn == 2:
        return report(("x", [f"c_{request.place.attempt}10"]))
    return prose('{"tool": "notes__search", "arguments": {"query": "budget"}}')


async def test_an_attempt_that_called_nothing_is_made_again_by_schema_and_that_is_remembered(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=reporting_at_once, act=called, tools=TOOLS) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.attempts) == ("succeeded", 2)
        names = [(request.place.attempt, request.name) for request in bench.requests]
        assert names == [(1, None), (1, None), (2, "next_action"), (2, "next_action")]
        assert await bench.store.remembered.all("worker") == {habit("test/model"): {"style": "schema"}}
        await bench.outcome(worker_step(id="other"))
        assert bench.requests[4].name == "next_action"


async def test_a_model_that_calls_nothing_by_schema_either_is_not_remembered_for_it(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=lambda _: report(), act=called, tools=TOOLS) as bench:
        assert (await bench.outcome(worker_step())).attempts == 2
        assert [request.name for request in bench.requests] == [None, None, "next_action", "next_action"]
        assert await bench.store.remembered.all("worker") == {}


BLOCKED = report(status="blocked")
NOT_AT_FAULT: dict[str, tuple[list[Tool], Say]] = {
    "no tools to call": ([], turns(BLOCKED)),
    "a call": (TOOLS, turns(uses(SEARCH), BLOCKED)),
    "a call of what is not there": (TOOLS, turns(uses(("notes__sing", {})), BLOCKED)),
}


@pytest.mark.parametrize("case", NOT_AT_FAULT)
async def test_functions_are_offered_again_where_they_were_not_at_fault(tmp_path: Path, case: str) -> None:
    tools, say = NOT_AT_FAULT[case]
    async with open_bench(tmp_path, say=say, act=called, tools=tools) as bench:
        assert (await bench.outcome(worker_step())).attempts == 2
        assert {request.name for request in bench.requests} == {None}


async def test_functions_are_offered_again_after_a_server_that_failed(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.place.attempt == 1:
            raise ModelFailed("test/model", "timeout", "it gave no answer")
        return turns(uses(SEARCH), report(("x", ["c_210"])))(request)

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        assert (await bench.outcome(worker_step())).status == "succeeded"
        assert {request.name for request in bench.requests} == {None}


async def test_the_way_of_a_second_attempt_holds_after_a_crash(tmp_path: Path) -> None:
    """The next drive knows of the first attempt what its row says, and asks the second in the same way."""

    def crash(request: ModelRequest) -> ModelReply:
        if request.schema is not None:
            raise Fenced("run_1")
        return report()

    async with open_bench(tmp_path, say=crash, act=called, tools=TOOLS) as bench:
        with pytest.raises(Fenced):
            await bench.outcome(worker_step())
        bench.say = reporting_at_once
        assert (await bench.outcome(worker_step())).status == "succeeded"
        assert [request.name for request in bench.requests] == [None, None, *["next_action"] * 3]


async def test_a_history_of_functions_is_told_in_words_to_a_model_that_stops_using_them(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.schema is not None:
            return report(("x", [FIRST]))
        return uses(SEARCH, text="Looking.") if request.place.turn == 1 else prose("Hm.")

    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        assert (await bench.outcome(worker_step())).status == "succeeded"
        after = "Does that answer the task? Then submit_report now, with the answer itself in a finding."
        spoken = [
            (message.role, message.content.partition(" If not,")[0]) for message in bench.requests[3].messages[2:4]
        ]
        assert spoken == [
            ("assistant", 'Looking.\n{"tool": "notes__search", "arguments": {"query": "budget"}}'),
            ("user", f'[{FIRST}]\n<data from="notes.search">\nfound\n</data>\n\n{after}'),
        ]
        await bench.outcome(worker_step(id="other"))
        assert bench.requests[4].schema is None


@pytest.mark.parametrize(
    "written",
    [
        '{"submit_report": {"status": "partial", "summary": "Half."}}',
        '{"name": "submit_report", "parameters": {"status": "partial", "summary": "Half."}}',
        'Well: {"mood": 1} {"status": "partial", "summary": "Half."}',
    ],
    ids=["wrapped", "as a call", "after other JSON"],
)
async def test_json_in_the_text_is_read_in_whatever_wrapping(tmp_path: Path, written: str) -> None:
    async with open_bench(tmp_path, say=turns(prose(written))) as bench:
        assert (await bench.outcome(worker_step())).summary == "Half."


async def test_an_action_without_arguments_is_a_call_without_any(tmp_path: Path) -> None:
    say = turns(prose('{"tool": "notes.search"}'), uses(("notes__read", "")), report(("x", [FIRST])))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        await bench.outcome(worker_step())
        assert [(call.tool, call.arguments.data) for call in bench.sent] == [("notes.search", {}), ("notes.read", {})]


async def test_without_a_model_the_step_fails_and_says_the_ways_to_get_one(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        bench.model = None
        for step in (worker_step(), ComposeStep(id="draft", kind="compose", task="Write.")):
            outcome = await bench.outcome(step)
            assert (outcome.status, outcome.attempts) == ("failed", 1)
            assert outcome.problem is not None
            assert outcome.problem.startswith("no model is set for the role")


async def test_a_script_is_asked_by_functions_again_and_loses_no_call(tmp_path: Path) -> None:
    both = [{"tool": "notes.search", "arguments": {"query": "x"}}, {"tool": "notes.read", "arguments": {"query": "y"}}]
    blocked, done = {"status": "blocked", "summary": "No."}, {"status": "partial", "summary": "Half."}
    path = tmp_path / "script.yaml"
    attempts = [{"report": blocked}, {"turns": [{"calls": both}], "report": done}]
    path.write_text(json.dumps({"steps": {"study": {"attempts": attempts}}}))
    async with open_bench(tmp_path, act=called, tools=TOOLS) as bench:
        bench.model, bench.complete = f"scripted:{path}", ScriptedModels().complete
        assert (await bench.outcome(worker_step())).attempts == 2
        assert [call.tool for call in bench.sent] == ["notes.search", "notes.read"]


async def test_a_scripted_worker_cites_its_calls_by_number(tmp_path: Path) -> None:
    script = {
        "steps": {
            "study": {
                "attempts": [
                    {
                        "turns": [{"calls": [{"tool": "notes.search", "arguments": {"query": "x"}}]}],
                        "report": {"status": "done", "summary": "Yes.", "findings": [{"claim": "x", "evidence": [0]}]},
                    }
                ]
            }
        }
    }
    path = tmp_path / "script.yaml"
    path.write_text(json.dumps(script))
    models = ScriptedModels()
    async with open_bench(tmp_path, act=called, tools=TOOLS) as bench:
        bench.model, bench.complete = f"scripted:{path}", models.complete
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, [finding.evidence for finding in outcome.findings]) == ("succeeded", [(FIRST,)])
