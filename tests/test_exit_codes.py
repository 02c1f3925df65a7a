"""What `steprelay run` tells the shell, whatever becomes of the run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from bad_input import LOOK, check_kept, check_words
from command_line import Command, answered, steprelay
from products import call_step, script, write_settings

from journal.outlet import Outlet
from journal.store import open_store
from journal.world import World

pytestmark = pytest.mark.e2e

Json = Any

GOAL = "Say when it ships."
GO_ON: list[Json] = [{"decision": "continue"}]
FAIL = call_step("bad", "ledger.fail", text="no disk")
POST = call_step("post", "ledger.add_item", "look", key="note", value="ships")
DROP = call_step("drop", "ledger.drop_item", "look", key="plan")
ECHO = call_step("more", "ledger.echo", "look", text="x")


def again(number: int) -> Json:
    """A revision that tries what failed once more, under another name."""
    old = "bad" if number == 1 else f"bad{number - 1}"
    added = call_step(f"bad{number}", "ledger.fail", text=f"no disk {number}")
    return {"decision": "revise", "drop": [old], "add": [added]}


@dataclass(frozen=True)
class Row:
    """A plan with its settings and options, and what must come of it."""

    plan: tuple[Json, ...]
    code: int
    ends: tuple[str, str | None]
    told: tuple[str, ...]
    options: tuple[str, ...] = ()
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])
    revise: tuple[Json, ...] = tuple(GO_ON)
    writes: int = 0


ROWS = {
    "all done": Row((LOOK,), 0, ("succeeded", "done"), ("succeeded: 1 of 1 step", "All is done.")),
    "failed": Row(
        (FAIL,), 4, ("failed", "error"), ("failed (error)", "no disk", "Steps that did not succeed: bad: failed.")
    ),
    "failed in part": Row(
        (LOOK, FAIL), 4, ("partial", "error"), ("partial (error): 1 of 2 steps", "Steps that succeeded: look.")
    ),
    "no progress": Row(
        (FAIL,),
        4,
        ("partial", "no_progress"),
        ("Revising the plan brought nothing new.",),
        revise=tuple(again(number) for number in range(1, 5)),
    ),
    "waiting, nobody to ask": Row(
        (LOOK, POST),
        5,
        ("awaiting_approval", None),
        ("Call ledger.add_item (write) once", '"note"', "approve a_", "deny a_"),
    ),
    "waiting, destructive whatever the option says": Row(
        (LOOK, DROP),
        5,
        ("awaiting_approval", None),
        ("waits for a decision of level person", "approve a_"),
        options=("--approve", "all"),
    ),
    "budget": Row(
        (LOOK, ECHO),
        6,
        ("partial", "budget"),
        ("A limit of the budget was reached (budget.tool_calls).", "Steps that succeeded: look."),
        settings={"budget": {"tool_calls": 1}},
    ),
    "deadline": Row(
        (LOOK, call_step("more", "ledger.slow", "look", seconds=60)),
        6,
        ("partial", "deadline"),
        ("The time of the run was used up (budget.seconds).",),
        settings={"budget": {"seconds": 8}},
    ),
    "refused": Row(
        (LOOK, POST),
        7,
        ("partial", "refused"),
        ("A step that was needed was refused.", "Steps that did not succeed: post: refused."),
        options=("--approve", "deny"),
    ),
    "approved": Row((LOOK, POST), 0, ("succeeded", "done"), ("2 of 2 steps",), options=("--approve", "all"), writes=1),
}


@pytest.mark.parametrize(
    "command", [answered, pytest.param(steprelay, marks=pytest.mark.slow)], ids=["here", "in a process"]
)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_the_exit_code_and_the_last_lines_say_how_a_run_ended(tmp_path: Path, row: Row, command: Command) -> None:
    said = script(*row.plan, revise=list(row.revise))
    config = write_settings(tmp_path, script=said, settings=row.settings)
    ended = command("run", GOAL, *row.options, "--config", str(config), cwd=tmp_path)
    assert ended.returncode == row.code, ended.stdout + ended.stderr
    check_words(ended.stdout, *row.told)
    assert ended.stderr == ""
    anyio.run(check_store, tmp_path, row)
    assert len(toys.calls(tmp_path / "ledger.log", "add_item", "drop_item")) == row.writes


async def check_store(folder: Path, row: Row) -> None:
    async with open_store(folder / "store.db", World(), Outlet(), owner="local") as store:
        (run,) = await store.runs(limit=5)
    assert (run.status, run.stop_reason) == row.ends
    view = {"run_id": run.id, "status": run.status, "stop_reason": run.stop_reason}
    await check_kept(folder, view, *(["look"] if LOOK in row.plan else []))


NOTHING_RUN: dict[str, tuple[int, tuple[str, ...], str, tuple[str, ...]]] = {
    "no goal": (2, ("run",), "", ("GOAL",)),
    "an unknown option": (2, ("run", GOAL, "--aprove", "all"), "", ("--aprove", "--approve")),
    "a context of 1 MB": (2, ("run", GOAL, "--context", "-"), "c" * 1_000_000, ("1,000,000", "200,000")),
    "approve without a person": (2, ("approve", "a_none"), "", ("person at a terminal", "deny a_none")),
}


@pytest.mark.parametrize(("code", "words", "stdin", "told"), NOTHING_RUN.values(), ids=NOTHING_RUN.keys())
def test_a_command_that_cannot_begin_says_why_on_stderr(
    tmp_path: Path, code: int, words: tuple[str, ...], stdin: str, told: tuple[str, ...]
) -> None:
    config = write_settings(tmp_path, script=script(LOOK))
    ended = steprelay(*words, "--config", str(config), cwd=tmp_path, stdin=stdin)
    assert (ended.returncode, ended.stdout) == (code, "")
    check_words(ended.stderr, *told)


@pytest.mark.parametrize("words", [("run", GOAL), ("approvals",)], ids=" ".join)
def test_a_question_in_a_log_shows_no_secret(
    tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2-hunter2")
    post = call_step("post", "ledger.add_item", key="a", value="it is hunter2-hunter2")
    settings: dict[str, Any] = {"secrets": ["MY_TOKEN"], "policy": {"sinks": {"ledger.add_item": ["/key"]}}}
    config = write_settings(tmp_path, script=script(post), settings=settings)
    steprelay("run", GOAL, "--config", str(config), cwd=tmp_path)
    shown = steprelay(*words, "--config", str(config), cwd=tmp_path).stdout
    assert 'value  "it is [secret:MY_TOKEN]"' in shown
    assert "hunter2" not in shown


def test_with_json_a_run_that_waits_exits_5_and_asks_nobody(tmp_path: Path) -> None:
    config = write_settings(tmp_path, script=script(LOOK, POST))
    ended = steprelay("run", GOAL, "--json", "--config", str(config), cwd=tmp_path)
    types = [json.loads(line)["type"] for line in ended.stdout.splitlines()]
    assert (ended.returncode, types[-1], ended.stderr) == (5, "action.waiting", "")
