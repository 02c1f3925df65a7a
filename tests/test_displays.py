"""How a run is shown: a tree on a terminal, lines in a pipe; what tools and models wrote is shown escaped."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text
from stored_runs import settings_now, stored_action, stored_run

from journal.actions import Action, Decision
from journal.database import Transaction
from journal.events import Event
from journal.lease import open_lease
from journal.ledger import Usage
from journal.steps import StepRow, StepStatus, put_step
from journal.values import JsonObject
from journal.world import World
from server.commands.ending import tell_end
from server.installed import Spoken
from server.opened_store import open_settings_store
from server.terminal.follow import Snapshot, follow, is_parked, look
from server.terminal.live_tree import LiveTree, open_live_tree
from server.terminal.plain_lines import show_lines
from server.views.standing import standing_lines, standing_of
from server.views.view import run_view
from server.views.words import cost, duration, tokens

GONE = "tool server 'gone' is left out: no such command"


async def snapshot(goal: str = "Send the mail", *, waits: bool = True) -> Snapshot:
    run_id = await stored_run(goal=goal)
    if waits:
        await stored_action(run_id)
    async with open_settings_store(settings_now(), world=World()) as store:
        return await look(store, run_id)


def step(id_: str, status: StepStatus, *, summary: str = "", dropped: bool = False) -> StepRow:
    started = None if status in ("pending", "skipped") else 100.0
    return StepRow(
        id=id_,
        position=0,
        version=1,
        kind="call",
        title=f"Do {id_}",
        worker=None,
        optional=False,
        dropped=dropped,
        status=status,
        summary=summary,
        definition={},
        started_at=started,
        ended_at=None,
    )


def event(type_: str, data: JsonObject, *, step: str | None = None) -> Event:
    return Event(1, 1.0, "r_x", type_, step, None, data)


def drawn(now: Snapshot, *, how: bool = True) -> list[str]:
    out = StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    with open_live_tree(console, how=(lambda words: f"steprelay {words}") if how else None) as tree:
        tree.show(now)
        lines = [line.plain.rstrip() for line in tree.lines(now, width=80, spinner=tree_mark())]
    assert lines[0][:20] in out.getvalue()
    return lines


def tree_mark() -> Text:

    return Text("*")


async def test_the_tree_shows_each_step_with_its_calls_its_time_and_why_it_failed() -> None:
    now = await snapshot(waits=False)
    steps = (
        step("a", "succeeded"),
        step("b", "failed", summary="the tool\nsaid \x1b[31mno", dropped=True),
        step("c", "pending", dropped=True),
        step("d", "running"),
        step("e", "pending"),
    )
    events = (
        event("call.ended", {"tool": "notes.read", "ok": True}, step="a"),
        event("call.ended", {"tool": "notes.read", "ok": True}, step="a"),
        event("revision.made", {"decision": "revise", "reason": "b cannot be done"}),
    )
    usage = Usage(input_tokens=1200, output_tokens=34, cost_usd=0.25)
    now = replace(now, now=now.run.created_at + 61, steps=steps, events=events, usage=usage)
    now = replace(now, now=110.0, run=replace(now.run, created_at=49.0))
    assert drawn(now) == [
        "‖ Send the mail                               $0.2500 of $2.00 · 1.2k tok · 1:01",
        "├─ ✔ Do a                       call        notes.read ×2                   0:10",
        "├─ ✘ Do b (dropped)             call                                        0:10",
        "│    the tool said \\u001b[31mno",
        "├─ * Do d                       call                                        0:10",
        "└─ · Do e                       call",
        "   ↻ plan revised: b cannot be done",
    ]


async def test_the_tree_says_first_which_tool_server_is_missing() -> None:
    now = await snapshot(waits=False)
    assert drawn(replace(now, run=replace(now.run, warnings=("w", GONE))))[1] == f"   ! {GONE}"


async def test_the_tree_tells_how_to_decide_unless_the_person_is_asked_at_once() -> None:
    now = await snapshot()
    action = now.actions[0]
    told = ["   ‖ mail.send waits for a decision of level person:", f"     steprelay approve {action.id}"]
    assert drawn(now)[-2:] == told
    assert drawn(now, how=False)[-1].startswith("└─ ‖ Send the mail")
    assert "waits 0:0" in drawn(now)[1]


async def test_a_question_stays_on_the_screen_above_the_tree_that_goes_on() -> None:
    now, out = await snapshot(), StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    with open_live_tree(console) as tree:
        assert isinstance(tree, LiveTree)
        tree.show(now)
        with tree.aside():
            console.print("A QUESTION")
        tree.show(now)
    after = out.getvalue().partition("A QUESTION")[2]
    assert "\x1b[1A" not in after.partition("Send the mail")[0]


@pytest.mark.parametrize(
    ("shown", "line"),
    [
        (event("plan.rejected", {"attempt": 1, "errors": ["no"]}), "✘ plan             sent back: no"),
        (event("step.ended", {"status": "failed", "summary": "x\ny"}, step="a"), "✘ a                failed: x y"),
        (event("step.ended", {"status": "skipped", "summary": ""}, step="a"), "– a                skipped"),
        (event("call.ended", {"tool": "n.r", "ok": False}, step="a"), "  a                n.r failed"),
        (
            event("call.ended", {"tool": "n.r", "ok": True, "cached": True}, step="a"),
            "  a                n.r ok, from the cache",
        ),
        (
            event("action.waiting", {"tool": None, "kind": "plan", "level": "host"}),
            "‖ run              plan waits for a decision of level host",
        ),
        (
            event("action.decided", {"choice": "deny", "via": "flag", "level": "person"}, step="a"),
            "● a                deny, by flag, level person",
        ),
        (
            event("revision.made", {"decision": "revise", "drop": ["a"], "add": [{"id": "b"}], "reason": "so"}),
            "↻ plan             revise (-a +b): so",
        ),
        (
            event("budget.refused", {"limit": "usd", "used": 2, "allowed": 2}),
            "✘ budget           usd used up: 2 of 2",
        ),
        (event("step.started", {"kind": "call"}, step="\x1b[2J"), "▶ \\u001b[2J        call"),
        (event("warning", {"text": GONE}), f"! tools            {GONE}"),
    ],
    ids=lambda value: value.type if isinstance(value, Event) else "",
)
async def test_each_thing_that_happened_is_one_line(
    shown: Event, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_lines(replace(await snapshot(), steps=(), events=(shown,)))
    assert capsys.readouterr().out == f"{line}\n"


async def test_what_only_programs_care_for_prints_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    others = (event("model.called", {}), event("new.thing", {}), event("warning", {"text": "w"}))
    show_lines(replace(await snapshot(), events=others))
    assert capsys.readouterr().out == ""


async def test_the_end_tells_answer_warnings_cost_and_what_was_said_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    now = await snapshot(waits=False)
    run = replace(now.run, status="partial", stop_reason="refused", answer="Half\x1b of it.", message="Refused.")
    steps = (step("a", "failed", dropped=True), step("b", "refused"), step("c", "succeeded"))
    now = replace(now, run=replace(run, warnings=("w", GONE)), usage=Usage(cost_known=False), steps=steps)
    tell_end(now, how=str)
    assert capsys.readouterr().out.splitlines() == [
        "",
        "Half\\u001b of it.",
        "",
        f"! {GONE}",
        "! w",
        f"{run.id} partial (refused): 1 of 2 steps (1 more dropped by revisions) · 0 model calls · 0 tool calls · "
        "0 tok · ≥ $0.00 · 0.0 s at work",
        "Refused.",
    ]


async def test_a_parked_run_tells_how_each_action_is_decided(capsys: pytest.CaptureFixture[str]) -> None:
    now = await snapshot()
    tell_end(now, how=lambda words: f"steprelay {words}")
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "mail.send waits for a decision of level person:",
        f"  steprelay approve {now.actions[0].id}",
        f"  steprelay deny {now.actions[0].id}",
    ]


async def test_following_offers_each_action_once_and_ends_where_nothing_moves() -> None:
    run_id = await stored_run()
    first, second = await stored_action(run_id), await stored_action(run_id, {"n": 2})
    offered: list[str] = []
    async with open_settings_store(settings_now(), world=World()) as store:

        async def decide(action: Action) -> None:
            offered.append(action.id)

        run = await follow(store, run_id, show=lambda now: None, decide=decide)
    assert (offered, is_parked(run)) == ([first.id, second.id], True)


async def test_a_run_with_a_decision_is_followed_until_it_is_cancelled_or_goes_on() -> None:
    import anyio

    action = await stored_action(await stored_run())
    async with open_settings_store(settings_now(), world=World()) as store:
        await store.decide(action, Decision("deny", "person", "terminal"))
        with anyio.move_on_after(0.6) as scope:
            await follow(store, action.run, show=lambda now: None)
    assert scope.cancelled_caught


async def test_a_run_says_what_it_stands_on() -> None:
    run_id = await stored_run(parked=False)
    async with open_settings_store(settings_now(), world=World()) as store:
        planning = await standing_of(store, run_id)
        view = await run_view(store, run_id, spoken=Spoken("steprelay"), detail=True)
        for_people = standing_lines(view, planning, how=str)
        sql = "UPDATE steps SET status = 'running', started_at = 5 WHERE run = ?"
        await store.database.write("test", lambda tx: tx.change(sql, (run_id,)))
        running = await standing_of(store, run_id)
        sql = "UPDATE runs SET status = 'failed', stop_reason = 'error', ended_at = 9 WHERE id = ?"
        await store.database.write("test", lambda tx: tx.change(sql, (run_id,)))
        ended = await standing_of(store, run_id)
    assert [each.stands_on for each in (planning, running, ended)] == ["on its plan", "on step send", "ended"]
    assert [each.since for each in (running, ended)] == ["1970-01-01T00:00:05.000Z", "1970-01-01T00:00:09.000Z"]
    assert "driver   nobody" in for_people


async def test_a_run_says_what_was_decided_and_who_goes_on_with_it() -> None:
    run_id = await stored_run()
    first, second = await stored_action(run_id), await stored_action(run_id, {"n": 2})
    async with open_settings_store(settings_now(), world=World()) as store:
        await store.decide(first, Decision("deny", "person", "terminal"))
        view = await run_view(store, run_id, spoken=Spoken("steprelay"), detail=True)
        waiting = await standing_of(store, run_id)
        before = standing_lines(view, waiting, how=str)
        await store.decide(second, Decision("deny", "host", "approve_action"))
        view = await run_view(store, run_id, spoken=Spoken("steprelay"), detail=True)
        decided = await standing_of(store, run_id)
        lines = standing_lines(view, decided, how=lambda words: f"steprelay {words}")
        async with open_lease(store, fingerprint=settings_now().fingerprint, settings_path="x"):
            alive = await standing_of(store, run_id)
            by_itself = standing_lines(view, alive, how=str)
    assert waiting.stands_on == f"on a decision about mail.send ({second.id})"
    assert [each["choice"] for each in waiting.decided] == ["deny"]
    assert any(line.startswith(f"decided  mail.send ({first.id}): deny, by terminal, at ") for line in before)
    assert not any(line.startswith("goes on") for line in before)
    assert decided.stands_on == "before it acts on what was decided: mail.send (deny), mail.send (deny)"
    assert (decided.needs, alive.needs) == ("the built-in defaults", None)
    at = lines.index("goes on  once a process with the built-in defaults is alive, or by:")
    assert lines[at + 1] == f"  steprelay runs resume {run_id}"
    assert not any(line.startswith("goes on") for line in by_itself)


async def test_steps_that_a_revision_dropped_are_marked_and_counted_apart() -> None:
    run_id = await stored_run()
    async with open_settings_store(settings_now(), world=World()) as store:
        run = (await store.database.read(lambda tx: tx.rows("SELECT * FROM runs WHERE id = ?", (run_id,))))[0]
        dropped = "UPDATE steps SET dropped = 1, status = ?, summary = 'why', ended_at = 7 WHERE id = ?"

        def drop(tx: Transaction) -> None:
            for name, status in (("gone", "skipped"), ("bad", "failed")):
                put_step(tx, run, replace(step(name, "pending"), position=5))
                tx.change(dropped, (status, name))

        await store.database.write("test", drop)
        standing = await standing_of(store, run_id)
        view = await run_view(store, run_id, spoken=Spoken("steprelay"), detail=True)
    lines = standing_lines(view, standing, how=str)
    assert (standing.dropped, standing.steps_done) == (("bad", "gone"), "0 of 1 step (2 more dropped by revisions)")
    assert "steps    0 of 1 step (2 more dropped by revisions)" in lines
    assert [line.split()[2:] for line in lines if " bad " in line or " gone " in line] == [
        ["failed", "call", "(dropped)", "why"],
        ["skipped", "call", "why"],
    ]


def test_amounts_in_words() -> None:
    assert [duration(each) for each in (-1, 59, 61, 3661)] == ["0:00", "0:59", "1:01", "1:01:01"]
    assert [tokens(Usage(input_tokens=each)) for each in (999, 3600)] == ["999 tok", "3.6k tok"]
    assert [cost(Usage(cost_usd=each)) for each in (0, 0.01234, 12.5)] == ["$0.00", "$0.0123", "$12.50"]
