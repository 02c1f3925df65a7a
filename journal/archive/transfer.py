"""Runs in and out of a store as one document; what comes in is read-only for good."""

import base64
import binascii
import hashlib
import json
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

import anyio
import anyio.to_thread
from pydantic import BaseModel

from journal.artifact_files import sync_folders, write_whole
from journal.artifacts import ArtifactLost
from journal.database import Row, Transaction
from journal.errors import SteprelayError, StoreError
from journal.ledger import usage
from journal.outlet import Outlet
from journal.runs import get_run
from journal.schema import VERSION
from journal.store import Store
from journal.values import Json, JsonObject

from .bundle import FORMAT, ArtifactRow, BadBundle, Bundle

TABLES = {
    "memo": "key",
    "steps": "position",
    "intents": "begun_at, key",
    "ledger": "at, key, epoch",
    "actions": "created_at, rowid",
    "events": "seq",
}
"""The tables whose rows belong to one run, and the order in which they are written out."""
_JSON = frozenset(
    {"options", "result", "warnings", "origin", "value", "definition", "arguments", "choices", "reasons", "binding"}
    | {"content", "data", "sources"}
)
_WITH_FOREIGN = ("memo", "intents", "actions")
_MAYBE_NULL = frozenset({"result", "origin", "content"})
_FLAGS = frozenset({"delivered", "optional", "dropped", "cost_known", "handled"})
_FOREIGN = "imported"
"""The owner of an imported run's ledger: it is no money that anybody spent here."""
_OWN_ONLY = ("owner", "driver", "wake_at", "ended_at", "delivered", "idempotency_key", "origin")
"""What an imported run's row has otherwise here than where it came from."""


@dataclass(frozen=True)
class About:
    """What a replay needs besides the run's rows: the tools that its calls used, and settings without secrets."""

    tools: list[Json] = field(default_factory=list[Json])
    settings: JsonObject = field(default_factory=dict[str, Json])


Content: TypeAlias = Callable[[JsonObject], Awaitable[bytes | None]]
"""The content of an artifact of a document; None where it is lost."""


class AlreadyHere(SteprelayError):
    """A run, or something of it, that the store has already."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is in this store already, and nothing was imported; `runs show` shows it")


async def collected(store: Store, run_id: str, *, about: About) -> JsonObject:
    """All that is known of a run but the content of its artifacts, without secrets. Raises UnknownId.

    For a run that was imported, `about` is what came with it.
    """

    def read(tx: Transaction) -> JsonObject:
        seconds = get_run(tx, run_id, owner=store.owner).driven_seconds
        row = _read(tx.rows("SELECT * FROM runs WHERE id = ?", (run_id,))[0])
        kept = tx.row("SELECT data FROM imports WHERE run = ?", (run_id,))
        came: JsonObject = json.loads(kept["data"]) if kept is not None else {}
        lines = tx.rows("SELECT * FROM audit WHERE run = ? ORDER BY seq", (run_id,))
        audit = [{"run": run_id} | _read(line) for line in lines]
        tables = {name: _rows_of(tx, name, by, run_id=run_id) for name, by in TABLES.items()}
        return {
            "steprelay_run": FORMAT,
            "schema": VERSION,
            "run": row | came.get("was", {}),
            "usage": usage(tx, run_id, seconds=seconds).__dict__,
            **tables,
            "audit": came.get("audit", audit),
            "tools": came.get("tools", about.tools),
            "settings": came.get("settings", about.settings),
            "redacted": came.get("redacted", False),
            "artifacts": _rows_of(tx, "artifacts", "created_at, id", run_id=run_id),
        }

    document: JsonObject = await store.database.read(read)
    # Numbers elsewhere are of our own making: times, sizes and limits.
    document |= {name: store.outlet.foreign(document[name]) for name in _WITH_FOREIGN}
    return cast("JsonObject", store.outlet.json(document))


def content_of(store: Store, run_id: str) -> Content:
    """How the artifacts of a run are read for its document: without secrets, and None for one that is lost."""

    async def content(row: JsonObject) -> bytes | None:
        try:
            whole = await store.artifacts.content(await store.artifacts.get(row["id"], run_id=run_id))
        except ArtifactLost:
            return None
        return await anyio.to_thread.run_sync(_without_secrets, store.outlet, whole)

    return content


async def pieces(document: JsonObject, content: Content) -> AsyncGenerator[str]:
    """The document as text, one artifact at a time, so that no more than one is held."""
    rows = {name: part for name, part in document.items() if name != "artifacts"}
    head = json.dumps(rows, ensure_ascii=False, indent=2)
    yield f'{head[:-2]},\n  "artifacts": ['
    for number, row in enumerate(document["artifacts"]):
        whole = await content(row)
        if whole is not None:
            row = row | {"size": len(whole), "sha256": hashlib.sha256(whole).hexdigest()}
        kept = {"content": None if whole is None else base64.b64encode(whole).decode()}
        yield f"{',' if number else ''}\n    {json.dumps(row | kept, ensure_ascii=False)}"
    yield "\n  ]\n}\n"


async def import_bundle(store: Store, bundle: Bundle) -> str:
    """Take a run in as it was, for good read-only; returns its id.

    Files are written under a folder of their own first; rows and the folder's name come in one transaction. Raises
    BadBundle, AlreadyHere, ArtifactNotKept or StoreError; then nothing was taken in.
    """
    run_id, folder = bundle.run.id, store.artifacts.folder
    await store.database.read(lambda tx: _check_new(tx, bundle))
    waiting, final = folder / store.world.new_id("import"), folder / run_id

    def change(tx: Transaction) -> None:
        _check_new(tx, bundle)
        store.artifacts.check_room(tx, run_id, sum(row.size for row in bundle.artifacts))
        _insert_all(tx, bundle, owner=store.owner, at=store.world.now())
        if waiting.exists():
            # What lies there belongs to no run: the check above would have found its rows.
            shutil.rmtree(final, ignore_errors=True)
            waiting.rename(final)
            sync_folders(folder)

    try:
        await anyio.to_thread.run_sync(_write_files, waiting, bundle.artifacts)
        await store.database.write("import", change)
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror}; nothing was imported, free some space and try again") from error
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_remove, waiting)
    return run_id


def _check_new(tx: Transaction, bundle: Bundle) -> None:
    if tx.row("SELECT 1 FROM runs WHERE id = ?", (bundle.run.id,)) is not None:
        raise AlreadyHere(f"run {bundle.run.id}")
    for action in bundle.actions:
        if (found := tx.row("SELECT run FROM actions WHERE id = ?", (action.id,))) is not None:
            raise AlreadyHere(f"action {action.id} of run {found['run']}")


def _write_files(folder: Path, artifacts: list[ArtifactRow]) -> None:
    for row in artifacts:
        if row.content is None:
            continue
        try:
            content = base64.b64decode(row.content, validate=True)
        except (binascii.Error, ValueError):
            raise BadBundle(f"artifact {row.id}: its content is no base64") from None
        if (len(content), hashlib.sha256(content).hexdigest()) != (row.size, row.sha256):
            raise BadBundle(f"artifact {row.id}: its content has another size or sha256 than is written beside it")
        write_whole(folder, row.id, content)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _insert_all(tx: Transaction, bundle: Bundle, *, owner: str, at: float) -> None:
    run = bundle.run
    written: JsonObject = run.model_dump(mode="json")
    came = {
        "was": {name: written[name] for name in _OWN_ONLY},
        "audit": [line.model_dump(mode="json") for line in bundle.audit],
        "tools": bundle.tools,
        "settings": bundle.settings,
        "redacted": bundle.redacted,
    }
    here: JsonObject = {
        "owner": owner,
        "driver": None,
        "wake_at": None,
        # Nobody drives, resumes or reaps what has ended, whatever it says of itself.
        "ended_at": run.updated_at if run.ended_at is None else run.ended_at,
        # And nobody attaches to it.
        "delivered": True,
        "idempotency_key": None,
        "origin": {"import": {"at": at}},
    }
    _insert(tx, "runs", written | here)
    data = json.dumps(came)
    tx.change("INSERT INTO imports (run, owner, data, at) VALUES (?, ?, ?, ?)", (run.id, owner, data, at))
    for table in (*TABLES, "artifacts"):
        rows: list[BaseModel] = getattr(bundle, table)
        for row in rows:
            fields = row.model_dump(mode="json", by_alias=True, exclude={"content"} if table == "artifacts" else None)
            _insert(tx, table, fields | {"owner": _FOREIGN if table == "ledger" else owner})


def _insert(tx: Transaction, table: str, fields: JsonObject) -> None:
    columns = {name: _written(table, name, value) for name, value in fields.items()}
    marks = ", ".join("?" * len(columns))
    # The accounts of a run that was removed here are kept for a while.
    verb = "INSERT OR IGNORE" if table == "ledger" else "INSERT"
    tx.change(f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({marks})", tuple(columns.values()))


def _written(table: str, name: str, value: Json) -> Json:
    """A value as its column holds it."""
    if (table, name) == ("artifacts", "label"):
        return " ".join(value)
    if name in _JSON and not (value is None and name in _MAYBE_NULL):
        return json.dumps(value)
    return value


def _rows_of(tx: Transaction, table: str, order: str, *, run_id: str) -> list[JsonObject]:
    found = map(_read, tx.rows(f"SELECT * FROM {table} WHERE run = ? ORDER BY {order}", (run_id,)))
    return [{name: value for name, value in row.items() if not _is_left_out(table, name, value)} for row in found]


def _is_left_out(table: str, name: str, value: Json) -> bool:
    return name == "owner" or (table == "events" and name in ("step", "call") and value is None)


def _read(row: Row) -> JsonObject:
    """A row as a reader wants it: what is JSON in its columns as data."""
    return {name: _shown(name, value) for name, value in zip(row.keys(), row, strict=True)}


def _shown(name: str, value: Json) -> Json:
    if name in _FLAGS:
        return bool(value)
    if name == "label":
        return value.split()
    return json.loads(value) if name in _JSON and value is not None else value


def _without_secrets(outlet: Outlet, content: bytes) -> bytes:
    try:
        text, encoding = content.decode(), "utf-8"
    except UnicodeDecodeError:
        text, encoding = content.decode("latin-1"), "latin-1"
    clean = outlet.text(text)
    return content if clean == text else clean.encode(encoding)
