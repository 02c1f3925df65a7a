"""Steps that a revision drops while they wait for a person: they are gone, and what they did by then is told."""

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from planner_rig import Rig, Steps, approval, asks_first, call, ending, failed, open_rig, succeeded, tool

from downstream.door import Waiting
from downstream.gate.unknown import ask_what_became
from executors.contract import Assignment, Outcome
from journal.actions import Action, Decision, NewAction
from journal.intents import NewIntent
from journal.ledger import Amount, Reservation
from journal.run_journal import Meaning, RunJournal
from planner.chronicle import Chronicle
from planner.halts import Halts
from planner.plan import Plan
from planner.planning import read_steps
from planner.progress import Change
from planner.questions import settled, widen_question
from planner.revise import Standing

Json = Any
APPROVE = Decision("approve", "person", "terminal")


async def asked(rig: Rig, run_id: str, key: str) -> Action:
    """The question of that key, as soon as it waits."""
    while True:
        ring = rig.store.bell.listen(run_id)
        for action in await rig.store.waiting_actions():
            if action.key == key:
                return action
        await ring.wait()


async def asks_anew(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
    """What a send does: where its question was taken back, it is asked again."""
    action = await journal.action("w/approval")
    if action is not None and action.state == "superseded":
        again = await journal.ask(NewAction("w/approval", "call", "host", "Send?", {}, {"step": "w"}, "w", step="w"))
        return Waiting(again.id, again.expires_at)
    return await approval(journal, "w")


async def test_a_waiting_step_that_an_approved_widening_drops_never_starts_again(tmp_path: Path) -> None:
    resumed = anyio.Event()

    async def until_resumed(journal: RunJournal, assignment: Assignment) -> Outcome:
        with anyio.fail_after(10):
            await resumed.wait()
        return succeeded("slow")

    async def resumes(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
        end = await approval(journal, "n")
        if isinstance(end, Outcome):
            resumed.set()
        return end

    async with open_rig(tmp_path) as rig:
        rig.tools.listed = [*rig.tools.listed, tool("web.fetch")]
        rig.steps = Steps({"a": ending(failed("a")), "w": asks_anew, "slow": until_resumed, "n": resumes})
        added = call("n", tool="web.fetch", arguments={})
        rig.models.revisions = [{"decision": "revise", "drop": ["a", "w"], "add": [added]}]
        rig.models.plans = [{"steps": [call("w"), call("slow"), call("a", "q"), call("q")]}]
        run_id = await rig.new_run()
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(rig.drive, run_id)
                await asked(rig, run_id, "w/approval")
                await rig.store.decide(await asked(rig, run_id, "revise.1/widen"), APPROVE)
                await rig.store.decide(await asked(rig, run_id, "n/approval"), APPROVE)
        run = await rig.store.run(run_id)
        assert (run.status, run.stop_reason, rig.steps.calls.count("w")) == ("succeeded", "done", 1)
        assert await rig.statuses(run_id) == {"slow": "succeeded", "q": "succeeded", "n": "succeeded"}
        assert await rig.store.waiting_actions() == []


async def test_a_step_that_is_resumed_while_a_widening_is_settled_is_not_dropped(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        journal = await rig.take(await rig.new_run())
        steps = [call("a"), call("w"), call("v"), call("u"), call("x", "u")]
        chronicle = Chronicle(journal, rig.desk, Plan(read_steps(steps)))
        await chronicle.replay()
        added = read_steps([call("n")])
        chronicle.progress.hold(Change("widen", drop=("w", "v", "u"), add=added, widens=("web.fetch",)))
        question = widen_question(journal.run.id, 1, added, tools=["web.fetch"], seconds=60.0)
        waiting = await settled(journal, question)
        assert isinstance(waiting, Action)
        await rig.store.decide(waiting, APPROVE)
        running: set[str] = set()
        chronicle.standing = lambda: Standing(frozenset(running))
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(Halts(chronicle).settle_revision)
                await anyio.lowlevel.checkpoint()
                running.add("w")
        assert [step.id for step in chronicle.progress.plan.steps] == ["a", "w", "u", "x", "n"]
        assert chronicle.progress.leaving == frozenset()


async def begin(journal: RunJournal, number: int) -> str:
    key = f"s/call.{number}"
    intent = NewIntent(f"c_{number}", "s", "outbox.send", "write", {"to": "x"}, "hash")
    await journal.begin_call(Reservation(key, Amount(tool_calls=1)), intent=intent)
    return key


async def sends_and_waits(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
    """The first mail is sent, the second waits for a yes."""
    key = await begin(journal, 1)
    await journal.end_call(key, Meaning("tool", None), {}, intent="done")
    return await approval(journal, "s")


async def sends_and_loses(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
    """The first mail is sent; of the second nobody knows."""
    await sends_and_waits(journal, assignment)
    await journal.lose_call(await begin(journal, 2))
    [intent] = [intent for intent in await journal.intents() if intent.state == "unknown"]
    end = await ask_what_became(journal, intent)
    assert isinstance(end, Waiting)
    return end


@pytest.mark.parametrize(
    ("fake", "told"),
    [
        (sends_and_waits, "s: dropped by a revision; done by then: outbox.send c_1, f: failed."),
        (
            sends_and_loses,
            "s: begun; nobody knows whether it ran (action {action}); done by then: outbox.send c_1, f: failed.",
        ),
    ],
    ids=["done", "done and lost"],
)
async def test_what_a_dropped_step_had_done_is_told_to_the_reviser_and_in_the_answer(
    tmp_path: Path, fake: Json, told: str
) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.revisions = [{"decision": "revise", "drop": ["s"], "add": [call("g", arguments={"query": "z"})]}]
        rig.steps = Steps({"s": fake, "f": ending(failed("f"))})
        rig.budget = rig.budget.model_copy(update={"parallel": 1})
        with anyio.fail_after(10):
            run = await rig.run([call("s"), call("f")])
        lost = next((each.id for each in await rig.store.actions(run.id) if each.kind == "unknown"), "")
        assert told.format(action=lost) in str(run.answer)
        [row] = [row for row in await rig.store.steps(run.id) if row.id == "s"]
        assert (row.dropped, f"s: {row.summary}, f: " in str(run.answer)) == (True, True)
        assert '"changed_something": true, "done_by_now": ["outbox.send"]' in rig.models.texts("revise_plan")[0]


async def test_a_step_that_was_dropped_before_it_did_anything_is_not_told_of(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.models.revisions = [{"decision": "revise", "drop": ["s"], "add": [call("g", arguments={"query": "z"})]}]
        rig.steps = Steps({"s": asks_first("s"), "f": ending(failed("f"))})
        rig.budget = rig.budget.model_copy(update={"parallel": 1})
        with anyio.fail_after(10):
            run = await rig.run([call("s"), call("f")])
        assert "s: " not in str(run.answer)
        assert "done_by_now" not in rig.models.texts("revise_plan")[0]
