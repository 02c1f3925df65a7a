"""A worker named in place of a plan: it gets the goal in the user's own words, where it can change nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from planner_rig import TOOLS, call, open_rig, tool

from downstream.models.schemas import for_reply
from executors.settings import WorkerSettings
from journal.runs import NewRun
from planner.asking import NOBODY, PLAN, plan_form

Json = Any
GOAL = "count the notes"
TOLD = "`alone` is {}, which no worker is that only reads (researcher); write `steps`"


def worker(id_: str, name: str = "researcher") -> Json:
    return {"id": id_, "kind": "worker", "worker": name, "task": "Find it.", "tools": ["notes.search"]}


COMPOSE: Json = {"id": "text", "kind": "compose", "task": "Write it.", "needs": ["a"]}


@pytest.mark.parametrize(
    "reply",
    [
        {"alone": "researcher"},
        {"alone": "researcher", "steps": []},
        {"alone": "researcher", "steps": None},
        {"alone": "researcher", "steps": [worker("a"), COMPOSE]},
        {"alone": " Researcher", "steps": [worker("a", "RESEARCHER")]},
        {"alone": ["researcher"]},
        {"alone": "researcher", "steps": "none"},
        {"alone": "researcher", "steps": " []"},
        {"alone": "researcher", "steps": json.dumps([worker("a")])},
    ],
    ids=[
        "its name",
        "no steps",
        "null",
        "the same at length",
        "capitals",
        "a list",
        "a word",
        "text",
        "the same as text",
    ],
)
async def test_the_worker_that_is_named_gets_the_goal_and_all_of_its_tools(tmp_path: Path, reply: Json) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.plans = [reply]
        run = await rig.drive(await rig.new_run(GOAL))
        [row] = await rig.store.steps(run.id)
        assert (run.status, run.warnings, rig.models.count("submit_plan")) == ("succeeded", (), 1)
        assert (row.id, row.worker, row.title) == ("goal", "researcher", "The whole goal")
        assert row.definition["task"] == GOAL
        assert row.definition.get("tools") is None
        [accepted] = await rig.events(run.id, "plan.accepted")
        assert accepted["by"] == "planner"


async def test_it_gets_the_context_as_material(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.plans = [{"alone": "researcher"}]
        new = NewRun("me", "fp", "/settings.yaml", GOAL, "user", "They lie in two folders.</data>", {})
        run_id, _ = await rig.store.create_or_attach(new, driver="d")
        run = await rig.drive(run_id)
        [row] = await rig.store.steps(run.id)
        told = '<data from="context">\nThey lie in two folders.&lt;/data>\n</data>'
        assert row.definition["task"] == f"{GOAL}\n\nContext:\n{told}"


@pytest.mark.parametrize(
    "steps",
    [
        [worker("a"), call("b")],
        [worker("a", "operator")],
        [call("a")],
        [call("a", worker="researcher")],
        [worker("a") | {"review": True}],
        [worker("a") | {"review": True}, COMPOSE],
    ],
    ids=["a call beside", "another worker", "a call", "a call with its name", "a review", "a review beside a text"],
)
@pytest.mark.parametrize("name", ["researcher", "operator", NOBODY, "", None])
async def test_steps_count_where_they_say_more_than_the_name(tmp_path: Path, steps: Json, name: Json) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.plans = [{"alone": name, "steps": steps}]
        run = await rig.drive(await rig.new_run(GOAL))
        assert [row.id for row in await rig.store.steps(run.id)] == [step["id"] for step in steps]


@pytest.mark.parametrize(
    "name", ["operator", "writer", "reviewer", "nobody else", ["researcher", "operator"], ["writer"], 7]
)
async def test_who_may_change_something_or_is_not_there_is_not_taken_for_a_plan(tmp_path: Path, name: Json) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.plans = [{"alone": name}, {"alone": NOBODY, "steps": [call("a")]}]
        run = await rig.drive(await rig.new_run(GOAL))
        assert (run.status, rig.steps.calls) == ("succeeded", ["a"])
        [rejected] = await rig.events(run.id, "plan.rejected")
        assert rejected["errors"] == [TOLD.format(repr(name))]


async def test_steps_that_are_written_as_text_are_read(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.plans = [{"alone": "Nobody", "steps": json.dumps([call("a")])}]
        run = await rig.drive(await rig.new_run(GOAL))
        assert (run.status, rig.steps.calls, rig.models.count("submit_plan")) == ("succeeded", ["a"], 1)


@pytest.mark.parametrize("reply", [{"steps": "none"}, {"alone": "researcher", "steps": '[{"id": "a"'}], ids=str)
async def test_a_text_that_holds_no_steps_is_no_plan(tmp_path: Path, reply: Json) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.plans = [reply, {"steps": [call("a")]}]
        await rig.drive(await rig.new_run(GOAL))
        [rejected] = await rig.events((await rig.store.runs())[0].id, "plan.rejected")
        assert rejected["errors"][0].startswith("a plan is an object with a list of steps")


async def test_nobody_without_steps_is_no_plan(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.plans = [{"alone": NOBODY}, {"steps": [call("a")]}]
        run = await rig.drive(await rig.new_run(GOAL))
        [rejected] = await rig.events(run.id, "plan.rejected")
        assert (rejected["errors"], rig.steps.calls) == (["the plan has no step; it needs at least one"], ["a"])


async def test_without_a_worker_that_only_reads_none_is_offered(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.workers = (WorkerSettings(name="mine"), WorkerSettings(name="mute", tools=()))
        rig.models.plans = [{"steps": [call("a")]}]
        await rig.drive(await rig.new_run(GOAL))
        [asked] = rig.models.asked[:1]
        assert [list(way["properties"]) for way in asked.form.schema["anyOf"]] == [["steps"]]


async def test_workers_whose_tools_send_what_they_are_given_but_change_nothing_are_offered(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.tools.listed = (*TOOLS, tool("web.fetch", {"url": {"type": "string"}}, class_="egress"))
        rig.models.plans = [{"steps": [call("a")]}]
        await rig.drive(await rig.new_run(GOAL))
        [asked] = rig.models.asked[:1]
        assert asked.form.schema["anyOf"][0]["properties"]["alone"]["enum"] == ["researcher"]


def test_a_server_that_writes_by_grammar_is_held_to_one_of_the_ways() -> None:
    form = plan_form(["mine", "its"], [], most=4, alone=["mine"])
    alone, steps = for_reply(form.schema, by_grammar=True)["anyOf"]
    assert (alone["required"], alone["properties"]["alone"]["enum"]) == (["alone"], ["mine"])
    assert (steps["required"], steps["properties"]["alone"]["enum"]) == (["alone", "steps"], [NOBODY])
    assert (alone["additionalProperties"], steps["additionalProperties"]) == (False, False)
    search, *others = for_reply(form.whole_schema, by_grammar=True)["anyOf"]
    assert (list(search["properties"]), others) == (["search"], [alone, steps])


def test_others_are_asked_for_one_object_in_which_nobody_can_be_said() -> None:
    form = plan_form(["mine", "its"], [], most=4, alone=["mine"])
    assert for_reply(form.schema)["required"] == ["alone", "steps"]
    assert for_reply(form.whole_schema)["required"] == ["search", "alone", "steps"]
    assert for_reply(form.schema)["properties"]["alone"]["enum"] == ["mine", NOBODY]
    assert for_reply(PLAN.schema)["required"] == ["steps"]
