"""Plans that can't run: the planner gets all errors back at most twice, then one worker takes the goal."""

import json
from pathlib import Path
from typing import Any

import anyio
import model_server as m
import pytest
from bad_input import ANSWER, FOUND, GOAL, LOOK, READ, STUDY, check_kept, check_words, kinds, open_asked_product
from command_line import steprelay
from mcp_hosts import Host, open_host
from products import call_step, open_test_product, write_settings

pytestmark = [pytest.mark.e2e, pytest.mark.untraced]

Json = Any

GOAL_STEP: Json = {
    "attempts": [
        {
            "turns": [{"calls": [{"tool": "ledger.read_item", "arguments": {"key": "plan"}}]}],
            "report": {
                "status": "done",
                "summary": "On Friday.",
                "findings": [{"claim": FOUND, "evidence": [0]}],
                "confidence": 0.9,
            },
        }
    ]
}


def echo(id_: str, *needs: str, text: Json = "x") -> Json:
    return call_step(id_, "ledger.echo", *needs, text=text)


REJECTED: dict[str, tuple[list[Json], tuple[str, ...]]] = {
    "a cycle": (
        [echo("a", "c"), echo("b", "a"), echo("c", "b")],
        ("form a cycle: a needs c needs b needs a", "take one of these needs out"),
    ),
    "a step that needs itself": ([echo("a", "a")], ("step 'a' needs itself", "take that need out")),
    "an unknown worker": (
        [STUDY | {"worker": "researchr"}],
        ("step 'study': unknown worker 'researchr'", "did you mean 'researcher'?"),
    ),
    "an unknown tool": (
        [call_step("a", "ledger.read_itm", key="x")],
        ("step 'a': unknown tool 'ledger.read_itm'", "did you mean 'ledger.read_item'?"),
    ),
    "wrong arguments": (
        [call_step("a", "ledger.read_item", key=5), call_step("b", "ledger.read_item", kee="x")],
        ("step 'a': arguments.key: 5 is not of type 'string'", "step 'b': ", "'key' is a required property"),
    ),
    "a tool outside its worker's list": (
        [STUDY | {"tools": ["ledger.drop_item"]}],
        ("worker 'researcher' may not use 'ledger.drop_item'", "operator may, or use a call step"),
    ),
    "an unknown kind": ([{"id": "a", "kind": "walk"}], ("step 'a': kind 'walk' is unknown", "use one of call")),
    "500 steps": (
        [echo(f"s{number}") for number in range(500)],
        ("500 steps are too many", "budget.steps allows 20", "join some"),
    ),
    "no step": ([], ("the plan has no step", "needs at least one")),
    "a reference to no step": (
        [echo("a", text={"$step": "nope.value"})],
        ("step 'a' needs 'nope', which is no step of the plan", "it has: a"),
    ),
    "a reference that is none": (
        [LOOK, echo("a", "look", text={"$step": "look..value"})],
        ("'look..value' is no reference", '{"$step": "id.path.to[0].field"}'),
    ),
}


async def events(host: Host, run_id: str, type_: str) -> list[Json]:
    read = await host.client.read_resource(f"run://{run_id}/events")
    lines = [json.loads(line) for line in getattr(read.contents[0], "text", "").splitlines()]
    return [line["data"] for line in lines if line["type"] == type_]


async def fallen_back(folder: Path, plan: Json) -> tuple[Json, list[Json]]:
    """A run in which the planner says this at every ask, and why each plan was rejected."""
    script = {"plan": plan, "steps": {"goal": GOAL_STEP}, "answer": ANSWER}
    with anyio.fail_after(40):
        async with (
            open_test_product(folder, script=script, settings={"workers": []}) as (_, server),
            open_host(server) as host,
        ):
            view = await host.structured("plan_and_execute", {"goal": GOAL})
            rejected = await events(host, view["run_id"], "plan.rejected")
            (accepted,) = await events(host, view["run_id"], "plan.accepted")
    assert (view["status"], view["stop_reason"], view["answer"]) == ("succeeded", "done", ANSWER)
    (step,) = view["step_list"]
    assert (step["id"], step["worker"], step["status"]) == ("goal", "operator", "succeeded")
    assert (accepted["by"], len(view["sources"])) == ("fallback", 1)
    assert "there was no valid plan, so worker 'operator' works on the goal as one step" in view["warnings"]
    await check_kept(folder, view, "goal")
    return view, rejected


@pytest.mark.parametrize(("plan", "told"), REJECTED.values(), ids=REJECTED.keys())
async def test_a_plan_that_cannot_run_is_given_back_twice_and_then_one_worker_takes_the_goal(
    tmp_path: Path, plan: list[Json], told: tuple[str, ...]
) -> None:
    _, rejected = await fallen_back(tmp_path, plan)
    assert [each["attempt"] for each in rejected] == [1, 2, 3]
    for each in rejected:
        check_words("\n".join(each["errors"]), *told)


@pytest.mark.parametrize("fault", ["not_json", "truncated", "refusal"])
async def test_a_reply_that_is_no_plan_at_all_leaves_the_goal_to_one_worker(tmp_path: Path, fault: str) -> None:
    view, rejected = await fallen_back(tmp_path, {"steps": [LOOK], "fault": fault})
    assert rejected == []
    told = next(text for text in view["warnings"] if text.startswith("the planner gave no plan"))
    check_words(told, "submit_plan")


# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
@pytest.mark.filterwarnings("ignore")
async def test_the_planner_is_told_everything_that_is_wrong_and_its_mended_plan_runs(tmp_path: Path) -> None:
    bad = [call_step("a", "ledger.read_itm", key="x"), STUDY | {"worker": "researchr"}]
    with anyio.fail_after(60):
        async with open_asked_product(tmp_path, m.planner(bad, [LOOK]) + m.answer(ANSWER)) as asked:
            view = await asked.run()
            first, second = asked.asked("planner")
    assert (view["status"], kinds(view), view["warnings"]) == ("succeeded", {"look": "succeeded"}, [])
    assert "This plan can't run" not in first.text()
    for told in ("did you mean 'ledger.read_item'?", "did you mean 'researcher'?", "Hand it in again in full"):
        assert told in second.text("user")
    await check_kept(tmp_path, view, "look")


@pytest.mark.filterwarnings("ignore")
async def test_prose_in_place_of_a_plan_is_asked_for_in_every_way_and_then_given_up(tmp_path: Path) -> None:
    rules = m.worker("goal", [[READ]], m.report("On Friday.", {FOUND: [0]}))
    prose = m.planner("First I would look around.")
    with anyio.fail_after(60):
        async with open_asked_product(tmp_path, prose + rules + m.answer(ANSWER)) as asked:
            view = await asked.run()
            assert len(asked.asked("planner")) == 9
    assert (view["status"], kinds(view)) == ("succeeded", {"goal": "succeeded"})
    check_words(view["warnings"][0], "the planner gave no plan", "no JSON for submit_plan was found", "another model")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("deep", [70, 900])
async def test_a_plan_nested_too_deeply_is_given_back_and_ends_no_run(tmp_path: Path, deep: int) -> None:
    nested = "[" * deep + "]" * deep
    text = json.dumps({"steps": [echo("a", text="HERE")]}).replace('"HERE"', nested)
    rules = m.planner(text, [LOOK]) + m.answer(ANSWER)
    with anyio.fail_after(60):
        async with open_asked_product(tmp_path, rules) as asked:
            view = await asked.run()
            told = asked.asked("planner")[1].text("user")
    assert (view["status"], kinds(view)) == ("succeeded", {"look": "succeeded"}), view["warnings"]
    assert ("step 'a': nested deeper than 64" in told) or ("no JSON for submit_plan was found" in told)


async def test_a_reference_to_a_missing_path_fails_its_step_and_says_what_is_there(tmp_path: Path) -> None:
    plan = [LOOK, echo("tell", text={"$step": "look.no.such[3]"}), echo("beside")]
    script = {"plan": plan, "revise": [{"decision": "continue"}], "answer": ANSWER}
    with anyio.fail_after(40):
        async with open_test_product(tmp_path, script=script) as (_, server), open_host(server) as host:
            view = await host.structured("plan_and_execute", {"goal": GOAL})
    assert (view["status"], view["stop_reason"]) == ("partial", "error")
    assert kinds(view) == {"look": "succeeded", "tell": "failed", "beside": "succeeded"}
    told = next(step["summary"] for step in view["step_list"] if step["id"] == "tell")
    check_words(told, "look.no.such[3] does not exist", "look is an object with key, value")
    assert "tell: failed" in view["answer"]
    await check_kept(tmp_path, view, "look", "beside")


EVERY_MISTAKE = [
    step for name in ("an unknown worker", "an unknown tool", "wrong arguments") for step in REJECTED[name][0]
]
GIVEN: dict[str, tuple[str, tuple[str, ...]]] = {
    "not JSON": ('{"steps": [', ("plan.json", "value must stand here")),
    "no list of steps": ("[]", ("plan.json", 'a plan is a map with its steps, {"steps": […]}')),
    "nested too deeply": (
        json.dumps({"steps": [call_step("a", "ledger.echo", text=json.loads("[" * 900 + "]" * 900))]}),
        ("plan.json", "nested deeper than 64"),
    ),
    "a cycle": (json.dumps({"steps": REJECTED["a cycle"][0]}), REJECTED["a cycle"][1]),
    "no step": ('{"steps": []}', REJECTED["no step"][1]),
    "everything at once": (
        json.dumps(
            {"steps": [step | {"id": f"x{n}"} for n, step in enumerate(EVERY_MISTAKE)] + REJECTED["500 steps"][0]}
        ),
        ("504 steps are too many", "'researchr'", "'ledger.read_itm'", "5 is not of type", "'key' is a required"),
    ),
}


@pytest.mark.parametrize(("text", "told"), GIVEN.values(), ids=GIVEN.keys())
def test_a_given_plan_that_cannot_run_exits_2_with_all_errors_and_begins_no_run(
    tmp_path: Path, text: str, told: tuple[str, ...]
) -> None:
    config = write_settings(tmp_path, script={})
    (tmp_path / "plan.json").write_text(text)
    ended = steprelay("run", GOAL, "--plan", "plan.json", "--config", str(config), cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    check_words(ended.stderr, *told)
    listed = steprelay("runs", "list", "--json", "--config", str(config), cwd=tmp_path)
    assert json.loads(listed.stdout) == {"runs": []}
