"""Seals: each recorded row carries a hash of itself, and the audit line of a run's end one over all of them."""

import hashlib

from .canonical import canonical
from .database import Transaction
from .values import JsonObject


def seal_of(run_id: str, key: str, name: str, hash_: str, value: str) -> str:
    """SHA-256 over a memo row: what it is for, what it means, and `value` as its column holds it."""
    return hashlib.sha256(canonical([run_id, key, name, hash_]) + value.encode()).hexdigest()


def sealed(tx: Transaction, run_id: str) -> JsonObject:
    """What the audit keeps of a run's record at its end: how many rows it has, and one digest over their seals.

    Artifacts count by their own hashes. No value is looked at, only seals.
    """
    memo = tx.rows("SELECT key, seal FROM memo WHERE run = ? ORDER BY key", (run_id,))
    files = tx.rows("SELECT id, sha256 FROM artifacts WHERE run = ? ORDER BY id", (run_id,))
    lines = [f"{key} {seal or ''}\n" for key, seal in (*map(tuple, memo), *map(tuple, files))]
    return {"rows": len(lines), "digest": hashlib.sha256("".join(lines).encode(errors="replace")).hexdigest()}
