"""The tamper-evident part of the history: a chain of hashes over every decision and effect of the store."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from .audit_key import KEYED
from .canonical import canonical
from .database import Transaction
from .outlet import Outlet
from .values import Json, JsonObject

GENESIS = hashlib.sha256(b"steprelay audit 1").hexdigest()
"""What the first line of a store points back to."""


@dataclass(frozen=True)
class AuditLine:
    """A fact to be kept: `type` such as `intent.begun`, and data without values of secrets.

    Of hashes in `keyed` only a keyed hash is written, so that what is short cannot be guessed from it.
    """

    type: str
    data: JsonObject
    run: str | None = None
    keyed: Mapping[str, str | None] = field(default_factory=dict[str, str | None])


def append_audit(tx: Transaction, line: AuditLine, *, owner: str, at: float, outlet: Outlet) -> None:
    """Chain one line to the store's audit inside a change, so that neither stands without the other."""
    last = tx.row("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")
    seq, prev = (int(last["seq"]) + 1, str(last["hash"])) if last else (1, GENESIS)
    hashes = {name: None if text is None else keyed(tx, text) for name, text in line.keyed.items()}
    data = canonical(outlet.json(line.data) | hashes).decode()
    hash_ = chained(prev, [seq, owner, at, line.run, line.type, data])
    tx.change(
        "INSERT INTO audit (seq, owner, at, run, type, data, prev, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (seq, owner, at, line.run, line.type, data, prev, hash_),
    )


def keyed(tx: Transaction, text: str) -> str:
    """HMAC-SHA256 under the store's key, with the key's name in front: `1a2b3c4d:…`."""
    return str(tx.rows(f"SELECT {KEYED}(?)", (text,))[0][0])


def is_keyed(tx: Transaction, text: str, told: Json) -> bool:
    """Whether `told` may be the keyed hash of this text; one made with another key may."""
    own = keyed(tx, text)
    return told == own or (isinstance(told, str) and told.partition(":")[0] != own.partition(":")[0])


def chained(prev: str, fields: list[Json]) -> str:
    return hashlib.sha256(prev.encode() + canonical(fields)).hexdigest()
