"""A long worker's history: condensed before its model's window is full, and nothing that a finding needs is lost."""

import gc
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from executing import Bench, Say, called, last_message, limited, open_bench, report, tool, uses, worker_step
from model_server import call, on, serve_model, worker
from pydantic import SecretStr

from downstream.door import Called, ToolCall
from downstream.model import open_models
from downstream.model_port import Message, ModelFailed, ModelReply, ModelRequest, Models, Traits
from downstream.models.door import ModelDoor
from downstream.settings import ModelOptions, ModelSettings
from executors.contract import Outcome
from executors.job import Equipment
from journal.ledger import Spent
from journal.outlet import Outlet
from journal.values import Value

TOOLS = [tool("notes.search"), tool("notes.read")]
MANY = [limited(turns=40, tool_calls=40)]
WINDOW = 10_000
LONG = 4_000
TAKEN_OUT = "was taken out of the history to make room"


def search(turn: int) -> ModelReply:
    return uses(("notes__search", {"query": f"q{turn}"}))


def long(made: ToolCall, length: int = LONG) -> Called:
    """A result that says which question it answers, and is as long as that."""
    query = made.arguments.data.get("query", "")
    return called(made, f"answer to {query}. ".ljust(length, "x"))


def turns(*, until: int = 20, end: ModelReply) -> Say:
    """A model that asks another question in each turn, and reports then."""
    return lambda request: search(request.place.turn) if request.place.turn < until else end


def results(request: ModelRequest) -> list[str]:
    return [message.content for message in request.messages if message.role == "tool"]


async def condensings(bench: Bench) -> list[str]:
    events = await bench.store.events(bench.run_id)
    return [event.data["text"] for event in events if event.type == "warning" and "condensed" in event.data["text"]]


def is_append_only(earlier: ModelRequest, later: ModelRequest) -> bool:
    return later.messages[: len(earlier.messages)] == earlier.messages


def pairs_are_whole(messages: Sequence[Message]) -> bool:
    """Whether the uses of every reply have their answers right behind it, in order."""
    used = [(at, [use.id for use in message.uses]) for at, message in enumerate(messages)]
    behind = [[each.answers for each in messages[at + 1 : at + 1 + len(ids)]] for at, ids in used]
    answers = sum(message.answers is not None for message in messages)
    return behind == [ids for _, ids in used] and answers == sum(len(ids) for _, ids in used)


async def test_a_long_history_is_condensed_seldom_and_in_large_bites_and_what_was_dropped_can_be_cited(
    tmp_path: Path,
) -> None:
    end = report(("The first says so.", ["c_110"]), ("The last too.", ["c_1190"]))
    async with open_bench(tmp_path, say=turns(end=end), act=long, tools=TOOLS, workers=MANY) as bench:
        bench.window = WINDOW
        outcome = await bench.outcome(worker_step())
        assert outcome.status == "succeeded"
        assert [finding.supported for finding in outcome.findings] == [True, True]
        assert max(request.prompt_characters() for request in bench.requests) <= WINDOW * 4
        said = await condensings(bench)
        assert len(said) == sum(
            not is_append_only(one, other) for one, other in zip(bench.requests, bench.requests[1:], strict=False)
        )
        assert 1 < len(said) <= 5
        assert re.fullmatch(r"history of step study condensed: 3\d,\d{3} → 1\d,\d{3} characters", said[0])
        assert all(pairs_are_whole(request.messages) for request in bench.requests)
        last = results(bench.requests[-1])
        assert len(last) == 19
        assert last[0].startswith("[c_110]\nThis result (4,000 characters) was taken out")
        assert last[-1].startswith('[c_1190]\n<data from="notes.search">\nanswer to q19.')


async def test_a_result_that_is_nested_too_deeply_to_be_parsed_is_taken_out_as_text(tmp_path: Path) -> None:
    def deep(made: ToolCall) -> Called:
        return called(made, "[" * LONG + made.arguments.data["query"], value=Value({}, frozenset({"private:notes"})))

    end = report(("The first says so.", ["c_110"]))
    async with open_bench(tmp_path, say=turns(end=end), act=deep, tools=TOOLS, workers=MANY) as bench:
        bench.window = WINDOW
        assert (await bench.outcome(worker_step())).status == "succeeded"
        assert await condensings(bench)
        kept = await bench.store.artifacts.of_run(bench.run_id)
        assert {artifact.media_type for artifact in kept} == {"text/plain"}


async def test_a_worker_reads_what_was_dropped_again_by_its_handle(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        turn = request.place.turn
        if turn < 9:
            return search(turn)
        dropped = results(request)[0]
        handle = dropped.partition("kept whole as ")[2].partition(",")[0]
        if turn == 9:
            return uses(("read_artifact", {"artifact_id": handle}), ("notes__read", {"text": {"$artifact": handle}}))
        return report(("It says so.", [results(request)[-2].partition("\n")[0]]))

    async with open_bench(tmp_path, say=say, act=long, tools=TOOLS, workers=MANY) as bench:
        bench.window = WINDOW
        outcome = await bench.outcome(worker_step())
        text = "answer to q1. ".ljust(LONG, "x")
        assert text in results(bench.requests[-1])[-2]
        assert bench.sent[-1].arguments.data == {"text": text}
        assert [finding.supported for finding in outcome.findings] == [True]


@pytest.mark.parametrize(("before", "kind"), [("", "application/json"), ("Found:\n", "text/plain")])
async def test_a_result_that_is_data_is_kept_as_data_and_any_other_as_it_was_shown(
    tmp_path: Path, before: str, kind: str
) -> None:
    data = {"rows": ["x" * 100] * 40}

    def act(made: ToolCall) -> Called:
        return called(made, before + json.dumps(data), value=Value(data, frozenset({"private:notes"})))

    end = report(("x", ["c_110"]))
    async with open_bench(tmp_path, say=turns(until=10, end=end), act=act, tools=TOOLS, workers=MANY) as bench:
        bench.window = WINDOW
        await bench.outcome(worker_step())
        journal = await bench.drive()
        kept = await journal.artifacts.of_run(bench.run_id)
        assert {(each.media_type, each.step) for each in kept} == {(kind, "study")}
        assert kept[0].label == frozenset({"private:notes"})
        assert (await journal.artifacts.content(kept[0])).decode() == before + json.dumps(data)


async def test_what_is_an_artifact_already_is_not_kept_twice_and_what_was_read_of_one_not_at_all(
    tmp_path: Path,
) -> None:
    def act(made: ToolCall) -> Called:
        head = "[12,000 characters, kept whole as f_mine; read_artifact reads a range]\n"
        return called(made, head.ljust(LONG, "x"), artifacts=("f_mine",))

    def say(request: ModelRequest) -> ModelReply:
        turn = request.place.turn
        if turn == 2:
            return uses(("read_artifact", {"artifact_id": "f_none"}), *[("search_tools", {"query": "find"})] * 2)
        return search(turn) if turn < 12 else report(("x", ["c_110"]))

    async with open_bench(tmp_path, say=say, act=act, tools=TOOLS, workers=MANY) as bench:
        bench.window = WINDOW
        await bench.outcome(worker_step())
        journal = await bench.drive()
        assert await journal.artifacts.of_run(bench.run_id) == []
        assert "it is kept whole as f_mine, which read_artifact reads" in results(bench.requests[-1])[0]


async def test_a_part_of_an_artifact_that_was_dropped_is_to_be_read_again(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        turn = request.place.turn
        if turn == 9:
            handle = results(request)[0].partition("kept whole as ")[2].partition(",")[0]
            return uses(("read_artifact", {"artifact_id": handle}))
        return search(turn) if turn < 25 else report(("x", [results(request)[8].partition("\n")[0]]))

    async with open_bench(tmp_path, say=say, act=long, tools=TOOLS, workers=MANY) as bench:
        bench.window = WINDOW
        outcome = await bench.outcome(worker_step())
        assert results(bench.requests[-1])[8].endswith("; make the call again to see it.")
        assert [finding.supported for finding in outcome.findings] == [True]


async def test_a_failed_call_that_was_dropped_still_says_that_it_failed(tmp_path: Path) -> None:
    def act(made: ToolCall) -> Called:
        return replace(long(made), ok=made.arguments.data.get("query") != "q1")

    end = report(("x", ["c_110", "c_120"]))
    async with open_bench(tmp_path, say=turns(until=10, end=end), act=act, tools=TOOLS, workers=MANY) as bench:
        bench.window = WINDOW
        outcome = await bench.outcome(worker_step())
        assert results(bench.requests[-1])[0].startswith("[c_110]\nThe call failed; what it said (4,000 characters)")
        assert outcome.findings[0].evidence == ("c_120",)


class Died(Exception):
    """The process ends in the middle of a turn."""


def is_turn_14(request: ModelRequest) -> bool:
    return request.place.turn == 14


def is_condensed(request: ModelRequest) -> bool:
    return any(TAKEN_OUT in text for text in results(request))


@pytest.mark.parametrize("dies", [is_turn_14, is_condensed])
async def test_another_drive_condenses_as_the_first_did_and_goes_on_where_it_stopped(
    tmp_path: Path, dies: Callable[[ModelRequest], bool]
) -> None:
    def dying(request: ModelRequest) -> ModelReply:
        if dies(request):
            raise Died
        return search(request.place.turn)

    async with open_bench(tmp_path, say=dying, act=long, tools=TOOLS, workers=MANY) as bench:
        bench.window = WINDOW
        with pytest.raises(Died):
            await bench.outcome(worker_step())
        said, before = await condensings(bench), list(bench.requests)
        assert said
        # What the model is said to take has changed meanwhile; what was decided has not.
        bench.window, bench.say = 1_000_000, turns(end=report(("x", ["c_110"])))
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, await condensings(bench)) == ("succeeded", said)
        assert bench.requests[len(before)] == before[-1]
        await bench.outcome(worker_step())
        assert len(bench.requests) == 20 + 1


async def test_results_that_nobody_has_read_stay_unless_they_do_not_fit_at_all(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.place.turn == 1:
            return uses(*[("notes__search", {"query": f"q{number}"}) for number in range(8)])
        if request.place.turn == 2:
            return uses(*[("notes__search", {"query": f"q{number}"}) for number in range(20, 32)])
        return report(("x", ["c_110"]))

    async with open_bench(tmp_path, say=say, act=long, tools=TOOLS, workers=MANY) as bench:
        bench.window = WINDOW
        outcome = await bench.outcome(worker_step())
        second, third = (results(request) for request in bench.requests[1:])
        assert not any(TAKEN_OUT in text for text in second)
        gone = [TAKEN_OUT in text for text in third]
        assert (all(gone[:8]), gone == sorted(gone, reverse=True), gone.count(False) > 3) == (True, True, True)
        assert bench.requests[2].prompt_characters() <= WINDOW * 4
        assert (outcome.status, len(await condensings(bench))) == ("succeeded", 1)


async def test_what_does_not_fit_after_all_ends_in_a_last_turn_with_the_findings_kept(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.place.turn < 4:
            return search(request.place.turn)
        if request.place.turn == 4 and len(request.functions) > 1:
            return uses(("notes__search", {"query": "y" * 60_000}))
        return report(("It says so.", ["c_110"]))

    async with open_bench(tmp_path, say=say, act=long, tools=TOOLS, workers=MANY) as bench:
        bench.window = WINDOW
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit) == ("partial", "context")
        assert [(finding.claim, finding.supported) for finding in outcome.findings] == [("It says so.", True)]
        last = bench.requests[-1]
        assert [function.name for function in last.functions] == ["submit_report"]
        assert "limit (context)" in last_message(last).content
        again = await bench.outcome(worker_step())
        assert (again, bench.requests[-1]) == (outcome, last)


async def test_results_for_which_there_is_no_room_stay_where_they_are(tmp_path: Path) -> None:
    end = report(("x", ["c_110"]))
    async with open_bench(tmp_path, say=turns(end=end), act=long, tools=TOOLS, workers=MANY) as bench:
        bench.window = WINDOW
        (tmp_path / "artifacts").write_text("no folder")
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit) == ("partial", "context")
        assert not any(TAKEN_OUT in text for request in bench.requests for text in results(request))


def refusing(longest: int, end: ModelReply) -> Say:
    """A model whose server takes less than it is said to."""

    def say(request: ModelRequest) -> ModelReply:
        if request.prompt_characters() > longest:
            raise ModelFailed("test/model", "context", "the request is longer than it can take")
        return turns(end=end)(request)

    return say


async def test_a_request_that_the_server_calls_too_long_is_condensed_and_tried_once_more(tmp_path: Path) -> None:
    say = refusing(24_000, report(("It says so.", ["c_110"])))
    async with open_bench(tmp_path, say=say, act=long, tools=TOOLS, workers=MANY) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.attempts) == ("succeeded", 1)
        lengths = [request.prompt_characters() for request in bench.requests]
        refused = [index for index, length in enumerate(lengths) if length > 24_000]
        # Once; from then on it is known how much the server takes.
        assert len(refused) == 1
        assert lengths[refused[0] + 1] < lengths[refused[0]] / 2
        assert len(await condensings(bench)) >= 1
        await bench.outcome(worker_step())
        assert len(bench.requests) == len(lengths)


async def test_a_worker_whose_every_request_is_too_long_gets_its_last_turn_and_its_findings_are_kept(
    tmp_path: Path,
) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.place.turn > 6 and len(request.functions) > 1:
            raise ModelFailed("test/model", "context", "the request is longer than it can take")
        if len(request.functions) == 1:
            return report(("It says so.", ["c_110"]))
        return search(request.place.turn)

    async with open_bench(tmp_path, say=say, act=long, tools=TOOLS, workers=MANY) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit, outcome.attempts) == ("partial", "context", 1)
        assert [finding.supported for finding in outcome.findings] == [True]
        assert len(bench.requests) == 9
        assert (await bench.outcome(worker_step()), len(bench.requests)) == (outcome, 9)


async def test_where_nothing_can_go_the_same_request_is_not_made_again(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=refusing(10, report()), tools=TOOLS) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.limit) == ("partial", "context")
        assert [len(request.functions) > 1 for request in bench.requests] == [True, False]


async def test_text_that_a_server_counts_dearer_than_we_do_is_condensed_earlier(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        reply = turns(until=12, end=report(("x", ["c_110"])))(request)
        return replace(reply, spent=Spent(request.prompt_characters(), 10))

    async with open_bench(tmp_path, say=say, act=long, tools=TOOLS, workers=MANY) as bench:
        bench.window = 20_000
        outcome = await bench.outcome(worker_step())
        assert outcome.status == "succeeded"
        assert max(request.prompt_characters() for request in bench.requests) <= 20_000


async def test_a_history_that_is_nearly_full_of_what_must_stay_is_not_condensed_for_a_trifle(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        turn = request.place.turn
        if turn == 1:
            return uses(("notes__read", {"text": "y" * 30_000}))
        return search(turn) if turn < 5 else report(("x", ["c_120"]))

    async with open_bench(tmp_path, say=say, act=lambda made: long(made, 1_200), tools=TOOLS, workers=MANY) as bench:
        bench.window = WINDOW
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, await condensings(bench)) == ("succeeded", [])


async def test_without_a_word_of_the_window_what_most_models_take_is_taken_for_granted(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        models = Models(_silent, _unpriced, _nothing)
        door = ModelDoor(models, ModelSettings(model="m"), bench.store.remembered)
        assert (await door.traits_of("m"), await Equipment.traits_of("m")) == (Traits(), Traits(32_768, None, False))


async def _silent(model: str, request: ModelRequest) -> ModelReply:
    raise AssertionError


async def _unpriced(model: str) -> None:
    return None


async def _nothing() -> None:
    return None


@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_real_server_with_a_small_window_is_served_to_the_end(tmp_path: Path, wire: str) -> None:
    searches = [[call("notes.search", query=f"q{number}")] for number in range(1, 9)]
    done = {"status": "done", "summary": "S", "findings": [{"claim": "It says so.", "evidence": [0]}]}
    # It takes no five results at once.
    full = ".*".join([r"answer to q\d"] * 5)
    too_long: Any = {"status": 400, "error": "prompt is too long: 9000 tokens > 8192 maximum"}
    model = "openai/m" if wire == "openai" else "anthropic/claude-sonnet-4-5"
    with anyio.fail_after(90), serve_model([*on(too_long, any=full), *worker("study", searches, done)]) as server:
        base = f"{server.url}/v1" if wire == "openai" else server.url
        options = ModelOptions(api_base=base, api_key=SecretStr("sk-0123456789"), timeout=30.0)
        async with (
            open_models(ModelSettings(model=model, options=options), Outlet()) as models,
            open_bench(tmp_path, act=long, tools=TOOLS, workers=MANY) as bench,
        ):
            bench.model, bench.complete = model, models.complete
            outcome: Outcome = await bench.outcome(worker_step())
            said = await condensings(bench)
        gc.collect()
    assert (outcome.status, outcome.attempts) == ("succeeded", 1)
    assert [finding.supported for finding in outcome.findings] == [True]
    assert len(said) >= 1
    assert server.unmatched == []
