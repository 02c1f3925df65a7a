"""Calls of which nobody knows whether they ran: a question for a person, never a silent repeat."""

from downstream.door import Called, Waiting
from journal.actions import Action, NewAction
from journal.canonical import digest
from journal.intents import Intent
from journal.run_journal import RunJournal
from journal.values import Value

from .prompt_text import unknown_question

_SAID: dict[str, str] = {
    "done": "A person looked and says that this call was done; what it returned is not known.",
    "not_done": "No answer came, and a person looked and says that this call was not done.",
    "give_up": "No answer came, and it is not known whether this call was done.",
}


async def ask_what_became(journal: RunJournal, intent: Intent) -> Action | Waiting:
    """The person's decision about a call, if there is one that was not used up yet; else the question, waiting."""
    key = f"{intent.key}/unknown"
    action = await journal.action(key)
    if action is not None and action.choice is not None and action.state in ("decided", "withdrawn"):
        return action
    asked = await journal.ask(_question(journal, intent, key))
    return Waiting(asked.id, None)


def as_said(intent: Intent, choice: str) -> Called:
    """The call as it counts after `done`, `not_done` or `give_up`."""
    return Called(
        call=intent.call,
        tool=intent.tool,
        ok=choice == "done",
        value=Value(None, frozenset({"user"})),
        text=_SAID[choice],
        empty=True,
        effect=True,
    )


def _question(journal: RunJournal, intent: Intent, key: str) -> NewAction:
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
        key=key,
        kind="unknown",
        level="person",
        question=unknown_question(intent.tool, intent.arguments),
        arguments=intent.arguments,
        binding=binding,
        subject=digest(["unknown", intent.key]),
        step=intent.step,
        tool=intent.tool,
        effect=intent.class_,
        reasons=("no answer came to this call, so it may have run",),
    )
