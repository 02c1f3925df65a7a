"""RunViews: exact in shape, bounded in size, complete by themselves, made from the journal alone."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from run_at_hand import RunAtHand, open_run

from journal.actions import ActionKind, Decision, Level, NewAction
from journal.lease import open_lease
from journal.ledger import Amount, Reservation, Spent
from journal.outlet import Outlet
from journal.run_journal import Ending, Meaning, RunJournal
from journal.runs import NewRun, RunStatus, StopReason
from journal.steps import StepRow, StepStatus
from journal.store import open_store
from journal.world import World
from server.installed import Spoken
from server.terminal.exit_codes import ExitCode, code_of_run
from server.views.run_view import RunLines, RunView
from server.views.view import run_lines, run_view
from server.views.view_size import fitted, weight
from server.views.view_text import lines_text, view_text

COMMAND = "steprelay"
LONG = "word " * 2_000


@asynccontextmanager
async def open_driven(folder: Path) -> AsyncGenerator[tuple[RunAtHand, RunJournal]]:
    """A run that a living process with its settings drives."""
    async with open_run(folder) as run, open_lease(run.store, fingerprint="print", settings_path="settings.yaml"):
        yield run, await run.take()


async def shown(run: RunAtHand, *, vouched: bool = True, detail: bool = False) -> RunView:
    view = await run_view(run.store, run.id, spoken=Spoken(COMMAND), vouched=vouched, detail=detail)
    jsonschema.validate(view.model_dump(mode="json"), RunView.model_json_schema())
    return view


def row(id_: str, position: int, *, title: str = "Do it", summary: str = "") -> StepRow:
    return StepRow(
        id=id_,
        position=position,
        version=1,
        kind="call",
        title=title,
        worker=None,
        optional=False,
        dropped=False,
        status="pending",
        summary=summary,
        definition={"needs": []},
        started_at=None,
        ended_at=None,
    )


def question(key: str, arguments: Any, *, kind: ActionKind = "call", level: Level = "host") -> NewAction:
    tool = "toy.write" if kind == "call" else None
    return NewAction(key, kind, level, "Do it?", arguments, {"key": key}, key, step="post", tool=tool, effect="write")


async def test_the_counts_of_steps_sum_up_whatever_their_statuses(tmp_path: Path) -> None:
    statuses: list[StepStatus] = [
        *("pending", "running", "waiting", "succeeded"),
        *("partial", "failed", "refused", "skipped", "cancelled"),
    ]
    async with open_driven(tmp_path) as (run, journal):
        await journal.put_plan([row(status, place) for place, status in enumerate(statuses)], events=())
        for status in statuses[1:]:
            await journal.put_step_status(status, status)
        view = await shown(run, detail=True)
    counts = {"total": 9, "succeeded": 1, "failed": 3, "running": 1, "waiting": 2, "skipped": 2}
    assert view.steps.model_dump() == counts
    assert [step.status for step in view.step_list or []] == statuses


async def test_a_run_at_work_is_shown_short_and_in_full_on_request(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        await journal.put_plan([row("a", 1)], events=())
        short, full = await shown(run), await shown(run, detail=True)
    assert (short.step_list, short.sources, short.budget, short.answer, short.stop_reason) == (None,) * 5
    assert ([step.id for step in full.step_list or []], full.sources) == (["a"], [])
    assert short.model_dump(exclude={"step_list", "sources", "budget"}) == full.model_dump(
        exclude={"step_list", "sources", "budget"}
    )
    assert short.message == f"Run {run.id} is at work: 0 of 1 steps have ended."


async def test_a_run_that_waits_is_shown_in_full(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        await journal.put_plan([row("a", 1)], events=())
        await journal.ask(question("key", {}))
        await journal.park(None)
        view = await shown(run)
    assert (view.status, [step.id for step in view.step_list or []], view.sources) == ("awaiting_approval", ["a"], [])


async def test_the_short_form_stays_below_1500_characters(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        for number in range(30):
            await journal.warn(f"warning {number}: {LONG}")
            await journal.ask(question(f"key {number}", {"number": number}))
        view = await shown(run)
    assert weight(view) <= 1_500
    assert (len(view.actions), view.next_actions[-1][:8]) == (30, "get_run(")
    assert view.warnings[-1].endswith(f"run://{run.id}/report has them")


async def test_a_view_in_full_stays_below_16000_characters(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        await journal.put_plan([row(f"s{number}", number, title=LONG) for number in range(60)], events=())
        for number in range(60):
            await journal.put_step_status(f"s{number}", "succeeded", summary=LONG)
            await journal.warn(f"warning {number}: {LONG}")
        sources = [{"step": "s1", "tool": "toy.read", "call": f"c_{number:026}"} for number in range(300)]
        await journal.finish(Ending("succeeded", "done", LONG, LONG, {"sources": sources}))
        view = await shown(run)
    assert weight(view) <= 16_000
    assert view.answer is not None
    assert len(view.answer) == 6_000
    assert (view.steps.total, len(view.step_list or [])) == (60, 40)


async def test_steps_go_where_even_short_ones_are_too_many_for_a_view(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        rows = [replace(row(f"s{number:031}", number), worker="w" * 100) for number in range(40)]
        await journal.put_plan(rows, events=())
        await journal.finish(Ending("succeeded", "done", LONG, LONG, {}))
        view = await shown(run)
        wide = view.model_copy(update={"budget": {"x" * 20_000: 1}})
    assert (weight(view) <= 16_000, len(view.step_list or []), len(view.answer or "")) == (True, 20, 6_000)
    # What is made by none but us can't be cut; the least that can be shown is shown.
    assert fitted(wide, short=False).budget == wide.budget


async def test_a_step_is_shown_with_at_most_200_characters(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        await journal.put_plan([row("a", 1)], events=())
        await journal.put_step_status("a", "succeeded", summary=LONG)
        view = await shown(run, detail=True)
    assert [len(step.summary) for step in view.step_list or []] == [200]


async def test_arguments_are_complete_or_null(tmp_path: Path) -> None:
    size = len(json.dumps({"text": ""}, separators=(",", ":")))
    exactly, above, half = ({"text": "x" * (length - size)} for length in (4_000, 4_001, 3_900))
    async with open_driven(tmp_path) as (run, journal):
        for number, arguments in enumerate([above, exactly, half, {"text": "x" * 200}, {"text": "y"}]):
            await journal.ask(question(f"key {number}", arguments))
        await journal.park(None)
        view = await shown(run)
        assert [action.arguments for action in view.actions] == [None, exactly, half, None, None]
        told = [text.split("(")[0].split(";")[0] for text in (await shown(run, detail=True)).next_actions]
    assert told[0].startswith("Tell the user that only a person can decide")
    assert told[1] == told[2] == "Ask the user"
    assert told[3].startswith("Have the earlier actions decided first")


async def test_an_action_is_shown_with_all_that_a_decision_needs(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        action = await journal.ask(question("key", {"to": "ada"}))
        await journal.park(None)
        view = await run_view(run.store, run.id, spoken=Spoken(COMMAND, Path("/my files/s.yaml")))
    typed = f"{COMMAND} {{}} {action.id} --config '/my files/s.yaml'"
    assert [each.model_dump(mode="json") for each in view.actions] == [
        {
            "action_id": action.id,
            "kind": "call",
            "choices": ["approve", "deny"],
            "question": "Do it?",
            "step": "post",
            "tool": "toy.write",
            "arguments": {"to": "ada"},
            "effect": "write",
            "level": "host",
            "reasons": [],
            "digest": action.hash[:8],
            "expires_at": None,
            "how": f"In a terminal: {typed.format('approve')} (or: {typed.format('deny')})",
        }
    ]
    assert view.message == f"Run {run.id} waits for its user to decide: toy.write ({action.id})."
    assert view.next_actions[0] == (
        f'Ask the user; then approve_action(action_id="{action.id}", decision="approve", '
        "and tool and arguments as in actions[0])"
    )


async def test_where_no_word_of_a_host_counts_its_user_is_sent_to_the_form_or_elsewhere(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        action = await journal.ask(question("key", {"to": "ada"}))
        await journal.park(None)
        view = await shown(run, vouched=False)
    where = "waits for its user, in a form or outside this client, to decide"
    assert view.message == f"Run {run.id} {where}: toy.write ({action.id})."
    assert view.next_actions[0] == (
        f"Tell the user that they decide {action.id}: in a form, which "
        f'approve_action(action_id="{action.id}", decision="approve") shows again if this client has forms, else as '
        "actions[0].how says. It decides nothing by itself."
    )


async def test_a_person_is_named_where_only_a_person_can_decide(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        await journal.ask(question("key", {}, level="person"))
        await journal.park(None)
        view = await shown(run)
    assert "waits for a person outside this client to decide: toy.write (" in view.message
    assert "only a person can decide" in view.next_actions[0]
    assert "approve_action" not in "".join(view.next_actions)


async def test_the_message_says_which_action_waits_for_whom(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        person = await journal.ask(question("one", {}, level="person"))
        user = await journal.ask(question("two", {}))
        long = await journal.ask(question("three", {"text": "x" * 4_001}))
        await journal.park(None)
        view = await shown(run)
    assert view.message == (
        f"Run {run.id} waits for its user to decide: toy.write ({user.id}); "
        f"and for a person outside this client to decide: toy.write ({person.id}), toy.write ({long.id})."
    )


async def test_a_run_whose_action_was_just_decided_waits_for_nobody(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        action = await journal.ask(question("key", {}))
        await journal.park(None)
        await run.store.decide(action, Decision("deny", "host", "approve_action"))
        view = await shown(run)
        (line,) = await run_lines(run.store, [await run.store.run(run.id)])
    assert (view.status, view.actions, line.needs) == ("awaiting_approval", [], None)
    assert view.message == f"Run {run.id} goes on in a moment: a decision is being acted on."


ENDS: list[tuple[RunStatus, StopReason, ExitCode]] = [
    ("succeeded", "done", ExitCode.OK),
    ("partial", "budget", ExitCode.BUDGET),
    ("partial", "deadline", ExitCode.BUDGET),
    ("partial", "refused", ExitCode.REFUSED),
    ("partial", "no_progress", ExitCode.FAILED),
    ("partial", "error", ExitCode.FAILED),
    ("failed", "error", ExitCode.FAILED),
    ("cancelled", "cancelled", ExitCode.INTERRUPTED),
]


@pytest.mark.parametrize(("status", "reason", "code"), ENDS)
async def test_an_end_has_its_status_reason_and_exit_code(
    tmp_path: Path, status: RunStatus, reason: StopReason, code: ExitCode
) -> None:
    async with open_driven(tmp_path) as (run, journal):
        await journal.finish(Ending(status, reason, "It ended.", "The answer.", {"contains_untrusted": True}))
        view = await shown(run)
        assert code_of_run(await run.store.run(run.id)) == code
    assert (view.status, view.stop_reason, view.message, view.answer) == (status, reason, "It ended.", "The answer.")
    assert (view.contains_untrusted, view.resources) == (True, [f"run://{run.id}/report"])


async def test_nothing_is_at_work_in_a_run_that_has_ended(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        await journal.put_plan([row("a", 1), row("b", 2)], events=())
        await journal.put_step_status("a", "running")
        await journal.finish(Ending("failed", "error", "It broke.", "Nothing.", {}))
        view = await shown(run)
    assert (view.steps.skipped, view.steps.running, view.steps.waiting) == (2, 0, 0)


async def test_an_unknown_action_outlives_its_run_and_is_decided_as_a_record(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        unknown = await journal.ask(question("k/unknown", {"x": 1}, kind="unknown", level="person"))
        await journal.ask(question("other", {}))
        await journal.finish(Ending("partial", "error", "It ended.", "Some.", {}))
        view = await shown(run)
        assert [(action.action_id, action.kind) for action in view.actions] == [(unknown.id, "unknown")]
        assert "only a person can decide" in view.next_actions[0]
        await run.store.decide(unknown, Decision("done", "person", "terminal"))
        assert (await shown(run)).actions == []


async def test_the_budget_shown_is_the_one_in_force(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db", World(), Outlet(), owner="me") as store:
        new = NewRun("me", "print", "settings.yaml", "goal", "user", "", {"budget": {"tool_calls": 3, "usd": 1.5}})
        run = RunAtHand(store, (await store.create_or_attach(new, driver="test"))[0])
        journal = await run.take()
        raised = await journal.ask(question("b", {"limit": "tool_calls", "add": 3.0}, kind="budget", level="person"))
        await store.decide(raised, Decision("raise", "person", "terminal"))
        assert (await shown(run, detail=True)).budget == {"tool_calls": 6, "usd": 1.5}


async def test_the_usage_is_what_the_ledger_says(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        await journal.begin_call(Reservation("m", Amount(model_calls=1)))
        spent = Spent(input_tokens=400, output_tokens=70, cached_tokens=10, usd=0.1 + 0.2, cost_known=False)
        await journal.end_call("m", Meaning("model", 1), None, spent=spent)
        usage = (await shown(run)).usage
    assert usage.model_dump(exclude={"seconds"}) == {
        "model_calls": 1,
        "tool_calls": 0,
        "input_tokens": 400,
        "output_tokens": 70,
        "cached_tokens": 10,
        "cost_usd": 0.3,
        "cost_known": False,
    }


async def test_a_run_that_no_living_process_may_drive_names_its_settings(tmp_path: Path) -> None:
    async with open_run(tmp_path) as run:
        await (await run.take()).put_plan([row("a", 1)], events=())
        view = await shown(run)
        (line,) = await run_lines(run.store, [await run.store.run(run.id)])
    assert "it needs settings.yaml" in view.message
    assert f"steprelay runs resume {run.id}" in view.message
    assert line.needs == "settings: settings.yaml"


async def test_a_run_that_is_being_cancelled_says_so(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, _):
        await run.store.request_cancel(await run.store.run(run.id), "Enough.")
        assert (await shown(run)).message == f"Run {run.id} is being cancelled."


async def test_a_line_of_the_list_says_who_is_needed(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        (working,) = await run_lines(run.store, [await run.store.run(run.id)])
        await journal.ask(question("key", {}))
        await journal.park(None)
        (waiting,) = await run_lines(run.store, [await run.store.run(run.id)])
    assert (working.needs, waiting.needs) == (None, "person")
    assert list(waiting.model_dump()) == [
        *("run_id", "goal", "status", "stop_reason", "created_at", "updated_at", "cost_usd", "needs"),
    ]
    assert waiting.created_at.endswith("Z")
    assert f"{run.id}  awaiting_approval  {waiting.updated_at}  needs person  goal" in lines_text(
        RunLines(runs=[waiting])
    )
    assert lines_text(RunLines(runs=[])) == "No runs."


async def test_the_text_part_says_all_that_the_structured_part_says(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        await journal.put_plan([row("a", 1, title="Look there")], events=())
        await journal.put_step_status("a", "succeeded", summary="Found it.")
        await journal.warn("Something is odd.")
        unknown = await journal.ask(question("k/unknown", {"x": [1, "ü"]}, kind="unknown", level="person"))
        sources = [{"step": "a", "tool": "toy.read", "call": "c_1"}]
        ending = Ending("partial", "error", "It ended.", "Some.", {"sources": sources, "contains_untrusted": True})
        await journal.finish(ending)
        view = await shown(run)
    text = view_text(view)
    (action,) = view.actions
    said = [
        *(view.message, view.run_id, "partial: error", "Some.", "1 of 1 succeeded", "a (call, succeeded) Look there"),
        *("Found it.", "Something is odd.", unknown.id, '{"x": [1, "ü"]}', action.question, action.how, action.digest),
        *("toy.read (a, c_1)", "treat it as data", *view.next_actions, *view.resources),
    ]
    assert [part for part in said if part not in text] == []


async def test_no_secret_leaves_by_a_view(tmp_path: Path) -> None:
    secret = "s3cret-value-1"
    outlet = Outlet([("TOKEN", secret)])
    async with open_store(tmp_path / "store.db", World(), outlet, owner="me") as store:
        new = NewRun("me", "print", "settings.yaml", f"goal {secret}", "user", "", {})
        run = RunAtHand(store, (await store.create_or_attach(new, driver="test"))[0])
        journal = await run.take()
        await journal.put_plan([row("a", 1, title=f"Use {secret}")], events=())
        await journal.ask(question("key", {"body": secret}))
        await journal.park(None)
        view = await shown(run, detail=True)
        (line,) = await run_lines(store, [await store.run(run.id)])
    assert secret not in view.model_dump_json() + view_text(view) + line.model_dump_json()
    assert view.actions[0].arguments == {"body": "[secret:TOKEN]"}


async def test_dropped_steps_are_shown_only_if_they_had_ended(tmp_path: Path) -> None:
    async with open_driven(tmp_path) as (run, journal):
        await journal.put_plan([row("a", 1), row("b", 2), row("c", 3)], events=())
        await journal.put_step_status("a", "failed")
        await journal.put_plan([], drop=["a", "b"], events=())
        view = await shown(run, detail=True)
    assert [step.id for step in view.step_list or []] == ["a", "c"]
    assert (view.steps.total, view.steps.failed, view.steps.waiting) == (2, 1, 1)
