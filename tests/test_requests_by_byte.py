"""What models are sent, byte for byte: prefixes that stay, no tool's words where none belong, no tool too many."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from command_line import OWN, ROOT
from executing import open_bench, tool, uses, worker_step
from executing import report as handed_in
from model_script import Rule, answer, call, planner, report, worker
from model_server import serve_model
from model_wire import Wire
from recorded_requests import Sent, elements, members, open_relay
from whole_runs import CANARIES, GOAL, LISTED, LOOK_ALIKE, Refused, canaries_in, open_on, settings_of, whole_run

from downstream.model_port import ModelReply, ModelRequest
from server.product import Request

# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore")]

WIRES: tuple[Wire, ...] = ("openai", "anthropic", "gemini")
RUNGS: list[tuple[Wire, Refused]] = [
    *((wire, "nothing") for wire in WIRES),
    ("openai", "schemas"),
    ("openai", "functions"),
    ("openai", "both"),
]
ENDINGS = {"submit_plan", "revise_plan", "submit_answer"}
every_wire = pytest.mark.parametrize("wire", WIRES)
every_rung = pytest.mark.parametrize(("wire", "refused"), RUNGS)


def wired(tool: str) -> str:
    return tool.replace(".", "__")


def test_bodies_are_taken_apart_as_they_are_written() -> None:
    text = '{ "a" : [1.0, {"b":"]},"} , "\\u00e9"],"c":{ } , "d": [] }'
    assert members(text) == {"a": '[1.0, {"b":"]},"} , "\\u00e9"]', "c": "{ }", "d": "[]"}
    assert elements(members(text)["a"]) == ["1.0", '{"b":"]},"}', '"\\u00e9"']
    assert (members(" {}"), elements("[ ]")) == ({}, [])


@every_wire
def test_each_turn_sends_all_that_the_turn_before_sent_and_more_behind_it(wire: Wire) -> None:
    whole = whole_run(wire)
    turns = {step: whole.of("worker", step) for step in ("study", "twin", "keep")} | {"review": whole.of("reviewer")}
    assert {step: len(sent) for step, sent in turns.items()} == {"study": 4, "twin": 4, "keep": 2, "review": 2}
    for sent in turns.values():
        assert all(later.begins_as(earlier) for earlier, later in pairwise(sent))
        assert all(len(later.messages) > len(earlier.messages) for earlier, later in pairwise(sent))


@pytest.mark.parametrize("refused", ["functions", "both"])
def test_where_actions_are_asked_for_as_json_their_form_alone_stays_at_the_end(refused: Refused) -> None:
    sent = [each for each in whole_run("openai", refused).of("worker", "study") if not each.read.functions]
    # What the server refused may come first, where its twin had not learned it yet.
    assert 4 <= len(sent) <= 5
    for earlier, later in pairwise(sent[-4:]):
        assert (later.tools, later.system, later.manner) == ("", earlier.system, earlier.manner)
        *told, form = earlier.messages
        assert (later.messages[: len(told)], later.messages[-1]) == (told, form)


@every_wire
def test_siblings_of_one_worker_send_the_same_up_to_their_task(wire: Wire) -> None:
    study, twin = (whole_run(wire).of("worker", step)[0] for step in ("study", "twin"))
    assert (study.tools, study.system, study.manner) == (twin.tools, twin.system, twin.manner)
    assert study.tools
    # What stands behind the task is the same for both, but for the handle by which each can read on.
    ids = re.compile(r"\bf_[a-z2-7]{26}\b")
    for sent, step, place in ((study, "study", "shelves"), (twin, "twin", "cellar")):
        assert f"step: {step}\\n\\nTask: Study the {place}.\\n\\n<data" in sent.messages[0]
    said = study.messages[0].replace("step: study", "step: twin").replace("the shelves", "the cellar")
    assert [ids.sub("f_", said)] == [ids.sub("f_", each) for each in twin.messages]


@every_wire
def test_at_most_four_prefixes_are_marked_and_on_claudes_wire_only(wire: Wire) -> None:
    marks = {each.marks for each in whole_run(wire).sent}
    assert (max(marks) <= 4, any(marks)) == (True, wire == "anthropic")


@every_rung
def test_no_word_of_a_tool_reaches_planner_or_reviser(wire: Wire, refused: Refused) -> None:
    whole = whole_run(wire, refused)
    assert whole.status.startswith("succeeded")
    asked = [each for each in whole.sent if each.read.role in ("planner", "reviser")]
    assert [each.read.describe() for each in asked if canaries_in(each)] == []
    # All of it had been read by then, in results, errors and artifacts, and the reviser was told how its readers ended.
    last = whole.of("reviser")[-1]
    before = whole.sent[: whole.sent.index(last)]
    read = {tool for each in before for tool in canaries_in(each)} | {"send"}
    assert read >= set(CANARIES) - ({"fail"} if refused in ("functions", "both") else set())
    assert all(f'\\"id\\": \\"{step}\\"' in last.body.decode() for step in ("study", "hasty", "mute", "broken"))
    assert canaries_in(whole.of("answer")[-1]) == list(CANARIES)


@every_rung
def test_only_workers_and_reviewers_are_offered_tools_of_servers(wire: Wire, refused: Refused) -> None:
    others = [each for each in whole_run(wire, refused).sent if each.read.role not in ("worker", "reviewer")]
    assert {each.read.role for each in others} == {"planner", "reviser", "compose", "answer"}
    assert {name for each in others for name in each.read.functions} <= ENDINGS
    assert [each.read.describe() for each in others if b"shop__" in each.body] == []
    assert [each.tools for each in others if each.read.role == "compose"] == [""]
    if refused == "nothing":
        assert [each.tools for each in others if each.read.role == "answer"] == [""]


@every_rung
def test_a_worker_is_offered_the_tools_of_its_step_and_no_other(wire: Wire, refused: Refused) -> None:
    whole = whole_run(wire, refused)
    own = {*map(wired, LISTED)}
    for step in ("study", "twin", "mute"):
        sent = whole.of("worker", step)
        assert [named(each) for each in sent] == [own] * len(sent)
    styles = {each.read.name for each in whole.of("worker", "study")}
    assert ("next_action" in styles) == (refused in ("functions", "both"))
    # At its limit a worker is offered no tool at all; words of the history may still name them.
    assert offered(whole.of("worker", "hasty")[-1]) == {"submit_report"}
    watched = [named(each) for each in whole.of("worker", "keep")]
    assert {name for names in watched for name in names} & {"shop__send", f"shop__{LOOK_ALIKE}"} == set()


@every_wire
def test_the_reviewer_is_offered_reads_only(wire: Wire) -> None:
    for each in whole_run(wire).of("reviewer"):
        assert offered(each) == {*map(wired, LISTED), "shop__peek", "read_artifact", "submit_review"}


@every_wire
def test_a_tool_that_policy_denies_is_offered_to_nobody(wire: Wire) -> None:
    assert [each.read.describe() for each in whole_run(wire).sent if "shop__shut" in named(each)] == []


def named(sent: Sent) -> set[str]:
    """The tools of the server that are named anywhere in a request."""
    return set(re.findall(r"shop__\w+", sent.body.decode()))


def offered(sent: Sent) -> set[str]:
    """The functions that are offered, or that an action may name, by the schema of the request or of its words."""
    if sent.read.functions:
        return set(sent.read.functions)
    schema: Any = sent.read.schema
    if schema is None:
        found = re.search(r'\{"type": "object", "properties": \{"tool".*', sent.read.last("user"))
        assert found is not None
        schema, _ = json.JSONDecoder().raw_decode(found[0])
    names: list[str] = schema["properties"]["tool"]["enum"]
    return set(names)


STUDY: list[Any] = [
    {"id": "first", "kind": "call", "title": "first", "tool": "shop.look", "arguments": {}},
    {"id": "study", "kind": "worker", "title": "study", "worker": "researcher", "task": "Study.", "needs": ["first"]},
]
REPORT = report("Seen.", {"It is there.": [0, 1]}, data={"stock": {"pears": 3, "apples": 1}, "z": 1, "a": 2})


def rules(*, held: bool) -> list[Rule]:
    """What models say; the third reply to the worker may be held back for a while."""
    turns: list[Any] = [[call("shop.look"), call("shop.fail")], [call("shop.big", b=1, a=2)]]
    script = planner(STUDY) + worker("study", turns, REPORT) + answer("There it is.")
    hold: Rule = {"when": {"role": "worker", "step": "study", "turn": 2}, "reply": script[-2]["reply"] | {"hold": "it"}}
    return [hold, *script] if held else script


def without_ids(sent: Sequence[Sent]) -> list[str]:
    """The bodies, with ids that are drawn by chance numbered in their order."""
    numbers: dict[str, str] = {}
    text = "\n".join(each.body.decode() for each in sent)
    for id_ in re.findall(r"\b[acfr]_[a-z2-7]{26}\b", text):
        numbers.setdefault(id_, f"{id_[:2]}{len(numbers)}")
    return re.sub(r"\b[acfr]_[a-z2-7]{26}\b", lambda found: numbers[found[0]], text).splitlines()


def command(folder: Path, *words: str, seed: int) -> "subprocess.Popen[str]":
    """A command in a process of its own, whose sets and texts are hashed by this seed."""
    environment = os.environ | {"PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    config = ["--config", str(folder / "steprelay.json")]
    return subprocess.Popen(
        [*OWN, *words, *config],
        cwd=folder,
        env=environment,
        text=True,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def undisturbed(folder: Path, wire: Wire) -> list[Sent]:
    """The requests of the run in this process."""
    with serve_model(rules(held=False)) as model, open_relay(model.url) as relay:
        async with open_on(settings_of(folder, wire, relay.url)) as product:
            with anyio.fail_after(60):
                run_id = await product.start(Request(GOAL, goal_label="user"))
                run = await product.until(run_id, lambda run: run.ended)
        assert run.status == "succeeded", run.message
        return list(relay.kept)


def killed_and_resumed(folder: Path, wire: Wire) -> tuple[list[Sent], list[Sent]]:
    """The requests of a process that is killed while its model's reply is on its way, and of one that goes on."""
    with serve_model(rules(held=True)) as model, open_relay(model.url) as relay:
        settings_of(folder, wire, relay.url)
        with command(folder, "run", GOAL, "--json", seed=1) as first:
            try:
                model.wait_for(lambda asked: (asked.step, asked.turn) == ("study", 2), timeout=60)
                assert first.stdout is not None
                run_id = str(json.loads(first.stdout.readline())["run"])
            finally:
                os.killpg(first.pid, signal.SIGKILL)
        model.release("it")
        before = list(relay.kept)
        with command(folder, "runs", "resume", run_id, seed=2) as second:
            said, wrong = second.communicate(timeout=60)
        assert second.returncode == 0, (said, wrong)
        return before, relay.kept[len(before) :]


@pytest.mark.parametrize("wire", ["openai", *(pytest.param(wire, marks=pytest.mark.slow) for wire in WIRES[1:])])
async def test_another_process_sends_the_same_bytes_also_where_it_goes_on_with_a_run(
    tmp_path: Path, wire: Wire
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    whole = await undisturbed(tmp_path / "one", wire)
    before, after = await anyio.to_thread.run_sync(killed_and_resumed, tmp_path / "two", wire)
    assert [each.read.describe() for each in before] == [each.read.describe() for each in whole[: len(before)]]
    assert [(each.read.role, each.read.turn) for each in after] == [("worker", 2), ("answer", 0)]
    assert after[0].body == before[-1].body
    sys.stdout.write(f"{wire}: {len(before)} requests of the killed process, {len(after)} of the next, all as in one\n")
    assert without_ids([*before, *after[1:]]) == without_ids(whole)


async def test_a_search_for_tools_brings_up_those_of_the_step_alone(tmp_path: Path) -> None:
    tools = [tool(f"shop.find_{number}") for number in range(40)]
    listed = [each.full_name for each in tools[:35]]
    search = ("search_tools", {"query": "find", "limit": 50})

    def say(request: ModelRequest) -> ModelReply:
        return uses(search, ("shop__find_39", {})) if request.place.turn == 1 else handed_in(status="partial")

    async with open_bench(tmp_path, say=say, tools=tools) as bench:
        await bench.outcome(worker_step(tools=listed, task="Find it."))
        first, second = ({each.name for each in request.functions} for request in bench.requests)
    own = {each.wire for each in tools[:35]}
    built_in = {"read_artifact", "search_tools", "submit_report"}
    assert (len(first - built_in), first - built_in <= own, second - built_in) == (10, True, own)
    assert bench.sent == []
