"""A model server that counts the tokens of what it is asked, and what of it a provider's cache could have given."""

import importlib.util
import json
import os
import re
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import tiktoken
from model_script import Reply, Rule
from model_server import ModelServer
from model_wire import Json, ModelRequest

from downstream.json_shape import is_object

ENCODING = "cl100k_base"
LEAST_CACHED = 1_024
"""Tokens that a prefix must have before providers keep it (OpenAI, and the smaller ones of Anthropic's models)."""
_SCHEMAS = ("response_format", "output_format", "output_config")
_MARK = "cache_control"
_ARTIFACT = re.compile(r"\bf_[a-z2-7]{26}\b")


@dataclass(frozen=True)
class Part:
    """A piece of a request as a model reads it; `marked` where Anthropic is asked to keep all up to its end."""

    text: str
    marked: bool = False

    @property
    def tokens(self) -> int:
        return len(_encoding().encode(self.text, disallowed_special=()))


@dataclass(frozen=True)
class Counted:
    """One request as the server counted it; of `tokens`, `cached` were read from a cache and `written` put there."""

    role: str
    step: str | None
    parts: tuple[Part, ...]
    tokens: int
    cached: int
    written: int
    body: Json


class CountingServer(ModelServer):
    """Reports the tokens that it counted as usage. `{{artifact:N}}` in a reply is the N-th handle in the request."""

    def __init__(self, script: Sequence[Rule]) -> None:
        super().__init__(script, 0)
        self._counted: list[Counted] = []
        self._counting = threading.Lock()

    @property
    def counted(self) -> list[Counted]:
        """In order of arrival."""
        with self._counting:
            return list(self._counted)

    def pick(self, request: ModelRequest) -> Reply:
        reply = super().pick(request)
        parts = parts_of(request.body)
        with self._counting:
            earlier = [each.parts for each in self._counted]
            took = kept_by_marks(parts, earlier) if request.wire == "anthropic" else kept_by_itself(parts, earlier)
            counted = Counted(request.role, request.step, parts, tokens_of(parts), *took, request.body)
            self._counted.append(counted)
        usage = {"prompt": counted.tokens, "cached": counted.cached, "written": counted.written}
        return cast("Reply", {**_with_artifacts(reply, request), "usage": {**reply.get("usage", {}), **usage}})


@contextmanager
def serve_counting(script: Sequence[Rule]) -> Generator[CountingServer]:
    """Serve the script on loopback from a thread."""
    server = CountingServer(script)
    thread = threading.Thread(target=server.http.serve_forever, args=(0.02,), name="counting-server")
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def parts_of(body: Json) -> tuple[Part, ...]:
    """What a model reads of a request, in the order in which providers put it: tools, schema, system, messages."""
    tools: list[Json] = body.get("tools") or []
    asked: list[Json] = [body[name] for name in _SCHEMAS if body.get(name)]
    spoken = [part for message in body["messages"] for part in _message(message["role"], message)]
    return (*map(_part, (*tools, *asked, *_blocks(body.get("system")))), *spoken)


def tokens_of(parts: Sequence[Part]) -> int:
    return sum(part.tokens for part in parts)


def kept_by_itself(parts: Sequence[Part], earlier: Sequence[Sequence[Part]]) -> tuple[int, int]:
    """The tokens that a provider reads which keeps every prefix unasked, for nothing; none are paid for as written."""
    return max((_worth(parts[: _shared(parts, there)]) for there in earlier), default=0), 0


def kept_by_marks(parts: Sequence[Part], earlier: Sequence[Sequence[Part]]) -> tuple[int, int]:
    """The tokens read and written where only marked prefixes are kept: the longest that an earlier request wrote is
    read, and what follows it, up to the last mark, is written."""
    last = _marks(parts)[-1:] or [0]
    known = [end for there in earlier for end in _marks(there) if end <= min(last[0], _shared(parts, there))]
    read = max((_worth(parts[:end]) for end in known), default=0)
    return read, max(0, _worth(parts[: last[0]]) - read)


def _marks(parts: Sequence[Part]) -> list[int]:
    """Where marked prefixes end."""
    return [place for place, part in enumerate(parts, 1) if part.marked]


def _shared(parts: Sequence[Part], earlier: Sequence[Part]) -> int:
    """How many parts both begin with, byte for byte."""
    pairs = zip(parts, earlier, strict=False)
    return next(
        (place for place, (here, there) in enumerate(pairs) if here.text != there.text), min(len(parts), len(earlier))
    )


def _worth(parts: Sequence[Part]) -> int:
    """The tokens of a prefix; 0 where they are too few to be kept."""
    tokens = tokens_of(parts)
    return tokens if tokens >= LEAST_CACHED else 0


def _message(role: str, message: Json) -> list[Part]:
    """OpenAI's messages with their calls, Anthropic's by block."""
    calls = f"\n{_compact(message['tool_calls'])}" if message.get("tool_calls") else ""
    content: Json = message.get("content") or ""
    if isinstance(content, str):
        return [Part(f"{role}\n{content}{calls}")]
    return [Part(f"{role}\n{each.text}", each.marked) for each in map(_part, content)]


def _blocks(system: Json) -> list[Json]:
    return [system] if isinstance(system, str) else system or []


def _part(data: Json) -> Part:
    """A block without its mark, text as it stands."""
    if not is_object(data):
        return Part(str(data))
    plain = {key: item for key, item in data.items() if key != _MARK}
    text = str(plain["text"]) if plain.keys() == {"type", "text"} else _compact(plain)
    return Part(text, marked=_MARK in data)


def _compact(data: Json) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _with_artifacts(reply: Reply, request: ModelRequest) -> Json:
    handles = list(dict.fromkeys(_ARTIFACT.findall(request.text())))

    def handle(found: re.Match[str]) -> str:
        return str(handles[int(found[1])])

    return json.loads(re.sub(r"\{\{artifact:(\d+)\}\}", handle, json.dumps(reply)))


@cache
def _encoding() -> tiktoken.Encoding:
    """From the file that litellm brings along, so that nothing is fetched."""
    found = importlib.util.find_spec("litellm")
    assert found is not None
    assert found.origin is not None
    os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(found.origin).parent / "litellm_core_utils" / "tokenizers")
    return tiktoken.get_encoding(ENCODING)
