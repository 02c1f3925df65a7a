"""When a plan is looked at again, what a revision may change, and when revising stops."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from planner_rig import Rig, Steps, approval, asks_first, call, ending, failed, open_rig, succeeded, tool

from downstream.door import Waiting
from downstream.model_port import ModelFailed
from executors.contract import Assignment, Outcome
from journal.actions import Decision
from journal.errors import BudgetReached
from journal.run_journal import RunJournal
from planner.settings import BudgetSettings, Revise

Json = Any
APPROVE, DENY = Decision("approve", "person", "terminal"), Decision("deny", "person", "terminal")
CONTINUE: Json = {"decision": "continue", "reason": "nothing better"}


def revise(*add: Json, drop: list[str] | None = None) -> Json:
    return {"decision": "revise", "reason": "another way", "drop": drop or [], "add": list(add)}


DOUBTFUL = {
    "required step failed": (failed("a"), True),
    "required step partial": (Outcome("a", "partial"), True),
    "refused": (Outcome("a", "refused"), True),
    "low confidence": (Outcome("a", "succeeded", confidence=0.49), True),
    "plan no longer holds": (Outcome("a", "succeeded", plan_holds=False), True),
    "succeeded": (Outcome("a", "succeeded", confidence=0.5), False),
}


@pytest.mark.parametrize(("outcome", "asked"), DOUBTFUL.values(), ids=DOUBTFUL.keys())
@pytest.mark.parametrize("mode", ["on_trigger", "always", "never"])
async def test_the_reviser_is_asked_on_a_trigger_or_always_or_never(
    tmp_path: Path, mode: Revise, outcome: Outcome, asked: bool
) -> None:
    async with open_rig(tmp_path) as rig:
        rig.revise = mode
        rig.steps = Steps({"a": ending(outcome)})
        rig.models.revisions = [CONTINUE]
        await rig.run([call("a")])
        assert rig.models.count("revise_plan") == int(mode == "always" or (mode == "on_trigger" and asked))


async def test_a_failed_optional_step_is_no_trigger(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a"))})
        run = await rig.run([call("a", optional=True), call("b")])
        assert (run.status, rig.models.count("revise_plan")) == ("succeeded", 0)


async def test_a_comment_of_a_person_is_a_trigger_and_reaches_the_reviser_once(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": asks_first("a")})
        rig.models.revisions = [CONTINUE]
        run = await rig.run([call("a"), call("b", "a")])
        [action] = await rig.store.actions(run.id)
        await rig.store.decide(action, Decision("approve", "person", "terminal", note="use the draft of May"))
        run = await rig.drive(run.id)
        [text] = rig.models.texts("revise_plan")
        assert "use the draft of May" in text
        assert run.status == "succeeded"


async def test_a_revision_replaces_a_failed_step_and_the_run_succeeds(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a"))})
        rig.models.revisions = [revise(call("a_2"), call("b_2", "a_2", "c"), drop=["a", "b"])]
        run = await rig.run([call("a"), call("b", "a"), call("c")])
        assert (run.status, run.stop_reason) == ("succeeded", "done")
        assert await rig.statuses(run.id) == {"c": "succeeded", "a_2": "succeeded", "b_2": "succeeded"}
        assert rig.steps.inputs["b_2"] == {"a_2": "a_2", "c": "c"}
        assert await rig.events(run.id, "revision.made") == [
            {
                "decision": "revise",
                "drop": ["a", "b"],
                "add": [
                    {"id": "a_2", "kind": "call", "title": "", "needs": []},
                    {"id": "b_2", "kind": "call", "title": "", "needs": ["a_2", "c"]},
                ],
                "reason": "another way",
            }
        ]


async def test_a_failed_step_may_be_tried_again_under_a_new_id(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a"))})
        rig.models.revisions = [revise(call("again", arguments={"query": "a"}), drop=["a"])]
        run = await rig.run([call("a")])
        assert (run.status, rig.steps.calls) == ("succeeded", ["a", "again"])


REFUSED = {
    "changes nothing": (revise(), "this changes nothing"),
    "swaps a step for itself": (
        revise(call("z_2", arguments={"query": "z"}), drop=["z"]),
        "this changes nothing",
    ),
    "repeats what succeeded": (
        revise(call("again", arguments={"query": "done"}, title="Once more", optional=True)),
        "repeats 'done', which succeeded",
    ),
    "drops what succeeded": (revise(call("n"), drop=["done"]), "step 'done' is succeeded and can't be dropped"),
    "drops what is not there": (revise(call("n"), drop=["x"]), "there is no step 'x' to drop"),
    "drops what others need": (revise(call("n"), drop=["w"]), "step 'after' needs 'w', which is no step"),
    "takes an old id": (revise(call("a")), "step id 'a' was used before in this run"),
    "needs what failed": (revise(call("n", "a")), "step 'n' needs 'a', which is failed"),
    "unknown tool": (revise(call("n", tool="x.y")), "unknown tool 'x.y'"),
    "makes a cycle": (revise(call("n", "m"), call("m", "n")), "the needs form a cycle"),
    "unknown decision": ({"decision": "retry"}, "decision 'retry' is unknown"),
}


@pytest.mark.parametrize(("reply", "error"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_revision_that_may_not_be_is_given_back_twice_and_then_the_plan_goes_on(
    tmp_path: Path, reply: Json, error: str
) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a"))})
        rig.models.revisions = [reply]
        run = await rig.run([call("done"), call("a", "done"), call("w", "a"), call("after", "w"), call("z", "a")])
        texts = rig.models.texts("revise_plan")
        assert len(texts) == 3
        assert error in texts[1]
        assert "the plan was not revised: the reviser gave no valid revision" in run.warnings
        assert await rig.statuses(run.id) == {
            "done": "succeeded",
            "a": "failed",
            "w": "skipped",
            "after": "skipped",
            "z": "skipped",
        }


async def test_a_running_step_cannot_be_dropped(tmp_path: Path) -> None:
    asked = anyio.Event()

    async def until_asked(journal: RunJournal, assignment: Assignment) -> Outcome:
        with anyio.fail_after(5):
            await asked.wait()
        return succeeded("slow")

    async def note(journal: RunJournal, key: str) -> None:
        if key == "revise.2":
            asked.set()

    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a")), "slow": until_asked})
        rig.models.before = note
        rig.models.revisions = [revise(call("n"), drop=["slow"]), revise(call("n"), drop=["a"])]
        run = await rig.run([call("a"), call("slow")])
        assert "step 'slow' is running and can't be dropped" in rig.models.texts("revise_plan")[1]
        assert await rig.statuses(run.id) == {"slow": "succeeded", "n": "succeeded"}


async def test_a_dropped_waiting_step_takes_its_question_along(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.budget = BudgetSettings(parallel=1)
        rig.steps = Steps({"w": asks_first("w"), "a": ending(failed("a"))})
        rig.models.revisions = [revise(call("n"), drop=["w", "a"])]
        with anyio.fail_after(5):
            run = await rig.run([call("w"), call("a")])
        assert (run.status, await rig.store.waiting_actions()) == ("succeeded", [])
        assert rig.steps.calls == ["w", "a", "n"]


async def test_a_dropped_required_step_that_failed_still_counts_unless_it_is_replaced(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a"))})
        rig.models.revisions = [revise(call("n", optional=True), drop=["a"])]
        run = await rig.run([call("a"), call("b")])
        assert (run.status, run.stop_reason) == ("partial", "error")


async def test_a_dropped_step_that_never_ran_does_not_count(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(Outcome("a", "succeeded", plan_holds=False))})
        rig.models.revisions = [{"decision": "finish", "reason": "all there", "drop": ["b", "c"]}]
        run = await rig.run([call("a"), call("b", "a"), call("c", "b")])
        assert (run.status, run.stop_reason, rig.steps.calls) == ("succeeded", "done", ["a"])


async def test_finish_with_steps_left_says_that_not_all_was_done(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(Outcome("a", "succeeded", plan_holds=False))})
        rig.models.revisions = [{"decision": "finish"}]
        run = await rig.run([call("a"), call("b", "a")])
        assert (run.status, run.stop_reason) == ("partial", "error")
        assert await rig.statuses(run.id) == {"a": "succeeded", "b": "skipped"}


async def test_two_revisions_without_a_success_go_to_the_answer(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({name: ending(failed(name)) for name in ("a", "b", "c")})
        rig.models.revisions = [revise(call("b"), drop=["a"]), revise(call("c"), drop=["b"]), CONTINUE]
        run = await rig.run([call("done"), call("a", "done")])
        assert (run.status, run.stop_reason, rig.models.count("revise_plan")) == ("partial", "no_progress", 2)
        assert rig.models.count("submit_answer") == 1
        assert run.message == "Revising the plan brought nothing new. 1 of 2 steps succeeded."


async def test_revisions_draw_on_their_budget_and_steps_go_on_without(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.budget = BudgetSettings(revisions=1)
        rig.steps = Steps({"a": ending(failed("a")), "b": ending(failed("b"))})
        rig.models.revisions = [revise(call("b"), drop=["a"])]
        run = await rig.run([call("a")])
        assert (run.stop_reason, rig.models.count("revise_plan")) == ("no_progress", 1)
        assert await rig.statuses(run.id) == {"b": "failed"}


@pytest.mark.parametrize(
    "error",
    [ModelFailed("m", "script", "it has nothing for revision 1"), BudgetReached("usd", allowed=1.0, used=1.0)],
    ids=["model", "budget"],
)
async def test_a_reviser_that_cannot_be_asked_changes_nothing(tmp_path: Path, error: Exception) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a"))})
        rig.models.revisions = [error]
        run = await rig.run([call("a"), call("b"), call("c", "b")])
        assert run.stop_reason == ("budget" if isinstance(error, BudgetReached) else "error")
        assert (await rig.statuses(run.id))["a"] == "failed"


async def test_the_reviser_sees_typed_facts_and_no_result_of_a_tool(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        secret = "MARKER-7"
        done = Outcome("a", "succeeded", summary=f"notes.search answered {secret}", value=succeeded("a", secret).value)
        broken = Outcome("b", "failed", problem=f"notes.search failed: {secret}", failed_calls=("notes.search c_1",))
        rig.steps = Steps({"a": ending(done), "b": ending(broken)})
        rig.models.revisions = [CONTINUE]
        await rig.run([call("a"), call("b", "a")])
        [text] = rig.models.texts("revise_plan")
        assert (secret in text, "the tool answered with an error" in text) == (False, True)


async def widen_run(rig: Rig) -> str:
    rig.tools.listed = [*rig.tools.listed, tool("web.fetch", {"url": {"type": "string"}})]
    rig.steps = Steps({"a": ending(failed("a"))})
    fetch = call("fetch", tool="web.fetch", arguments={"url": "u"})
    rig.models.revisions = [revise(fetch, drop=["a"]), CONTINUE]
    run = await rig.run([call("a"), call("other")])
    assert (run.status, rig.steps.calls) == ("awaiting_approval", ["a", "other"])
    return run.id


@pytest.mark.parametrize(
    ("decision", "calls", "status", "stop_reason"),
    [
        (APPROVE, ["a", "other", "fetch"], "succeeded", "done"),
        (DENY, ["a", "other"], "partial", "error"),
    ],
    ids=["approved", "denied"],
)
async def test_a_tool_that_the_plan_did_not_name_is_asked_for(
    tmp_path: Path, decision: Decision, calls: list[str], status: str, stop_reason: str
) -> None:
    async with open_rig(tmp_path) as rig:
        run_id = await widen_run(rig)
        [action] = await rig.store.actions(run_id)
        assert (action.kind, action.level, action.arguments["tools"]) == ("widen", "person", ["web.fetch"])
        await rig.store.decide(action, decision)
        run = await rig.drive(run_id)
        assert (rig.steps.calls, run.status, run.stop_reason) == (calls, status, stop_reason)


async def test_a_worker_step_of_a_revision_is_narrowed_to_the_tools_the_plan_had(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a"))})
        step = {"id": "w", "kind": "worker", "worker": "operator", "task": "find it"}
        rig.models.revisions = [revise(step, drop=["a"])]
        run = await rig.run([call("a")])
        [row] = [row for row in await rig.store.steps(run.id) if row.id == "w"]
        assert (run.status, row.definition["tools"]) == ("succeeded", ["notes.search"])


async def test_a_widening_decided_while_a_sibling_runs_counts_at_once_and_is_replayed(tmp_path: Path) -> None:
    fetched = anyio.Event()

    async def until_fetched(journal: RunJournal, assignment: Assignment) -> Outcome:
        with anyio.fail_after(5):
            await fetched.wait()
        return succeeded("slow")

    async def fetch(journal: RunJournal, assignment: Assignment) -> Outcome:
        fetched.set()
        return succeeded("fetch")

    async with open_rig(tmp_path) as rig:
        rig.tools.listed = [*rig.tools.listed, tool("web.fetch")]
        rig.steps = Steps({"a": ending(failed("a")), "slow": until_fetched, "fetch": fetch, "w": asks_first("w")})
        new = [call("fetch", tool="web.fetch", arguments={}), call("end", "slow", "fetch")]
        rig.models.revisions = [revise(*new, drop=["a", "after"])]
        rig.models.plans = [{"steps": [call("a"), call("slow"), call("after", "slow"), call("w", "slow")]}]
        run_id = await rig.new_run()
        async with anyio.create_task_group() as group:
            group.start_soon(rig.drive, run_id)
            with anyio.fail_after(5):
                await rig.store.decide((await rig.waiting(run_id))[0], APPROVE)
        assert await rig.statuses(run_id) == {
            "slow": "succeeded",
            "fetch": "succeeded",
            "end": "succeeded",
            "w": "waiting",
        }
        await rig.store.decide((await rig.store.waiting_actions())[0], APPROVE)
        rig.steps = Steps()
        run = await rig.drive(run_id)
        assert (run.status, rig.steps.calls, rig.models.count("revise_plan")) == ("succeeded", ["w"], 1)


async def test_a_step_that_went_on_while_the_reviser_thought_cannot_be_dropped(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        going = anyio.Event()

        async def decide(journal: RunJournal, key: str) -> None:
            if key == "revise.1":
                await rig.store.decide((await rig.store.waiting_actions())[0], APPROVE)
                with anyio.fail_after(5):
                    await going.wait()
            if key == "revise.2":
                going.set()

        async def goes_on(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
            end = await approval(journal, "w")
            if isinstance(end, Outcome):
                going.set()
            return end

        rig.budget = BudgetSettings(parallel=1)
        rig.models.before = decide
        rig.steps = Steps({"w": goes_on, "a": ending(failed("a"))})
        rig.models.revisions = [revise(call("n"), drop=["w", "a"]), revise(call("n"), drop=["a"])]
        run = await rig.run([call("w"), call("a")])
        assert "step 'w' is running and can't be dropped" in rig.models.texts("revise_plan")[1]
        assert (run.status, await rig.statuses(run.id)) == ("succeeded", {"w": "succeeded", "n": "succeeded"})


async def test_the_words_of_a_revision_carry_what_was_read_when_it_was_made(tmp_path: Path) -> None:
    labels: list[Json] = []

    async def note(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
        labels.append((assignment.origin, sorted(assignment.label)))
        return await approval(journal, "n")

    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a")), "n": note})
        rig.models.revisions = [revise(call("n"), call("later"), drop=["a"])]
        run = await rig.run([call("first"), call("a", "first")])
        await rig.store.decide((await rig.store.waiting_actions())[0], APPROVE)
        run = await rig.drive(run.id)
        assert (run.status, labels) == ("succeeded", [("revision", ["model", "private:notes"])] * 2)


async def test_the_reviser_sees_what_a_worker_reported_and_whether_it_changed_something(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        report = Outcome(
            "w", "partial", summary="half of it", suggestions=("ask Ada",), limit="turns", effects=("outbox.send c_1",)
        )
        rig.steps = Steps({"w": ending(report), "a": ending(Outcome("a", "failed", problem="not called: x"))})
        rig.models.revisions = [CONTINUE]
        await rig.run([{"id": "w", "kind": "worker", "worker": "researcher", "task": "t"}, call("a", "w")])
        first, second = rig.models.texts("revise_plan")
        for told in ('"summary": "half of it"', "ask Ada", '"stopped_by": "turns"', '"changed_something": true'):
            assert told in first
        assert "the call could not be made with these arguments" in second


async def test_with_somebody_there_a_reviser_without_budget_is_asked_again_after_a_raise(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.steps = Steps({"a": ending(failed("a"))})
        rig.models.revisions = [BudgetReached("usd", allowed=2.0, used=2.0), revise(call("n"), drop=["a"])]
        run = await rig.run([call("a")], interactive=True)
        assert run.status == "awaiting_approval"
        await rig.store.decide((await rig.store.waiting_actions())[0], Decision("raise", "person", "terminal"))
        run = await rig.drive(run.id)
        assert (run.status, rig.steps.calls) == ("succeeded", ["a", "n"])
