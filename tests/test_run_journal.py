"""One run under one epoch: memo, calls, steps, parking, the end, and that nothing is written once it was taken over."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from journals import LIMITS, Clock, create, dump, open_own_store, rows, take

from journal.actions import Action, Decision, NewAction
from journal.artifacts import NewArtifact
from journal.errors import BudgetReached, Fenced, KeyReused, MemoMismatch
from journal.events import NewEvent
from journal.intents import NewIntent
from journal.ledger import Amount, Limits, Reservation, Spent
from journal.outlet import Outlet
from journal.run_journal import ApprovalGone, Ending, Meaning, Recorded, RunJournal
from journal.runs import Run
from journal.steps import StepRow
from journal.store import Store

MEANING = Meaning("call", {"tool": "t.send"})
RESERVATION = Reservation("k", Amount(tool_calls=1), step="s")
INTENT = NewIntent("c_1", "s", "t.send", "write", {"a": 1}, "hash")
DONE = Ending("succeeded", "done", "Done.", "answer", {"steps": []})
STEP = StepRow("s", 0, 1, "call", "Send", None, False, False, "pending", "", {"id": "s"}, None, None)
CALL = NewAction("k/approval", "call", "host", "Send?", {"a": 1}, {"a": 1}, "subject", tool="t.send")
APPROVE = Decision("approve", "host", "form")


async def types(store: Store, run_id: str) -> list[str]:
    return [event.type for event in await store.events(run_id)]


async def test_what_is_recorded_is_given_back_in_every_later_drive_without_making_it_again(tmp_path: Path) -> None:
    made: list[str] = []

    async def make() -> Any:
        made.append("made")
        return {"text": "half a pair \ud83d, ä", "number": 2**60}

    async with open_own_store(tmp_path) as store:
        run_id = await create(store)
        first = await take(store, run_id)
        assert await first.recall("k", MEANING) is None
        value = await first.memo("k", MEANING, make)
        assert await (await take(store, run_id)).memo("k", MEANING, make) == value
        assert await (await take(store, run_id)).recall("k", MEANING) == Recorded(value)
    assert (value, made) == ({"text": "half a pair \ud83d, ä", "number": 2**60}, ["made"])


@pytest.mark.parametrize(
    "now", [Meaning("call", {"tool": "other"}), Meaning("plan", MEANING.data)], ids=["data", "name"]
)
async def test_a_recorded_key_with_another_meaning_is_said_loudly(tmp_path: Path, now: Meaning) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        await journal.record("k", MEANING, 1)
        with pytest.raises(MemoMismatch, match=r"cannot be replayed: k was recorded as call\(.{8}\) and is now"):
            await journal.recall("k", now)


async def test_a_second_result_under_one_key_is_refused_and_the_first_one_stays(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        await journal.record("k", MEANING, 1)
        with pytest.raises(KeyReused, match="k has been recorded already"):
            await journal.record("k", MEANING, 2, events=[NewEvent("warning", {"text": "never"})])
        assert await journal.recall("k", MEANING) == Recorded(1)
        assert await types(store, journal.run.id) == ["run.created"]


async def test_a_call_with_an_effect_is_one_commit_before_it_is_sent_and_one_after(tmp_path: Path) -> None:
    points: list[str] = []
    clock = Clock()
    async with open_own_store(tmp_path, replace(clock.world, reach=points.append)) as store:
        journal = await take(store, await create(store))
        points.clear()
        await journal.begin_call(
            RESERVATION, event=NewEvent("call.started", {"tool": "t.send"}, "s", "c_1"), intent=INTENT
        )
        begun = await journal.intent("k")
        assert begun is not None
        assert (begun.state, begun.epoch, begun.arguments, begun.class_) == ("begun", 1, {"a": 1}, "write")
        await journal.end_call("k", MEANING, "sent", intent="done", events=[NewEvent("call.ended", {}, "s", "c_1")])
        assert [(intent.state, intent.ended_at) for intent in await journal.intents()] == [("done", clock.at)]
        assert await journal.recall("k", MEANING) == Recorded("sent")
        audit = await rows(store, "SELECT type, run FROM audit ORDER BY seq")
        assert await types(store, journal.run.id) == ["run.created", "call.started", "call.ended"]
        assert (await journal.usage()).tool_calls == 1
    assert [point for point in points if point.endswith("committed")] == ["intent.committed", "result.committed"]
    assert audit == [("intent.begun", journal.run.id), ("intent.done", journal.run.id)]


async def test_an_approval_is_used_up_in_the_transaction_of_its_intent(tmp_path: Path) -> None:
    async with open_own_store(tmp_path, Clock().world) as store:
        journal = await take(store, await create(store))
        action = await journal.ask(CALL)
        approved = replace(INTENT, action=action.id, action_hash=action.hash)

        async def refused(intent: NewIntent) -> None:
            before = await dump(store)
            with pytest.raises(ApprovalGone, match=f"action {action.id} no longer allows t.send"):
                await journal.begin_call(Reservation("k", Amount(tool_calls=1)), intent=intent)
            assert await dump(store) == before

        await refused(approved)
        await store.decide(action, APPROVE)
        await refused(replace(approved, action_hash="of other arguments"))
        await journal.begin_call(RESERVATION, intent=approved)
        assert (await store.action(action.id)).state == "consumed"
        await refused(approved)


async def test_a_no_can_not_be_used_as_an_approval(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        action = await journal.ask(CALL)
        await store.decide(action, Decision("deny", "person", "terminal"))
        with pytest.raises(ApprovalGone):
            await journal.begin_call(RESERVATION, intent=replace(INTENT, action=action.id, action_hash=action.hash))


async def test_a_budget_that_is_reached_leaves_nothing_of_the_call_behind(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        before = await dump(store)
        with pytest.raises(BudgetReached, match="the budget tool_calls does not reach: 0 of 10 is used"):
            await journal.begin_call(Reservation("k", Amount(tool_calls=11)), intent=INTENT)
        assert await dump(store) == before


async def test_a_call_whose_outcome_nobody_knows_stays_unknown_and_may_be_sent_again(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        await journal.begin_call(RESERVATION, intent=INTENT)
        assert await journal.same_effect(tool="t.send", arguments_hash="hash", besides="k") is None
        same = await journal.same_effect(tool="t.send", arguments_hash="hash", besides="other")
        await journal.lose_call("k", events=[NewEvent("call.ended", {"ok": False}, "s", "c_1")])
        lost = await journal.intent("k")
        assert (same and same.key, lost and lost.state) == ("k", "unknown")
        await journal.begin_call(RESERVATION, intent=INTENT)
        await journal.end_call("k", MEANING, None, intent="failed")
        again = await journal.intent("k")
        assert again is not None
        assert again.state == "failed"
        assert await journal.same_effect(tool="t.send", arguments_hash="hash", besides="other") is None
        assert (await journal.usage()).tool_calls == 2, "it was sent twice"
        assert await rows(store, "SELECT type FROM audit ORDER BY seq") == [
            *(("intent.begun",), ("intent.unknown",), ("intent.begun",), ("intent.failed",))
        ]


async def test_a_call_without_a_result_is_given_back_or_settled(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        await journal.begin_call(RESERVATION)
        await journal.abandon_call("k")
        assert (await journal.usage()).tool_calls == 0
        await journal.begin_call(Reservation("m", Amount(model_calls=1, tokens=100, usd=0.5)))
        await journal.abandon_call("m", Spent(10, 0, usd=0.1), events=[NewEvent("model.called", {})])
        usage = await journal.usage()
        assert (usage.model_calls, usage.input_tokens, usage.cost_usd) == (1, 10, 0.1)
        assert await types(store, journal.run.id) == ["run.created", "model.called"]


async def test_the_same_question_waits_once_and_can_come_again_after_its_end(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        first = await journal.ask(CALL)
        assert await journal.ask(CALL) == first
        await journal.supersede_action(first)
        second = await journal.ask(CALL)
        assert [(action.id, action.state, action.serial) for action in await journal.actions()] == [
            *((first.id, "superseded", 0), (second.id, "waiting", 1))
        ]
        assert await journal.action(CALL.key) == second
        assert await journal.action("other") is None


async def test_a_warning_is_said_once_and_without_secrets(tmp_path: Path) -> None:
    async with open_own_store(tmp_path, outlet=Outlet([("KEY", "very-secret")])) as store:
        journal = await take(store, await create(store))
        for _ in range(2):
            await journal.warn("ä: very-secret")
        assert (await journal.fresh()).warnings == ("ä: [secret:KEY]",)
        events = [event.data for event in await store.events(journal.run.id) if event.type == "warning"]
        assert events == [{"text": "ä: [secret:KEY]"}]


async def test_readers_see_the_steps_of_the_plan_and_what_became_of_them(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        journal = await take(store, await create(store))
        other = StepRow("t", 1, 1, "worker", "Look", "researcher", True, False, "pending", "", {}, None, None)
        await journal.put_plan([STEP, other], events=[NewEvent("plan.accepted", {})])
        assert (await journal.fresh()).status == "running"
        started = clock.at
        await journal.put_step_status("s", "running")
        clock.at += 5
        await journal.put_step_status("s", "waiting")
        await journal.put_step_status("s", "succeeded", summary="x" * 300, events=[NewEvent("step.ended", {}, "s")])
        await journal.put_plan([STEP], drop=["t"], events=[])
        assert await journal.steps() == await store.steps(journal.run.id)
        done, dropped = await journal.steps()
    assert (done.status, done.summary, done.started_at, done.ended_at) == ("succeeded", "x" * 200, started, started + 5)
    assert (dropped.dropped, dropped.optional, dropped.worker, dropped.status) == (True, True, "researcher", "pending")


async def decide_yes(store: Store, action: Action) -> None:
    await store.decide(action, APPROVE)


async def withdraw(store: Store, action: Action) -> None:
    await store.decide(action, Decision("deny", "host", "approve_action"))


async def cancel(store: Store, action: Action) -> None:
    assert await store.request_cancel(await store.run(action.run), "enough")


@pytest.mark.parametrize("news", [decide_yes, withdraw, cancel])
async def test_a_run_does_not_park_over_news_that_came_after_the_drives_last_look(
    tmp_path: Path, news: Callable[[Store, Action], Awaitable[None]]
) -> None:
    async with open_own_store(tmp_path, Clock().world) as store:
        journal = await take(store, await create(store))
        action = await journal.ask(CALL)
        assert (await journal.actions())[0].state == "waiting"
        await news(store, action)
        before = await dump(store)
        assert not await journal.park(None)
        assert await dump(store) == before


async def test_a_parked_run_is_driven_by_nobody_until_its_time_or_a_decision(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        journal = await take(store, await create(store))
        action = await journal.ask(CALL)
        assert await journal.park(clock.at + 100)
        run = await store.run(journal.run.id)
        assert (run.status, run.driver, run.wake_at) == ("awaiting_approval", None, clock.at + 100)
        await store.decide(action, APPROVE)
        assert (await store.run(run.id)).wake_at == 0
        again = await take(store, run.id)
        assert not await again.park(None)
        await again.settle_action(await store.action(action.id))
        assert await again.park(None)


async def test_an_action_that_lapses_while_it_is_decided_keeps_the_decision_on_record(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        lapsed, decided = await journal.ask(CALL), await journal.ask(NewAction("x", "call", "host", "?", {}, {}, "x"))
        await store.decide(decided, APPROVE)
        for action in (lapsed, decided):
            await journal.settle_action(action, expired=True)
        states = [(action.state, action.handled) for action in await journal.actions()]
        assert states == [("expired", True), ("decided", True)]


async def test_the_end_withdraws_what_waits_except_what_only_a_person_can_tell(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world, outlet=Outlet([("KEY", "very-secret")])) as store:
        journal = await take(store, await create(store))
        call = await journal.ask(CALL)
        unknown = await journal.ask(NewAction("k/unknown", "unknown", "person", "Ran?", {}, {}, "u"))
        clock.at += 7
        await journal.finish(Ending("partial", "error", "very-secret", "a very-secret", {"b": "very-secret"}))
        run = await store.run(journal.run.id)
        assert (run.ended, run.status, run.stop_reason, run.ended_at, run.driver) == (
            *(True, "partial", "error", clock.at, None),
        )
        assert (run.message, run.answer, run.result) == ("[secret:KEY]", "a [secret:KEY]", {"b": "[secret:KEY]"})
        assert run.driven_seconds == 7
        assert [(await store.action(action.id)).state for action in (call, unknown)] == ["withdrawn", "waiting"]
        assert (await store.decide(unknown, Decision("done", "person", "terminal"))).handled
        assert (await store.events(run.id))[2].type == "action.waiting"
        lines = [("action.asked",), ("action.asked",), ("run.ended",), ("action.decided",)]
        assert await rows(store, "SELECT type FROM audit") == lines


WRITES: dict[str, Callable[[RunJournal, Action], Awaitable[Any]]] = {
    "record": lambda journal, _: journal.record("new", MEANING, 1),
    "begin": lambda journal, _: journal.begin_call(Reservation("new", Amount(tool_calls=1))),
    "intent": lambda journal, _: journal.begin_call(Reservation("new", Amount(tool_calls=1)), intent=INTENT),
    "end": lambda journal, _: journal.end_call("k", MEANING, 1, intent="done"),
    "lose": lambda journal, _: journal.lose_call("k"),
    "abandon": lambda journal, _: journal.abandon_call("k"),
    "ask": lambda journal, _: journal.ask(NewAction("new", "call", "host", "?", {}, {}, "new")),
    "settle": lambda journal, action: journal.settle_action(action, expired=True),
    "supersede": lambda journal, action: journal.supersede_action(action),
    "say": lambda journal, _: journal.say(NewEvent("warning", {})),
    "warn": lambda journal, _: journal.warn("careful"),
    "plan": lambda journal, _: journal.put_plan([STEP], events=[]),
    "step": lambda journal, _: journal.put_step_status("s", "running"),
    "artifact": lambda journal, _: journal.artifacts.add(
        journal.run.id, NewArtifact("s", "c", "text/plain", b"x", frozenset({"user"}))
    ),
    "park": lambda journal, _: journal.park(None),
    "finish": lambda journal, _: journal.finish(DONE),
    "cancel": lambda journal, _: journal.cancel_reason(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
async def test_after_another_has_taken_the_run_over_nothing_is_written(
    tmp_path: Path, write: Callable[[RunJournal, Action], Awaitable[Any]]
) -> None:
    async with open_own_store(tmp_path) as store:
        old = await take(store, await create(store))
        await old.begin_call(RESERVATION, intent=INTENT)
        action = await old.ask(CALL)
        await take(store, old.run.id, driver="other")
        before = await dump(store)
        with pytest.raises(Fenced, match="driven elsewhere or has ended; nothing more may be written"):
            await write(old, action)
        assert await dump(store) == before


async def test_after_the_end_nothing_is_written_either(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        await journal.finish(DONE)
        with pytest.raises(Fenced):
            await journal.finish(DONE)


async def test_only_driven_time_counts(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        journal = await take(store, await create(store))
        clock.at += 20
        assert await journal.park(None)
        clock.at += 1000
        again = await take(store, journal.run.id)
        clock.at += 10
        assert (again.driven_seconds, (await again.usage()).seconds) == (30, 30)
        await again.begin_call(RESERVATION)
        clock.at += 31
        with pytest.raises(BudgetReached, match="the budget seconds does not reach: 61 of 60 is used"):
            await again.begin_call(Reservation("k2", Amount(tool_calls=1)))
        await again.begin_call(Reservation("answer", Amount(model_calls=1), purpose="answer"))


async def test_limits_are_those_of_the_run_as_it_was_taken(tmp_path: Path) -> None:
    clock, seen = Clock(), list[Run]()

    def limits(taken: Run) -> Limits:
        seen.append(taken)
        return LIMITS

    async with open_own_store(tmp_path, clock.world) as store:
        run = await store.run(await create(store, options={"depth": 3}))
        journal = await store.take(run, driver="d", limits=limits)
        assert journal is not None
        assert (seen, journal.limits, journal.taken_at) == ([journal.run], LIMITS, clock.at)
