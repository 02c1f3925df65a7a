"""The approval stage: what a call asks a person, and whether the answer still covers exactly what would be sent."""

from dataclasses import dataclass, replace
from typing import TypeAlias

from downstream.door import Refused, Waiting
from downstream.servers.listing import fingerprint_of
from journal.actions import APPROVED_SECONDS, LEVELS, Action, Level, NewAction
from journal.canonical import digest
from journal.grants import Grant, Leave
from journal.run_journal import ApprovalGone, RunJournal
from journal.values import JsonObject

from .grants import granted
from .origins import sources_of
from .policy import LEAST_LEVEL, Verdict
from .prompt_text import call_question, is_shown, quoted
from .stages import Case, Gate, repetition_raises
from .targets import argument_of, targets

TOO_LONG = "its arguments are too long to be shown by a host"


@dataclass(frozen=True)
class Approved:
    """The call may go out; `leave` is the approval or the grant that it uses up, if it needed one."""

    leave: Leave | None = None


@dataclass(frozen=True)
class Lapsed:
    """Nobody decided in time; the step fails."""

    text: str


Answer: TypeAlias = Approved | Refused | Lapsed | Waiting


def approval_key(call_key: str) -> str:
    return f"{call_key}/approval"


def new_question(gate: Gate, case: Case, verdict: Verdict) -> NewAction:
    """The action that asks for this call, bound to all that decides what will happen."""
    arguments, call = case.call.arguments.data, case.call
    server = gate.servers.get(case.tool.server)
    if not is_shown(arguments):
        verdict = verdict.asking("person", TOO_LONG)
    binding: JsonObject = {
        "v": 1,
        "owner": case.run.owner,
        "run": case.run.id,
        "step": call.step,
        "key": call.key,
        "server": fingerprint_of(server),
        "pin": case.tool.pin,
        "tool": case.tool.full_name,
        "arguments": arguments,
        "policy": digest([gate.policy.model_dump(mode="json"), case.tool.class_]),
    }
    first = tuple(dict.fromkeys(argument_of(pointer) for pointer, _ in targets(case.tool, arguments, gate.policy)))
    return NewAction(
        key=approval_key(call.key),
        kind="call",
        level=verdict.level,
        question=call_question(case.tool, arguments, first),
        arguments=arguments,
        binding=binding,
        subject=digest(["call", case.tool.full_name, case.hash]),
        step=call.step,
        tool=case.tool.full_name,
        effect=case.tool.class_,
        reasons=verdict.reasons,
        expires_in=gate.approvals.pending_hours * 3600,
        edit_of=case.edited.edit_of if case.edited else None,
        sources=sources_of(case, first),
    )


async def approval(gate: Gate, journal: RunJournal, case: Case, verdict: Verdict) -> Answer:
    """Stage 7: nothing to ask, a yes that covers exactly this call, a no, a question that waits, or one that lapsed.

    A decision is read from its record and never made again: a no holds even where nothing would be asked now. Raises
    ApprovalGone where it has to be read anew.
    """
    action = _not_used(case, await journal.action(approval_key(case.call.key)))
    if action is None and verdict.verb == "allow":
        return Approved()
    new = new_question(gate, case, verdict)
    if action is not None:
        if (no := await _no(gate, journal, case, action)) is not None:
            return no
        if _covers(journal, action, new):
            return Approved(action)
        action = await _still_asking(journal, action, new, needed=verdict.verb == "ask")
    if verdict.verb == "allow":
        return Approved()
    if await journal.refused_before(new.subject):
        await drop_question(journal, case.call.key)
        return Refused(case.tool.full_name, "a person said no to the same call in this run", by="person")
    if (secret := _hidden_target(gate, journal, case)) is not None:
        reason = f"its target {secret} holds a secret, which nobody can be shown; take the secret out of the call"
        return Refused(case.tool.full_name, reason, by="gate")
    if action is None:
        leave = await granted(gate, journal, case, new)
        if isinstance(leave, Grant):
            return Approved(leave)
        new = leave
    action = action or await journal.ask(replace(new, question=journal.outlet.text(new.question)))
    return Waiting(action.id, action.expires_at)


async def repetition_allowed(gate: Gate, journal: RunJournal, case: Case) -> Answer:
    """For a call that was let out before, and goes on: a question only where an equal effect was had meanwhile.

    A yes that was given in knowledge of that stands. Raises ApprovalGone as `approval` does.
    """
    verdict = await repetition_raises(journal, case, Verdict("allow", LEAST_LEVEL[case.tool.class_], ()))
    if verdict.verb == "allow":
        return Approved()
    action = await journal.action(approval_key(case.call.key))
    if action is not None and action.state == "consumed" and set(verdict.reasons) <= set(action.reasons):
        return Approved()
    return await approval(gate, journal, case, verdict)


async def drop_question(journal: RunJournal, call_key: str) -> None:
    """End a question, or an answer not yet used, about a call that will not be made."""
    action = await journal.action(approval_key(call_key))
    if action is not None and action.state in ("waiting", "decided"):
        await journal.supersede_action(action)


async def _no(gate: Gate, journal: RunJournal, case: Case, action: Action) -> Refused | Lapsed | None:
    tool = case.tool.full_name
    note = f": {quoted(action.note)}" if action.note else ""
    if action.state == "withdrawn" and action.choice is not None:
        await journal.settle_action(action)
        return Refused(tool, f"withdrawn{note}", by="person")
    if action.state == "decided" and action.choice == "deny":
        await journal.settle_action(action)
        who = "--approve deny" if action.via == "flag" else "a person"
        return Refused(tool, f"{who} said no{note}", by="person")
    waited = action.state == "waiting" and action.expires_at is not None and journal.world.now() > action.expires_at
    if waited:
        await journal.settle_action(action, expired=True)
    if waited or action.state == "expired":
        return Lapsed(f"no decision in {gate.approvals.pending_hours:g} h")
    return None


def _not_used(case: Case, action: Action | None) -> Action | None:
    """The action, unless it is a yes by which a call that has no intent to use it up was sent already."""
    used = action is not None and action.handled and action.state == "decided" and action.choice == "approve"
    return None if used and not case.has_effect else action


def _covers(journal: RunJournal, action: Action, new: NewAction) -> bool:
    if action.state != "decided" or action.choice != "approve" or action.decided_at is None:
        return False
    # While no process could drive the run, nobody could use the approval either.
    # Either way off: a clock that was set back must not keep an approval alive.
    age = abs(journal.world.now() - max(action.decided_at, journal.taken_at))
    level = action.decided_level or "host"
    return action.hash == digest(new.binding) and age <= APPROVED_SECONDS and not _is_below(level, new.level)


async def _still_asking(journal: RunJournal, action: Action, new: NewAction, *, needed: bool) -> Action | None:
    fits = action.hash == digest(new.binding) and not _is_below(action.level, new.level)
    if needed and action.state == "waiting" and fits:
        return action
    if action.state in ("waiting", "decided") and not await journal.supersede_action(action):
        raise ApprovalGone(f"a no to action {action.id} came meanwhile")
    return None


def _is_below(level: Level, needed: Level) -> bool:
    return LEVELS.index(level) < LEVELS.index(needed)


def _hidden_target(gate: Gate, journal: RunJournal, case: Case) -> str | None:
    for pointer, value in targets(case.tool, case.call.arguments.data, gate.policy):
        if journal.outlet.json(value) != value:
            return quoted(argument_of(pointer))
    return None
