"""The trust stage: a call of a tool that changed, or was added, waits until a person accepts it as it is now.

One question for all calls of that tool in a run; what is accepted counts for all runs, a no for the rest of this one.
"""

from contextlib import suppress
from dataclasses import dataclass, replace

from downstream.door import Called, ToolCall, Waiting
from downstream.servers.listing import fingerprint_of
from downstream.servers.pins import Accepting, Change
from downstream.settings import ServerSettings
from journal.actions import Action, Decision, NewAction
from journal.canonical import digest
from journal.errors import DecisionRefused
from journal.run_journal import RunJournal
from journal.store import Store
from journal.values import JsonObject, Value

from .approvals import Lapsed, approval_key, drop_question
from .prompt_text import LARGEST_ARGUMENTS, size_of, trust_question
from .stages import Gate


async def trust_first(gate: Gate, journal: RunJournal, call: ToolCall, *, tool: str) -> Waiting | Called | None:
    """None if nothing holds the tool of this full name; else the question that waits, or why the call fails."""
    if gate.pins is None:
        return None
    action = await journal.action(_key(tool))
    if (change := gate.pins.change(tool)) is None:
        if action is not None:
            # Accepted by another run or a command, or the server took the change back.
            await _let_go(journal, action)
        return None
    answer = await _answer(gate, gate.pins, journal, Held(change, action, call.step))
    if isinstance(answer, Waiting):
        # An approval given before that must not keep the run awake; it does not fit the tool as it is accepted.
        approved = await journal.action(approval_key(call.key))
        if approved is not None and approved.state == "decided" and not approved.handled:
            await journal.settle_action(approved)
    if not isinstance(answer, Lapsed):
        return answer
    await drop_question(journal, call.key)
    value = Value(None, frozenset({"config"}))
    return Called(journal.world.new_id("c"), tool, ok=False, value=value, text=answer.text, empty=True)


async def tell_news(gate: Gate, journal: RunJournal, server: str, *, told: set[str]) -> None:
    """Warn the run, once in a drive, of a server that describes itself in other words than the pinned ones."""
    for text in gate.pins.news(server) if gate.pins is not None else ():
        if text not in told:
            told.add(text)
            await journal.warn(text)


async def settle_trust(
    store: Store, server: ServerSettings, changes: list[Change], *, via: str = "terminal"
) -> list[str]:
    """Decide what waits for just these changes of a server, which a person accepted; the runs that go on by it."""
    subjects = {_subject(server, change) for change in changes}
    runs: list[str] = []
    for action in await store.waiting_actions():
        if action.kind == "trust" and action.subject in subjects:
            # One that lapsed, or that somebody said no to a moment ago, stays as it is.
            with suppress(DecisionRefused):
                await store.decide(action, Decision("accept", "person", via))
                runs.append(action.run)
    return runs


@dataclass(frozen=True)
class Held:
    """A change that holds a tool, the latest question about that tool in this run, and the step that meets it."""

    change: Change
    action: Action | None
    step: str


async def _answer(gate: Gate, pins: Accepting, journal: RunJournal, held: Held) -> Waiting | Lapsed | None:
    change, action = held.change, held.action
    new = _question(gate, journal, change, step=held.step)
    if action is not None and action.hash == digest(new.binding) and action.state != "superseded":
        return await _answered(gate, pins, journal, action, change)
    if action is not None:
        await _let_go(journal, action)
    if size_of(new.arguments) > LARGEST_ARGUMENTS:
        return Lapsed(f"{change.full_name} stays in quarantine: nobody can judge a definition of its size")
    waiting = await journal.ask(new)
    return Waiting(waiting.id, waiting.expires_at)


async def _answered(
    gate: Gate, pins: Accepting, journal: RunJournal, action: Action, change: Change
) -> Waiting | Lapsed | None:
    """What became of the question about just this change."""
    if action.state == "waiting" and action.expires_at is not None and journal.world.now() > action.expires_at:
        await journal.settle_action(action, expired=True)
        action = replace(action, state="expired", handled=True)
    if action.state == "waiting":
        return Waiting(action.id, action.expires_at)
    if not action.handled:
        await journal.settle_action(action)
    if action.choice == "accept" and action.state == "decided":
        await pins.accept(change)
        return None
    no = f"nobody decided in {gate.approvals.pending_hours:g} h" if action.state == "expired" else "that was rejected"
    return Lapsed(f"{change.full_name} stays in quarantine: {change.why}, and {no}")


async def _let_go(journal: RunJournal, action: Action) -> None:
    if action.state == "waiting":
        await journal.supersede_action(action)
    elif not action.handled:
        await journal.settle_action(action)


def _key(tool: str) -> str:
    return f"trust/{tool}"


def _subject(server: ServerSettings | None, change: Change) -> str:
    return digest(["trust", fingerprint_of(server), change.full_name, change.id])


def _question(gate: Gate, journal: RunJournal, change: Change, *, step: str) -> NewAction:
    server = gate.servers.get(change.server)
    arguments: JsonObject = {
        "server": change.server,
        "tool": change.full_name,
        "difference": journal.outlet.text("\n".join(change.lines)),
    }
    binding: JsonObject = {
        "v": 1,
        "owner": journal.run.owner,
        "run": journal.run.id,
        "server": fingerprint_of(server),
        "tool": change.full_name,
        "change": change.id,
    }
    return NewAction(
        key=_key(change.full_name),
        kind="trust",
        level="person",
        question=trust_question(change.full_name, change.why),
        arguments=arguments,
        binding=binding,
        subject=_subject(server, change),
        step=step,
        tool=change.full_name,
        reasons=(change.why, "what is accepted counts for all runs; a no leaves the tool unused and fails the step"),
        expires_in=gate.approvals.pending_hours * 3600,
    )
