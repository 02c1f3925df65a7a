"""What ended long ago is removed, with its artifacts; the audit stays. Done by each serving process and by `prune`."""

import logging
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from journal.artifact_files import remove_run, remove_unknown, run_folders
from journal.audit import AuditLine, append_audit
from journal.database import Transaction
from journal.errors import StoreError
from journal.grants import forget_grants
from journal.lease import LeaseWatch
from journal.store import Store

log = logging.getLogger(__name__)

DAY = 86_400.0
_ACCOUNTS_SECONDS = 2 * DAY
"""What was spent stays in the accounts for so long, also where its run is gone: `usd_day` looks back one day."""
_ORPHAN_SECONDS = 3_600.0
"""A younger file may be one whose row another process is about to write."""
_BATCH = 3
"""Runs that one transaction removes: others wait for so long to write."""
_FIRST = 1.0
"""Seconds after its start when a process first looks; whoever started it does not wait for that."""

OF_RUN = ("memo", "steps", "intents", "actions", "events", "artifacts", "imports")
"""The tables whose rows go with their run; those of the ledger and of used grants stay a while, the audit for good."""

# What was imported is kept from then on, however old it is. (The plus: by the index of ends.)
_OLD = """
    +owner = ? AND ended_at <= ? AND NOT EXISTS (SELECT 1 FROM imports WHERE run = runs.id AND at > ?)
"""
# Whoever is to say what became of a call needs its run; the question of an imported run is answered where it came from.
_UNANSWERED = """
    NOT EXISTS (SELECT 1 FROM imports WHERE run = runs.id) AND (
        EXISTS (SELECT 1 FROM actions WHERE run = runs.id AND kind = 'unknown' AND state = 'waiting')
        OR EXISTS (
            SELECT 1 FROM intents
            WHERE run = runs.id AND state IN ('begun', 'unknown') AND key NOT LIKE 'past/%' AND NOT EXISTS (
                SELECT 1 FROM actions WHERE run = runs.id AND key = intents.key || '/unknown' AND choice != 'retry'
            )
        )
    )
"""


@dataclass(frozen=True)
class Pruned:
    """The runs that were, or would be, removed, the bytes of their texts and artifacts, and how many runs as old stay
    because nobody has said what became of a call of theirs."""

    runs: tuple[str, ...] = ()
    size: int = 0
    unanswered: int = 0


@dataclass(frozen=True)
class Swept:
    """Files of artifacts that no row named."""

    files: int
    size: int


async def prune(store: Store, *, days: float, dry_run: bool = False) -> Pruned:
    """Remove this owner's runs that ended at least so many days ago, a few at a time: rows first, then files."""
    before = store.world.now() - days * DAY
    old = (store.owner, before, before)
    count = f"SELECT COUNT(*) FROM runs WHERE {_OLD} AND ({_UNANSWERED})"
    kept = (await store.database.read(lambda tx: tx.rows(count, old)))[0][0]
    which = f"SELECT id FROM runs WHERE {_OLD} AND NOT ({_UNANSWERED}) ORDER BY ended_at, id"
    ids = [str(row["id"]) for row in await store.database.read(lambda tx: tx.rows(which, old))]
    gone, size = list[str](), 0
    for first in range(0, len(ids), _BATCH):
        some = ids[first : first + _BATCH]
        sizes = await store.database.read(partial(_sizes, ids=some))
        if not dry_run:
            began = store.world.monotonic()
            some = await _remove(store, some, old)
            # As long as others had to wait, they have the store to themselves.
            await anyio.sleep(store.world.monotonic() - began)
        gone += some
        size += sum(sizes[run_id] for run_id in some)
    return Pruned(tuple(gone), size, kept)


async def sweep(store: Store) -> Swept:
    """Remove the files of artifacts that no row names, left by a process that died; and accounts no longer needed."""
    before = store.world.now() - _ORPHAN_SECONDS
    sizes: list[int] = []
    for folder in await anyio.to_thread.run_sync(run_folders, store.artifacts.folder):
        known = {artifact.id for artifact in await store.artifacts.of_run(folder.name)}
        sizes += await anyio.to_thread.run_sync(partial(remove_unknown, folder, known, before=before))
    await _drop_accounts(store)
    return Swept(len(sizes), sum(sizes))


async def shrink(store: Store) -> int | None:
    """Write the database anew without what was removed: how many bytes that frees, or None while others are at work.

    Raises StoreError, for example where the disk has no room for a second one beside it.
    """
    if await LeaseWatch(store).living():
        return None
    try:
        return await anyio.to_thread.run_sync(_vacuum, store.database.path)
    except sqlite3.Error as error:
        raise StoreError(f"{store.database.path} was not made smaller: {error}; nothing of it is lost") from error


async def prune_daily(store: Store, days: int | None) -> None:
    """Remove what is too old, a moment after the start and then once a day, until cancelled; troubles are logged."""
    await anyio.sleep(_FIRST)
    while True:
        try:
            pruned = Pruned() if days is None else await prune(store, days=days)
            swept = await sweep(store)
            log.info("pruned", extra={"runs": len(pruned.runs), "kept": pruned.unanswered, "files": swept.files})
        except StoreError as error:
            log.error("prune_failed", extra={"error": str(error)})
        await anyio.sleep(DAY)


async def _remove(store: Store, ids: Sequence[str], old: tuple[str, float, float]) -> list[str]:
    """Those of the runs that were still there, and as old, and are gone now."""
    now = store.world.now()

    def change(tx: Transaction) -> dict[str, list[str]]:
        sql = f"SELECT 1 FROM runs WHERE id = ? AND {_OLD} AND NOT ({_UNANSWERED})"
        left = [run_id for run_id in ids if tx.row(sql, (run_id, *old)) is not None]
        files = {run_id: _remove_rows(tx, run_id, owner=store.owner, at=now) for run_id in left}
        if left:
            line = AuditLine("runs.pruned", {"runs": left, "ended_before": old[1]})
            append_audit(tx, line, owner=store.owner, at=now, outlet=store.outlet)
        return files

    files = await store.database.write("prune", change)
    for run_id, names in files.items():
        store.bell.ring(run_id)
        await anyio.to_thread.run_sync(remove_run, store.artifacts.folder / run_id, names)
    return list(files)


def _remove_rows(tx: Transaction, run_id: str, *, owner: str, at: float) -> list[str]:
    """The ids of the artifacts that the run had."""
    artifacts = [str(row["id"]) for row in tx.rows("SELECT id FROM artifacts WHERE run = ?", (run_id,))]
    for table in OF_RUN:
        tx.change(f"DELETE FROM {table} WHERE run = ?", (run_id,))
    old = "DELETE FROM ledger WHERE run = ? AND (owner != ? OR at <= ?)"
    tx.change(old, (run_id, owner, at - _ACCOUNTS_SECONDS))
    nameless = "UPDATE ledger SET run = '', key = run || '/' || key, step = NULL, worker = NULL WHERE run = ?"
    tx.change(nameless, (run_id,))
    tx.change("DELETE FROM runs WHERE id = ?", (run_id,))
    forget_grants(tx, run_id, at=at)
    return artifacts


async def _drop_accounts(store: Store) -> None:
    where = "FROM ledger WHERE run = '' AND at <= ?"
    parameters = (store.world.now() - _ACCOUNTS_SECONDS,)
    if await store.database.read(lambda tx: tx.row(f"SELECT 1 {where} LIMIT 1", parameters)) is not None:
        await store.database.write("accounts", lambda tx: tx.change(f"DELETE {where}", parameters))


def _sizes(tx: Transaction, ids: Sequence[str]) -> dict[str, int]:
    """By run the bytes of the texts in its rows, and of its artifacts."""
    sizes = dict.fromkeys(ids, 0)
    for table, column in (("runs", "id"), *((name, "run") for name in OF_RUN)):
        texts = [row["name"] for row in tx.rows(f"PRAGMA table_info({table})") if row["type"] == "TEXT"]
        lengths = " + ".join(f"COALESCE(LENGTH(CAST({name} AS BLOB)), 0)" for name in texts)
        whole = f"{lengths} + size" if table == "artifacts" else lengths
        sql = f"SELECT COALESCE(SUM({whole}), 0) FROM {table} WHERE {column} = ?"
        for run_id in ids:
            sizes[run_id] += tx.rows(sql, (run_id,))[0][0]
    return sizes


def _vacuum(path: Path) -> int:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=1.0)) as connection:
        before = _bytes(connection)
        connection.execute("VACUUM")
        # In WAL mode the file itself changes, and what was removed is gone from the disk, only now.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return before - _bytes(connection)


def _bytes(connection: sqlite3.Connection) -> int:
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * size)
