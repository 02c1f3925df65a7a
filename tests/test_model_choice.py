"""Which model is used where settings name none."""

import json
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from socket import create_server, socket
from threading import Event, Thread

import pytest

from downstream.settings import ModelSettings
from planner.settings import BudgetSettings
from server.settings_file.model_choice import LocalPlace, ModelChoice, NoModelFound, choose_model, probe_loopback


def choose(environ: dict[str, str], places: Sequence[LocalPlace] = ()) -> ModelChoice:
    return choose_model(ModelSettings(), environ, budget=BudgetSettings(usd=3.0), probe=lambda: probe_loopback(places))


@contextmanager
def serving(reply: bytes, status: int = 200) -> Generator[int]:
    """A server on loopback that gives one reply to everything; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


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


def test_without_a_key_a_model_on_this_machine_is_used() -> None:
    ollama = json.dumps({"models": [{"name": "nomic-embed-text"}, {"name": "qwen:1.5b"}]}).encode()
    other = json.dumps({"data": [{"id": "m"}]}).encode()
    with serving(ollama) as first, serving(other) as second, serving(b"[]", status=404) as third:
        places = [LocalPlace("none", third), LocalPlace("Ollama", first, "/api/tags"), LocalPlace("vLLM", second)]
        choice = choose({}, places)
        assert (choice.settings.model, choice.settings.options.api_base) == (
            "ollama_chat/qwen:1.5b",
            f"http://127.0.0.1:{first}",
        )
        assert "from Ollama on this machine" in choice.notice
        choice = choose({}, places[2:])
    assert (choice.settings.model, choice.settings.options.api_base) == ("openai/m", f"http://127.0.0.1:{second}/v1")


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (b"{", 200),
        (b"[]", 200),
        (b'{"data": 5}', 200),
        (b'{"data": [{"id": 5}]}', 200),
        (b'{"data": [{"id": "m"}]}', 302),
    ],
)
def test_something_else_on_the_port_is_no_model(reply: bytes, status: int) -> None:
    with serving(reply, status) as port, pytest.raises(NoModelFound):
        choose({}, [LocalPlace("x", port)])


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
        assert probe_loopback([LocalPlace("x", listener.getsockname()[1])]) is None
        assert time.monotonic() - began < 5
        ended.set()
        thread.join()


def test_nothing_found_says_the_three_ways() -> None:
    with pytest.raises(NoModelFound) as caught:
        choose({}, [LocalPlace("x", 1)])
    assert all(way in str(caught.value) for way in ("ANTHROPIC_API_KEY", "Ollama", "scripted:FILE"))
