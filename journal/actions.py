"""What waits for a decision, and the record of who decided. An action is bound by hash to exactly what will happen."""

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .audit import append_audit
from .audit_actions import asked_line, decided_line, settled_line
from .canonical import digest
from .database import Row, Transaction
from .errors import DecisionRefused, UnknownId
from .events import NewEvent, append_event
from .outlet import Outlet
from .read_only import refuse_imported
from .values import Json, JsonObject
from .world import World

ActionKind: TypeAlias = Literal["call", "plan", "form", "widen", "trust", "unknown", "login", "budget"]
Level: TypeAlias = Literal["host", "person", "passkey"]
ActionState: TypeAlias = Literal["waiting", "decided", "consumed", "withdrawn", "expired", "superseded"]

CHOICES: dict[ActionKind, tuple[str, ...]] = {
    "call": ("approve", "deny"),
    "plan": ("approve", "deny"),
    "form": ("submit", "decline"),
    "widen": ("approve", "deny"),
    "trust": ("accept", "reject"),
    "unknown": ("done", "not_done", "retry", "give_up"),
    "login": ("cancel",),
    "budget": ("raise", "finish"),
}
LOGGED_IN = "logged_in"
"""How a `login` action ends by itself; nobody is offered it."""
SAYS_NO: frozenset[str] = frozenset({"deny", "decline", "reject", "cancel", "finish", "give_up"})
"""Choices that need no level: nothing happens by them."""
_SAID_YES = "choice NOT IN ({})".format(", ".join(f"'{choice}'" for choice in sorted(SAYS_NO)))
LEVELS: tuple[Level, ...] = ("host", "person", "passkey")

APPROVED_SECONDS = 600.0
"""An approval not used for so long, counted while a process can drive, must be asked for again."""


class LevelTooLow(DecisionRefused):
    """An approving choice that came by a way too weak for this action; it goes on waiting."""

    def __init__(self, action_id: str, *, needed: Level) -> None:
        self.needed = needed
        where = "; only the page can take it, with a passkey" if needed == "passkey" else ""
        super().__init__(f"action {action_id} needs a yes of level {needed}{where}")


@dataclass(frozen=True)
class NewAction:
    """What is to be decided. `binding` is what the hash covers, `arguments` what is shown and repeated.

    `subject` is equal for actions that ask for the same thing (a refused one is not asked again in its run).
    `sources` says, in the order to be shown, where each argument came from; nothing is decided by it.
    """

    key: str
    kind: ActionKind
    level: Level
    question: str
    arguments: Json
    binding: Json
    subject: str
    step: str | None = None
    tool: str | None = None
    effect: str | None = None
    reasons: tuple[str, ...] = ()
    expires_in: float | None = None
    edit_of: str | None = None
    sources: tuple[JsonObject, ...] = ()


@dataclass(frozen=True)
class Action:
    """An action as the journal has it. Times are Unix seconds; `via` is the way by which the decision came."""

    id: str
    run: str
    owner: str
    key: str
    step: str | None
    kind: ActionKind
    choices: tuple[str, ...]
    level: Level
    state: ActionState
    question: str
    tool: str | None
    arguments: Json
    effect: str | None
    reasons: tuple[str, ...]
    hash: str
    created_at: float
    expires_at: float | None
    choice: str | None
    decided_level: Level | None
    via: str | None
    decided_at: float | None
    note: str | None
    content: Json
    edit_of: str | None
    sources: tuple[JsonObject, ...]
    subject: str
    handled: bool
    serial: int


@dataclass(frozen=True)
class Decision:
    """A choice and how it came: `via` is approve_action, form, terminal, page, passkey, panel, flag or login.

    `client` is who vouches for it.
    """

    choice: str
    level: Level
    via: str
    note: str | None = None
    content: Json = None
    client: str | None = None


def create_action(tx: Transaction, run_id: str, new: NewAction, *, world: World, outlet: Outlet) -> Action:
    """Add a waiting action with its event; an earlier one under the same key keeps its record."""
    now = world.now()
    owner = tx.rows("SELECT owner FROM runs WHERE id = ?", (run_id,))[0]["owner"]
    serial = tx.rows("SELECT COUNT(*) n FROM actions WHERE run = ? AND key = ?", (run_id, new.key))[0]["n"]
    action_id, hash_ = world.new_id("a"), digest(new.binding)
    tx.change(
        "INSERT INTO actions (id, run, owner, key, step, kind, choices, level, state, question, tool, arguments,"
        " effect, reasons, binding, hash, created_at, expires_at, edit_of, sources, subject, serial)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(action_id, run_id, owner, new.key, new.step, new.kind, json.dumps(CHOICES[new.kind]), new.level),
            *(new.question, new.tool, json.dumps(new.arguments), new.effect, json.dumps(new.reasons)),
            *(json.dumps(new.binding), hash_, now, None if new.expires_in is None else now + new.expires_in),
            *(new.edit_of, json.dumps(new.sources), new.subject, serial),
        ),
    )
    data = {"action_id": action_id, "kind": new.kind, "level": new.level, "tool": new.tool, "question": new.question}
    append_event(tx, run_id, NewEvent("action.waiting", data, step=new.step), at=now, outlet=outlet)
    action = get_action(tx, action_id, owner=owner)
    append_audit(tx, asked_line(action), owner=owner, at=now, outlet=outlet)
    return action


def decide(tx: Transaction, action: Action, decision: Decision, *, world: World, outlet: Outlet) -> Action:
    """Take a decision once. Raises DecisionRefused (no such choice, decided, ended, expired) or LevelTooLow.

    A no by `approve_action` only withdraws the action; any other no is a person's. The run is woken; where it has ended
    the decision is a record only.
    """
    now = world.now()
    refuse_imported(tx, action.run)
    _refuse_unfit(action, decision, now)
    state = "withdrawn" if decision.choice in SAYS_NO and decision.via == "approve_action" else "decided"
    changed = tx.change(
        "UPDATE actions SET state = ?, choice = ?, decided_level = ?, via = ?, decided_at = ?, note = ?, content = ?,"
        " handled = (SELECT ended_at IS NOT NULL FROM runs WHERE id = run) WHERE id = ? AND state = 'waiting'",
        (
            *(state, decision.choice, decision.level, decision.via, now, decision.note),
            *(json.dumps(decision.content), action.id),
        ),
    )
    if changed != 1:
        raise DecisionRefused(f"action {action.id} has been decided or withdrawn in the meantime; get_run shows it")
    wake(tx, action.run)
    said: JsonObject = {
        "action_id": action.id,
        "kind": action.kind,
        "choice": decision.choice,
        "level": decision.level,
        "via": decision.via,
    }
    append_event(tx, action.run, NewEvent("action.decided", said, step=action.step), at=now, outlet=outlet)
    decided = get_action(tx, action.id, owner=action.owner)
    append_audit(tx, decided_line(decided, client=decision.client), owner=action.owner, at=now, outlet=outlet)
    return decided


def _refuse_unfit(action: Action, decision: Decision, now: float) -> None:
    by_itself = (action.kind, decision.choice, decision.via) == ("login", LOGGED_IN, "login")
    if decision.choice not in action.choices and not by_itself:
        offered = ", ".join(action.choices)
        raise DecisionRefused(f"action {action.id} ({action.kind}) has no {decision.choice!r}; its choices: {offered}")
    if action.state != "waiting":
        past = f"decided ({action.choice})" if action.state in ("decided", "consumed") else action.state
        raise DecisionRefused(f"action {action.id} is {past} already, once and for all; get_run shows the run")
    if action.expires_at is not None and now > action.expires_at:
        raise DecisionRefused(f"action {action.id} has expired; its step fails, and the goal can be asked for again")
    if decision.choice not in SAYS_NO and LEVELS.index(decision.level) < LEVELS.index(action.level):
        raise LevelTooLow(action.id, needed=action.level)


def wake(tx: Transaction, run_id: str) -> None:
    """Have a run that waits be looked at by whoever drives it next."""
    tx.change("UPDATE runs SET wake_at = 0 WHERE id = ? AND ended_at IS NULL", (run_id,))


def supersede(tx: Transaction, action: Action) -> bool:
    """End a waiting action because another takes its place; what was decided meanwhile holds. Raises ReadOnlyRun."""
    refuse_imported(tx, action.run)
    sql = "UPDATE actions SET state = 'superseded', handled = 1 WHERE id = ? AND state = 'waiting'"
    return tx.change(sql, (action.id,)) == 1


def void(tx: Transaction, action: Action) -> bool:
    """End an action whose approval lapsed or whose subject changed; false where a no to a call came meanwhile."""
    sql = "UPDATE actions SET handled = 1, state = 'superseded' WHERE id = ?"
    stands = f"kind = 'call' AND state IN ('decided', 'withdrawn') AND choice IS NOT NULL AND NOT ({_SAID_YES})"
    return tx.change(f"{sql} AND NOT ({stands})", (action.id,)) == 1


def consume(tx: Transaction, action_id: str, *, hash_: str) -> bool:
    """Use an approval for exactly what it was given for; true once, and never for a no."""
    sql = "UPDATE actions SET state = 'consumed', handled = 1 WHERE id = ? AND state = 'decided' AND hash = ?"
    return tx.change(f"{sql} AND {_SAID_YES}", (action_id, hash_)) == 1


def settle_action(tx: Transaction, action: Action, *, now: float, expired: bool) -> None:
    """Note that the drive has acted on a decision, or on the lapse of an action; one decided meanwhile stays so."""
    before = get_action(tx, action.id, owner=action.owner)
    lapsed = "'expired'" if expired else "state"
    sql = f"UPDATE actions SET handled = 1, state = CASE state WHEN 'waiting' THEN {lapsed} ELSE state END WHERE id = ?"
    tx.change(sql, (action.id,))
    after = get_action(tx, action.id, owner=action.owner)
    counted = not expired and after.state == "decided" and after.choice not in SAYS_NO
    if not before.handled and (counted or after.state == "expired"):
        append_audit(tx, settled_line(after), owner=action.owner, at=now, outlet=Outlet())


def drop_approvals(tx: Transaction, run_id: str) -> None:
    """Void each yes not yet used. A person's no, and a word on what became of a call, hold under any settings."""
    sql = f"UPDATE actions SET state = 'superseded', handled = 1 WHERE run = ? AND state = 'decided' AND {_SAID_YES}"
    tx.change(f"{sql} AND choice NOT IN ('done', 'not_done')", (run_id,))


def get_action(tx: Transaction, action_id: str, *, owner: str) -> Action:
    """Raises UnknownId, the same for an action of somebody else."""
    row = tx.row("SELECT * FROM actions WHERE id = ? AND owner = ?", (action_id, owner))
    if row is None:
        raise UnknownId("action", action_id)
    return _action(row)


def latest_action(tx: Transaction, run_id: str, key: str) -> Action | None:
    row = tx.row("SELECT * FROM actions WHERE run = ? AND key = ? ORDER BY serial DESC LIMIT 1", (run_id, key))
    return None if row is None else _action(row)


def actions_of(tx: Transaction, run_id: str, *, state: ActionState | None = None) -> list[Action]:
    """The run's actions, oldest first."""
    sql = "SELECT * FROM actions WHERE run = ? AND (? IS NULL OR state = ?) ORDER BY created_at, rowid"
    return [_action(row) for row in tx.rows(sql, (run_id, state, state))]


def waiting_actions(tx: Transaction, *, owner: str) -> list[Action]:
    """All that waits for this owner, oldest first; in imported runs nothing does."""
    sql = (
        "SELECT * FROM actions WHERE owner = ? AND state = 'waiting' AND run NOT IN (SELECT run FROM imports)"
        " ORDER BY created_at, rowid"
    )
    return [_action(row) for row in tx.rows(sql, (owner,))]


def refused_before(tx: Transaction, run_id: str, subject: str) -> bool:
    """Whether a person said no to the same thing in this run."""
    sql = "SELECT 1 FROM actions WHERE run = ? AND subject = ? AND state IN ('decided', 'consumed') AND choice = 'deny'"
    return tx.row(sql, (run_id, subject)) is not None


def refusals_in_a_row(tx: Transaction, run_id: str) -> int:
    """How many of the latest decided actions of the run were a person's no, without a yes between."""
    sql = (
        "SELECT choice FROM actions WHERE run = ? AND state IN ('decided', 'consumed') AND kind IN ('call', 'widen')"
        " ORDER BY decided_at DESC, rowid DESC"
    )
    count = 0
    for row in tx.rows(sql, (run_id,)):
        if row["choice"] not in SAYS_NO:
            break
        count += 1
    return count


def _action(row: Row) -> Action:
    fields = {name: row[name] for name in Action.__dataclass_fields__}
    fields["choices"] = tuple(json.loads(row["choices"]))
    fields["arguments"] = json.loads(row["arguments"])
    fields["reasons"] = tuple(json.loads(row["reasons"]))
    fields["sources"] = tuple(json.loads(row["sources"]))
    fields["content"] = json.loads(row["content"] or "null")
    fields["handled"] = bool(row["handled"])
    return Action(**fields)
