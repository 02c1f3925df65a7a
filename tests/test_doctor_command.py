"""`steprelay doctor`: everything looked at in one go, with real servers and a real wire to a model."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import toys
from authorization_server import open_protected
from command_line import OWN, answered, called
from model_server import Rule, answer, call, on, planner, report, reviser, serve_model, worker

from server.checkup.course import check_up, first_look
from server.checkup.finding import Finding
from server.checkup.settings_found import Surroundings
from server.settings import find_settings, load_settings
from server.settings_file.local_models import LocalModel, LocalPlace

# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore")]
CALLS: list[Rule] = on({"tool_calls": [call("say_word", word="harbour")]}, role="host")
OPTIONS = {"api_key": "a key of nobody"}
NO_CALLS: list[Rule] = [
    *on({"text": "harbour"}, role="host"),
    *on({"json": {"word": "harbour"}, "name": "say_word"}, name=None, role="compose"),
]


def settings_with(folder: Path, **more: Any) -> str:
    path = folder / "steprelay.json"
    path.write_text(json.dumps({"store": f"sqlite:///{folder / 'store.db'}", **more}))
    return str(path)


def at(url: str, **options: Any) -> dict[str, Any]:
    return {"model": "openai/m", "model_options": {"api_base": f"{url}/v1", **options}}


def looked_at(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = called("doctor", "--json", *words)
    return code, json.loads(capsys.readouterr().out)


def of(found: dict[str, Any], check: str) -> list[tuple[str, str]]:
    return [(each["state"], each["text"]) for each in found["checks"] if each["check"] == check]


def test_where_all_is_well_each_thing_is_a_line_and_the_code_is_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = {"ledger": toys.entry(toys.ledger(tmp_path / "ledger.log"))}
    with serve_model(CALLS) as model:
        options = {"ledger": {"effects": {"*": "read"}}}
        config = settings_with(tmp_path, **at(model.url), mcpServers=servers, server_options=options)
        assert called("doctor", "--config", config) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "All is well."
    assert [line.partition(":")[0].split(maxsplit=1) for line in lines[:-1]] == [
        ["ok", "versions"],
        ["ok", "litellm"],
        ["ok", "settings"],
        ["ok", "store"],
        ["ok", "disk"],
        ["ok", "model"],
        ["ok", "model call"],
        ["ok", "server ledger"],
        ["ok", "page"],
    ]
    asked, answered = lines[5:7]
    assert asked.startswith("ok       model: openai/m (planner, worker, answer) is now asked a question of at most 3")
    assert asked.endswith("for nothing")
    assert "openai/m answers and calls functions (asked once: " in answered
    [request] = model.requests
    assert (request.functions, request.body["max_tokens"]) == (("say_word",), 300)


def test_what_can_be_better_is_a_warning_with_the_way_out_and_the_code_is_still_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    box = toys.entry(toys.bad("change", tmp_path / "starts"))
    servers: dict[str, dict[str, Any]] = {
        "ledger": toys.entry(toys.ledger(tmp_path / "ledger.log")),
        "off": {"command": "x", "disabled": True},
        "box": box,
    }
    more: dict[str, Any] = {
        "mcpServers": servers,
        "server_options": {"ledger": {"effects": {"*": "unknown"}}},
        "policy": {"rules": [{"allow": "box.look_up", "tainted": "allow"}]},
    }
    with open_protected() as protected, serve_model(NO_CALLS) as model:
        servers["vault"] = protected.entry()
        config = settings_with(tmp_path, **at(model.url), **more)
        # The second look finds that a tool has changed since the first.
        looked_at(capsys, "--config", config, "--no-model")
        code, found = looked_at(capsys, "--config", config)
        assert called("doctor", "--config", config, "--no-model") == 0
    said = capsys.readouterr().out
    assert (code, found["state"]) == (0, "warning")
    [(state, text)] = of(found, "model call")
    assert (state, "runs begin so from now on (asked 3 times" in text) == ("warning", True)
    assert of(found, "server vault") == [("warning", "nobody is logged in")]
    assert of(found, "server off") == [("ok", "it is off")]
    assert of(found, "policy")[0][0] == "warning"
    assert "in quarantine, for they changed: box." in of(found, "server box")[1][1]
    [_, (_, unknown)] = of(found, "server ledger")
    assert unknown.startswith("nobody says what these do, so that a person is asked at each call: ledger.")
    assert " more" in unknown
    assert "→ steprelay servers login vault\n" in said
    assert "ok       model: openai/m (planner, worker, answer) is not asked\n" in said
    assert said.splitlines()[-1] == "0 problems, 4 warnings."


def test_what_is_broken_is_a_problem_and_the_code_is_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = "sk-a-very-secret-key"
    odd: dict[str, Any] = {"command": "x", "argz": []}
    servers: dict[str, Any] = {"gone": {"command": "no-such-command"}, "odd": odd}
    with serve_model(on({"status": 401, "error": f"{key} is no key"})) as model:
        config = settings_with(tmp_path, **at(model.url, api_key=key), mcpServers=servers)
        code, found = looked_at(capsys, "--config", config)
    assert (code, found["state"]) == (3, "problem")
    assert [state for state, _ in of(found, "model call")] == ["problem"]
    assert "no-such-command" in of(found, "server gone")[0][1]
    assert "argz" in of(found, "settings")[0][1]
    assert key not in json.dumps(found)
    assert called("doctor", "--config", str(tmp_path / "none.yaml")) == 3
    assert "1 problem, 0 warnings." in capsys.readouterr().out


def test_a_store_that_can_not_be_opened_ends_no_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    servers = {"ledger": toys.entry(toys.ledger(tmp_path / "ledger.log"))}
    with serve_model(CALLS) as model:
        config = settings_with(tmp_path, **at(model.url), mcpServers=servers)
        whole = json.loads(Path(config).read_text()) | {"store": "sqlite:////proc/no/store.db"}
        Path(config).write_text(json.dumps(whole))
        code, found = looked_at(capsys, "--config", config)
    assert code == 3
    assert [of(found, check)[-1][0] for check in ("store", "model call", "servers")] == ["problem", "ok", "problem"]


def test_a_model_without_a_price_is_a_problem_where_a_limit_is_set_and_is_not_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = settings_with(tmp_path, model="openai/nobodys", model_options=OPTIONS, budget={"usd": 1.0})
    code, found = looked_at(capsys, "--config", config)
    assert code == 3
    [(state, text)] = of(found, "model")
    assert state == "problem"
    assert "has no price that is known, so that budget.usd can't be kept; it is not asked" in text
    assert of(found, "model call") == []


def test_without_a_key_its_variable_is_named_and_nothing_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    with serve_model(CALLS) as model:
        # Where it would be asked, were it asked.
        monkeypatch.setenv("HTTPS_PROXY", model.url)
        code, found = looked_at(capsys, "--config", settings_with(tmp_path, model="mistral/m"))
    said = "mistral/m (planner, worker, answer) has no key: MISTRAL_API_KEY is not set; it is not asked"
    assert (code, of(found, "model"), of(found, "model call")) == (3, [("problem", said)], [])
    assert model.requests == []


def test_a_model_whose_settings_lack_a_variable_is_not_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve_model(CALLS) as model:
        config = settings_with(tmp_path, **at(model.url, api_key="${NO_SUCH_KEY}"))
        code, found = looked_at(capsys, "--config", config)
    [(state, text)] = of(found, "model")
    assert (code, state, model.requests) == (3, "warning", [])
    assert "is not asked: " in text
    assert "variable NO_SUCH_KEY is not set" in text


def test_a_script_is_no_model_to_ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script.yaml").write_text("answer: x\n")
    code, found = looked_at(capsys, "--config", settings_with(tmp_path, model="scripted:script.yaml"))
    assert code == 0
    assert of(found, "model") == [
        ("ok", f"scripted:{tmp_path / 'script.yaml'} follows its script, whatever it is asked")
    ]
    assert of(found, "model call") == []


async def test_a_model_that_is_served_here_is_used_without_a_key(tmp_path: Path) -> None:
    found: list[Finding] = []
    with serve_model(CALLS) as model:
        place = LocalPlace("llama.cpp", int(model.url.rpartition(":")[2]))
        around = Surroundings({}, tmp_path, Path(settings_with(tmp_path)))
        settings = first_look(around, found.append)
        assert settings is not None
        await check_up(settings, around, found.append, probe=lambda: [LocalModel(place, "m")])
    texts = [finding.text for finding in found if finding.check in ("model", "local models", "model call")]
    assert [text.partition(" (")[0] for text in texts] == [
        "the settings name no model, so openai/m is used, from llama.cpp on this machine; `model:` in the settings "
        "decides",
        "llama.cpp serves m",
        "openai/m",
        "openai/m answers and calls functions",
    ]


async def test_nothing_is_asked_where_there_is_no_model(tmp_path: Path) -> None:
    found: list[Finding] = []
    around = Surroundings({}, tmp_path)
    settings = load_settings(find_settings(Path(settings_with(tmp_path)), environ={}, cwd=None), environ={})
    await check_up(settings, around, found.append, probe=list)
    assert [finding.state for finding in found if finding.check == "model"] == ["problem"]


def test_runs_begin_in_the_way_that_was_found_to_work(tmp_path: Path) -> None:
    step = {"id": "study", "kind": "worker", "worker": "researcher", "title": "T", "task": "Look."}
    rules = [*NO_CALLS, *planner([step]), *worker("study", (), report("Nothing.", status="blocked"))]
    rules += [*reviser([{"decision": "finish"}]), *answer("None.")]
    with serve_model(rules) as model:
        config = settings_with(tmp_path, **at(model.url))
        assert answered("doctor", "--config", config, cwd=tmp_path).returncode == 0
        asked = len(model.requests)
        assert answered("run", "look", "--config", config, "--json", cwd=tmp_path).returncode == 4
        first = next(each for each in model.requests[asked:] if each.role == "worker")
    assert (first.schema_name, first.functions) == ("next_action", ())


def test_a_compromised_litellm_is_never_imported(tmp_path: Path) -> None:
    info = tmp_path / "path" / "litellm-1.107.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: litellm\nVersion: 1.107.0\n")
    (tmp_path / "path" / "litellm.py").write_text("import os\nos._exit(99)\n")
    config = settings_with(tmp_path, model="openai/m")
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path / "path"), os.environ.get("PYTHONPATH", "")))}
    command = [*OWN, "doctor", "--config", config]
    ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 3, ended.stderr
    assert "problem  litellm: release 1.107.0 was compromised" in ended.stdout
    assert "openai/m (planner, worker, answer) is not asked" in ended.stdout
    assert sys.executable == OWN[0]
