"""A scripted reply put into the words of each wire, whole or as a stream."""

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from model_gemini import chunks, reply_body
from model_script import Reply, filled
from model_wire import Json, ModelRequest

_FINISH = {"length": ("max_tokens", "length"), "content_filter": ("refusal", "stop")}


@dataclass(frozen=True)
class SaidCall:
    """One function call as it goes out: its id, wire name and raw arguments."""

    id: str
    name: str
    arguments: str

    @property
    def parsed(self) -> Json:
        """The arguments as data; wires that carry data can't carry broken ones, so these become {}."""
        try:
            return json.loads(self.arguments)
        except ValueError:
            return {}


@dataclass(frozen=True)
class Said:
    """What the model says, free of any wire; text is None when it says nothing."""

    text: str | None
    calls: tuple[SaidCall, ...]
    thinking: str | None
    finish: str | None
    prompt: int
    completion: int
    cached: int
    written: int
    reasoning: int


def said(reply: Reply, request: ModelRequest) -> Said:
    """The reply to this request: placeholders filled, names as offered, calls as text where none are offered."""
    reply = cast("Reply", filled(reply, request))
    text, wanted = _text_and_calls(reply, request)
    calls = tuple(
        SaidCall(f"call_{request.step or request.role}_{request.turn}_{index}", name, _raw(arguments))
        for index, (name, arguments) in enumerate(wanted)
    )
    usage = reply.get("usage", {})
    words = (text or "") + "".join(each.arguments for each in calls)
    return Said(
        text=None if reply.get("fault") in ("empty", "null") else text,
        calls=calls,
        thinking=reply.get("thinking"),
        finish=reply.get("finish"),
        prompt=usage.get("prompt", len(request.text()) // 4 + 1),
        completion=usage.get("completion", len(words) // 4 + 1),
        cached=usage.get("cached", 0),
        written=usage.get("written", 0),
        reasoning=usage.get("reasoning", 0),
    )


def whole(reply: Reply, request: ModelRequest) -> Json:
    """The reply as one JSON body."""
    spoken = said(reply, request)
    empty = reply.get("fault") == "empty"
    if request.wire == "openai":
        return _openai(spoken, request, empty=empty)
    if request.wire == "gemini":
        return reply_body(spoken, empty=empty)
    return _anthropic(spoken, request) if request.wire == "anthropic" else _ollama(spoken, request)


def streamed(reply: Reply, request: ModelRequest) -> Iterator[bytes]:
    """The reply as chunks: server-sent events, or JSON lines for Ollama."""
    body = whole(reply, request)
    if request.wire == "anthropic":
        for event in _anthropic_events(body, said(reply, request)):
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
    elif request.wire == "gemini":
        for chunk in chunks(body):
            yield f"data: {json.dumps(chunk)}\n\n".encode()
    elif request.wire == "openai":
        for chunk in _openai_chunks(body):
            yield f"data: {json.dumps(chunk)}\n\n".encode()
        yield b"data: [DONE]\n\n"
    else:
        for line in _ollama_lines(body):
            yield json.dumps(line).encode() + b"\n"


def wire_name(tool: str, offered: Sequence[str]) -> str:
    """The offered name of `server.tool`: as given, as `server__tool`, or shortened with a hash; else `server__tool`."""
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", tool.replace(".", "__", 1))
    shortened = [name for name in offered if len(name) == 64 and plain.startswith(name[:48])]
    return next((name for name in (tool, plain, *shortened) if name in offered), plain)


def _text_and_calls(reply: Reply, request: ModelRequest) -> tuple[str | None, list[tuple[str, Json]]]:
    calls = [(wire_name(each["name"], request.functions), each["arguments"]) for each in reply.get("tool_calls", [])]
    text = reply.get("text")
    if "json" in reply:
        name = reply.get("name") or request.name or ""
        if name in request.functions or (request.name == "next_action" != name):
            calls.append((name, reply["json"]))
        else:
            text = json.dumps(reply["json"])
    if request.name == "next_action" and calls:
        name, arguments = calls[0]
        text, calls = json.dumps({"tool": name, "arguments": arguments}), []
    if request.json_tool and text is not None and "json" in reply:
        return None, [("json_tool_call", text)]
    return text, calls


def _raw(arguments: Json) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _pieces(text: str) -> list[str]:
    return re.findall(r".{1,16}", text, re.DOTALL)


def _openai(spoken: Said, request: ModelRequest, *, empty: bool) -> Json:
    message: dict[str, Json] = {"role": "assistant", "content": spoken.text}
    if spoken.thinking is not None:
        message["reasoning_content"] = spoken.thinking
    if spoken.calls:
        message["tool_calls"] = [
            {"id": each.id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}}
            for each in spoken.calls
        ]
    finish = spoken.finish or ("tool_calls" if spoken.calls else "stop")
    usage = {"prompt_tokens": spoken.prompt, "completion_tokens": spoken.completion}
    usage["total_tokens"] = spoken.prompt + spoken.completion
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.model,
        "choices": [] if empty else [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": usage
        | {
            "prompt_tokens_details": {"cached_tokens": spoken.cached},
            "completion_tokens_details": {"reasoning_tokens": spoken.reasoning},
        },
    }


def _openai_chunks(body: Json) -> Iterator[Json]:
    base = {key: body[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    for choice in body["choices"]:
        message = choice["message"]
        yield chunk({"role": "assistant", "content": ""})
        if "reasoning_content" in message:
            yield chunk({"reasoning_content": message["reasoning_content"]})
        for piece in _pieces(message["content"] or ""):
            yield chunk({"content": piece})
        for index, each in enumerate(message.get("tool_calls", [])):
            name, arguments = each["function"]["name"], each["function"]["arguments"]
            head = {"id": each["id"], "type": "function", "function": {"name": name, "arguments": ""}}
            yield chunk({"tool_calls": [{"index": index, **head}]})
            for piece in _pieces(arguments):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, choice["finish_reason"])
    yield {**base, "choices": [], "usage": body["usage"]}


def _anthropic(spoken: Said, request: ModelRequest) -> Json:
    content: list[Json] = []
    if spoken.thinking is not None:
        content.append({"type": "thinking", "thinking": spoken.thinking, "signature": "scripted"})
    if spoken.text:
        content.append({"type": "text", "text": spoken.text})
    content += [{"type": "tool_use", "id": each.id, "name": each.name, "input": each.parsed} for each in spoken.calls]
    fresh = spoken.prompt - spoken.cached - spoken.written
    usage = {"input_tokens": fresh, "output_tokens": spoken.completion}
    return {
        # Hosts join replies that share an id into one.
        "id": f"msg_{request.step or request.role}_{request.turn}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": _FINISH[spoken.finish][0] if spoken.finish else ("tool_use" if spoken.calls else "end_turn"),
        "stop_sequence": None,
        "usage": usage | {"cache_read_input_tokens": spoken.cached, "cache_creation_input_tokens": spoken.written},
    }


def _anthropic_events(body: Json, spoken: Said) -> Iterator[Json]:
    raw = [each.arguments for each in spoken.calls]
    opening = body | {"content": [], "stop_reason": None, "usage": body["usage"] | {"output_tokens": 1}}
    yield {"type": "message_start", "message": opening}
    yield {"type": "ping"}
    for index, block in enumerate(body["content"]):
        start: Json = block
        deltas: list[Json]
        if block["type"] == "text":
            start = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        elif block["type"] == "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        else:
            start = block | {"input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(raw.pop(0))]
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": body["usage"]}
    yield {"type": "message_stop"}


def _ollama(spoken: Said, request: ModelRequest) -> Json:
    message: dict[str, Json] = {"role": "assistant", "content": spoken.text or ""}
    if spoken.thinking is not None:
        message["thinking"] = spoken.thinking
    if spoken.calls:
        message["tool_calls"] = [{"function": {"name": each.name, "arguments": each.parsed}} for each in spoken.calls]
    return {
        "model": request.model,
        "created_at": "2026-01-01T00:00:00Z",
        "message": message,
        "done": True,
        "done_reason": _FINISH[spoken.finish][1] if spoken.finish else "stop",
        "prompt_eval_count": spoken.prompt,
        "eval_count": spoken.completion,
    }


def _ollama_lines(body: Json) -> Iterator[Json]:
    message = body["message"]
    base = {key: body[key] for key in ("model", "created_at")} | {"done": False}
    for piece in _pieces(message["content"]):
        yield base | {"message": {"role": "assistant", "content": piece}}
    if "tool_calls" in message:
        yield base | {"message": message | {"content": ""}}
    yield body | {"message": {"role": "assistant", "content": ""}}
