"""The login stage: a call to a server that nobody is logged in at waits, one question for all calls of that server.

The login itself is made by a command, which then decides the question; nothing of it passes through here.
"""

from contextlib import suppress

from downstream.door import Waiting
from downstream.servers.failures import login_reason
from downstream.servers.listing import fingerprint_of
from downstream.settings import ServerSettings
from journal.actions import LOGGED_IN, Action, Decision, NewAction
from journal.canonical import digest
from journal.errors import DecisionRefused
from journal.run_journal import RunJournal
from journal.store import Store

from .approvals import Lapsed, approval_key
from .stages import Case, Gate


async def login_first(gate: Gate, journal: RunJournal, case: Case) -> Waiting | Lapsed | None:
    """None if the call may go on; else the question that waits, or why there will be no login."""
    action = await journal.action(_key(case))
    asked = action is not None and action.state == "waiting"
    if gate.needs_login(case.tool.server, asked):
        return await ask_login(gate, journal, case)
    if action is not None and asked:
        # Somebody logged in and ended before saying so.
        await journal.supersede_action(action)
    elif action is not None and not action.handled:
        await journal.settle_action(action)
    return None


async def ask_login(gate: Gate, journal: RunJournal, case: Case) -> Waiting | Lapsed:
    """The question, waiting; a person's no holds for the rest of the run."""
    action = await journal.action(_key(case))
    if action is not None and (no := await _no(gate, journal, action)) is not None:
        return no
    # An approval given before that is kept for as long as it holds, and must not keep the run awake.
    approved = await journal.action(approval_key(case.call.key))
    if approved is not None and approved.state == "decided" and not approved.handled:
        await journal.settle_action(approved)
    waiting = await journal.ask(_question(gate, case))
    if gate.needs_login(case.tool.server, True):
        return Waiting(waiting.id, waiting.expires_at)
    # The login came right before the question, which it could not find.
    await journal.supersede_action(waiting)
    return Waiting(waiting.id, journal.world.now())


async def settle_logins(store: Store, server: ServerSettings) -> list[str]:
    """Decide what waits for a login at this server, once there is one; the runs that go on by it."""
    runs: list[str] = []
    for action in await store.waiting_actions():
        if action.kind == "login" and action.subject == _subject(server):
            # One that lapsed, or that somebody said no to a moment ago, stays as it is.
            with suppress(DecisionRefused):
                await store.decide(action, Decision(LOGGED_IN, "person", "login"))
                runs.append(action.run)
    return runs


async def _no(gate: Gate, journal: RunJournal, action: Action) -> Lapsed | None:
    if not action.handled and action.state != "waiting":
        await journal.settle_action(action)
    if action.choice == "cancel":
        return Lapsed("the login was cancelled")
    if action.state == "waiting" and action.expires_at is not None and journal.world.now() > action.expires_at:
        await journal.settle_action(action, expired=True)
        return Lapsed(f"nobody logged in within {gate.approvals.pending_hours:g} h")
    return None


def _subject(server: ServerSettings) -> str:
    """The same in whichever run."""
    return digest(["login", fingerprint_of(server)])


def _key(case: Case) -> str:
    return f"login/{case.tool.server}"


def _question(gate: Gate, case: Case) -> NewAction:
    name = case.tool.server
    server = gate.servers[name]
    binding = {"v": 1, "owner": case.run.owner, "run": case.run.id, "server": fingerprint_of(server)}
    return NewAction(
        key=_key(case),
        kind="login",
        level="person",
        question=f"Log in at tool server {name}: steprelay servers login {name}",
        arguments={"server": name},
        binding=binding,
        subject=_subject(server),
        step=case.call.step,
        tool=case.tool.full_name,
        reasons=(login_reason(name), "the run goes on by itself once somebody has logged in"),
        expires_in=gate.approvals.pending_hours * 3600,
    )
