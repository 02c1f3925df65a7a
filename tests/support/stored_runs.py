"""Runs put into the store of this user by hand, so that commands find something without a model or a server."""

import os
from pathlib import Path

from journal.actions import Action, NewAction, create_action
from journal.database import Transaction
from journal.events import NewEvent, append_event
from journal.runs import NewRun
from journal.steps import StepNews, StepRow, put_step, set_step
from journal.store import Store
from journal.values import Json, JsonObject
from journal.world import World
from server.opened_store import open_settings_store
from server.settings import Settings, find_settings, load_settings

ARGUMENTS: JsonObject = {"subject": "Hi", "to": "ann@example.org", "body": "one\ntwo"}


def settings_now(config: Path | None = None) -> Settings:
    return load_settings(find_settings(config, environ=os.environ, cwd=None), environ=os.environ)


async def stored_run(*, parked: bool = True, goal: str = "Send the mail") -> str:
    """A run of the present settings that nobody drives."""
    settings = settings_now()
    new = NewRun(
        owner="local",
        fingerprint=settings.fingerprint,
        settings_path="the built-in defaults",
        goal=goal,
        goal_label="user",
        context="",
        options={"budget": settings.budget.model_dump(mode="json")},
        idempotency_key=os.urandom(8).hex(),
    )
    async with open_settings_store(settings, world=World()) as store:
        run_id, _ = await store.create_or_attach(new, driver="nobody")
        if parked:
            sql = "UPDATE runs SET status = 'awaiting_approval', driver = NULL, wake_at = NULL WHERE id = ?"
            await store.database.write("test", lambda tx: tx.change(sql, (run_id,)))
        await _add_step(store, run_id)
    return run_id


async def stored_action(run_id: str, arguments: Json = ARGUMENTS, *, kind: str = "call") -> Action:
    """An action of level person that waits in the run."""
    new = NewAction(
        key="step.send@00000000/call.0/approval",
        kind=kind,  # type: ignore[arg-type]
        level="person",
        question='Call mail.send (destructive) once, with exactly these arguments?\n"to": "ann@example.org"',
        arguments=arguments,
        binding={"run": run_id, "arguments": arguments},
        subject="mail",
        step="send",
        tool="mail.send" if kind == "call" else None,
        effect="destructive" if kind == "call" else None,
        reasons=("class destructive: it may destroy something",),
        expires_in=3600,
    )
    async with open_settings_store(settings_now(), world=World()) as store:
        return await store.database.write(
            "test", lambda tx: create_action(tx, run_id, new, world=store.world, outlet=store.outlet)
        )


async def action_now(action_id: str) -> Action:
    async with open_settings_store(settings_now(), world=World()) as store:
        return await store.action(action_id)


async def _add_step(store: Store, run_id: str) -> None:
    step = StepRow(
        id="send",
        position=0,
        version=1,
        kind="call",
        title="Send the mail",
        worker=None,
        optional=False,
        dropped=False,
        status="pending",
        summary="",
        definition={"id": "send", "kind": "call", "tool": "mail.send"},
        started_at=None,
        ended_at=None,
    )

    def change(tx: Transaction) -> None:
        put_step(tx, tx.rows("SELECT * FROM runs WHERE id = ?", (run_id,))[0], step)
        set_step(tx, run_id, StepNews("send", "waiting"), at=store.world.now())
        append_event(tx, run_id, NewEvent("step.started", {"kind": "call"}, step="send"), at=1.0, outlet=store.outlet)

    await store.database.write("test", change)
