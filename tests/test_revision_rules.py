"""The rules of retry, review, revision and no progress that stand between executors and planner, one by one."""

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from bad_input import kinds
from eight_workers import LOOK, Eight, Ended, call_ids, function, open_eight, report
from executing import called, open_bench, tool, turns, uses, worker, worker_step
from executing import report as handed_in
from mcp_hosts import open_host
from planner_rig import Steps, approval, call, ending, failed, open_rig, succeeded
from planner_rig import tool as listed
from products import call_step, open_test_product

from downstream.door import ToolCall, ToolEnd, Waiting
from downstream.model_port import ModelReply, ModelRequest
from executors.contract import Assignment, Outcome
from executors.settings import REVIEWER
from journal.actions import Decision
from journal.run_journal import RunJournal
from planner.settings import BudgetSettings

Json = Any
SEARCH = ("notes__search", {"query": "budget"})
CONTINUE: Json = {"decision": "continue"}
ENOUGH: dict[str, Json] = {"steps": 20, "revisions": 3, "retries": 1, "parallel": 8}


def revise(*add: Json, drop: tuple[str, ...] = ()) -> Json:
    return {"decision": "revise", "drop": list(drop), "add": list(add)}


def reports(*claims: tuple[str, list[str]], **fields: Json) -> ModelReply:
    return handed_in(*claims, **fields)


SHOWN, UNSHOWN = ("It is so.", ["c_110"]), ("It may be so.", ["c_999"])
OUTCOMES: dict[str, tuple[ModelReply, str, int]] = {
    "done and shown": (reports(SHOWN), "succeeded", 1),
    "done and not shown": (reports(UNSHOWN), "partial", 1),
    "done with nothing": (reports(), "failed", 2),
    "done without a summary": (reports(SHOWN, summary=""), "partial", 1),
    "partial": (reports(SHOWN, status="partial"), "partial", 1),
    "partial with nothing": (reports(status="partial"), "partial", 1),
    "blocked": (reports(SHOWN, status="blocked"), "failed", 2),
    "failed": (reports(status="failed"), "failed", 2),
    "broken with a finding": (reports(SHOWN, status="excellent"), "partial", 1),
    "broken with nothing": (uses(("submit_report", "{{{")), "failed", 2),
}


@pytest.mark.parametrize(("said", "status", "attempts"), OUTCOMES.values(), ids=OUTCOMES.keys())
async def test_the_outcome_follows_from_the_report_and_only_failed_attempts_are_made_again(
    tmp_path: Path, said: ModelReply, status: str, attempts: int
) -> None:
    def say(request: ModelRequest) -> ModelReply:
        first = request.place.turn == 1 and not request.place.repair
        return uses(SEARCH) if first else said

    async with open_bench(tmp_path, say=say, act=called, tools=[tool("notes.search")]) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, outcome.attempts) == (status, attempts)


async def test_a_rejected_report_after_an_effect_is_not_made_again(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.role == "reviewer":
            return uses(("submit_review", {"accepted": False, "problems": ["It is not so."]}))
        return turns(uses(SEARCH), reports(SHOWN))(request)

    def act(made: ToolCall) -> ToolEnd:
        return called(made, effect=True)

    tools, workers = [tool("notes.search")], [worker(), REVIEWER]
    async with open_bench(tmp_path, say=say, act=act, tools=tools, workers=workers) as bench:
        outcome = await bench.outcome(worker_step(review=True))
        assert (outcome.status, outcome.attempts, outcome.effects) == ("failed", 1, ("notes.search c_110",))
        assert outcome.summary.startswith('the reviewer rejected the report: "It is not so."; it reported: ')
        assert [(each.claim, each.supported) for each in outcome.findings] == [("It is so.", False)]


def one(id_: str, **fields: Json) -> Json:
    return {"id": id_, "kind": "worker", "worker": "researcher", "task": f"Study {id_}.", "tools": [LOOK]} | fields


def looks_then(status: str) -> Any:
    """A worker that makes a call and then reports this."""

    def say(request: ModelRequest) -> ModelReply:
        if not call_ids(request):
            return function("notes__look", {"query": f"{request.place.step} {request.place.attempt}"})
        return report(request, status=status)

    return say


async def test_a_step_that_failed_twice_goes_to_revision_once(tmp_path: Path) -> None:
    async with open_eight(tmp_path, plan=[one("a")], worker=looks_then("failed")) as eight:
        ended = await eight.run(**ENOUGH)
        [asked] = eight.meter.roles("reviser")
        assert '"attempts": 2' in "\n".join(message.content for message in asked.messages)
        assert (ended.end, len(eight.meter.sent)) == (("partial", "error"), 2)
        assert sorted(each["claim"] for each in ended.run.result["findings"]) == sorted(eight.meter.claims)


async def test_going_on_draws_on_no_revision_and_every_doubt_is_asked_about(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.budget = BudgetSettings(revisions=1)
        names = [f"a{number}" for number in range(5)]
        rig.steps = Steps({name: ending(failed(name)) for name in names})
        rig.models.revisions = [CONTINUE]
        run = await rig.run([call(name) for name in names])
        assert (run.stop_reason, rig.models.count("revise_plan")) == ("error", 5)


async def test_a_success_between_revisions_lets_revising_go_on(tmp_path: Path) -> None:
    bad = ("a", "c", "e")
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({name: ending(failed(name)) for name in bad})
        rig.models.revisions = [
            revise(call("b"), call("c", "b"), drop=("a",)),
            revise(call("d"), call("e", "d"), drop=("c",)),
            revise(call("f"), drop=("e",)),
        ]
        run = await rig.run([call("a")])
        assert (run.status, run.stop_reason, rig.models.count("revise_plan")) == ("succeeded", "done", 3)
        assert rig.steps.calls == ["a", "b", "c", "d", "e", "f"]


async def test_a_revision_that_a_person_voids_was_one_nevertheless(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.budget = BudgetSettings(revisions=1)
        rig.tools.listed = [*rig.tools.listed, listed("web.fetch", {"url": {"type": "string"}})]
        rig.steps = Steps({"a": ending(failed("a")), "b": ending(failed("b"))})
        rig.models.revisions = [revise(call("n", tool="web.fetch", arguments={"url": "u"}), drop=("a",))]
        run = await rig.run([call("a"), call("w"), call("b", "w")])
        [action] = await rig.store.actions(run.id)
        await rig.store.decide(action, Decision("deny", "person", "terminal"))
        run = await rig.drive(run.id)
        assert (rig.models.count("revise_plan"), "n" in rig.steps.calls) == (1, False)
        assert (run.status, run.stop_reason) == ("partial", "error")


def every_rule(request: ModelRequest) -> ModelReply:
    """A report that has to be repaired, and that its reviewer rejects both times; the step of the revision is well."""
    place = request.place
    if request.role == "reviewer":
        return function("submit_review", {"accepted": False, "problems": ["No."]})
    if place.turn == 1:
        return function("notes__look", {"query": f"{place.step} {place.attempt}"})
    if place.step == "a" and not place.repair:
        return function("submit_report", {"status": "done", "findings": []})
    return report(request)


async def every_rule_run(eight: Eight, **budget: Json) -> Ended:
    return await eight.run(f"goal {sorted(budget.items())}", **ENOUGH | budget)


async def test_revisions_repairs_retries_and_reviews_draw_on_the_same_purse(tmp_path: Path) -> None:
    plan = [one("a", review=True), one("b", review=True)]
    added = [revise(one("c")), CONTINUE]
    async with open_eight(tmp_path, plan=plan, worker=every_rule, revisions=added) as eight:
        whole = await every_rule_run(eight)
        paid = Counter(row["role"] for row in whole.ledger if row["kind"] == "model")
        assert paid == Counter(request.role for _, request in eight.meter.asked)
        assert {"planner", "worker", "reviewer", "reviser", "answer"} == set(paid)
        assert (whole.took("tokens"), whole.statuses["c"]) == (eight.meter.tokens, "succeeded")
        for limit in range(2, len(eight.meter.asked) + 2, 3):
            cut = await every_rule_run(eight, model_calls=limit)
            assert len(eight.meter.asked) == cut.took("model_calls") <= limit
            assert cut.run.answer
            assert cut.end in (("partial", "budget"), whole.end)


async def test_a_revision_that_repeats_an_effect_of_the_run_waits_for_a_person(tmp_path: Path) -> None:
    add: Json = {"tool": "ledger.add_item", "arguments": {"key": "note", "value": "x"}}
    again = {"id": "again", "kind": "worker", "worker": "operator", "task": "Add it.", "tools": ["ledger.add_item"]}
    said = {"status": "done", "summary": "Added.", "findings": [{"claim": "Added.", "evidence": [0]}]}
    script = {
        "plan": [
            call_step("post", add["tool"], **add["arguments"]),
            call_step("bad", "ledger.fail", "post", text="no"),
        ],
        "revise": [{"decision": "revise", "drop": ["bad"], "add": [again]}, CONTINUE],
        "steps": {"again": {"attempts": [{"turns": [{"calls": [add]}], "report": said}]}},
        "answer": "Done.",
    }
    settings = {"policy": {"rules": [{"allow": "ledger.add_item"}]}}
    with anyio.fail_after(60):
        async with (
            open_test_product(tmp_path, script=script, settings=settings) as (_, server),
            open_host(server) as host,
        ):
            view = await host.structured("plan_and_execute", {"goal": "Add a note."})
            [action] = view["actions"]
    assert (view["status"], kinds(view)["again"]) == ("awaiting_approval", "waiting")
    assert (action["tool"], action["level"]) == ("ledger.add_item", "person")
    assert "the same call was made already in this run, by step post" in action["reasons"]
    assert len(toys.calls(tmp_path / "ledger.log", "add_item")) == 1


async def test_a_step_that_a_person_decided_about_goes_on_at_once_however_many_run(tmp_path: Path) -> None:
    running, release = set[str](), anyio.Event()

    async def until_released(step: str) -> Outcome:
        running.add(step)
        if len(running) == 3:
            release.set()
        await release.wait()
        return succeeded(step)

    async def asks(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
        end = await approval(journal, assignment.step.id)
        return end if isinstance(end, Waiting) else await until_released(assignment.step.id)

    async def runs(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
        for action in await rig.store.waiting_actions():
            await rig.store.decide(action, Decision("approve", "person", "terminal"))
        return await until_released(assignment.step.id)

    async with open_rig(tmp_path) as rig:
        rig.budget = BudgetSettings(parallel=2)
        rig.steps = Steps({"a": asks, "b": asks, "c": runs})
        with anyio.fail_after(20):
            run = await rig.run([call("a"), call("b"), call("c")])
        assert (run.status, running) == ("succeeded", {"a", "b", "c"})
