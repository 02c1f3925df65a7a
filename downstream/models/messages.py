"""Messages and replies as litellm writes them, and as ours."""

import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Any

from downstream.model_port import Finish, Function, FunctionUse, Message, ModelFailed, ModelReply, ModelRequest
from journal.ledger import Spent
from journal.values import Json, JsonObject

_FINISHES: dict[str, Finish] = {"length": "length", "content_filter": "refusal", "refusal": "refusal"}
_SMALLEST_CONTEXT = 8192


def reply_from(model: str, response: Any, spent: Spent) -> ModelReply:
    """The reply as ours. Raises ModelFailed, kind malformed, for one that says nothing."""
    choices: list[Any] = getattr(response, "choices", None) or []
    if not choices:
        raise ModelFailed(model, "malformed", "its reply has no choices", spent=spent)
    message, finish = choices[0].message, _FINISHES.get(choices[0].finish_reason or "", "stop")
    if getattr(message, "refusal", None):
        finish = "refusal"
    uses = tuple(
        FunctionUse(_text(call.id), _text(call.function.name), _text(call.function.arguments) or "{}")
        for call in message.tool_calls or ()
    )
    text = _text(message.content)
    if not text.strip() and not uses and finish == "stop":
        raise ModelFailed(model, "malformed", "its reply is empty", spent=spent)
    said = json.loads(_text(json.dumps(message.model_dump(exclude_none=True), ensure_ascii=False, default=str)))
    return ModelReply(model, text, uses, finish, spent, {"model": model, "message": said})


def _text(said: str | None) -> str:
    """Without halves of surrogate pairs, which no store takes."""
    return (said or "").encode("utf-8", "replace").decode()


def wire_messages(messages: Sequence[Message], model: str) -> list[JsonObject]:
    """The messages as litellm takes them: verbatim for the model that said them, in plain words for any other.

    The ids of other models' calls may hold marks of theirs, and be longer than this one's provider takes.
    """
    own = {use.id for message in messages if _is_own(message, model) for use in message.uses}
    return [_wire_message(message, model, own) for message in messages]


def _is_own(message: Message, model: str) -> bool:
    return message.raw is not None and message.raw.get("model") == model


def _wire_message(message: Message, model: str, own: Collection[str]) -> JsonObject:
    if message.raw is not None and _is_own(message, model):
        said: JsonObject = message.raw["message"]
        return said
    wire: JsonObject = {"role": message.role, "content": message.content}
    if message.uses:
        functions = [
            (_short(use.id), {"name": use.name, "arguments": _json_or_nothing(use.arguments)}) for use in message.uses
        ]
        wire["tool_calls"] = [{"id": id_, "type": "function", "function": function} for id_, function in functions]
        wire["content"] = message.content or None
    if message.answers is not None:
        wire["tool_call_id"] = message.answers if message.answers in own else _short(message.answers)
    return wire


def _short(id_: str) -> str:
    """An id that every provider takes: Mistral wants nine letters and digits."""
    return hashlib.sha256(id_.encode()).hexdigest()[:9]


def wire_function(function: Function, *, longest: int | None) -> JsonObject:
    """The function as litellm takes it, its description cut where the provider takes no more than `longest`."""
    words = function.description
    if longest is not None and len(words) > longest:
        words = f"{words[: longest - 1]}…"
    said: JsonObject = {"name": function.name, "description": words, "parameters": function.parameters}
    return {"type": "function", "function": said}


def _json_or_nothing(text: str) -> str:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return "{}"
    return text


def seconds(text: Json) -> float | None:
    try:
        return max(0.0, float(text))
    except (TypeError, ValueError):
        return None


def context_size(request: ModelRequest) -> int:
    """A context that holds request and reply; without one, Ollama cuts prompts from the front and says nothing."""
    needed, size = request.prompt_characters() // 3 + request.max_tokens, _SMALLEST_CONTEXT
    while size < needed:
        size *= 2
    return size
