"""Steps that had not ended when their run did: what is said of what they may have done."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from planner_rig import LIMITS, Rig, Steps, call, ending, failed, open_rig

from downstream.door import Waiting
from downstream.gate.unknown import ask_what_became
from downstream.models.replies import ReplyErrors
from executors.contract import Assignment, Outcome
from journal.actions import Decision
from journal.intents import IntentState, NewIntent
from journal.ledger import Amount, Reservation
from journal.run_journal import Meaning, RunJournal
from planner.asking import REVISION

Json = Any


async def begin(journal: RunJournal, step: str) -> None:
    intent = NewIntent(f"c_{step}", step, "outbox.send", "write", {"to": "x"}, "hash")
    await journal.begin_call(Reservation(f"{step}/call", Amount(tool_calls=1)), intent=intent)


def sends(step: str, then: IntentState) -> Json:
    """A step that sends something and, knowing this of it, never ends by itself."""

    async def fake(journal: RunJournal, assignment: Assignment) -> Outcome:
        await begin(journal, step)
        if then == "unknown":
            await journal.lose_call(f"{step}/call")
        elif then == "done":
            await journal.end_call(f"{step}/call", Meaning("tool", None), {}, intent="done")
        await anyio.sleep_forever()
        raise AssertionError

    return fake


async def asked_for(rig: Rig, run_id: str) -> str:
    [action] = [action for action in await rig.store.actions(run_id) if action.kind == "unknown"]
    return f"begun; nobody knows whether it ran (action {action.id})"


@pytest.mark.parametrize("then", ["begun", "unknown"])
async def test_a_call_of_which_nobody_knows_is_neither_left_out_nor_called_not_run(
    tmp_path: Path, then: IntentState
) -> None:
    async with open_rig(tmp_path) as rig:
        rig.limits = replace(LIMITS, seconds=1.5)
        rig.steps = Steps({"b": sends("b", then)})
        with anyio.fail_after(10):
            run = await rig.run([call("a"), call("b", "a"), call("c", "b")])
        said = await asked_for(rig, run.id)
        assert run.stop_reason == "deadline"
        assert await rig.statuses(run.id) == {"a": "succeeded", "b": "failed", "c": "skipped"}
        assert f"b: {said}, c: not run." in str(run.answer)
        assert said in rig.models.texts("submit_answer")[0]


async def test_what_a_step_had_done_before_it_was_cut_short_is_told(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.limits = replace(LIMITS, seconds=1.5)
        rig.steps = Steps({"b": sends("b", "done")})
        with anyio.fail_after(10):
            run = await rig.run([call("b")])
        assert await rig.statuses(run.id) == {"b": "cancelled"}
        assert "b: cut short by the end of the run; done by then: outbox.send c_b." in str(run.answer)


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("done", "b: cut short by the end of the run; done by then: outbox.send c_b."),
        ("not_done", "b: cut short by the end of the run."),
        ("give_up", "b: begun; nobody knows whether it ran (action a_"),
    ],
)
async def test_a_persons_word_on_a_lost_call_counts_at_the_end_too(tmp_path: Path, choice: str, told: str) -> None:
    async def decided(journal: RunJournal, assignment: Assignment) -> Outcome:
        await begin(journal, "b")
        await journal.lose_call("b/call")
        [intent] = await journal.intents()
        await ask_what_became(journal, intent)
        [action] = await rig.store.waiting_actions()
        await rig.store.decide(action, Decision(choice, "person", "terminal"))
        await anyio.sleep_forever()
        raise AssertionError

    async with open_rig(tmp_path) as rig:
        rig.limits = replace(LIMITS, seconds=1.5)
        rig.steps = Steps({"b": decided})
        with anyio.fail_after(10):
            run = await rig.run([call("b")])
        assert told in str(run.answer)


async def test_a_dropped_step_whose_call_was_lost_is_still_told_of(tmp_path: Path) -> None:
    async def lost(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
        await begin(journal, "s")
        await journal.lose_call("s/call")
        [intent] = await journal.intents()
        asked = await ask_what_became(journal, intent)
        assert isinstance(asked, Waiting)
        return asked

    async with open_rig(tmp_path) as rig:
        rig.models.revisions = [{"decision": "revise", "drop": ["s"], "add": [call("g", arguments={"query": "z"})]}]
        rig.steps = Steps({"s": lost, "f": ending(failed("f"))})
        rig.budget = rig.budget.model_copy(update={"parallel": 1})
        with anyio.fail_after(10):
            run = await rig.run([call("s"), call("f")])
        assert f"s: {await asked_for(rig, run.id)}" in str(run.answer)


def test_a_reply_nested_too_deeply_is_asked_for_again() -> None:
    reason: Json = []
    for _ in range(100):
        reason = [reason]
    with pytest.raises(ReplyErrors, match="nested deeper than 64"):
        REVISION.read({"decision": "continue", "reason": reason})
