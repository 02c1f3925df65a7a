"""A request in litellm's arguments: with what the model takes only, and saying what was wanted and left out."""

from dataclasses import dataclass

from downstream.model_port import Message, ModelRequest
from journal.values import Json, JsonObject

from .caching import is_claude, with_marks
from .messages import context_size, wire_function, wire_messages

_LONGEST_DESCRIPTION = 1_024
"""OpenAI refuses a request in which a function has a longer one."""


class NotTaken(Exception):
    """litellm has no place for what the whole request rests on; it would leave it out and say nothing."""


@dataclass(frozen=True)
class Takes:
    """What litellm says of a model: its provider, and the parameters that it can be asked with (None: any).

    `marks` says that it keeps the prefixes of requests that are marked.
    """

    provider: str
    parameters: frozenset[str] | None
    marks: bool = False

    def __contains__(self, name: str) -> bool:
        return self.parameters is None or name in self.parameters


@dataclass(frozen=True)
class Wanted:
    """A request and what the settings add to it; `room` are the tokens that the model may think for."""

    model: str
    request: ModelRequest
    effort: str | None
    room: int


@dataclass(frozen=True)
class WireRequest:
    """The arguments of `acompletion` without address and key, and the names of those that were left out."""

    arguments: JsonObject
    left_out: tuple[str, ...]


def wire_request(wanted: Wanted, takes: Takes) -> WireRequest:
    """The request as this model takes it. Raises NotTaken where it can't be asked for JSON by schema, or functions."""
    request = wanted.request
    arguments: JsonObject = {
        "model": wanted.model,
        "messages": wire_messages(request.messages, wanted.model),
        "max_tokens": request.max_tokens + wanted.room,
        "max_retries": 0,
        # What a model does not take is not in here, but for what only litellm reads (`stream_options`, for one).
        "drop_params": True,
    }
    if request.schema is not None:
        _need("response_format", takes)
        schema = {"name": request.name or "reply", "schema": request.schema, "strict": request.strict}
        arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.functions:
        _need("tools", takes)
        longest = _LONGEST_DESCRIPTION if takes.provider in ("openai", "azure") else None
        arguments["tools"] = [wire_function(function, longest=longest) for function in request.functions]
    if request.stream:
        arguments |= {"stream": True, "stream_options": {"include_usage": True}}
    if takes.provider == "ollama_chat":
        arguments["num_ctx"] = context_size(request)
    if takes.marks:
        arguments = with_marks(arguments, request)
    wishes = _wishes(wanted, takes)
    left_out = tuple(name for name, wish in wishes.items() if wish is None)
    return WireRequest(arguments | {name: wish for name, wish in wishes.items() if wish is not None}, left_out)


def _wishes(wanted: Wanted, takes: Takes) -> dict[str, Json]:
    """What a request can do without; None for what this model does not take, or not now."""
    wishes: dict[str, Json] = {}
    effort, force = wanted.effort, wanted.request.force
    lost = _thought_is_lost(wanted)
    thinks = effort is not None and "reasoning_effort" in takes and not lost
    if thinks:
        wishes["reasoning_effort"] = effort
    elif effort not in (None, "none"):
        wishes["reasoning_effort in this turn" if lost else "reasoning_effort"] = None
    if force is not None:
        free = thinks and effort != "none" and _thinks_unforced(wanted, takes)
        forced = {"type": "function", "function": {"name": force}}
        wishes["tool_choice"] = forced if "tool_choice" in takes and not free else None
    return wishes


def _need(name: str, takes: Takes) -> None:
    if name not in takes:
        raise NotTaken(name)


def _thinks_unforced(wanted: Wanted, takes: Takes) -> bool:
    """Claude and DeepSeek refuse to be held to a function while they think."""
    return is_claude(wanted.model) or takes.provider == "deepseek"


def _thought_is_lost(wanted: Wanted) -> bool:
    """Whether results go back for calls that came without a thought, as those of another model: Claude, asked to
    think, refuses such a history."""
    messages = wanted.request.messages
    if not is_claude(wanted.model) or not messages or messages[-1].role != "tool":
        return False
    called = next((message for message in reversed(messages) if message.role == "assistant"), Message("assistant", ""))
    raw: Json = called.raw or {}
    return raw.get("model") != wanted.model or not raw.get("message", {}).get("thinking_blocks")
