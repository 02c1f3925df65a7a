"""What a checkup finds, each part by itself."""

import importlib
import socket
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from journals import open_own_store

from downstream.model_port import (
    FREE,
    FailureKind,
    FunctionUse,
    ModelFailed,
    ModelReply,
    ModelRequest,
    Models,
    Rate,
)
from downstream.models.structured import remembered_rung
from downstream.settings import ModelSettings, ServerSettings
from journal.ledger import Spent
from journal.world import World
from server.assembly import open_product
from server.checkup import installation, models, storage, tool_servers, trial
from server.checkup.finding import Finding, worst_of
from server.checkup.settings_found import Surroundings, look_at_settings
from server.page.place import Place
from server.page.serving import open_page
from server.settings import Settings, find_settings, load_settings
from server.settings_file.local_models import LocalModel, LocalPlace

OLLAMA = LocalPlace("Ollama", 11434, "ollama")
LLAMA = LocalPlace("llama.cpp", 8080)
SAID = ModelReply("m", "", (FunctionUse("1", "say_word", '{"word": "harbour"}'),), spent=Spent(90, 10))
WRITTEN = ModelReply("m", 'Sure: {"name": "say_word", "arguments": {"word": "harbour"}}', spent=Spent(90, 10))
BARE = ModelReply("m", '{"word": "harbour"}', spent=Spent(90, 10))
PROSE = ModelReply("m", "harbour!", spent=Spent(90, 10))
BROKEN = ModelReply("m", "", (FunctionUse("1", "say_word", "{"),), spent=Spent(90, 10))


def settings_of(folder: Path, text: str = "", environ: Mapping[str, str] | None = None) -> Settings:
    path = folder / "settings.yaml"
    path.write_text(f"store: sqlite:///{folder / 'store.db'}\n{text}", encoding="utf-8")
    return load_settings(find_settings(path, environ={}, cwd=None), environ=environ or {})


def found_by(look: Callable[[Callable[[Finding], None]], object]) -> list[Finding]:
    found: list[Finding] = []
    look(found.append)
    return found


def states(found: Sequence[Finding]) -> list[tuple[str, str]]:
    return [(finding.check, finding.state) for finding in found]


def test_the_worst_finding_is_the_state_of_the_whole() -> None:
    ok, warning, problem = (Finding("x", state, "") for state in ("ok", "warning", "problem"))
    assert worst_of([]) == "ok"
    assert worst_of([ok, warning, ok]) == "warning"
    assert worst_of([ok, problem, warning]) == "problem"


@pytest.mark.parametrize(
    ("versions", "state", "words"),
    [
        (["1.110.2"], "ok", "1.110.2"),
        (["1.82.6"], "ok", "1.82.6"),
        (["1.82.7"], "problem", "compromised"),
        (["1.82.8"], "problem", "compromised"),
        (["1.107.0"], "problem", "compromised"),
        (["1.107.12rc1"], "problem", "compromised"),
        (["1.110.2", "1.107.0"], "problem", "1.107.0"),
        (["1.110.2", "1.109.3"], "warning", "over one another"),
        ([], "problem", "not installed"),
    ],
)
def test_a_release_of_litellm_that_stole_keys_is_a_problem(versions: list[str], state: str, words: str) -> None:
    finding = installation.litellm_release(versions)
    assert finding.state == state
    assert words in finding.text
    assert (finding.way_out is None) == (state == "ok")


@contextmanager
def importable(folder: Path) -> Generator[None]:
    """What lies in the folder comes before all that is installed."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def test_the_releases_are_read_from_their_metadata_and_nothing_is_imported(tmp_path: Path) -> None:
    info = tmp_path / "litellm-1.107.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: litellm\nVersion: 1.107.0\n")
    with importable(tmp_path):
        assert "1.107.0" in installation.installed("litellm")
        assert f"litellm {'/'.join(installation.installed('litellm'))}" in installation.programs().text


def test_where_logins_are_kept_is_told_to_those_who_log_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "keyring"
    package.mkdir()
    (package / "__init__.py").write_text(
        "class Wallet: pass\nWallet.__module__ = 'keyring.backends.wallet'\ndef get_keyring(): return Wallet()\n"
    )
    (package / "errors.py").write_text("class KeyringError(Exception): pass\n")
    stdio = ServerSettings(name="a", transport="stdio", command="x")
    http = ServerSettings(name="b", transport="http", url="https://x")
    assert list(installation.keyring([stdio])) == []
    [files] = installation.keyring([stdio, http])
    assert "mode 0600" in files.text
    for name in ("keyring", "keyring.errors"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with importable(tmp_path):
        [kept] = installation.keyring([http])
    for name in ("keyring", "keyring.errors"):
        # Not by monkeypatch, which would put this one back.
        del sys.modules[name]
    assert kept.text == "they are kept in the system's keyring (keyring.backends.wallet)"


def test_valid_settings_are_named_with_who_named_them_and_their_variables(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("model: x/y\nmodel_options: {api_key: '${A_KEY}', api_base: '${BASE:-http://h}'}\nsecrets: [S]\n")
    environ = {"A_KEY": "value-of-a", "OPENAI_API_KEY": "k"}
    found = found_by(lambda say: look_at_settings(Surroundings(environ, tmp_path, path), say))
    assert found == [
        Finding("settings", "ok", f"{path} (named by --config) is valid"),
        Finding("variables", "ok", "set: A_KEY, OPENAI_API_KEY"),
        Finding("variables", "warning", "not set: BASE, S", "set them where their defaults do not do"),
    ]


@pytest.mark.parametrize(
    ("text", "environ", "words", "goes_on"),
    [
        ("modell: x", {}, "did you mean", False),
        ("mcpServers: {a: {command: x, argz: []}, b: {command: y}}", {}, "argz", True),
        ("store: 'sqlite:////${NOT_SET}.db'", {}, "NOT_SET is not set", False),
        ("model: x", {"STEPRELAY_CONFIG": "/no/such/file"}, "no such file", False),
    ],
    ids=["key", "server", "variable", "file"],
)
def test_each_thing_wrong_with_settings_is_a_problem_and_a_server_costs_only_itself(
    tmp_path: Path, text: str, environ: dict[str, str], words: str, goes_on: bool
) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    found: list[Finding] = []
    around = Surroundings(environ, tmp_path, None if environ else path)
    settings = look_at_settings(around, found.append)
    assert (settings is not None) == goes_on
    assert found[0].state == "problem"
    assert words in found[0].text
    assert found[0].way_out is not None
    if settings is not None:
        assert (settings.off, [server.name for server in settings.servers]) == (("a",), ["b"])


def test_settings_of_a_folder_that_nobody_trusts_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / "steprelay.yaml").write_text("model: x/y\n")
    [finding] = found_by(lambda say: look_at_settings(Surroundings({}, tmp_path), say))
    assert (finding.state, finding.way_out) == ("problem", "look at them, then trust them")
    assert "steprelay config trust" in finding.text


def test_without_settings_the_defaults_are_looked_at(tmp_path: Path) -> None:
    [finding] = found_by(lambda say: look_at_settings(Surroundings({}, tmp_path), say))
    assert (finding.state, finding.way_out) == ("warning", "steprelay init writes one")


async def test_a_store_that_opens_tells_where_it_is_and_the_room_beside_it(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    found = await storage.store(settings, World())
    assert states(found) == [("store", "ok"), ("disk", "ok")]
    assert found[0].text == f"{tmp_path / 'store.db'} opens, and locks work there"


@pytest.mark.parametrize("url", ["postgresql://h/db", "sqlite:////proc/no/such.db"])
async def test_a_store_that_can_not_be_opened_is_a_problem(tmp_path: Path, url: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(f"store: {url}\n")
    settings = load_settings(find_settings(path, environ={}, cwd=None), environ={})
    assert states(await storage.store(settings, World())) == [("store", "problem")]
    assert states(await tool_servers.tool_servers(settings, World())) == [("servers", "warning")]


@pytest.mark.parametrize(("mib", "state"), [(99, "problem"), (1000, "warning"), (2000, "ok")])
def test_a_disk_that_is_nearly_full_is_told(mib: int, state: str) -> None:
    finding = storage.room(Path("/x.db"), mib << 20)
    assert (finding.state, finding.way_out is None) == (state, state == "ok")


async def test_the_pages_port_is_free_or_taken_or_the_page_is_off(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    assert (await storage.page(settings)).text.endswith("of this machine is free for it")
    port = Place(tmp_path / "store.db").port()
    with socket.create_server(("127.0.0.1", port)) as other:
        rude = Thread(target=lambda: other.accept()[0].close())
        rude.start()
        taken = await storage.page(settings)
        rude.join()
    assert (taken.state, taken.text) == ("warning", f"port {port} belongs to another program")
    async with open_product(settings, world=World(), environ={}, adopts=False) as product, open_page(product) as place:
        assert place is not None
        served = await storage.page(settings)
        assert (served.state, served.text) == ("ok", f"another steprelay serves it on port {place.port()}")
    off = await storage.page(settings_of(tmp_path, "approvals: {page: off}"))
    assert (off.state, "it is off" in off.text) == ("ok", True)


async def test_a_state_folder_that_can_not_be_written_leaves_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    finding = await storage.page(settings_of(tmp_path))
    assert (finding.state, "there is none" in finding.text) == ("warning", True)


def test_each_waiver_is_named(tmp_path: Path) -> None:
    rules = "policy: {rules: [{deny: a.b}, {allow: web.fetch, tainted: allow}]}\nmcpServers: {web: {command: x}}"
    [finding] = storage.waivers(settings_of(tmp_path, rules))
    assert finding.state == "warning"
    assert finding.text.startswith("rules[1] (allow web.fetch, tainted: allow) lets private data leave")


def test_a_rule_that_wants_a_passkey_which_nobody_has_is_named(tmp_path: Path) -> None:
    rules = "policy: {rules: [{ask: web.fetch, via: passkey}]}\nmcpServers: {web: {command: x}}"
    [finding] = storage.passkeys(settings_of(tmp_path, rules))
    assert (finding.check, finding.state, "rules[0]: via: passkey" in finding.text) == ("policy", "warning", True)


def test_the_model_of_each_role_is_told(tmp_path: Path) -> None:
    text = "model: a/a\nmodels: {planner: b/b}\nworkers: [{name: w, description: d, model: c/c}]"
    found: list[Finding] = []
    chosen = models.choose(settings_of(tmp_path, text), {}, [], found.append)
    assert found == []
    assert chosen is not None
    assert chosen.roles == {"b/b": "planner", "a/a": "worker, answer", "c/c": "worker w"}


def test_a_model_that_was_looked_for_is_told_with_the_reason(tmp_path: Path) -> None:
    found: list[Finding] = []
    chosen = models.choose(settings_of(tmp_path), {}, [LocalModel(LLAMA, "m")], found.append)
    assert chosen is not None
    assert (chosen.roles, states(found)) == ({"openai/m": "planner, worker, answer"}, [("model", "ok")])
    every = "models: {planner: a/a, worker: b/b, answer: c/c}"
    assert found_by(lambda say: models.choose(settings_of(tmp_path, every), {}, [], say)) == []
    [none] = found_by(lambda say: models.choose(settings_of(tmp_path), {}, [], say))
    assert (none.state, none.way_out) == ("problem", "do one of the three")


@pytest.mark.parametrize(
    ("text", "state"),
    [("answer: x\n", "ok"), ("answers: x\n", "problem"), (None, "problem")],
    ids=["good", "bad", "gone"],
)
def test_a_script_is_read(tmp_path: Path, text: str | None, state: str) -> None:
    if text is not None:
        (tmp_path / "s.yaml").write_text(text)
    assert models.script(f"scripted:{tmp_path / 's.yaml'}").state == state


def chosen_as(model: str, api_base: str | None = None) -> models.Chosen:
    settings = ModelSettings.model_validate({"model": model, "options": {"api_base": api_base}})
    return models.Chosen(settings, {model: "planner"})


BIG, SMALL = LocalModel(OLLAMA, "q:latest", True, 32_768), LocalModel(OLLAMA, "old:7b", False, 4_096)


@pytest.mark.parametrize(
    ("chosen", "served", "expected"),
    [
        (None, [], []),
        (None, [LocalModel(LLAMA, "m")], [("ok", "llama.cpp serves m")]),
        (
            chosen_as("ollama_chat/q"),
            [BIG, SMALL],
            [("ok", "calls functions, 32,768 tokens"), ("ok", "num_ctx")],
        ),
        (chosen_as("ollama_chat/q", "http://localhost:11434"), [BIG], [("ok", "Ollama"), ("ok", "num_ctx")]),
        (chosen_as("ollama_chat/q", "http://elsewhere:11434"), [BIG], [("ok", "Ollama")]),
        (chosen_as("ollama_chat/gone"), [BIG], [("ok", "Ollama"), ("problem", "Ollama has no model gone")]),
        (
            chosen_as("ollama_chat/old:7b"),
            [SMALL],
            [("ok", "old:7b (calls no functions, 4,096"), ("warning", "too few"), ("ok", "num_ctx")],
        ),
        (chosen_as("ollama/q"), [], [("warning", "cuts long prompts")]),
        (chosen_as("openai/q", "127.0.0.1:11434/v1"), [], [("warning", "cuts long prompts")]),
        (chosen_as("openai/m", "http://127.0.0.1:8080/v1"), [LocalModel(LLAMA, "m")], [("ok", "llama.cpp")]),
        (chosen_as("openai/m"), [LocalModel(LLAMA, "m")], [("ok", "llama.cpp")]),
        (chosen_as("anthropic/c"), [], []),
    ],
)
def test_what_is_served_here_is_told_and_how_ollama_is_asked(
    chosen: models.Chosen | None, served: list[LocalModel], expected: list[tuple[str, str]]
) -> None:
    found = list(models.local(chosen, served))
    assert len(found) == len(expected)
    for finding, (state, words) in zip(found, expected, strict=True):
        assert finding.state == state
        assert words in finding.text


def saying(*replies: ModelReply | FailureKind, asked: list[ModelRequest] | None = None) -> Models:
    """Models that say these things one after the other, whatever they are asked."""
    left = list(replies)

    async def complete(model: str, request: ModelRequest) -> ModelReply:
        if asked is not None:
            asked.append(request)
        reply = left.pop(0)
        if isinstance(reply, str):
            raise ModelFailed(model, reply, "it went wrong")
        return reply

    async def rate_of(model: str) -> Rate | None:
        return FREE

    async def warm_up() -> None:
        return None

    return Models(complete, rate_of, warm_up)


@pytest.mark.parametrize(
    ("replies", "way", "state", "words"),
    [
        ((SAID,), "functions", "ok", "answers and calls functions (asked once: 100 tokens, "),
        ((PROSE, SAID), "functions", "ok", "(asked 2 times: 200 tokens"),
        ((WRITTEN,), "written", "ok", "writes its calls as text"),
        ((PROSE, PROSE, BARE), "schema", "warning", "gives JSON by schema"),
        ((BARE, BARE, BARE), "schema", "warning", "gives JSON by schema"),
        ((BROKEN, BROKEN, BROKEN, BARE), "text", "warning", "gives JSON in its text"),
        ((BROKEN, BROKEN, BARE), "schema", "warning", "gives JSON by schema"),
        (("bad_request", BARE), "schema", "warning", "gives JSON by schema"),
        (("bad_request", "bad_request", BARE), "text", "warning", "gives JSON in its text"),
        ((PROSE, PROSE, PROSE, BARE), "text", "warning", "gives JSON in its text"),
        ((PROSE, PROSE, PROSE, PROSE), None, "problem", "can neither plan nor work"),
        (("auth",), None, "problem", "model m: it went wrong"),
        (("bad_request",) * 3, None, "problem", "model m: it went wrong"),
        (("overload",), None, "problem", "model m: it went wrong"),
    ],
)
async def test_one_question_tells_how_a_model_can_be_asked(
    replies: tuple[Any, ...], way: str | None, state: str, words: str
) -> None:
    asked: list[ModelRequest] = []
    tried = await trial.try_out(saying(*replies, asked=asked), "m")
    assert (tried.way, len(asked)) == (way, len(replies))
    [finding] = trial.findings(tried, is_news=False)
    assert finding.state == state
    assert words in finding.text
    assert asked[0].functions
    assert asked[0].schema is None


async def test_what_works_is_remembered_for_runs_once(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        failed = await trial.try_out(saying("auth"), "m")
        able = await trial.try_out(saying(SAID), "m")
        by_schema = await trial.try_out(saying("bad_request", BARE), "m")
        by_text = await trial.try_out(saying("bad_request", "bad_request", BARE), "m")
        known = store.remembered
        news = [await trial.remember(known, each) for each in (failed, able, by_schema, by_schema, by_text, able)]
        assert news == [False, False, True, False, True, True]
        assert await remembered_rung(known, "m") == "text"
        [finding] = trial.findings(by_schema, is_news=True)
        assert "; runs begin so from now on (asked" in finding.text
        assert await known.all("worker") == {
            f"m litellm {installation.installed('litellm')[0]}": {"style": "functions"}
        }


async def test_the_first_question_is_small_and_its_price_is_told_before() -> None:
    tokens, rate = await trial.at_most(saying(), "m")
    assert 300 < tokens < 500
    assert trial.price_in_words(rate, tokens) == "for nothing"
    assert trial.price_in_words(None, tokens) == "at a price that nobody knows"
    assert trial.price_in_words(Rate(1.0, 10.0), 400) == "for at most $0.0040"
