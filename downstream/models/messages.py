"""Messages and replies as litellm writes them, and as ours."""

import hashlib
import json
import re
from collections.abc import Collection, Sequence
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any

from downstream.model_port import Finish, Function, FunctionUse, Message, ModelFailed, ModelReply, ModelRequest
from journal.ledger import Spent
from journal.values import Json, JsonObject

_FINISHES: dict[str, Finish] = {"length": "length", "content_filter": "refusal", "refusal": "refusal"}
# Of OpenRouter, DeepSeek, SGLang, Zhipu, Gemini and others.
_BROKEN = re.compile(
    r"error|abort|cancel|fail|insufficient|malformed|unexpected|too_many|missing|time.?out", re.IGNORECASE
)
_LONGEST_WORD = 40
_SMALLEST_CONTEXT = 8192
_LONGEST_PAUSE = 3600.0
"""Seconds. What asks for more is taken for a mistake: until its end nobody would ask the model."""


def reply_from(model: str, response: Any, spent: Spent, *, finish: str | None = None) -> ModelReply:
    """The reply as ours; `finish` is how its provider says that it ended, if a stream was heard.

    Raises ModelFailed, kind malformed, for one that says nothing, or that its server broke off.
    """
    choices: list[Any] = getattr(response, "choices", None) or []
    if not choices:
        raise ModelFailed(model, "malformed", "its reply has no choices", spent=spent)
    message, end = choices[0].message, _FINISHES.get(choices[0].finish_reason or "", "stop")
    if getattr(message, "refusal", None):
        end = "refusal"
    if end == "stop" and (reason := _broken_by(choices[0], finish)) is not None:
        raise ModelFailed(model, "malformed", f"its server broke its reply off ({reason})", spent=spent)
    uses = tuple(
        FunctionUse(_text(call.id), _text(call.function.name), _text(call.function.arguments) or "{}")
        for call in message.tool_calls or ()
    )
    text = _text(message.content)
    if not text.strip() and not uses and end == "stop":
        raise ModelFailed(model, "malformed", "its reply is empty", spent=spent)
    said = json.loads(_text(json.dumps(message.model_dump(exclude_none=True), ensure_ascii=False, default=str)))
    return ModelReply(model, text, uses, end, spent, {"model": model, "message": said})


def _broken_by(choice: Any, finish: str | None) -> str | None:
    """The provider's word for an end that is none; litellm calls most of them "stop", and keeps the word beside it."""
    beside: Json = getattr(choice, "provider_specific_fields", None) or {}
    own: Json = beside.get("native_finish_reason") or finish
    return re.sub(r"\W", " ", own)[:_LONGEST_WORD] if isinstance(own, str) and _BROKEN.search(own) else None


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


def pause_asked(headers: Json) -> float | None:
    """The seconds of a Retry-After, an hour at most: a number, or a date, which is told by the clock of its server."""
    asked = headers.get("retry-after")
    try:
        pause = float(asked)
    except (TypeError, ValueError):
        try:
            pause = (parsedate_to_datetime(asked) - parsedate_to_datetime(headers.get("date"))).total_seconds()
        except (TypeError, ValueError):
            return None
    return min(max(0.0, pause), _LONGEST_PAUSE) if isfinite(pause) else None


def context_size(request: ModelRequest) -> int:
    """A context that holds request and reply; without one, Ollama cuts prompts from the front and says nothing."""
    needed, size = request.prompt_characters() // 3 + request.max_tokens, _SMALLEST_CONTEXT
    while size < needed:
        size *= 2
    return size
