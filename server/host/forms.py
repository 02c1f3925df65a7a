"""The form by which a host's user decides an action: one required choice without a default, and an optional note.

What a tool server asks for has its own fields beside the choice, in place of the note.
"""

from dataclasses import dataclass

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult

from downstream.gate.forms import Form, checked_content, field_words, shown_text
from downstream.gate.prompt_text import argument_lines
from journal.actions import Action, Decision
from journal.values import Json, JsonObject

_WIDTH = 96
_GOES_ON = "  … "
"""What a line begins with that goes on with the one before, so that padding makes no words pass for ours."""


@dataclass(frozen=True)
class Answered:
    """What came back for a form; `seconds` is how long the answer took."""

    action: Action
    result: object
    seconds: float
    client: str | None


def form_message(action: Action) -> str:
    """The question, with what is decided in full; that of a call or a server's form has it already."""
    shown = [action.question]
    if action.kind == "form":
        shown += [f"Note: {reason}." for reason in action.reasons]
    elif action.kind != "call" and action.arguments:
        shown += argument_lines(action.arguments)
    return "\n".join(part for line in "\n".join(shown).split("\n") for part in _parts(line))


def _parts(line: str) -> list[str]:
    """A line in pieces that hosts show whole: they cut what is wider than their window without a word."""
    width = _WIDTH - len(_GOES_ON)
    rest = (line[start : start + width] for start in range(_WIDTH, len(line), width))
    return [line[:_WIDTH], *(f"{_GOES_ON}{part}" for part in rest)]


def form_schema(action: Action) -> JsonObject:
    """The schema asked for; nothing in it can be answered by default."""
    decision: JsonObject = {
        "type": "string",
        "enum": list(action.choices),
        "title": "Decision",
        "description": "What you choose happens once, exactly as it is shown.",
    }
    own = _server_fields(action)
    if action.kind != "form":
        own["note"] = {"type": "string", "title": "Note", "description": "Optional: why."}, False
    required = [name for name, (_, is_required) in own.items() if is_required]
    properties: JsonObject = {"decision": decision, **{name: shape for name, (shape, _) in own.items()}}
    return {"type": "object", "properties": properties, "required": ["decision", *required]}


def _server_fields(action: Action) -> dict[str, tuple[JsonObject, bool]]:
    """By their names in our form, the fields of a server's form, its words in quotes, and whether each is required."""
    if action.kind != "form":
        return {}
    server = action.arguments["server"]
    shown: dict[str, tuple[JsonObject, bool]] = {}
    for field in Form(action).fields:
        shape = field.to_schema() | {"title": shown_text(field.title or field.name)}
        if words := field_words(field):
            shape["description"] = f"{server} writes: {words}"
        shown[_own_name(field.name)] = shape, field.required
    return shown


def _own_name(name: str) -> str:
    """A field's name in our form, where one name is taken."""
    return f"{name}_" if name.rstrip("_") == "decision" else name


def form_request(action: Action) -> ElicitRequest:
    """The question as a request for hosts of protocol 2026-07-28."""
    params = ElicitRequestFormParams(message=form_message(action), requested_schema=form_schema(action))
    return ElicitRequest(params=params)


def decision_from(answered: Answered, *, min_seconds: float) -> Decision | None:
    """The decision that a form's answer holds; None for one that is invalid, declined, cancelled or too fast.

    An accepted form without its required choice is not a decision. Raises ContentUnfit where a server's form was
    filled in, but not as it has to be.
    """
    result = answered.result
    if not isinstance(result, ElicitResult) or result.action != "accept" or answered.seconds < min_seconds:
        return None
    content: dict[str, Json] = dict(result.content or {})
    action, choice = answered.action, content.get("decision")
    if action.kind == "form":
        names = {_own_name(field.name): field.name for field in Form(action).fields}
        filled = {names[name]: value for name, value in content.items() if name in names}
        note, kept = None, checked_content(action, str(choice), filled)
    else:
        note, kept = content.get("note"), None
    if choice not in action.choices or not isinstance(note, str | None):
        return None
    return Decision(str(choice), "host", "form", note, content=kept, client=answered.client)
