"""Tool calls as the journal keeps them: their ends, intents and events."""

from dataclasses import replace
from difflib import get_close_matches

from downstream.door import Called, Refused, ToolCall
from downstream.tool_names import ToolNameError, read_tool_name
from downstream.tools import Tool
from journal.canonical import digest
from journal.events import NewEvent
from journal.grants import Grant, Leave
from journal.intents import NewIntent
from journal.ledger import Limits
from journal.values import Json, JsonObject, Label, Value

from .prompt_text import quoted
from .stages import Case, Gate


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
    is_open = tool.class_ == "egress" and not tool.private
    return frozenset({f"{'open' if is_open else 'private'}:{tool.server}"})


def label_of_result(case: Case) -> Label:
    """Where the result of a call comes from: also from all that is private and went into it, which it may repeat."""
    given = case.call.arguments.joined | case.call.read
    return label_of_results(case.tool) | {origin for origin in given if origin.startswith("private:")}


def new_intent(case: Case, call_id: str, leave: Leave | None, *, proof: JsonObject, deadline: float) -> NewIntent:
    """The intent of a call, with the approval or grant that it uses up and what an auditor may ask for."""
    action, grant = (None, leave) if isinstance(leave, Grant) else (leave, None)
    return NewIntent(
        call=call_id,
        step=case.call.step,
        tool=case.tool.full_name,
        class_=case.tool.class_,
        arguments=case.call.arguments.data,
        arguments_hash=case.hash,
        action=action.id if action else None,
        action_hash=action.hash if action else None,
        grant=grant.id if grant else None,
        audit=proof,
        deadline=deadline,
    )


def call_started(case: Case, call_id: str, leave: Leave | None = None) -> NewEvent:
    """What is sent; `read_as` tells of arguments that were written in another way, `grant` by which one it goes out."""
    data: JsonObject = {"tool": case.tool.full_name, "arguments": case.call.arguments.data}
    data |= {"read_as": list(case.read_as)} if case.read_as else {}
    data |= {"grant": leave.id} if isinstance(leave, Grant) else {}
    return NewEvent("call.started", data, step=case.call.step, call=call_id)


def call_ended(called: Called, step: str, *, ms: int, cached: bool = False) -> NewEvent:
    data: JsonObject = {"tool": called.tool, "ok": called.ok, "empty": called.empty, "ms": ms}
    return NewEvent("call.ended", data | ({"cached": True} if cached else {}), step=step, call=called.call)


def failed_call(call_id: str, tool: Tool, text: str) -> Called:
    """A call that gave no result, for a reason that the text names; nothing has changed by it."""
    value = Value(None, label_of_results(tool))
    return Called(call_id, tool.full_name, ok=False, value=value, text=text, empty=True)


def lapsed_call(call_id: str, tool: Tool, text: str) -> Called:
    """A call that gave no result since a person did not answer in time, or would not."""
    return replace(failed_call(call_id, tool, text), lapsed=True)


def no_such_tool(call: ToolCall, gate: Gate) -> Refused:
    """No server has the tool: what the step lists, the nearest name first; or its server is not there to be asked."""
    server = plain_name(call.tool).partition(".")[0]
    if (why := gate.missing(server)) is not None:
        text = f"{call.tool} cannot be called: tool server {server} is not connected: {why}"
        return Refused(call.tool, text, by="gate", correctable=True)
    listed = sorted(call.allowed)
    near = get_close_matches(plain_name(call.tool), listed, n=1)
    hint = f"did you mean {near[0]}?" if near else f"this step lists: {', '.join(listed) or 'no tool'}"
    hint = "this step lists it, but it is there no longer" if plain_name(call.tool) in listed else hint
    return Refused(call.tool, f"no server has a tool {quoted(call.tool)}; {hint}", by="gate", correctable=True)
