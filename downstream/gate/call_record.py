"""Tool calls as the journal keeps them: their ends, intents and events."""

from difflib import get_close_matches

from downstream.door import Called, Refused, ToolCall
from downstream.tool_names import ToolNameError, read_tool_name
from downstream.tools import Tool
from journal.actions import Action
from journal.canonical import digest
from journal.events import NewEvent
from journal.intents import NewIntent
from journal.ledger import Limits
from journal.values import Json, JsonObject, Label, Value

from .prompt_text import quoted
from .stages import Case


def plain_name(name: str) -> str:
    """`server.tool` where the text can be read as that, else the text."""
    try:
        return read_tool_name(name)
    except ToolNameError:
        return name


def bounded(key: str, limits: Limits) -> str:
    """A key for what holds only under these limits of the run: once a person raises one, it is tried anew."""
    return f"{key}/limits.{digest([limits.__dict__])[:8]}"


def end_to_json(end: Called | Refused) -> JsonObject:
    if isinstance(end, Called):
        return {"called": end.to_json()}
    return {"refused": {"tool": end.tool, "reason": end.reason, "by": end.by, "correctable": end.correctable}}


def end_from_json(data: Json) -> Called | Refused:
    return Called.from_json(data["called"]) if "called" in data else Refused(**data["refused"])


def label_of_results(tool: Tool) -> Label:
    """Where the results of a tool come from: the open world, or something that not everybody may read."""
    return frozenset({f"{'open' if tool.class_ == 'egress' else 'private'}:{tool.server}"})


def new_intent(case: Case, call_id: str, action: Action | None, *, deadline: float) -> NewIntent:
    """The intent of a call, with the approval that it uses up and what an auditor may ask for."""
    audit: JsonObject = {"pin": case.tool.pin, "labels": sorted(case.call.arguments.joined | case.call.read)}
    if action is not None:
        audit |= {"level": action.decided_level, "via": action.via, "action_hash": action.hash}
    return NewIntent(
        call=call_id,
        step=case.call.step,
        tool=case.tool.full_name,
        class_=case.tool.class_,
        arguments=case.call.arguments.data,
        arguments_hash=case.hash,
        action=action.id if action else None,
        action_hash=action.hash if action else None,
        audit=audit,
        deadline=deadline,
    )


def call_started(case: Case, call_id: str) -> NewEvent:
    """What is sent; `read_as` tells of arguments that were written in another way."""
    data: JsonObject = {"tool": case.tool.full_name, "arguments": case.call.arguments.data}
    data |= {"read_as": list(case.read_as)} if case.read_as else {}
    return NewEvent("call.started", data, step=case.call.step, call=call_id)


def call_ended(called: Called, step: str, *, ms: int, cached: bool = False) -> NewEvent:
    data: JsonObject = {"tool": called.tool, "ok": called.ok, "empty": called.empty, "ms": ms}
    return NewEvent("call.ended", data | ({"cached": True} if cached else {}), step=step, call=called.call)


def failed_call(call_id: str, tool: Tool, text: str) -> Called:
    """A call that gave no result, for a reason that the text names; nothing has changed by it."""
    value = Value(None, label_of_results(tool))
    return Called(call_id, tool.full_name, ok=False, value=value, text=text, empty=True)


def no_such_tool(call: ToolCall) -> Refused:
    """No server has the tool: what the step lists, the nearest name first."""
    listed = sorted(call.allowed)
    near = get_close_matches(plain_name(call.tool), listed, n=1)
    hint = f"did you mean {near[0]}?" if near else f"this step lists: {', '.join(listed) or 'no tool'}"
    return Refused(call.tool, f"no server has a tool {quoted(call.tool)}; {hint}", by="gate", correctable=True)
