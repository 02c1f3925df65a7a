"""What becomes of a call that was begun and has no answer: it is sent again, counts as something, or waits."""

from dataclasses import dataclass, replace
from typing import TypeAlias

from downstream.door import Called, CallTool, Refused, ToolCall, Waiting
from downstream.tools import HAS_EFFECT, Tool
from journal.actions import Action
from journal.intents import Intent, IntentState
from journal.run_journal import RunJournal
from journal.sending import Sender

from .call_record import no_such_tool
from .reconcile import Lost, Verdict, reconcile
from .stages import Gate
from .unknown import as_known, as_said, ask_what_became, drop_unknown, said_about


@dataclass(frozen=True)
class SendAgain:
    """It passes the gate again; `action` is a person's `retry`, which is used up by it."""

    tool: Tool
    action: Action | None = None


@dataclass(frozen=True)
class Closed:
    """It counts as `called`; a `state` of None leaves it as one that may have run."""

    called: Called
    state: IntentState | None


Next: TypeAlias = SendAgain | Closed | Waiting


async def what_next(gate: Gate, journal: RunJournal, *, call: ToolCall, intent: Intent, read: CallTool) -> Next:
    """In this order: a repeat that does no harm, a person's word, the read that the settings name, a question.

    Nothing of that but the first counts while another process may still send the call, except that it was done or is
    given up.
    """
    await gate.tools(intent.tool)
    tool = gate.find(intent.tool)
    if tool is not None and _does_no_harm(gate, tool, intent):
        return SendAgain(tool)
    if intent.state == "begun":
        await journal.lose_call(intent.key)
    sender = await journal.sending.elsewhere(intent)
    if (said := await said_about(journal, intent)) is not None:
        return await _as_told(journal, intent, said=said, sender=sender, tool=tool or no_such_tool(call, gate))
    lost = None if tool is None else Lost(call, intent, tool)
    verdict = None if lost is None or sender is not None else await reconcile(gate, journal, lost, read=read)
    if lost is not None and verdict is not None and verdict.said is not None:
        return await _as_found(journal, lost, verdict)
    asked = await ask_what_became(journal, intent, *([verdict.why] if verdict else ()))
    # Decided right now, it is heard of as one that was decided while the step waited.
    action = asked.action if isinstance(asked, Waiting) else asked.id
    may_tell = tool is not None and gate.options(tool).reconcile is not None
    return Waiting(action, sender.until if sender is not None and may_tell else None)


async def not_sent_again(journal: RunJournal, intent: Intent, action: Action | None, *, why: str) -> Closed:
    """The gate no longer lets it out."""
    if action is not None:
        await journal.settle_action(action)
    called = as_said(intent, "give_up")
    return Closed(replace(called, text=f"{called.text} It was not sent again: {why}"), None)


def _does_no_harm(gate: Gate, tool: Tool, intent: Intent) -> bool:
    key = gate.options(tool).idempotency_key
    # One that was sent before the settings named the argument carries no key. One that nobody heard of although its
    # process lived was sent again then, or took all its time.
    keyed = key is not None and intent.arguments.get(key) is not None and intent.state == "begun"
    return tool.class_ not in HAS_EFFECT or tool.idempotent or keyed


async def _as_told(
    journal: RunJournal, intent: Intent, *, said: Action, sender: Sender | None, tool: Tool | Refused
) -> Next:
    await_sender = sender is not None and said.choice in ("retry", "not_done")
    if await_sender or said.choice != "retry":
        await journal.settle_action(said)
    if sender is not None and await_sender:
        return Waiting(said.id, sender.until)
    if said.choice != "retry":
        # Given up, a call goes on counting as one that may have run.
        states: dict[str | None, IntentState] = {"done": "done", "not_done": "not_done"}
        return Closed(as_said(intent, said.choice or "give_up"), states.get(said.choice))
    if isinstance(tool, Refused):
        return await not_sent_again(journal, intent, said, why=tool.reason)
    return SendAgain(tool, said)


async def _as_found(journal: RunJournal, lost: Lost, verdict: Verdict) -> Next:
    intent, done = lost.intent, verdict.said == "done"
    await drop_unknown(journal, intent)
    then = "so it counts as done" if done else "so it is sent again"
    await journal.warn(f"step {intent.step}: {intent.tool} gave no answer; {verdict.why}, {then}")
    if not done:
        return SendAgain(lost.tool)
    text = f"No answer came, and {verdict.why}; what it returned is not known."
    return Closed(as_known(intent, ok=True, text=text), "done")
