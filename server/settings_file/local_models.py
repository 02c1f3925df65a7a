"""Models that programs on this machine serve, by asking loopback; no prompt is ever sent for that."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from typing import Literal, TypeAlias

from journal.values import Json, JsonObject

from .located import is_list, is_map

Kind: TypeAlias = Literal["ollama", "lm_studio", "openai"]
_LARGEST = 1 << 20
_MOST_SHOWN = 8
"""Ollama is asked about so many models."""


@dataclass(frozen=True)
class Patience:
    """Seconds for each question, and for all questions to all programs together."""

    each: float = 0.2
    all: float = 1.0


@dataclass(frozen=True)
class LocalPlace:
    """Where a program serves models on this machine, and how it lists them."""

    program: str
    port: int
    kind: Kind = "openai"


LOOPBACK = (
    LocalPlace("Ollama", 11434, "ollama"),
    LocalPlace("LM Studio", 1234, "lm_studio"),
    LocalPlace("llama.cpp", 8080),
    LocalPlace("vLLM", 8000),
)


@dataclass(frozen=True)
class LocalModel:
    """A model that a program on this machine serves, as the program tells of it; None where it does not.

    `context` is how much it holds in tokens, `loaded` whether it is in memory.
    """

    place: LocalPlace
    id: str
    calls_functions: bool | None = None
    context: int | None = None
    loaded: bool | None = None

    @property
    def program(self) -> str:
        return self.place.program

    @property
    def name(self) -> str:
        """As litellm has to be asked for it."""
        return f"{'ollama_chat' if self.place.kind == 'ollama' else 'openai'}/{self.id}"

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self.place.port}{'' if self.place.kind == 'ollama' else '/v1'}"


def best_of(models: Sequence[LocalModel]) -> LocalModel | None:
    """The one to use where nothing is said: the first program's; of its models one that calls functions, then one that
    is in memory, then the first listed."""
    if not models:
        return None
    own = [model for model in models if model.place == models[0].place]
    return max(
        own, key=lambda model: (model.calls_functions is True, model.calls_functions is None, model.loaded is True)
    )


_USUAL = Patience()


def served_here(places: Sequence[LocalPlace] = LOOPBACK, patience: Patience = _USUAL) -> list[LocalModel]:
    """What can answer at these places, in their order. All are asked at once; blocks for `patience.all` at most."""
    answers: Queue[tuple[int, list[LocalModel]]] = Queue()
    deadline = time.monotonic() + patience.all

    def ask(number: int, place: LocalPlace) -> None:
        answers.put((number, list(_LISTED[place.kind](_Inquiry(place, patience.each, deadline)))))

    for number, place in enumerate(places):
        # A daemon, because a server that sends byte by byte could hold it up; nobody waits for it then.
        Thread(target=ask, args=(number, place), daemon=True).start()
    found: dict[int, list[LocalModel]] = {}
    for _ in places:
        try:
            number, models = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            break
        found[number] = models
    return [model for number in sorted(found) for model in found[number]]


@dataclass(frozen=True)
class _Inquiry:
    """Questions to one program, each with its own patience and all before a deadline."""

    place: LocalPlace
    patience: float
    deadline: float

    @property
    def has_time(self) -> bool:
        return time.monotonic() + self.patience < self.deadline

    def ask(self, path: str, body: JsonObject | None = None) -> Json:
        """What is served under a path; None for anything but JSON that comes in time."""
        # Every command loads settings, few of them ask; importing this costs more than the rest of the module.
        from http.client import HTTPConnection, HTTPException

        # No proxy and no redirect: what is asked stays on this machine.
        connection = HTTPConnection("127.0.0.1", self.place.port, timeout=self.patience)
        try:
            connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            return json.loads(response.read(_LARGEST)) if response.status == 200 else None
        except (OSError, HTTPException, ValueError, RecursionError):
            return None
        finally:
            connection.close()


def _of_openai(inquiry: _Inquiry) -> Iterator[LocalModel]:
    for entry in _entries(inquiry.ask("/v1/models"), "data"):
        # Such servers list embedding models too, which can't answer.
        if (name := _text(entry, "id")) and "embed" not in name:
            yield LocalModel(inquiry.place, name)


def _of_lm_studio(inquiry: _Inquiry) -> Iterator[LocalModel]:
    entries = _entries(inquiry.ask("/api/v1/models"), "models")
    if not entries:
        yield from _of_openai(inquiry)
    for entry in entries:
        loaded, can = entry.get("loaded_instances"), entry.get("capabilities")
        configs = [each.get("config") for each in loaded if is_map(each)] if is_list(loaded) else []
        context = [each["context_length"] for each in configs if is_map(each) and _is_size(each.get("context_length"))]
        trained: Json = can.get("trained_for_tool_use") if is_map(can) else None
        if (name := _text(entry, "key")) and entry.get("type") != "embedding":
            calls = trained if isinstance(trained, bool) else None
            yield LocalModel(inquiry.place, name, calls, min(context, default=None), bool(configs))


def _of_ollama(inquiry: _Inquiry) -> Iterator[LocalModel]:
    names = [name for entry in _entries(inquiry.ask("/api/tags"), "models") if (name := _text(entry, "name"))]
    for number, name in enumerate(names):
        asked = number < _MOST_SHOWN and inquiry.has_time
        shown = inquiry.ask("/api/show", {"model": name}) if asked else None
        can: Json = shown.get("capabilities") if is_map(shown) else None
        about: Json = shown.get("model_info") if is_map(shown) else None
        sizes = [size for key, size in (about if is_map(about) else {}).items() if key.endswith(".context_length")]
        answers = "completion" in can if is_list(can) else "embed" not in name
        if answers:
            calls = "tools" in can if is_list(can) else None
            yield LocalModel(inquiry.place, name, calls, next(filter(_is_size, sizes), None))


_LISTED: dict[Kind, Callable[[_Inquiry], Iterator[LocalModel]]] = {
    "ollama": _of_ollama,
    "lm_studio": _of_lm_studio,
    "openai": _of_openai,
}


def _entries(reply: Json, key: str) -> list[JsonObject]:
    listed: Json = reply.get(key) if is_map(reply) else None
    return [entry for entry in listed if is_map(entry)] if is_list(listed) else []


def _text(entry: JsonObject, key: str) -> str:
    text: Json = entry.get(key)
    return text if isinstance(text, str) else ""


def _is_size(number: Json) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number > 0
