"""What a model did in one turn: the functions that it used, natively or written down as JSON."""

from dataclasses import dataclass, replace

from downstream.json_shape import is_object
from downstream.model_port import FunctionUse, ModelReply
from downstream.models.replies import ReplyErrors, objects_at_end, objects_in, read_object
from downstream.nesting import TOO_DEEP, too_deep
from journal.values import JsonObject

from .handing_in import SUBMIT_REVIEW
from .reports import STATUSES

_INSIDE = ("arguments", "arguments_json", "parameters", "input")


@dataclass(frozen=True)
class Use:
    """A function that a model used. `answers` is the id that its answer needs, None where it was written as text.

    `problem` says why the arguments could not be read.
    """

    name: str
    arguments: JsonObject
    answers: str | None = None
    problem: str | None = None


def uses_of(reply: ModelReply, ending: str, *, calls_natively: bool = False) -> list[Use]:
    """The functions used, in order, none where the reply is prose; of JSON that the text ends with the first use.

    Foreign text may be quoted in a reply, calls and verdicts with it. So of a model that `calls_natively` only the end
    is taken from text, and only where there is no word beside it.
    """
    if reply.uses:
        return [_flat(_read(use.name, use.arguments, use)) for use in reply.uses]
    bare = objects_at_end(reply.text, alone=True)
    objects = bare if calls_natively else objects_at_end(reply.text)
    written = (_written(data, ending, is_bare=bool(bare)) for data in objects)
    uses = [use for use in written if use is not None and (use.name == ending or not calls_natively)]
    return [_flat(use) for use in uses[:1]]


def speaks_of_use(reply: ModelReply, ending: str) -> bool:
    """Whether a function is written down in the text somewhere, quoted or meant."""
    return any(_written(data, ending, is_bare=False) for data in objects_in(reply.text))


def _flat(use: Use) -> Use:
    if not too_deep(use.arguments):
        return use
    return replace(use, arguments={}, problem=f"the arguments of {use.name}: {TOO_DEEP}")


def _written(data: JsonObject, ending: str, *, is_bare: bool) -> Use | None:
    name = data.get("tool") or data.get("name")
    inside = next((data[key] for key in _INSIDE if key in data), None)
    if isinstance(name, str) and (inside is not None or "tool" in data):
        if isinstance(inside, str):
            return _read(name, inside)
        return Use(name, inside if is_object(inside) else {})
    if len(data) == 1 and is_object(inner := data.get(ending)):
        return Use(ending, inner)
    return Use(ending, data) if _is_handed_in(data, ending, is_bare=is_bare) else None


def _is_handed_in(data: JsonObject, ending: str, *, is_bare: bool) -> bool:
    """Whether JSON without a name is what ends a loop: much else that a model may quote has a status."""
    if ending == SUBMIT_REVIEW.name:
        return "accepted" in data
    is_known = is_bare and str(data.get("status")).strip().lower() in STATUSES
    return "status" in data and (is_known or "summary" in data or "findings" in data)


def _read(name: str, text: str, use: FunctionUse | None = None) -> Use:
    answers = None if use is None else use.id
    if not text.strip():
        return Use(name, {}, answers)
    try:
        return Use(name, read_object(text, f"the arguments of {name}"), answers)
    except ReplyErrors as error:
        return Use(name, {}, answers, str(error))
