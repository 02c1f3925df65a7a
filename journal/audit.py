"""The tamper-evident part of the history: a chain of hashes over every decision and effect of the store."""

import hashlib
from dataclasses import dataclass

from .canonical import canonical
from .database import Transaction
from .outlet import Outlet
from .values import JsonObject

GENESIS = hashlib.sha256(b"steprelay audit 1").hexdigest()
"""What the first line of a store points back to."""


@dataclass(frozen=True)
class AuditLine:
    """A fact to be kept: `type` such as `intent.begun`, and data without values of secrets."""

    type: str
    data: JsonObject
    run: str | None = None


def append_audit(tx: Transaction, line: AuditLine, *, owner: str, at: float, outlet: Outlet) -> None:
    """Chain one line to the store's audit inside a change, so that neither stands without the other."""
    last = tx.row("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")
    seq, prev = (int(last["seq"]) + 1, str(last["hash"])) if last else (1, GENESIS)
    data = canonical(outlet.json(line.data)).decode()
    hash_ = chain_hash(prev, seq, line.type, run=line.run, at=at, data=data)
    tx.change(
        "INSERT INTO audit (seq, owner, at, run, type, data, prev, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (seq, owner, at, line.run, line.type, data, prev, hash_),
    )


def chain_hash(prev: str, seq: int, type_: str, *, run: str | None, at: float, data: str) -> str:
    """SHA-256 over the previous hash and the canonical form of the line."""
    body = canonical({"seq": seq, "type": type_, "run": run, "at": at, "data": data})
    return hashlib.sha256(prev.encode() + body).hexdigest()
