"""Calls of which nobody knows whether they ran: a question for a person, never a silent repeat."""

from dataclasses import replace
from datetime import UTC, datetime

from downstream.door import Called, Waiting
from journal.actions import Action, NewAction
from journal.canonical import digest
from journal.intents import Intent
from journal.run_journal import RunJournal
from journal.sending import Sender
from journal.values import Value

from .approvals import approval_key
from .policy import higher
from .prompt_text import unknown_question

_SAID: dict[str, str] = {
    "done": "A person looked and says that this call was done; what it returned is not known.",
    "not_done": "No answer came, and a person looked and says that this call was not done.",
    "give_up": "No answer came, and it is not known whether this call was done.",
}


async def said_about(journal: RunJournal, intent: Intent) -> Action | None:
    """The person's decision about a call, if there is one that was not used up yet."""
    action = await journal.action(_key(intent))
    return action if action is not None and action.choice and action.state in ("decided", "withdrawn") else None


async def ask_what_became(journal: RunJournal, intent: Intent, *notes: str) -> Action | Waiting:
    """The person's decision about a call, if there is one that was not used up yet; else the question, waiting.

    `notes` are sentences of ours that help to decide.
    """
    if (said := await said_about(journal, intent)) is not None:
        return said
    if (sender := await journal.sending.elsewhere(intent)) is not None:
        notes = (_may_still_send(sender), *notes)
    # What a yes to the call took, a yes to sending it again takes too.
    approved = await journal.action(approval_key(intent.key))
    level = "person" if approved is None else higher("person", approved.level)
    asked = await journal.ask(replace(_question(journal, intent, notes), level=level))
    return Waiting(asked.id, None)


async def drop_unknown(journal: RunJournal, intent: Intent) -> None:
    """End a question that is answered otherwise."""
    action = await journal.action(_key(intent))
    if action is not None and action.state == "waiting":
        await journal.supersede_action(action)


def as_said(intent: Intent, choice: str) -> Called:
    """The call as it counts after a person's `done`, `not_done` or `give_up`."""
    return as_known(intent, ok=choice == "done", text=_SAID[choice])


def as_known(intent: Intent, *, ok: bool, text: str) -> Called:
    """A call without an answer, of which `text` says what is known."""
    value = Value(None, frozenset({"user"}))
    return Called(intent.call, intent.tool, ok=ok, value=value, text=text, empty=True, effect=True)


def _key(intent: Intent) -> str:
    return f"{intent.key}/unknown"


def _may_still_send(sender: Sender) -> str:
    who = "another process" if sender.pid is None else f"process {sender.pid}"
    until = datetime.fromtimestamp(sender.until, UTC)
    return (
        f"{who}, which began it, is not dead and may still send it until {until:%H:%M:%S} UTC; a retry waits for that"
    )


def _question(journal: RunJournal, intent: Intent, notes: tuple[str, ...]) -> NewAction:
    binding = {
        "v": 1,
        "owner": journal.run.owner,
        "run": intent.run,
        "step": intent.step,
        "key": intent.key,
        "call": intent.call,
        "tool": intent.tool,
        "arguments": intent.arguments,
        "epoch": intent.epoch,
    }
    return NewAction(
        key=_key(intent),
        kind="unknown",
        level="person",
        question=unknown_question(intent.tool, intent.arguments),
        arguments=intent.arguments,
        binding=binding,
        subject=digest(["unknown", intent.key]),
        step=intent.step,
        tool=intent.tool,
        effect=intent.class_,
        reasons=("no answer came to this call, so it may have run", *notes),
    )
