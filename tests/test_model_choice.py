"""Which model is used where settings name none."""

import json
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from socket import create_server, socket
from threading import Event, Thread

import pytest

from downstream.settings import ModelSettings
from journal.values import Json, JsonObject
from planner.settings import BudgetSettings
from server.settings_file.local_models import LOOPBACK, Kind, LocalModel, LocalPlace, Patience, best_of, served_here
from server.settings_file.model_choice import ModelChoice, NoModelFound, choose_model

BUDGET = BudgetSettings(usd=3.0)
NO_PLACES: list[LocalPlace] = []


def choose(environ: dict[str, str], places: Sequence[LocalPlace] = NO_PLACES) -> ModelChoice:
    return choose_model(ModelSettings(), environ, budget=BUDGET, probe=lambda: served(places))


def served(places: Sequence[LocalPlace]) -> list[LocalModel]:
    """What is served there, with the patience that a busy machine needs."""
    return served_here(places, Patience(each=10.0, all=30.0))


@dataclass
class Served:
    """What a server gives by path, and everything that it was asked: method, path and body."""

    pages: JsonObject
    raw: bytes | None = None
    status: int = 200
    port: int = 0
    asked: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def place(self, kind: Kind = "openai", program: str = "x") -> LocalPlace:
        return LocalPlace(program, self.port, kind)


@contextmanager
def serving(pages: JsonObject | None = None, raw: bytes | None = None, status: int = 200) -> Generator[Served]:
    """A server on loopback with these pages; one may depend on the name of the model that is asked about."""
    served = Served(pages or {}, raw, status)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            served.asked.append((self.command, self.path, body))
            page: Json = served.pages.get(self.path)
            if body:
                page = page[json.loads(body)["model"]]
            self.send_response(404 if page is None and served.raw is None else served.status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(json.dumps(page).encode() if served.raw is None else served.raw)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        served.port = server.server_port
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


def named(key: str, *names: str) -> list[dict[str, str]]:
    return [{key: name} for name in names]


@pytest.mark.parametrize(
    ("environ", "model"),
    [
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "anthropic/claude-sonnet-4-6"),
        ({"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}, "openai/gpt-5.4-mini"),
        ({"GEMINI_API_KEY": "k"}, "gemini/gemini-3.8-flash"),
    ],
)
def test_the_first_key_that_is_set_picks_the_model(environ: dict[str, str], model: str) -> None:
    choice = choose(environ)
    variable = next(name for name, value in environ.items() if value)
    assert choice.settings.for_role("planner") == model
    assert choice.notice == (
        f"the settings name no model, so {model} is used, with the key in {variable}; "
        "a run may cost 3 USD and a day 10 USD; `model:` in the settings decides"
    )


def test_without_a_key_a_model_on_this_machine_is_used_and_wants_none() -> None:
    lists: JsonObject = {"/v1/models": {"data": named("id", "text-embedding-3", "m")}}
    with serving(lists) as first, serving(lists) as second, serving() as gone:
        choice = choose({}, [gone.place(), first.place(program="llama.cpp"), second.place(program="vLLM")])
    options = choice.settings.options
    assert (choice.settings.model, options.api_base) == ("openai/m", f"http://127.0.0.1:{first.port}/v1")
    assert options.api_key is not None
    assert options.api_key.get_secret_value() == "none"
    assert choice.notice == (
        "the settings name no model, so openai/m is used, from llama.cpp on this machine; "
        "`model:` in the settings decides"
    )


def test_where_each_role_has_a_model_nothing_is_looked_for() -> None:
    settings = ModelSettings.model_validate({"models": {"planner": "a/a", "worker": "b/b", "answer": "c/c"}})
    assert choose_model(settings, {"OPENAI_API_KEY": "k"}, budget=BUDGET, probe=list) == ModelChoice(settings, "")


def test_of_the_models_of_ollama_one_that_calls_functions_is_used_and_no_prompt_is_sent() -> None:
    pages: JsonObject = {
        "/api/tags": {"models": named("name", "nomic-embed-text", "old:7b", "bert", "able:4b", "able:8b")},
        "/api/show": {
            "nomic-embed-text": {"capabilities": ["embedding"]},
            "old:7b": {"capabilities": ["completion"], "model_info": {"llama.context_length": 4096}},
            "bert": [],
            "able:4b": {"capabilities": ["completion", "tools"], "model_info": {"x": 1, "q.context_length": 32768}},
            "able:8b": {"capabilities": ["completion", "tools"], "model_info": {"q.context_length": True}},
        },
    }
    with serving(pages) as ollama:
        place = ollama.place("ollama", "Ollama")
        found = served([place])
        choice = choose({}, [place])
    assert [(model.name, model.calls_functions, model.context) for model in found] == [
        ("ollama_chat/old:7b", False, 4096),
        ("ollama_chat/bert", None, None),
        ("ollama_chat/able:4b", True, 32768),
        ("ollama_chat/able:8b", True, None),
    ]
    assert (choice.settings.model, choice.settings.options.api_base) == (
        "ollama_chat/able:4b",
        f"http://127.0.0.1:{ollama.port}",
    )
    assert "able:4b is used, from Ollama on this machine (one of 4 there, since it is said to call" in choice.notice
    assert {path for _, path, _ in ollama.asked} == {"/api/tags", "/api/show"}


def test_an_ollama_that_tells_nothing_of_its_models_is_used_all_the_same() -> None:
    with serving({"/api/tags": {"models": named("name", "embedding-gemma", "m")}, "/api/show": {"m": None}}) as ollama:
        assert choose({}, [ollama.place("ollama")]).settings.model == "ollama_chat/m"


def test_only_so_many_models_are_asked_about() -> None:
    names = [f"m{number}" for number in range(12)]
    pages: JsonObject = {
        "/api/tags": {"models": named("name", *names)},
        "/api/show": {name: {"capabilities": ["completion"]} for name in names},
    }
    with serving(pages) as ollama:
        found = served([ollama.place("ollama")])
        hurried = served_here([ollama.place("ollama")], Patience(each=10.0, all=10.0))
        assert len(found) == 12
        assert len([path for _, path, _ in ollama.asked if path == "/api/show"]) == 8
        # Where no time is left for these questions, the list is all that is known.
        assert [(model.id, model.calls_functions) for model in hurried] == [(name, None) for name in names]
    # What is not known to be unable comes before what is.
    best = best_of(found)
    assert best is not None
    assert best.id == next(model.id for model in found if model.calls_functions is None)


def test_of_the_models_of_lm_studio_one_that_calls_functions_and_is_in_memory_is_used() -> None:
    def entry(key: str, *, context: Json = None, tools: Json = None) -> JsonObject:
        loaded = [{"id": key, "config": {"context_length": context}}] if context else []
        return {"type": "llm", "key": key, "loaded_instances": loaded, "capabilities": {"trained_for_tool_use": tools}}

    entries = [
        {"type": "embedding", "key": "nomic"},
        {"type": "llm", "key": "bare", "loaded_instances": 5},
        entry("far", tools=True),
        entry("near", context=4096, tools=True),
        entry("small", context="many", tools=False),
    ]
    with serving({"/api/v1/models": {"models": entries}}) as studio:
        found = served([studio.place("lm_studio", "LM Studio")])
    assert [(model.id, model.calls_functions, model.context, model.loaded) for model in found] == [
        ("bare", None, None, False),
        ("far", True, None, False),
        ("near", True, 4096, True),
        ("small", False, None, True),
    ]
    best = best_of(found)
    assert best is not None
    assert (best.name, best.api_base) == ("openai/near", f"http://127.0.0.1:{studio.port}/v1")


def test_an_older_lm_studio_lists_its_models_as_all_others_do() -> None:
    with serving({"/v1/models": {"data": named("id", "m", "n")}}) as studio:
        choice = choose({}, [studio.place("lm_studio", "LM Studio")])
    assert choice.settings.model == "openai/m"
    assert "from LM Studio on this machine (one of 2 there); " in choice.notice


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (b"{", 200),
        (b"[]", 200),
        (b"[" * 100_000, 200),
        (b'{"data": 5}', 200),
        (b'{"data": [{"id": 5}]}', 200),
        (b'{"data": [{"id": "m"}]}', 302),
    ],
    ids=["broken", "list", "deep", "number", "no name", "elsewhere"],
)
def test_something_else_on_the_port_is_no_model(reply: bytes, status: int) -> None:
    with serving(raw=reply, status=status) as other, pytest.raises(NoModelFound):
        choose({}, [other.place()])


def test_a_server_that_drips_holds_nobody_up() -> None:
    ended = Event()

    def drip(listener: socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(ConnectionError):
            while not ended.wait(0.05):
                connection.sendall(b"H")

    with create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=drip, args=(listener,))
        thread.start()
        began = time.monotonic()
        assert served_here([LocalPlace("x", listener.getsockname()[1])]) == []
        assert time.monotonic() - began < 5
        ended.set()
        thread.join()


def test_nothing_found_says_the_three_ways() -> None:
    with pytest.raises(NoModelFound) as caught:
        choose({}, [LocalPlace("x", 1)])
    assert all(way in str(caught.value) for way in ("ANTHROPIC_API_KEY", "Ollama", "scripted:FILE"))


def test_the_places_are_those_that_the_programs_use_by_themselves() -> None:
    assert {place.program: (place.port, place.kind) for place in LOOPBACK} == {
        "Ollama": (11434, "ollama"),
        "LM Studio": (1234, "lm_studio"),
        "llama.cpp": (8080, "openai"),
        "vLLM": (8000, "openai"),
    }
