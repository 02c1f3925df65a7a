"""The form by which a host's user decides an action: one required choice without a default, and an optional note."""

from dataclasses import dataclass

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult

from downstream.gate.prompt_text import argument_lines
from journal.actions import Action, Decision
from journal.values import Json, JsonObject
from server.views.action_view import fits_a_host

_WIDTH = 96


@dataclass(frozen=True)
class Answered:
    """What came back for a form; `seconds` is how long the answer took."""

    action: Action
    result: object
    seconds: float
    client: str | None


def can_be_asked(action: Action) -> bool:
    """Whether a host's user may decide it by a form: what a server's own form asks for does not fit into ours."""
    return action.level == "host" and action.kind != "form" and fits_a_host(action)


def form_message(action: Action) -> str:
    """The question, with what is decided in full; that of a call has it already."""
    shown = [action.question]
    if action.kind != "call" and action.arguments:
        shown += argument_lines(action.arguments)
    return "\n".join(part for line in "\n".join(shown).split("\n") for part in _parts(line))


def _parts(line: str) -> list[str]:
    """A line in pieces that hosts show whole: they cut what is wider than their window without a word."""
    return [line[start : start + _WIDTH] for start in range(0, len(line), _WIDTH)] or [""]


def form_schema(action: Action) -> JsonObject:
    """The schema asked for; nothing in it can be answered by default."""
    return {
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "enum": list(action.choices),
                "title": "Decision",
                "description": "What you choose happens once, exactly as it is shown.",
            },
            "note": {"type": "string", "title": "Note", "description": "Optional: why."},
        },
        "required": ["decision"],
    }


def form_request(action: Action) -> ElicitRequest:
    """The question as a request for hosts of protocol 2026-07-28."""
    params = ElicitRequestFormParams(message=form_message(action), requested_schema=form_schema(action))
    return ElicitRequest(params=params)


def decision_from(answered: Answered, *, min_seconds: float) -> Decision | None:
    """The decision that a form's answer holds; None for one that is invalid, declined, cancelled or too fast.

    An accepted form without its required choice is not a decision.
    """
    result = answered.result
    if not isinstance(result, ElicitResult) or result.action != "accept" or answered.seconds < min_seconds:
        return None
    content: dict[str, Json] = dict(result.content or {})
    choice, note = content.get("decision"), content.get("note")
    if choice not in answered.action.choices or not isinstance(note, str | None):
        return None
    return Decision(str(choice), "host", "form", note, client=answered.client)
