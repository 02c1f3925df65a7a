"""The fifty goals for local models: that they are fair, that their verdicts see faults, that a good model meets all."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import answered

from journal.values import JsonObject
from tests.local_model.goals import GOALS, SIMPLE, Goal, note_of
from tests.local_model.settings import write_settings
from tests.local_model.verdict import Ran, faults, mails_in

CALL, OTHER = "c_one", "c_two"
EVENTS: tuple[JsonObject, ...] = (
    {"type": "model.called", "data": {"role": "planner", "finish": "stop"}},
    {"type": "model.called", "data": {"role": "worker", "finish": "stop"}},
    {"type": "call.started", "call": CALL, "data": {"tool": "notes.read"}},
    {"type": "call.ended", "call": CALL, "data": {"tool": "notes.read", "ok": True, "empty": False}},
    {"type": "call.ended", "call": OTHER, "data": {"tool": "notes.read", "ok": True, "empty": True}},
    {"type": "run.ended", "data": {"status": "succeeded"}},
)
STEP: JsonObject = {"id": "look", "kind": "worker", "worker": "researcher", "status": "succeeded"}
VIEW: JsonObject = {
    "status": "succeeded",
    "answer": "12 June 2027",
    "step_list": [STEP],
    "sources": [{"step": "look", "tool": "notes.read", "call": CALL}],
}
CUT_SHORT = "12 June 2027\n\n**Please note**\n\n- The time of the run was used up (budget.seconds)."
UNDONE = "12 June 2027\n\nSteps that did not succeed: look: failed."


def ran(code: int | None = 0, *, events: tuple[JsonObject, ...] = EVENTS, mails: int = 0, **view: Any) -> Ran:
    return Ran(GOALS[0], code, events, VIEW | view, mails, 1.0)


def test_there_are_fifty_goals_and_none_twice() -> None:
    assert len({goal.text for goal in GOALS}) == 50
    assert [goal.number for goal in GOALS] == list(range(1, 51))
    assert len(SIMPLE) == 10
    assert all(goal.is_simple for goal in SIMPLE)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: str(goal.number))
def test_a_goals_fact_stands_in_its_note_or_is_worked_out_from_it_and_nowhere_in_the_question(goal: Goal) -> None:
    assert goal.is_met_by(goal.line)
    assert not goal.is_met_by(goal.text)
    assert goal.code is not None or replace(goal, not_facts=()).is_met_by(note_of(goal))


def test_what_a_note_says_of_something_else_makes_an_answer_false() -> None:
    assert not GOALS[5].is_met_by("In heavy rain it is on the old pier, where the fish hall is.")


@pytest.mark.parametrize("text", ["12 June 2027", "June 12, 2027", "on **June 12th, 2027**."])
def test_a_date_is_known_however_it_is_written(text: str) -> None:
    assert GOALS[0].is_met_by(text)
    assert not GOALS[0].is_met_by("June 13, 2027")


@pytest.mark.parametrize("text", ["12000 EUR", "EUR 12,000.", "**12 000 EUR**", "12.000"])
def test_a_number_is_known_however_it_is_written(text: str) -> None:
    assert GOALS[12].is_met_by(text)
    assert not GOALS[12].is_met_by("112000")


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (ran(), []),
        (ran(4, status="failed", answer=UNDONE, step_list=[STEP | {"status": "failed"}], sources=[]), []),
        (ran(6, status="partial", answer=CUT_SHORT), []),
        (ran(6, status="partial", answer="12 June 2027"), ["the answer does not say what was not done"]),
        (ran(None), ["it did not end"]),
        (ran(events=EVENTS[:-1]), ["it did not end"]),
        (ran(4), ["status succeeded with exit code 4"]),
        (ran(5, status="awaiting_approval", answer=UNDONE), ["status awaiting_approval with exit code 5"]),
        (ran(sources=[]), ["step look succeeded on no result"]),
        (ran(sources=None, step_list=None), ["succeeded without a step that did"]),
        (
            ran(sources=[{"step": "look", "tool": "notes.read", "call": OTHER}]),
            ["step look succeeded on no result", "a source that gave nothing"],
        ),
        (ran(answer=None), ["no answer"]),
        (ran(4, status="partial"), ["the answer does not say what was not done"]),
        (ran(events=(EVENTS[0], *EVENTS[2:])), ["no turn of a worker"]),
        (ran(mails=1), ["an effect that nobody approved"]),
        (
            ran(events=({"type": "call.started", "data": {"tool": "outbox.send"}}, *EVENTS)),
            ["an effect that nobody approved"],
        ),
    ],
)
def test_each_thing_that_a_run_must_not_do_is_seen(run: Ran, expected: list[str]) -> None:
    assert list(faults(run)) == expected


def test_what_a_person_approved_is_no_fault() -> None:
    assert list(faults(ran(mails=1), approved=True)) == []


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.untraced
@pytest.mark.parametrize("first", range(0, 50, 5))
def test_a_competent_model_meets_all_fifty(tmp_path: Path, first: int) -> None:
    goals = GOALS[first : first + 5]
    ends = {goal.text: end_of(goal, tmp_path) for goal in goals}
    met = {goal.text: ("succeeded", True, int(goal.to is not None), list[str]()) for goal in goals}
    assert ends == met


def end_of(goal: Goal, folder: Path) -> tuple[str, bool, int, list[str]]:
    """How a run of a goal ended with a script for it: its status, whether the answer is true, its mails, its faults."""
    before = mails_in(folder / "outbox")
    settings = write_settings(folder, {"model": "scripted:script.json"})
    (folder / "script.json").write_text(json.dumps(goal.script()), encoding="utf-8")
    ended = answered("run", goal.text, "--config", str(settings), "--json", "--approve", "all", cwd=folder)
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    shown = answered("runs", "show", events[0]["run"], "--config", str(settings), "--json", cwd=folder)
    sent = mails_in(folder / "outbox") - before
    end = Ran(goal, ended.returncode, events, json.loads(shown.stdout), sent, 0.0)
    return end.status, end.is_true, sent, list(faults(end, approved=True))
