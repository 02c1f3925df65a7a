"""Grants: leave that a person gave beforehand for one call of a plan, used up in the change that begins the call."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TypeAlias

from .actions import Action, consume
from .audit import AuditLine, append_audit
from .canonical import digest
from .database import Database, Row, Transaction
from .errors import SteprelayError
from .events import NewEvent
from .intents import NewIntent
from .outlet import Outlet
from .values import JsonObject
from .world import World

LEVEL = "person"
"""Grants are given by a person, at a terminal or on the page, and never stand for more than that."""

_IS_LEFT = "used = 0 AND (SELECT SUM(used) FROM grants AS every WHERE every.id = grants.id) < uses"


NOT_COVERED = "a grant for this step does not cover it: "
"""How the reason begins why a call is asked about although its step has a grant."""


class GrantSpent(SteprelayError):
    """A grant that was used as often as it may be, or has expired."""

    def __init__(self, grant: "Grant", why: str) -> None:
        super().__init__(
            f"the grant for step {grant.step!r} ({grant.tool}) {why}; a person makes new ones with `plan GOAL --grant`"
        )


@dataclass(frozen=True)
class Grant:
    """Leave for the call of one step: `arguments` holds a condition for each argument by name.

    `plan` is the digest of the plan's steps, `bound` one over all else that decides what would happen. `uses` counts
    over all runs; in one run it is used once.
    """

    id: str
    step: str
    tool: str
    arguments: JsonObject
    plan: str
    bound: str
    uses: int
    expires_at: float

    def to_json(self) -> JsonObject:
        return asdict(self)


Leave: TypeAlias = Action | Grant
"""What a call goes out by, and uses up."""


class Grants:
    """The grants of one run."""

    def __init__(self, database: Database, run_id: str) -> None:
        self._database = database
        self._run = run_id

    async def open(self, step: str) -> list[Grant]:
        """Those for this step that are not used up."""
        sql = f"SELECT * FROM grants WHERE run = ? AND step = ? AND {_IS_LEFT} ORDER BY rowid"
        rows = await self._database.read(lambda tx: tx.rows(sql, (self._run, step)))
        return [_grant(row) for row in rows]


def give(tx: Transaction, run_id: str, grants: Iterable[Grant], *, owner: str, world: World, outlet: Outlet) -> None:
    """Let a run use these grants, with an audit line for each. Raises GrantSpent."""
    now = world.now()
    for grant in grants:
        _refuse_spent(tx, grant, now)
        tx.change(
            "INSERT INTO grants (id, run, owner, step, tool, arguments, plan, bound, uses, expires_at, given_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(grant.id, run_id, owner, grant.step, grant.tool, json.dumps(grant.arguments), grant.plan),
                *(grant.bound, grant.uses, grant.expires_at, now),
            ),
        )
        said = {"grant": grant.id, "step": grant.step, "tool": grant.tool, "uses": grant.uses, "level": LEVEL}
        line = AuditLine("grant.given", said, run=run_id, keyed={"arguments_hmac": digest(grant.arguments)})
        append_audit(tx, line, owner=owner, at=now, outlet=outlet)


def use_leave(tx: Transaction, run: Row, intent: NewIntent, *, at: float) -> bool:
    """Use up the approval or the grant that this call goes out by, if it needs one; true once for each."""
    if intent.action is not None:
        return consume(tx, intent.action, hash_=intent.action_hash or "")
    if intent.grant is None:
        return True
    sql = (
        f"UPDATE grants SET used = 1, used_at = ?, call = ? WHERE run = ? AND id = ? AND expires_at > ? AND {_IS_LEFT}"
    )
    return tx.change(sql, (at, intent.call, run["id"], intent.grant, at)) == 1


def unused_text(step: str, tool: str, why: str) -> str:
    """The warning of a grant that does nothing."""
    return f"the grant for step {step!r} ({tool}) is not used: {why}"


def tell_unused(tx: Transaction, run_id: str) -> list[NewEvent]:
    """Add a warning to the run, which ends, for each grant that it has not used; returns their events."""
    unused = tx.rows("SELECT step, tool FROM grants WHERE run = ? AND used = 0 ORDER BY rowid", (run_id,))
    if not unused:
        return []
    said = [{"step": row["step"], "tool": row["tool"], "why": _why_unused(tx, run_id, row["step"])} for row in unused]
    texts = [unused_text(each["step"], each["tool"], each["why"]) for each in said]
    known: list[str] = json.loads(tx.rows("SELECT warnings FROM runs WHERE id = ?", (run_id,))[0]["warnings"])
    # A grant that was found unfit at the start was told of in the same words.
    warnings = list(dict.fromkeys((*known, *texts)))
    tx.change("UPDATE runs SET warnings = ? WHERE id = ?", (json.dumps(warnings), run_id))
    return [
        NewEvent("warning", {"text": text, "grant": each}, step=each["step"])
        for text, each in zip(texts, said, strict=True)
    ]


def _why_unused(tx: Transaction, run_id: str, step: str) -> str:
    asked = tx.rows("SELECT reasons FROM actions WHERE run = ? AND step = ? ORDER BY rowid", (run_id, step))
    for row in asked:
        for reason in json.loads(row["reasons"]):
            if reason.startswith(NOT_COVERED):
                return str(reason.removeprefix(NOT_COVERED))
    if tx.row("SELECT 1 FROM steps WHERE run = ? AND id = ? AND started_at IS NOT NULL", (run_id, step)) is None:
        return "its step was not begun"
    free = "SELECT 1 FROM intents WHERE run = ? AND step = ? AND action IS NULL"
    return "its call needed no leave" if tx.row(free, (run_id, step)) is not None else "its step made no such call"


def drop_grants(tx: Transaction, run_id: str) -> None:
    """Void what the run has not used."""
    tx.change("DELETE FROM grants WHERE run = ? AND used = 0", (run_id,))


def forget_grants(tx: Transaction, run_id: str, *, at: float) -> None:
    """Remove what a run had, but not that it was used: no other run may use it once more before it expires."""
    drop_grants(tx, run_id)
    tx.change("UPDATE grants SET arguments = '{}' WHERE run = ?", (run_id,))
    tx.change("DELETE FROM grants WHERE expires_at <= ? AND run NOT IN (SELECT id FROM runs)", (at,))


def _refuse_spent(tx: Transaction, grant: Grant, now: float) -> None:
    if grant.expires_at <= now:
        raise GrantSpent(grant, "has expired")
    used = tx.rows("SELECT COALESCE(SUM(used), 0) AS used FROM grants WHERE id = ?", (grant.id,))[0]["used"]
    if used >= grant.uses:
        raise GrantSpent(grant, "has been used")


def _grant(row: Row) -> Grant:
    fields = {name: row[name] for name in Grant.__dataclass_fields__}
    return Grant(**fields | {"arguments": json.loads(row["arguments"])})
