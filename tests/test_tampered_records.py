"""A record that was changed by hand is named, whatever of it was changed."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from journals import change, dump, rows, unguard
from recorded_runs import KINDS, open_recorded, recorded_once

from journal.canonical import digest
from journal.database import Transaction
from journal.outlet import Outlet
from journal.seals import seal_of
from journal.store import Store, open_store
from journal.world import World
from server.replaying import replay_run

VALUE = "UPDATE memo SET value = replace(value, ?, ?) WHERE key LIKE ?"
WARNED = "UPDATE runs SET warnings = json_array(?)"
MESSAGE = "UPDATE runs SET message = ?"
NO_SEALS = "UPDATE memo SET seal = NULL"
RESEALED = "reseal"


async def reseal(store: Store) -> None:
    """Make every seal fit, as somebody would who knows how they are made."""
    for run, key, name, hash_, value in await rows(store, "SELECT run, key, name, hash, value FROM memo"):
        seal = seal_of(run, key, name, hash_, value)
        await change(store, "UPDATE memo SET seal = ? WHERE key = ?", seal, key)


async def restore(store: Store, saved: dict[str, list[tuple[Any, ...]]]) -> None:
    """Make the store as it was."""

    def by_hand(tx: Transaction) -> None:
        for table, kept in saved.items():
            tx.change(f"DELETE FROM {table}")
            for row in kept:
                tx.change(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    await store.database.write("by_hand", by_hand)


TAMPERED: dict[str, tuple[list[tuple[Any, ...]], str]] = {
    "a model's reply": ([(VALUE, "wins with", "fails at", "step.study%turn.2")], "turn.2: its seal does not fit"),
    "a reply and its seal": (
        [(VALUE, "wins with", "fails at", "step.study%turn.2"), (RESEALED,)],
        "order.2: step study",
    ),
    "a result of no consequence, with its seal": (
        [(VALUE, "1.0", "1.00", "%"), (VALUE, '"raw": {}', '"raw": {"a": 1}', "answer.0"), (RESEALED,)],
        "the audit's digest over them at the run's end does not fit; one was replaced",
    ),
    "a tool's result": (
        [(VALUE, '"data": "Kurt"', '"data": "Paul"', "step.study%call.0"), (RESEALED,)],
        "the audit's digest",
    ),
    "a reply that is gone": ([("DELETE FROM memo WHERE key LIKE ?", "step.study%turn.1")], "no answer for step.study"),
    "a row that is gone": ([("DELETE FROM memo WHERE key = ?", "trigger.2")], "rows were recorded"),
    "a row too many": (
        [
            (
                "INSERT INTO memo SELECT run, owner, 'answer.7', name, hash, value, epoch, at, seal FROM memo"
                " WHERE key = 'answer.0'",
            )
        ],
        "answer.7: its seal does not fit",
    ),
    "a seal": ([("UPDATE memo SET seal = 'x' WHERE key = ?", "plan")], "plan: its seal does not fit"),
    "no seals": ([(NO_SEALS,)], "the audit's digest over them"),
    "an order entry": (
        [(VALUE, "you win", "you lose", "order.3"), (VALUE, "Dear Kurt", "Dear Paul", "order.3"), (RESEALED,)],
        "order.3: step text",
    ),
    "the order": (
        [
            ("UPDATE memo SET key = 'order.9' WHERE key = 'order.1'",),
            ("UPDATE memo SET key = 'order.1' WHERE key = 'order.2'",),
            (RESEALED,),
        ],
        "order.1: step study",
    ),
    "an entry that nothing writes": (
        [("UPDATE memo SET value = '{}' WHERE key = 'order.2'",)],
        "order.2 cannot be read",
    ),
    "a row that is no JSON": (
        [("UPDATE memo SET value = '{' WHERE key = 'order.2'",)],
        "order.2: its value cannot be read",
    ),
    "a reply of another form": (
        [("UPDATE memo SET value = '{\"reply\": 1}' WHERE key LIKE ?", "step.study%turn.1")],
        "step study: its record cannot be used",
    ),
    "an order of unknown steps": ([(VALUE, '"step": "big"', '"step": "bug"', "order.1")], "no plan has a step 'bug'"),
    "an outcome": ([(VALUE, "wins with", "fails at", "step.study%/outcome"), (RESEALED,)], "/outcome: summary was"),
    "an attempt": (
        [(VALUE, '"may_retry": true', '"may_retry": false', "step.study%/end"), (RESEALED,)],
        "/end: may_retry was False, and is True",
    ),
    "the plan": ([(VALUE, "Write to Kurt", "Write to Paul", "plan"), (RESEALED,)], "plan: steps.2.task was"),
    "the answer": ([("UPDATE runs SET answer = 'Paul wins.'",)], "answer: was 'Paul wins.', and is 'Kurt wins.'"),
    "the status": ([("UPDATE runs SET status = 'failed'",)], "status: it is 'failed', and the audit says 'succeeded'"),
    "the findings": ([("UPDATE runs SET result = replace(result, '47110815', '1')",)], "result: findings.0.claim was"),
    "a warning": ([("UPDATE runs SET warnings = '[\"All is well.\"]'",)], "warnings: no event tells of 'All is well.'"),
    "a step": ([("UPDATE steps SET status = 'failed' WHERE id = 'study'",)], "step study, as it is shown: status was"),
    "a step too many": (
        [
            (
                "INSERT INTO steps SELECT run, owner, 'more', 9, version, kind, title, worker, optional, dropped,"
                " status, summary, definition, started_at, ended_at FROM steps WHERE id = 'big'",
            )
        ],
        "step more: only the record has it",
    ),
    "an event of a step": (
        [("UPDATE events SET data = replace(data, 'succeeded', 'failed') WHERE type = 'step.ended' AND step = 'big'",)],
        "events: step.ended big says what the replay does not",
    ),
    "an event of a call": (
        [("UPDATE events SET data = replace(data, 'quick.tell', 'quick.read') WHERE type = 'call.started'",)],
        "(call.started): the record of that call says otherwise",
    ),
    "the end of a call": (
        [("UPDATE events SET data = replace(data, '\"ok\": true', '\"ok\": false') WHERE type = 'call.ended'",)],
        "(call.ended): the record of that call says otherwise",
    ),
    "an event of a model": (
        [('UPDATE events SET data = replace(data, \'"finish": "stop"\', \'"finish": "length"\')',)],
        "(model.called): the record of that call says otherwise",
    ),
    "an event that is gone": ([("DELETE FROM events WHERE type = 'call.ended'",)], "events: lines are missing"),
    "the goal in its event": (
        [("UPDATE events SET data = replace(data, 'offers', 'orders') WHERE type = 'run.created'",)],
        "(run.created): it tells of another goal",
    ),
    "a decision in its event": (
        [("UPDATE events SET data = replace(data, 'approve', 'deny') WHERE type = 'action.decided'",)],
        "(action.decided): the action that it tells of says otherwise",
    ),
    "a decision": ([("UPDATE actions SET choice = 'deny'",)], "the audit tells of another decision"),
    "a decision without trace": (
        [("UPDATE audit SET type = 'else' WHERE type = 'action.decided'",)],
        "no audit line tells of its decision",
    ),
    "what was asked": ([("UPDATE actions SET arguments = '{}'",)], "it shows other arguments than it binds"),
    "what was bound": ([("UPDATE actions SET binding = '{}'",)], "its hash does not cover what it asks"),
    "a call with an effect": ([("UPDATE intents SET tool = 'quick.drop'",)], "the audit tells of another call"),
    "what was sent": (
        [('UPDATE intents SET arguments = \'{"key": "Paul"}\'',)],
        "its arguments are not those that were sent",
    ),
    "what was bound, with its hash": (
        [("UPDATE actions SET binding = '{}', hash = ?", digest({}))],
        "the audit tells of a decision about something else",
    ),
    "what was sent, with its hash": (
        [('UPDATE intents SET arguments = \'{"key": "Paul"}\', arguments_hash = ?', digest({"key": "Paul"}))],
        "the audit tells of other arguments, or of another place in the plan",
    ),
    "an audit line": (
        [("UPDATE audit SET data = replace(data, 'succeeded', 'failed')",)],
        "the chain does not hold there",
    ),
    "the first audit line": ([("UPDATE audit SET at = 1 WHERE seq = 1",)], "audit line 1"),
    "the end in the audit": (
        [("DELETE FROM audit WHERE type = 'run.ended'",)],
        "audit: no line tells of the run's end",
    ),
    "an answer that came too late": (
        [
            ("DELETE FROM memo WHERE key = 'answer.0'",),
            (WARNED, "the answer was put together without a model: it took too long"),
        ],
        "answer: was 'Kurt wins.', and is '**Do big** (done)",
    ),
    "an end by an error": (
        [(MESSAGE, "The run ended by an internal error; see the log.")],
        "message: it is 'The run ended by an",
    ),
    "an end by other settings": (
        [
            (MESSAGE, "The run cannot be replayed with the present settings."),
            ("UPDATE memo SET hash = 'x' WHERE key LIKE ?", "step.study%turn.1"),
        ],
        "message: it is 'The run cannot be replayed",
    ),
    "a step that broke": (
        [
            (VALUE, '"problem": null', '"problem": "an unexpected error stopped the step (X); see the log"', "order.2"),
            ("UPDATE memo SET value = '1' WHERE key LIKE ?", "step.study%turn.1"),
        ],
        "turn.1: its seal does not fit",
    ),
    "a limit that was not reached": (
        [(VALUE, '"status": "succeeded", "limit": null', '"status": "succeeded", "limit": "usd"', "order.1")],
        "step big: over_budget is gone",
    ),
    "a step that waits": (
        [("DELETE FROM memo WHERE key LIKE ?", "step.add%"), ("UPDATE intents SET state = 'unknown'",)],
        "step add ended, and its record has it wait",
    ),
    "an end too early": (
        [("DELETE FROM memo WHERE key LIKE ?", "%.4"), ("DELETE FROM memo WHERE key LIKE ?", "step.add%")],
        "the record ends the run while there was more to do: add",
    ),
    "an event that is no JSON": (
        [("UPDATE events SET data = '' WHERE type = 'run.created'",)],
        "line 1 (run.created): its data cannot be read",
    ),
}


@pytest.mark.e2e
async def test_a_record_that_was_changed_is_named(tmp_path: Path) -> None:
    settings, run_id = await recorded_once(tmp_path)
    unnamed: dict[str, tuple[str, ...]] = {}
    async with open_store(tmp_path / "store.db", World(), Outlet(), owner="local") as store:
        saved = await dump(store)
        await unguard(store)
        for what, (changes, named) in TAMPERED.items():
            for sql, *parameters in changes:
                assert sql == RESEALED or await change(store, sql, *parameters) > 0, what
                if sql == RESEALED:
                    await reseal(store)
            found = (await replay_run(store, settings, run_id)).differences
            sys.stdout.write(f"{what}: {found[:2]}\n")
            if not any(named in text for text in found):
                unnamed[what] = found
            await restore(store, saved)
        assert (await replay_run(store, settings, run_id)).differences == ()
    assert unnamed == {}


OTHERS: dict[str, tuple[str, list[tuple[Any, ...]], str]] = {
    "a revision that nobody allowed": (
        "widened",
        [("UPDATE actions SET choice = 'deny'",)],
        "it counts a yes that no decision of revise.1/widen gives",
    ),
    "a budget that nobody raised": (
        "raised",
        [("UPDATE actions SET choice = 'finish'",)],
        "it counts a yes that no decision of budget.tool_calls.0.1 gives",
    ),
    "a plan that nobody allowed": (
        "asked first",
        [("UPDATE actions SET choice = 'deny'",)],
        "plan/reviewed: recorded true, and the decision on the plan says False",
    ),
    "a run opened too often": (
        "resumed",
        [("UPDATE runs SET options = json_set(options, '$.reopened', 0)",)],
        "the run was not opened again so often",
    ),
    "what a cut step was given": (
        "cancelled",
        [("UPDATE memo SET hash = 'x' WHERE name = 'tool'",)],
        "something else than what is asked or called now",
    ),
    "the plan of a cut run": (
        "cancelled",
        [("DELETE FROM memo WHERE key = 'plan.1'",)],
        "the record has no answer for plan.1",
    ),
}


@pytest.mark.e2e
@pytest.mark.parametrize("what", OTHERS)
async def test_what_counts_without_a_decision_or_record_of_it_is_named(tmp_path: Path, what: str) -> None:
    kind, changes, named = OTHERS[what]
    async with open_recorded(tmp_path, KINDS[kind]) as (product, run_id):
        for sql, *parameters in changes:
            assert await change(product.store, sql, *parameters) > 0
        found = (await replay_run(product.store, product.settings, run_id)).differences
    assert any(named in text for text in found), found


FILES: dict[str, Callable[[Path], object]] = {
    "was changed on disk": lambda path: path.write_text("short"),
    "cannot be read": lambda path: path.unlink(),
}


@pytest.mark.e2e
@pytest.mark.parametrize("told", FILES)
async def test_an_artifact_that_was_changed_or_is_gone_is_named(tmp_path: Path, told: str) -> None:
    settings, run_id = await recorded_once(tmp_path)
    path = next((tmp_path / "artifacts" / run_id).iterdir())
    FILES[told](path)
    async with open_store(tmp_path / "store.db", World(), Outlet(), owner="local") as store:
        replayed = await replay_run(store, settings, run_id)
    assert any(f"artifact {path.name} {told}" in text for text in replayed.differences)
