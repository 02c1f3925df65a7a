"""Gemini's wire: a request read as if it were OpenAI's, and a reply in Gemini's words, whole or in pieces."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from model_reply import Said

Json: TypeAlias = Any
SIGNATURE = "c2NyaXB0ZWQ="
_FINISH = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}


def as_openai(path: str, body: Json) -> Json:
    """The same request in the words of OpenAI's wire; the model and whether it streams stand in the path."""
    found = re.search(r"/models/([^/:]+):(\w+)", path)
    system = body.get("system_instruction") or body.get("systemInstruction")
    messages: list[Json] = [{"role": "system", "content": _words(system)}] if system else []
    for content in body.get("contents", []):
        messages += _messages(content)
    tools: list[Json] = [each for tool in body.get("tools", []) for each in _at(tool, "functionDeclarations")]
    forced: Json = _at(_at(body, "toolConfig"), "functionCallingConfig")
    plain: Json = {
        "model": found[1] if found else "",
        "stream": bool(found and found[2].startswith("stream")),
        "messages": messages,
        "tools": [{"type": "function", "function": each} for each in tools],
    }
    if (names := _at(forced, "allowedFunctionNames")) and _at(forced, "mode") == "ANY":
        plain["tool_choice"] = {"function": {"name": names[0]}}
    wanted: Json = _at(body, "generationConfig")
    schema: Json = _at(wanted, "responseJsonSchema") or _at(wanted, "responseSchema")
    return plain | ({"format": schema} if schema else {})


def reply_body(spoken: "Said", *, empty: bool) -> Json:
    """The reply as one JSON body; a signature comes with the first call of a model that thought."""
    parts: list[Json] = [{"text": spoken.thinking, "thought": True}] if spoken.thinking is not None else []
    parts += [{"text": spoken.text}] if spoken.text else []
    for number, each in enumerate(spoken.calls):
        signed = {"thoughtSignature": SIGNATURE} if spoken.thinking is not None and number == 0 else {}
        parts.append({"functionCall": {"name": each.name, "args": each.parsed}} | signed)
    reason = _FINISH[spoken.finish] if spoken.finish else "STOP"
    usage = {"promptTokenCount": spoken.prompt, "candidatesTokenCount": spoken.completion - spoken.reasoning}
    usage |= {"cachedContentTokenCount": spoken.cached, "thoughtsTokenCount": spoken.reasoning}
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": reason}
    return {
        "candidates": [] if empty else [candidate],
        "usageMetadata": usage | {"totalTokenCount": spoken.prompt + spoken.completion},
        "modelVersion": "scripted",
        "responseId": "scripted",
    }


def chunks(body: Json) -> Iterator[Json]:
    """The reply in pieces; the last one says why it ended and what it took."""
    base = {key: body[key] for key in ("modelVersion", "responseId")}
    for candidate in body["candidates"]:
        for part in candidate["content"]["parts"]:
            plain = set(part) == {"text"}
            for piece in re.findall(r".{1,16}", part["text"], re.DOTALL) if plain else [None]:
                said = part if piece is None else {"text": piece}
                yield base | {"candidates": [{"index": 0, "content": {"role": "model", "parts": [said]}}]}
    ends: list[Json] = [each | {"content": {"role": "model", "parts": []}} for each in body["candidates"]]
    yield base | {"candidates": ends, "usageMetadata": body["usageMetadata"]}


def error_body(status: int, message: str, code: str | None) -> Json:
    """An error as Google's servers write it."""
    names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
    return {"error": {"code": status, "message": message, "status": code or names.get(status, "UNAVAILABLE")}}


def _messages(content: Json) -> list[Json]:
    """One message, or one for each function's result that stands in it."""
    parts: list[Json] = content.get("parts", [])
    results = [part.get("functionResponse") or part.get("function_response") for part in parts]
    made = [{"role": "tool", "content": _result(each["response"])} for each in results if each]
    others = [part for part, result in zip(parts, results, strict=True) if not result]
    if others or not made:
        made.append({"role": "assistant" if content.get("role") == "model" else "user", "content": _words(content)})
    return made


def _result(response: Json) -> str:
    said: Json = response.get("content")
    return said if isinstance(said, str) else json.dumps(response, ensure_ascii=False)


def _words(content: Json) -> str:
    return "".join(part.get("text", "") for part in content.get("parts", []) if not part.get("thought"))


def _at(data: Json, camel: str) -> Json:
    """A field under either of its spellings; nothing where it is not there."""
    snake = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", camel)
    found: Json = data.get(camel) or data.get(snake)
    return found or {}
