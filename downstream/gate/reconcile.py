"""The read that tells what became of a call without an answer; only what it says without doubt counts."""

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

from downstream.door import Arguments, Called, CallTool, ToolCall
from downstream.json_shape import is_array, is_object, leaves
from downstream.reconcile_settings import Conditions, Reconcile, literal_of
from downstream.tools import Tool
from journal.audit import AuditLine
from journal.canonical import NotCanonical, canonical, digest
from journal.errors import BudgetReached
from journal.intents import Intent
from journal.run_journal import Meaning, RunJournal
from journal.values import WORST, Json, JsonObject, Label

from .matchers import MISSING, at_pointer, holds
from .stages import Gate, case_of, judge

Said: TypeAlias = Literal["done", "not_done"]

MOST_SENDS = 3
"""A call that was begun so often without an answer is not sent again by itself."""


@dataclass(frozen=True)
class Lost:
    """A call that was begun, with its tool as it is now, and what nobody knows: whether it ran."""

    call: ToolCall
    intent: Intent
    tool: Tool


@dataclass(frozen=True)
class Verdict:
    """`said` None is no verdict; `why` is our own sentence."""

    said: Said | None
    why: str


async def reconcile(gate: Gate, journal: RunJournal, lost: Lost, *, read: CallTool) -> Verdict | None:
    """What the read that the settings name for this tool tells; None where they name none.

    It is asked once for each time that the call was begun, and its verdict is recorded before it counts.
    """
    if (rule := gate.options(lost.tool).how_to_reconcile) is None:
        return None
    intent = lost.intent
    key = f"{intent.key}/reconcile.{intent.sends}"
    meaning = Meaning("reconcile", {"tool": intent.tool, "arguments": intent.arguments})
    if (found := await journal.recall(key, meaning)) is not None:
        return Verdict(**found.value)
    verdict = await _look(gate, journal, lost, rule=rule, read=read)
    if verdict.said == "not_done" and intent.sends >= MOST_SENDS:
        verdict = Verdict(None, f"{rule.tool} says that it was not done, but it was sent {intent.sends} times already")
    said: JsonObject = {"said": verdict.said, "why": verdict.why}
    proof = {"call": intent.call, "tool": intent.tool, "by": rule.tool}
    line = AuditLine("intent.reconciled", proof | said, run=intent.run)
    await journal.record(key, meaning, said, line=line)
    return verdict


async def _look(gate: Gate, journal: RunJournal, lost: Lost, *, rule: Reconcile, read: CallTool) -> Verdict:
    await gate.tools(rule.tool)
    tool = gate.find(rule.tool)
    if tool is None:
        return Verdict(None, f"{rule.tool} should tell whether it ran, but no server has it now")
    if tool.class_ != "read":
        return Verdict(None, f"{rule.tool} should tell whether it ran, but is of class {tool.class_}, not read")
    if (arguments := _arguments(rule, tool, lost.intent.arguments)) is None:
        return Verdict(
            None, f"{rule.tool} should tell whether it ran, but needs an argument that the call did not have"
        )
    call = _read_of(lost, tool, arguments)
    try:
        verdict = await judge(gate, journal, case_of(gate, journal.run, call, tool))
        if getattr(verdict, "verb", None) != "allow":
            return Verdict(None, f"{rule.tool} should tell whether it ran, but may not be asked without a question")
        end = await read(journal, call)
    except BudgetReached as error:
        return Verdict(None, f"{rule.tool} should tell whether it ran, but was not asked: {error}")
    if not isinstance(end, Called) or not end.ok:
        return Verdict(None, f"{rule.tool} should tell whether it ran, but gave no answer")
    said = said_by(rule, lost.intent.arguments, end)
    became = {"done": "says that it was done", "not_done": "says that it was not done"}
    return Verdict(said, f"{rule.tool} {became[said] if said else 'was asked, and its answer leaves it open'}")


def said_by(rule: Reconcile, arguments: JsonObject, end: Called) -> Said | None:
    """What a result means for a call with these arguments; None where it says both, or neither."""
    data = _data(end.value.data)
    if rule.done is None and rule.not_done is None:
        done, not_done = not end.empty and _holds_all(data, arguments), end.empty
    else:
        done, not_done = _fits(rule.done, data, of="any"), _fits(rule.not_done, data, of="all")
    if done == not_done:
        return None
    return "done" if done else "not_done"


def _read_of(lost: Lost, tool: Tool, arguments: JsonObject) -> ToolCall:
    call, intent = lost.call, lost.intent
    # What the call carried has been sent to its own server already; to any other it goes for the first time.
    here: Label = frozenset({"config"})
    known = call.arguments.joined if intent.arguments == call.arguments.data else WORST
    same = tool.server == lost.tool.server
    return ToolCall(
        key=f"{intent.key}/reconcile.{intent.sends}/{digest([tool.full_name, arguments])[:8]}",
        step=call.step,
        tool=tool.full_name,
        arguments=Arguments(arguments, here if same else known),
        allowed=frozenset({tool.full_name}),
        origin="plan",
        read=here if same else call.read,
        fresh=True,
    )


def _arguments(rule: Reconcile, tool: Tool, of_call: JsonObject) -> JsonObject | None:
    if rule.arguments is None:
        takes: JsonObject = tool.open_schema.get("properties") or {}
        return {name: value for name, value in of_call.items() if name in takes}
    given: JsonObject = {}
    for name, written in rule.arguments.items():
        is_literal, value = literal_of(written)
        given[name] = value if is_literal else at_pointer(of_call, value)
    return None if any(value is MISSING for value in given.values()) else given


def _data(data: Json) -> Json:
    """The result as data also where a server gave it as text only."""
    try:
        read = json.loads(data) if isinstance(data, str) else data
    except (ValueError, RecursionError):
        return data
    return read if is_object(read) or is_array(read) else data


def _holds_all(data: Json, arguments: JsonObject) -> bool:
    """Whether every value of the arguments, of which there must be some, is a value somewhere in the data."""
    wanted = {_form(value) for _, value in leaves(arguments)}
    return bool(wanted) and wanted <= {_form(value) for _, value in leaves(data)}


def _form(value: Json) -> bytes:
    try:
        return canonical(value)
    except NotCanonical:
        # Equal to nothing that a call may carry.
        return b""


def _fits(conditions: Conditions | None, data: Json, *, of: Literal["any", "all"]) -> bool:
    if conditions is None:
        return False
    return all(holds(matcher, at_pointer(data, place), of=of) is True for place, matcher in conditions.items())
