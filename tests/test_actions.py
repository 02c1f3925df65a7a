"""Actions: who may decide what, once, and what becomes of it."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from audit_chain import broken_line
from journals import Clock, create, open_own_store, rows, take

from journal.actions import CHOICES, Action, ActionKind, Decision, Level, LevelTooLow, NewAction, supersede
from journal.canonical import digest
from journal.errors import DecisionRefused, UnknownId
from journal.run_journal import Ending
from journal.store import Store

CALL = NewAction(
    "k/approval", "call", "host", "Send?", {"to": "ada"}, {"v": 1}, "subject", "s", "mail.send", "write", ("why",), 60.0
)
YES = Decision("approve", "host", "form")


async def ask(store: Store, **changes: Any) -> Action:
    """A waiting action of a run of its own."""
    run_id = await create(store, goal=str(changes))
    return await (await take(store, run_id)).ask(replace(CALL, **changes))


async def test_an_action_says_exactly_what_is_decided_and_its_run_tells_of_it(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        action = await ask(store)
        (event,) = [event for event in await store.events(action.run) if event.type == "action.waiting"]
        assert await store.action(action.id) == action
        assert await store.actions(action.run) == await store.waiting_actions() == [action]
    assert (action.kind, action.choices, action.level, action.state) == ("call", ("approve", "deny"), "host", "waiting")
    assert (action.arguments, action.reasons, action.hash) == ({"to": "ada"}, ("why",), digest({"v": 1}))
    assert (action.created_at, action.expires_at, action.handled) == (clock.at, clock.at + 60, False)
    said = {"action_id": action.id, "kind": "call", "level": "host", "tool": "mail.send", "question": "Send?"}
    assert (event.step, event.data) == ("s", said)


async def test_a_decision_wakes_its_run_and_stands_in_events_and_audit(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        action = await ask(store)
        rung = store.bell.listen(action.run)
        clock.at += 14.5
        decided = await store.decide(action, Decision("approve", "person", "terminal", "fine", {"x": 1}, "claude"))
        event = (await store.events(action.run))[-1]
        audit = await rows(store, "SELECT type, run, data FROM audit ORDER BY seq")
        assert rung.is_set()
        assert (await store.run(action.run)).wake_at == 0
        assert await store.waiting_actions() == []
    assert (decided.state, decided.choice, decided.decided_level, decided.via) == (
        *("decided", "approve", "person", "terminal"),
    )
    assert (decided.note, decided.content, decided.decided_at, decided.handled) == ("fine", {"x": 1}, clock.at, False)
    assert (event.type, event.step) == ("action.decided", "s")
    said = {"action_id": action.id, "kind": "call", "choice": "approve", "level": "person", "via": "terminal"}
    assert event.data == said
    assert [(type_, run) for type_, run, _ in audit] == [
        *(("action.asked", action.run), ("action.decided", action.run)),
    ]
    told = json.loads(audit[1][2])
    hmac = told.pop("action_hmac")
    assert told == said | {"client": "claude", "note": "fine", "seconds": 14.5, "edited": False}
    assert hmac == json.loads(audit[0][2])["action_hmac"]
    assert action.hash not in f"{audit}"


@pytest.mark.parametrize("kind", CHOICES)
async def test_a_choice_the_action_does_not_have_is_refused_and_named_with_those_it_has(
    tmp_path: Path, kind: ActionKind
) -> None:
    async with open_own_store(tmp_path) as store:
        action = await ask(store, kind=kind)
        with pytest.raises(DecisionRefused, match=f"has no 'perhaps'; its choices: {', '.join(CHOICES[kind])}"):
            await store.decide(action, Decision("perhaps", "person", "terminal"))
        assert await store.action(action.id) == action


@pytest.mark.parametrize(
    ("needed", "given", "enough"),
    [
        ("host", "host", True),
        ("host", "person", True),
        ("person", "host", False),
        ("person", "passkey", True),
        ("passkey", "person", False),
    ],
)
async def test_a_yes_needs_the_level_of_the_action(tmp_path: Path, needed: Level, given: Level, enough: bool) -> None:
    async with open_own_store(tmp_path) as store:
        action = await ask(store, level=needed)
        if enough:
            assert (await store.decide(action, Decision("approve", given, "form"))).state == "decided"
        else:
            with pytest.raises(LevelTooLow, match=f"action {action.id} needs a yes of level {needed}"):
                await store.decide(action, Decision("approve", given, "form"))
            assert await store.action(action.id) == action


@pytest.mark.parametrize(("via", "state"), [("approve_action", "withdrawn"), ("terminal", "decided")])
async def test_a_no_needs_no_level_and_is_a_persons_unless_it_came_by_approve_action(
    tmp_path: Path, via: str, state: str
) -> None:
    async with open_own_store(tmp_path) as store:
        action = await ask(store, level="passkey")
        assert (await store.decide(action, Decision("deny", "host", via))).state == state
        journal = await take(store, action.run)
        assert await journal.refused_before("subject") == (via == "terminal")
        assert await journal.refused_before("other subject") is False


@pytest.mark.parametrize("second", ["approve", "deny"])
async def test_an_action_is_decided_once(tmp_path: Path, second: str) -> None:
    async with open_own_store(tmp_path) as store:
        action = await ask(store)
        decided = await store.decide(action, YES)
        with pytest.raises(DecisionRefused, match=r"is decided \(approve\) already, once and for all"):
            await store.decide(decided, Decision(second, "person", "terminal"))
        with pytest.raises(DecisionRefused, match="has been decided or withdrawn in the meantime"):
            await store.decide(action, Decision(second, "person", "terminal"))
        assert await store.action(action.id) == decided


async def test_of_many_who_decide_at_once_one_counts(tmp_path: Path) -> None:
    ends: list[str] = []

    async def decide(store: Store, action: Action, choice: str) -> None:
        try:
            ends.append((await store.decide(action, Decision(choice, "person", "terminal"))).choice or "")
        except DecisionRefused:
            ends.append("refused")

    async with open_own_store(tmp_path) as store, open_own_store(tmp_path) as other:
        action = await ask(store)
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(decide, (store, other)[number % 2], action, ("approve", "deny")[number // 4])
        assert sorted(ends)[1:] == ["refused"] * 7
        assert (await store.action(action.id)).choice == sorted(ends)[0]
        assert await rows(store, "SELECT COUNT(*) FROM audit WHERE type = 'action.decided'") == [(1,)]


async def test_an_action_that_ended_or_expired_can_not_be_decided(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        expired = await ask(store)
        journal = await take(store, await create(store))
        withdrawn = await journal.ask(CALL)
        await journal.finish(Ending("failed", "error", "", "", {}))
        clock.at += 60
        await store.decide(await ask(store, expires_in=1.0), YES)
        clock.at += 1
        with pytest.raises(DecisionRefused, match="has expired; its step fails"):
            await store.decide(expired, YES)
        with pytest.raises(DecisionRefused, match="is withdrawn already"):
            await store.decide(await store.action(withdrawn.id), YES)


async def test_a_yes_that_came_as_the_action_lapsed_stands_as_unused(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        action = await journal.ask(CALL)
        await store.decide(action, YES)
        await journal.settle_action(action, expired=True)
        settled, said = await store.action(action.id), await rows(store, "SELECT type FROM audit WHERE run IS NOT NULL")
    assert (settled.state, settled.handled) == ("decided", True)
    assert ("action.decided",) in said
    assert not {("action.used",), ("action.expired",)} & set(said)


async def test_an_action_of_somebody_else_is_as_unknown_as_one_that_never_was(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await create(store)
        action = await (await take(store, run_id)).ask(CALL)
        store.owner = "other"
        for id_ in (action.id, "a_none"):
            with pytest.raises(UnknownId, match=f"no action '{id_}' is known here; `steprelay approvals` lists"):
                await store.action(id_)


async def test_a_persons_noes_in_a_row_are_counted_back_to_the_last_yes(tmp_path: Path) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        journal = await take(store, await create(store))
        counts: list[int] = []
        for number, choice in enumerate(["deny", "approve", "deny", "deny"]):
            action = await journal.ask(replace(CALL, key=f"k{number}", kind=("call", "widen")[number % 2]))
            clock.at += 1
            await store.decide(action, Decision(choice, "person", "terminal"))
            counts.append(await journal.refusals_in_a_row())
        plan = await journal.ask(replace(CALL, key="plan", kind="plan"))
        await store.decide(plan, Decision("approve", "person", "terminal"))
        counts.append(await journal.refusals_in_a_row())
    assert counts == [1, 0, 1, 2, 2]


async def test_the_audit_of_all_decisions_holds_together(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        for number in range(3):
            await store.decide(await ask(store, subject=str(number)), YES)
        assert await broken_line(store) is None


async def test_an_action_can_be_superseded_while_it_waits_and_not_after(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        for choice in ("approve", "deny"):
            decided = await store.decide(await ask(store, subject=choice), Decision(choice, "person", "page"))
            assert not await store.database.write("edit", partial(supersede, action=decided))
            assert await store.action(decided.id) == decided
        action = await ask(store)
        assert await store.database.write("edit", lambda tx: supersede(tx, action))
        assert not await store.database.write("edit", lambda tx: supersede(tx, action))
        assert (await store.action(action.id)).state == "superseded"
