"""A new run that goes on from a step of another: records and artifacts are taken over, decisions are not."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import anyio.to_thread

from journal.artifact_files import remove_run, write_whole
from journal.artifacts import Artifact, ArtifactLost
from journal.database import Transaction
from journal.errors import SteprelayError, StoreError
from journal.events import NewEvent, append_event
from journal.intents import PAST, intents_of
from journal.read_only import refuse_imported
from journal.runs import Run
from journal.seals import seal_of
from journal.store import Store
from journal.values import WORST, Json, JsonObject


class NotForked(SteprelayError):
    """A run that cannot be forked as it is; the text says why."""


@dataclass(frozen=True)
class Kept:
    """A record of a run: what stands in its memo under `key`."""

    key: str
    name: str
    hash: str
    value: Json
    at: float


@dataclass(frozen=True)
class Fork:
    """What a new run has from `of` when it goes on from `step`.

    `steps` are those whose artifacts and open calls it keeps; `events` begin its history, and `warning` is its first.
    """

    of: Run
    step: str
    memo: tuple[Kept, ...]
    steps: frozenset[str]
    options: JsonObject
    events: tuple[NewEvent, ...]
    warning: str


async def memo_of(store: Store, run_id: str) -> Mapping[str, Kept]:
    """All records of a run, by key."""
    sql = "SELECT key, name, hash, value, at FROM memo WHERE run = ?"
    rows = await store.database.read(lambda tx: tx.rows(sql, (run_id,)))
    return {row["key"]: Kept(row["key"], row["name"], row["hash"], json.loads(row["value"]), row["at"]) for row in rows}


async def create_fork(store: Store, fork: Fork, *, fingerprint: str, settings_path: str) -> str:
    """The id of the new run, bound to these settings. Raises NotForked, ReadOnlyRun, ArtifactNotKept or StoreError.

    Its artifacts have the worst label; what the old run did, or may have done, stands in it as calls of the past.
    """
    run_id, now = store.world.new_id("r"), store.world.now()
    artifacts = [each for each in await store.artifacts.of_run(fork.of.id) if each.step in fork.steps]

    def change(tx: Transaction) -> None:
        _check(tx, fork.of)
        store.artifacts.check_room(tx, run_id, sum(artifact.size for artifact in artifacts))
        _insert_run(tx, fork, run_id, bound=(fingerprint, settings_path), at=now)
        for kept in fork.memo:
            _insert_memo(tx, fork.of, run_id, kept)
        _insert_calls(tx, fork, run_id)
        for artifact in artifacts:
            _insert_artifact(tx, artifact, run_id)
        for event in (*fork.events, NewEvent("warning", {"text": fork.warning})):
            append_event(tx, run_id, event, at=now, outlet=store.outlet)

    with ExitStack() as undo:
        undo.callback(remove_run, store.artifacts.folder / run_id, [artifact.id for artifact in artifacts])
        for artifact in artifacts:
            await _copy(store, artifact, run_id)
        await store.database.write("fork", change)
        undo.pop_all()
    return run_id


def _check(tx: Transaction, run: Run) -> None:
    refuse_imported(tx, run.id)
    sql = "SELECT 1 FROM runs WHERE id = ? AND epoch = ? AND ended_at IS NOT NULL"
    if tx.row(sql, (run.id, run.epoch)) is None:
        raise NotForked(f"run {run.id} has not ended, or goes on again; end it with `runs cancel {run.id}` first")


async def _copy(store: Store, artifact: Artifact, run_id: str) -> None:
    try:
        content = await store.artifacts.content(artifact)
    except ArtifactLost:
        # Whoever reads it is told, as in the old run.
        return
    folder = store.artifacts.folder
    try:
        await anyio.to_thread.run_sync(write_whole, folder / run_id, artifact.id, content)
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror}; there is no new run, free some space and try again") from error


def _insert_run(tx: Transaction, fork: Fork, run_id: str, *, bound: tuple[str, str], at: float) -> None:
    old, origin = fork.of, {"fork": {"run": fork.of.id, "from": fork.step}}
    tx.change(
        "INSERT INTO runs (id, owner, fingerprint, settings_path, goal, goal_label, context, options, request_hash,"
        " status, warnings, wake_at, created_at, updated_at, origin)"
        # No request is the same as this one, so none attaches to it.
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'fork', 'running', ?, 0, ?, ?, ?)",
        (
            *(run_id, old.owner, *bound, old.goal, old.goal_label, old.context, json.dumps(fork.options)),
            *(json.dumps([fork.warning]), at, at, json.dumps(origin)),
        ),
    )


def _insert_memo(tx: Transaction, old: Run, run_id: str, kept: Kept) -> None:
    value = json.dumps(kept.value)
    seal = seal_of(run_id, kept.key, kept.name, kept.hash, value)
    tx.change(
        "INSERT INTO memo (run, owner, key, name, hash, value, epoch, at, seal) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)",
        (run_id, old.owner, kept.key, kept.name, kept.hash, value, kept.at, seal),
    )


def _insert_calls(tx: Transaction, fork: Fork, run_id: str) -> None:
    """Calls with an effect. An open one of a step that is kept is asked about once more, by its own key."""
    recorded = {kept.key for kept in fork.memo}
    for intent in intents_of(tx, fork.of.id):
        is_open = intent.state in ("begun", "unknown")
        asked = is_open and intent.step in fork.steps and intent.key not in recorded
        key = intent.key if asked or intent.past else f"{PAST}{intent.key}"
        tx.change(
            "INSERT INTO intents (run, owner, key, call, step, tool, class, arguments, arguments_hash, state, epoch,"
            " begun_at, ended_at, sends) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?)",
            (
                *(run_id, fork.of.owner, key, intent.call, intent.step, intent.tool, intent.class_),
                *(json.dumps(intent.arguments), intent.arguments_hash, "unknown" if is_open else intent.state),
                *(intent.begun_at, intent.ended_at, intent.sends),
            ),
        )


def _insert_artifact(tx: Transaction, artifact: Artifact, run_id: str) -> None:
    tx.change(
        "INSERT INTO artifacts (id, run, owner, step, call, media_type, size, sha256, label, created_at)"
        " SELECT id, ?, owner, step, call, media_type, size, sha256, ?, created_at FROM artifacts"
        " WHERE run = ? AND id = ?",
        (run_id, " ".join(sorted(WORST)), artifact.run, artifact.id),
    )
