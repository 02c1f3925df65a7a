"""Scripted models: chosen by place, in every form that a request can ask for, with faults, and loud about gaps."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from downstream.model_port import Function, Message, ModelFailed, ModelReply, ModelRequest, Place, Role
from downstream.models.script_file import ScriptError, read_script
from downstream.models.scripted import ScriptedModels, load_script
from journal.ledger import Spent

Json = Any

SCRIPT = """
plan: [{id: study, kind: worker, worker: researcher, task: Look, note: no}]
steps:
  study:
    attempts:
      - turns: [{calls: [{tool: notes.search, arguments: {query: budget}}], delay: 0.01}, {fault: 429}]
        report: {status: done, summary: Found., findings: [{claim: C, evidence: [0, 4, c_x]}]}
      - turns: [{calls: [{tool: notes.search}, {tool: notes.read}], text: Both.}, {fault: not_json}]
        report: {status: failed, summary: Nothing.}
  once:
    attempts: [{report: {status: done, summary: Always.}}]
  broken:
    attempts: [{turns: [{fault: 500}]}]
  draft: {text: "A text.", fault: timeout}
revise: [{decision: revise, drop: [x], add: []}, {decision: finish}]
review: [{accepted: true, problems: []}]
answer: "All good."
"""
NAMES = ("notes__search", "notes__read", "submit_report")


def write(folder: Path, text: str, name: str = "script.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return f"scripted:{path}"


def offer(*names: str) -> tuple[Function, ...]:
    return tuple(Function(name, "", {"type": "object", "properties": {}}) for name in names)


def asked(role: Role, place: Place, *, functions: Sequence[str] = (), **fields: Any) -> ModelRequest:
    messages: tuple[Message, ...] = fields.pop("messages", (Message("user", "12345678"),))
    return ModelRequest(role, place, messages, 100, functions=offer(*functions), **fields)


def made(reply: ModelReply) -> list[tuple[str, Json]]:
    return [(use.name, json.loads(use.arguments)) for use in reply.uses]


async def work(model: str, place: Place, **fields: Any) -> ModelReply:
    return await ScriptedModels().complete(model, asked("worker", place, functions=NAMES, **fields))


async def test_a_worker_makes_its_calls_and_then_hands_in_its_report(tmp_path: Path) -> None:
    model = write(tmp_path, SCRIPT)
    first = await work(model, Place(step="study"))
    assert made(first) == [("notes__search", {"query": "budget"})]
    shown = Message("tool", "[c_abc] <data>found</data>", answers=first.uses[0].id)
    place = Place(step="study", turn=2, retry=1)
    second = await work(model, place, messages=(Message("user", "go"), first.message(), shown))
    [(name, report)] = made(second)
    assert (name, report["findings"][0]["evidence"]) == ("submit_report", ["c_abc", "c_missing_4", "c_x"])


async def test_a_fault_comes_first_and_the_same_request_made_again_gets_what_follows_it(tmp_path: Path) -> None:
    model = write(tmp_path, SCRIPT)
    with pytest.raises(ModelFailed) as failed:
        await work(model, Place(step="study", turn=2))
    assert (failed.value.kind, failed.value.retry_after is not None) == ("rate", True)
    with pytest.raises(ModelFailed, match="no answer in time"):
        await ScriptedModels().complete(model, asked("compose", Place(step="draft")))
    text = await ScriptedModels().complete(model, asked("compose", Place(step="draft", retry=1)))
    assert (text.text, text.spent) == ("A text.", Spent(2, 1))


async def test_a_fault_after_which_nothing_comes_stays(tmp_path: Path) -> None:
    model = write(tmp_path, SCRIPT)
    for retry in (0, 1, 5):
        with pytest.raises(ModelFailed, match=r"its server failed \(scripted\)"):
            await work(model, Place(step="broken", retry=retry))


async def test_attempts_are_told_apart_and_one_alone_repeats(tmp_path: Path) -> None:
    model = write(tmp_path, SCRIPT)
    second = await work(model, Place(step="study", attempt=2))
    assert (second.text, [name for name, _ in made(second)]) == ("Both.", ["notes__search", "notes__read"])
    words = await work(model, Place(step="study", attempt=2, turn=2))
    assert (words.uses, "own words" in words.text) == ((), True)
    again = await work(model, Place(step="once", attempt=3))
    assert made(again)[0][1]["summary"] == "Always."
    with pytest.raises(ModelFailed, match=r"has 2 attempts, none for worker: step study, attempt 3, turn 1"):
        await work(model, Place(step="study", attempt=3))


@pytest.mark.parametrize("place", [Place(step="study", repair=1), Place(step="study", turn=9)], ids=["repair", "late"])
async def test_a_repair_turn_and_every_later_one_get_the_report(tmp_path: Path, place: Place) -> None:
    assert [name for name, _ in made(await work(write(tmp_path, SCRIPT), place))] == ["submit_report"]


async def test_a_worker_that_may_only_report_reports(tmp_path: Path) -> None:
    request = asked("worker", Place(step="study"), functions=["submit_report"])
    reply = await ScriptedModels().complete(write(tmp_path, SCRIPT), request)
    assert [name for name, _ in made(reply)] == ["submit_report"]


async def test_a_worker_without_functions_answers_with_its_next_action(tmp_path: Path) -> None:
    model, names = write(tmp_path, SCRIPT), {"type": "string", "enum": ["notes__search", "submit_report"]}
    schema: Json = {"type": "object", "properties": {"tool": names, "arguments_json": {"type": "string"}}}
    request = asked("worker", Place(step="study"), name="next_action", schema=schema)
    reply = await ScriptedModels().complete(model, request)
    assert json.loads(reply.text) == {"tool": "notes__search", "arguments": {"query": "budget"}}
    shown = (Message("assistant", reply.text), Message("user", "[c_abc] found"))
    place = Place(step="study", turn=2, retry=1)
    later = asked("worker", place, name="next_action", schema=schema, messages=(Message("user", "go"), *shown))
    end = json.loads((await ScriptedModels().complete(model, later)).text)
    assert (end["tool"], end["arguments"]["findings"][0]["evidence"][0]) == ("submit_report", "c_abc")


async def test_a_tool_whose_name_was_shortened_is_still_found(tmp_path: Path) -> None:
    tool = "a" * 40 + "." + "b" * 60
    model = write(tmp_path, json.dumps({"steps": {"s": {"attempts": [{"turns": [{"calls": [{"tool": tool}]}]}]}}}))
    short = ("a" * 40 + "__" + "b" * 60)[:55] + "_12345678"
    reply = await ScriptedModels().complete(model, asked("worker", Place(step="s"), functions=[short]))
    assert [name for name, _ in made(reply)] == [short]


ROLES: list[tuple[Role, Place, str, Json]] = [
    ("reviser", Place(number=2), "revise_plan", {"decision": "finish"}),
    ("reviewer", Place(number=1, step="study"), "submit_review", {"accepted": True, "problems": []}),
    ("reviewer", Place(number=4, step="other"), "submit_review", {"accepted": True, "problems": []}),
    ("answer", Place(number=3), "submit_answer", {"answer": "All good.", "caveats": []}),
    (
        "planner",
        Place(number=7),
        "submit_plan",
        {"steps": [{"id": "study", "kind": "worker", "worker": "researcher", "task": "Look", "note": "no"}]},
    ),
]


@pytest.mark.parametrize(("role", "place", "name", "data"), ROLES, ids=[f"{row[0]}{row[1].number}" for row in ROLES])
async def test_a_form_is_filled_in_whichever_way_it_is_asked_for(
    tmp_path: Path, role: Role, place: Place, name: str, data: Json
) -> None:
    model, models = write(tmp_path, SCRIPT), ScriptedModels()
    called = await models.complete(model, asked(role, place, functions=["search_tools", name], name=name))
    by_schema = await models.complete(model, asked(role, place, name=name, schema={"type": "object"}))
    in_text = await models.complete(model, asked(role, place, name=name))
    assert made(called) == [(name, data)]
    assert [json.loads(by_schema.text), json.loads(in_text.text)] == [data, data]


async def test_searches_come_before_the_first_plan_in_whichever_way_they_can_be_made(tmp_path: Path) -> None:
    model, models = write(tmp_path, "searches: [mail, weather]\nplan: [{id: a}]"), ScriptedModels()
    name, plan = "submit_plan", {"steps": [{"id": "a"}]}

    async def at(place: Place, *functions: str) -> list[Json]:
        reply = await models.complete(model, asked("planner", place, functions=functions, name=name))
        return made(reply) or [json.loads(reply.text)]

    assert await at(Place()) == [{"search": "mail"}]
    assert await at(Place(turn=2), "search_tools", name) == [("search_tools", {"query": "weather"})]
    assert await at(Place(turn=2), name) == [(name, {"search": "weather"})]
    for place in (Place(turn=3), Place(turn=2, repair=1), Place(number=2)):
        assert await at(place) == [plan]


async def test_plans_come_one_after_the_other_also_when_repaired(tmp_path: Path) -> None:
    model = write(tmp_path, "plans: [[{id: a}], {fault: 500}, [{id: b}], {fault: not_json}]")
    models = ScriptedModels()
    place = [Place(), Place(repair=1, retry=1), Place(number=2, retry=1)]
    replies = [await models.complete(model, asked("planner", each)) for each in place]
    assert [json.loads(reply.text)["steps"][0]["id"] for reply in replies] == ["a", "b", "b"]
    assert "own words" in (await models.complete(model, asked("planner", Place(number=3)))).text
    with pytest.raises(ModelFailed, match="nothing for planner: plan 4") as failed:
        await models.complete(model, asked("planner", Place(number=3, repair=1)))
    assert (failed.value.kind, "script.yaml" in str(failed.value)) == ("script", True)


async def test_reviews_may_stand_by_step(tmp_path: Path) -> None:
    model = write(tmp_path, "review: {a: [{accepted: false, problems: [x]}, {accepted: true}]}")
    replies = [
        await ScriptedModels().complete(model, asked("reviewer", Place(number=number, step="a"))) for number in (1, 2)
    ]
    assert [json.loads(reply.text)["accepted"] for reply in replies] == [False, True]
    with pytest.raises(ModelFailed, match="nothing for reviewer: step b"):
        await ScriptedModels().complete(model, asked("reviewer", Place(step="b")))


@pytest.mark.parametrize(
    ("fault", "finish"), [("truncated", "length"), ("refusal", "refusal"), ("not_json", "stop")], ids=str
)
async def test_a_fault_that_is_a_reply_takes_the_place_of_one(tmp_path: Path, fault: str, finish: str) -> None:
    turn = {
        "fault": fault,
        "calls": [{"tool": "notes.search", "arguments": {"query": "x"}}],
        "usage": {"input": 7, "output": 3},
    }
    model = write(tmp_path, json.dumps({"steps": {"s": {"attempts": [{"turns": [turn]}]}}}))
    reply = await ScriptedModels().complete(model, asked("worker", Place(step="s", retry=2), functions=NAMES))
    assert (reply.finish, reply.spent) == (finish, Spent(7, 3))
    assert [use.arguments for use in reply.uses] == (['{"query'] if fault == "truncated" else [])


@pytest.mark.parametrize("fault", ["500", "timeout", "empty"])
async def test_a_plan_may_only_ever_fail(tmp_path: Path, fault: str) -> None:
    with pytest.raises(ModelFailed) as failed:
        await ScriptedModels().complete(write(tmp_path, f"plan: {{fault: {fault}}}"), asked("planner", Place(retry=3)))
    assert failed.value.kind == {"500": "overload", "timeout": "timeout", "empty": "malformed"}[fault]


@pytest.mark.parametrize(
    ("role", "place", "where"),
    [
        ("planner", Place(), "planner: plan 1"),
        ("reviser", Place(), "reviser: revision 1"),
        ("compose", Place(step="x"), "compose: step x"),
        ("answer", Place(), "answer"),
        ("worker", Place(step="x"), "worker: step x"),
        ("worker", Place(step="y", turn=2), "no report, and 1 turns, none for worker: step y, attempt 1, turn 2"),
    ],
    ids=["planner", "reviser", "compose", "answer", "step", "report"],
)
async def test_what_the_script_does_not_foresee_fails_loudly(
    tmp_path: Path, role: Role, place: Place, where: str
) -> None:
    model = write(tmp_path, "steps: {y: {attempts: [{turns: [{text: hm}]}]}}")
    with pytest.raises(ModelFailed, match=where):
        await ScriptedModels().complete(model, asked(role, place, functions=["f"] if role == "worker" else []))


BROKEN = {
    "unknown key": ("plan: []\nanser: x\n", 2, "anser"),
    "unknown key below": ("steps:\n  a:\n    attempts:\n      - turns: []\n        rapport: {}\n", 5, "rapport"),
    "unknown fault": ("steps:\n  a:\n    attempts:\n    - turns:\n      - fault: 404\n", 5, "fault"),
    "twice": ("plan: []\nplan: []\n", 2, "plan stands twice"),
    "plan and plans": ("plan: []\nplans: [[]]\n", 1, "exclude each other"),
    "no yaml": ("plan: [\n", 2, "not YAML"),
    "no character": ("plan: \x00", 1, "character"),
    "no map": ("- a\n", 1, "script"),
    "no entry": ("revise:\n- decision: finish\n- 7\n", 3, "revise.1"),
    "infinite": ("answer:\n  delay: .inf\n", 2, "finite"),
    "deep": (f"plan: {'[' * 70}{']' * 70}", 1, "nested deeper"),
    "much too deep": (f"plan: {'[' * 5000}{']' * 5000}", 1, "nested deeper"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_script_is_an_error_with_file_and_line(case: str) -> None:
    text, line, words = BROKEN[case]
    with pytest.raises(ScriptError) as failed:
        read_script(text, "some/script.yaml")
    assert str(failed.value).startswith(f"scripted model some/script.yaml, line {line}: ")
    assert words in str(failed.value)


def test_scalars_are_those_of_json_and_a_date_stays_a_text() -> None:
    script = read_script("plan: [no, 2024-01-01, 0x1F, 1.5, ~, true, '7', -3]\n", "x")
    assert script.plan is not None
    assert script.plan.data == {"steps": ["no", "2024-01-01", 31, 1.5, None, True, "7", -3]}


def test_a_script_may_be_json_indented_with_tabs() -> None:
    script = read_script('{\n\t"answer": "x",\n\t"plans": [\n\t\t[]\n\t]\n}', "x.json")
    assert (script.answer is not None, len(script.plans)) == (True, 1)


async def test_a_file_that_is_not_there_or_no_text_is_said(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="can't be read: No such file"):
        await load_script(str(tmp_path / "none.yaml"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScriptError, match="not UTF-8"):
        await load_script(str(tmp_path / "binary"))
    with pytest.raises(ModelFailed, match="No such file") as failed:
        await ScriptedModels().complete(f"scripted:{tmp_path}/none.yaml", asked("planner", Place()))
    assert failed.value.kind == "script"
