"""`runs resume --from STEP`: what was paid for is kept, the rest is done anew, and nothing is approved."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
import quick_jobs
from command_line import called
from products import call_step

from journal.actions import Decision
from journal.world import World
from server.opened_store import open_settings_store
from server.settings import Found, load_settings

pytestmark = pytest.mark.e2e

WORST = ["open:*", "private:*"]
STUDY = {
    "id": "study",
    "kind": "worker",
    "title": "Study",
    "worker": "researcher",
    "task": "Read on.",
    "tools": ["quick.read"],
    "needs": ["look"],
}
REPORT = {"status": "done", "summary": "All read.", "findings": [{"claim": "It is there.", "evidence": [0]}]}
WORK = {
    "study": {
        "attempts": [
            {"turns": [{"calls": [{"tool": "quick.read", "arguments": {"key": "b"}}], "delay": 0.5}], "report": REPORT}
        ]
    }
}
PLAN = [
    call_step("look", "quick.read", key="a"),
    STUDY,
    call_step("save", "quick.add", "study", key="one"),
    call_step("bad", "quick.fail", "save", text="x"),
    call_step("after", "quick.add", "bad", key="two"),
    call_step("aside", "quick.tell", "look", key="t"),
    call_step("beside", "quick.read", "aside", key={"$step": "aside"}),
]
LABELLED = {"order": 1, "outcome": 3, "attempt": 3, "tool": 3}
DONE = [("read", "a"), ("read", "b"), ("add", "one"), ("tell", "t"), ("read", "t")]


def job(folder: Path, plan: list[Any] = PLAN, **more: Any) -> Path:
    script = {"plan": plan, "steps": WORK, "answer": "So it is."}
    return quick_jobs.settings(folder, script, revise="never", **more)


class Commands:
    """Commands in this process, under one settings file."""

    def __init__(self, settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.settings = settings
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        """What the command printed; it has to end with this code."""
        self._capsys.readouterr()
        ended = called(*words, "--config", str(self.settings))
        said = self._capsys.readouterr()
        assert ended == code, said
        return said.out if code != 2 else said.err

    def run(self, *words: str, code: int) -> str:
        """The id of the run that a command drives to this end."""
        said = self(*words, "--json", code=code)
        return str(json.loads(said.splitlines()[0])["run"])

    def exported(self, run_id: str) -> Any:
        return json.loads(self("runs", "export", run_id))

    def approve(self, action_id: str) -> None:
        """Say yes as a person at a terminal would."""

        async def decide() -> None:
            settings = load_settings(Found(self.settings, "option"), environ={})
            async with open_settings_store(settings, world=World()) as store:
                await store.decide(await store.action(action_id), Decision("approve", "person", "terminal"))

        anyio.run(decide)


def labels(memo: list[Any]) -> dict[str, list[Any]]:
    """By the name of their record the labels of all that has one."""
    found: dict[str, list[Any]] = {}
    for row in memo:
        value: Mapping[str, Any] = row["value"] if isinstance(row["value"], dict) else {}
        holder = value.get("outcome") or value.get("called") or value
        if isinstance(held := holder.get("value"), dict):
            found.setdefault(row["name"], []).append(held["label"])
    return found


def statuses(document: Any) -> dict[str, str]:
    return {step["id"]: step["status"] for step in document["steps"]}


def test_a_fork_pays_for_nothing_twice_and_does_the_step_and_what_needs_it_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = Commands(job(tmp_path), capsys)
    old = commands.run("run", "do it", code=4)
    first = quick_jobs.made(tmp_path)
    assert sorted(first) == sorted([*DONE, ("fail", "x"), ("fail", "x")])
    before = commands.exported(old)
    for step in ("after", "nope"):
        told = f"step '{step}'; those that ran: look, study, save, bad, aside, beside"
        assert told in commands("runs", "resume", old, "--from", step, code=2)
    new = commands.run("runs", "resume", old, "--from", "bad", "--budget", "usd=1", code=4)
    fork = commands.exported(new)
    assert quick_jobs.made(tmp_path)[len(first) :] == [("fail", "x")] * 2
    assert [event["data"]["role"] for event in fork["events"] if event["type"] == "model.called"] == ["answer"]
    assert (fork["usage"]["model_calls"], fork["usage"]["tool_calls"]) == (1, 2)
    assert statuses(fork) == statuses(before)
    assert fork["run"]["origin"] == {"fork": {"run": old, "from": "bad"}}
    assert fork["run"]["options"]["budget"]["usd"] == 1
    assert commands.exported(old) == before
    warning = f"this run continues {old} from step bad; already done there: quick.add (step save)"
    assert warning in fork["run"]["warnings"]
    assert f"continues {old} from step bad" in commands("runs", "show", new)
    assert json.loads(commands("runs", "show", new, "--json"))["origin"] == fork["run"]["origin"]
    kept = [event["step"] for event in fork["events"] if event["data"].get("kept")]
    assert sorted(kept) == ["aside", "beside", "look", "save", "study"]


def test_what_a_fork_takes_over_has_the_worst_label_and_its_records_still_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`study` and `beside` end after `mark`, so their outcomes are found again under the labels they have now."""
    beside = call_step("beside", "quick.tell", "study", key={"$step": "study.summary"})
    plan = [call_step("look", "quick.read", key="a"), STUDY, call_step("mark", "quick.read", "look", key="m"), beside]
    commands = Commands(job(tmp_path, plan), capsys)
    old = commands.run("run", "do it", code=0)
    first = quick_jobs.made(tmp_path)
    new = commands.run("runs", "resume", old, "--from", "mark", code=0)
    assert quick_jobs.made(tmp_path)[len(first) :] == [("read", "m")]
    fork = commands.exported(new)
    kept = [row for row in fork["memo"] if row["epoch"] == 0]
    roots = {row["key"].partition("@")[0] for row in kept}
    assert roots == {
        *("plan", "plan.1", "plan.1/rung", "order.1", "trigger.1", "step.look", "step.study", "step.beside"),
    }
    assert labels(kept) == {name: [WORST] * count for name, count in LABELLED.items()}


def test_an_effect_of_the_past_is_repeated_only_if_a_person_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = Commands(job(tmp_path), capsys)
    old = commands.run("run", "do it", code=4)
    new = commands.run("runs", "resume", old, "--from", "save", "--approve", "all", code=5)
    action = commands.exported(new)["actions"][0]
    assert (action["step"], action["level"], action["state"]) == ("save", "person", "waiting")
    assert "the same call was made already in the run that this one continues, by step save" in action["reasons"]
    assert quick_jobs.made(tmp_path, "add") == [("add", "one")]
    commands.approve(action["id"])
    commands.run("runs", "resume", new, code=4)
    assert quick_jobs.made(tmp_path, "add") == [("add", "one")] * 2


def test_an_approval_is_not_carried_over_and_a_target_from_a_kept_value_needs_a_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = [
        call_step("aside", "quick.tell", key="t"),
        call_step("drop", "quick.drop", "aside", key={"$step": "aside"}),
        call_step("bad", "quick.fail", "drop", text="x"),
        call_step("add", "quick.add", "aside", key={"$step": "aside"}),
    ]
    commands = Commands(job(tmp_path, plan), capsys)
    old = commands.run("run", "do it", code=5)
    assert f"run {old} has not ended" in commands("runs", "resume", old, "--from", "aside", code=2)
    asked = {action["step"]: action for action in commands.exported(old)["actions"]}
    for action in asked.values():
        commands.approve(action["id"])
    commands.run("runs", "resume", old, code=4)
    assert sorted(quick_jobs.made(tmp_path, "drop", "add")) == [("add", "t"), ("drop", "t")]
    new = commands.run("runs", "resume", old, "--from", "aside", "--approve", "all", code=5)
    again = {action["step"]: action for action in commands.exported(new)["actions"]}
    assert {step: (action["level"], action["state"]) for step, action in again.items()} == {
        "drop": ("person", "waiting"),
        "add": ("person", "waiting"),
    }
    assert not {action["id"] for action in asked.values()} & {action["id"] for action in again.values()}
    assert sorted(quick_jobs.made(tmp_path, "drop", "add")) == [("add", "t"), ("drop", "t")]
