"""What a model server was asked: one reading of the OpenAI, Anthropic, Gemini and Ollama requests."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

from model_gemini import as_openai

Json: TypeAlias = Any
Wire = Literal["openai", "anthropic", "gemini", "ollama"]
Role = Literal["planner", "reviser", "worker", "reviewer", "compose", "answer", "host"]
Speaker = Literal["system", "user", "assistant", "tool"]

_ROLES: dict[str, Role] = {
    "submit_plan": "planner",
    "revise_plan": "reviser",
    "submit_review": "reviewer",
    "submit_answer": "answer",
    "submit_report": "worker",
    "next_action": "worker",
}
# Anthropic, Gemini and Ollama carry a schema without its name, so a property that only it has stands for it.
_TELLTALES = {
    "steps": "submit_plan",
    "decision": "revise_plan",
    "accepted": "submit_review",
    "answer": "submit_answer",
    "findings": "submit_report",
    "tool": "next_action",
}
_JSON_TOOL = "json_tool_call"
_PATHS: dict[str, Wire] = {
    "/chat/completions": "openai",
    "/messages": "anthropic",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
    "/api/chat": "ollama",
}


@dataclass(frozen=True)
class Message:
    """One message, or one tool result, with its text parts joined."""

    speaker: Speaker
    text: str


@dataclass(frozen=True)
class ModelRequest:
    """One request as the server read it; `functions` are the offered names, `must` the one that is forced or alone."""

    wire: Wire
    model: str
    messages: tuple[Message, ...]
    functions: tuple[str, ...]
    must: str | None
    schema: Json
    schema_name: str | None
    json_tool: bool
    stream: bool
    headers: Mapping[str, str]
    body: Json

    @cached_property
    def name(self) -> str | None:
        """The name of what is asked for: a function, a schema, or `reply with JSON: NAME` in a prompt."""
        properties: Json = _at(self.schema, "properties") or {}
        guessed = [name for key, name in _TELLTALES.items() if key in properties]
        prompts = "\n".join(message.text for message in self.messages if message.speaker in ("system", "user"))
        written = re.findall(r"(?i)reply with JSON: [`\"']?(\w+)", prompts)
        for names in ([*self.functions, self.schema_name], guessed, written):
            known = [name for name in _ROLES if name in names]
            if known:
                return known[0]
        return None

    @property
    def role(self) -> Role:
        """Who asks; `host` is a client that offers functions which are not ours."""
        if self.name is not None:
            return _ROLES[self.name]
        return "host" if self.functions else "compose"

    @property
    def step(self) -> str | None:
        """The id in the line `step: ID` of the first user message, for the roles that have one."""
        if self.role not in ("worker", "reviewer", "compose"):
            return None
        first = next((message.text for message in self.messages if message.speaker == "user"), "")
        found = re.search(r"^step: ([a-z][a-z0-9_]{0,31})\s*$", first, re.MULTILINE)
        return found[1] if found else None

    @property
    def turn(self) -> int:
        """How many replies the model has given in this conversation."""
        return sum(message.speaker == "assistant" for message in self.messages)

    @property
    def call_ids(self) -> list[str]:
        """Ids `[c_…]` of the tool results shown so far, in order; results may also come as user messages."""
        results: list[str] = []
        for index, message in enumerate(self.messages):
            replied = any(earlier.speaker == "assistant" for earlier in self.messages[:index])
            if message.speaker == "tool" or (message.speaker == "user" and replied):
                results.append(message.text)
        return list(dict.fromkeys(re.findall(r"\[(c_[a-z0-9]+)\]", "\n".join(results))))

    def text(self, speaker: Speaker | None = None) -> str:
        """All text, or all of one speaker."""
        return "\n".join(message.text for message in self.messages if speaker in (None, message.speaker))

    def last(self, speaker: Speaker) -> str:
        """The text of this speaker's last message, empty when it has not spoken."""
        return next((message.text for message in reversed(self.messages) if message.speaker == speaker), "")

    def describe(self) -> str:
        """One line that says what is asked, for errors."""
        asked: dict[str, object] = {"wire": self.wire, "model": self.model, "role": self.role, "name": self.name}
        asked |= {"step": self.step, "turn": self.turn, "functions": self.functions}
        head = " ".join(f"{key}={value}" for key, value in asked.items())
        return f"{head}; the last user message begins: {self.last('user')[:300]!r}"


def wire_of(path: str) -> Wire | None:
    """The wire that a request path belongs to, if it asks a model for a reply."""
    return next((wire for end, wire in _PATHS.items() if path.endswith(end)), None)


def read_request(wire: Wire, body: Json, *, path: str = "", headers: Mapping[str, str]) -> ModelRequest:
    """Read one request of that wire; Gemini's says half of it in its path."""
    sent, body = body, as_openai(path, body) if wire == "gemini" else body
    tools: list[Json] = body.get("tools") or []
    declared: list[dict[str, Json]] = [tool.get("function") or tool for tool in tools]
    offered = [str(tool["name"]) for tool in declared if "name" in tool]
    functions = tuple(name for name in offered if name != _JSON_TOOL)
    forced = _forced(body.get("tool_choice"))
    only = functions[0] if len(functions) == 1 else None
    wrapped = next((tool.get("input_schema") for tool in declared if tool.get("name") == _JSON_TOOL), None)
    return ModelRequest(
        wire=wire,
        model=str(body.get("model", "")),
        messages=tuple(_anthropic_messages(body) if wire == "anthropic" else _plain_messages(body)),
        functions=functions,
        must=forced if forced in functions else only,
        schema=wrapped or _schema(body),
        schema_name=_at(body, "response_format", "json_schema", "name"),
        json_tool=wrapped is not None,
        # Ollama streams unless it is told not to.
        stream=bool(body.get("stream", wire == "ollama")),
        headers={key.lower(): value for key, value in headers.items()},
        body=sent,
    )


def markers_in(requests: Iterable[ModelRequest], marker: str) -> set[tuple[Role, str | None]]:
    """The (role, step) of every request in whose body the marker stands anywhere."""
    return {(each.role, each.step) for each in requests if marker in json.dumps(each.body, ensure_ascii=False)}


def _at(data: Json, *path: str) -> Json:
    for key in path:
        data = cast("dict[str, Json]", data).get(key) if isinstance(data, dict) else None
    return data


def _forced(choice: Json) -> str | None:
    name: str | None = _at(choice, "function", "name") or _at(choice, "name")
    return name


def _schema(body: Json) -> Json:
    """The schema asked for on any of the wires: OpenAI, both Anthropic spellings, Ollama."""
    places = [
        ("response_format", "json_schema", "schema"),
        ("output_format", "schema"),
        ("output_config", "format", "schema"),
        ("format",),
    ]
    return next((found for place in places if (found := _at(body, *place)) is not None), None)


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    parts: list[Json] = content or []
    return "".join(str(_at(part, "text") or "") for part in parts)


def _plain_messages(body: Json) -> Iterator[Message]:
    for message in body.get("messages", []):
        speaker: Speaker = "system" if message["role"] == "developer" else message["role"]
        yield Message(speaker, _text(message.get("content")))


def _anthropic_messages(body: Json) -> Iterator[Message]:
    if body.get("system"):
        yield Message("system", _text(body["system"]))
    for message in body.get("messages", []):
        content = message["content"]
        parts: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results = [part for part in parts if part.get("type") == "tool_result"]
        for result in results:
            yield Message("tool", _text(result.get("content")))
        others = [part for part in parts if part.get("type") != "tool_result"]
        if others or not results:
            yield Message(message["role"], _text(others))
