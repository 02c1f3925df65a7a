"""Settings that can't be used: every call and command says file, line and fix, nothing is run, and nothing is lost."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from bad_input import LOOK, check_words
from command_line import open_terminal, steprelay
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_hosts import STEPRELAY, Era, open_host, open_stdio_host, serve, text_of
from products import STATE_KEY, open_test_product, script, write_settings

from server.host.mcp_server import build_host_server
from server.product import Product
from server.settings import Found, load_settings, trust_file

ERAS: list[Era] = ["legacy", "modern"]
GOAL = "Say when it ships."
CALLS: dict[str, dict[str, Any]] = {
    "plan_and_execute": {"goal": GOAL},
    "approve_action": {"action_id": "a_x", "decision": "approve"},
    "get_run": {"run_id": "r_x"},
    "list_runs": {},
    "cancel_run": {"run_id": "r_x"},
    "panel_state": {"run_id": "r_x", "view_key": "k"},
    "panel_decide": {"run_id": "r_x", "view_key": "k", "action_id": "a_x", "choice": "approve", "digest": "d"},
    "panel_edit": {"run_id": "r_x", "view_key": "k", "action_id": "a_x", "digest": "d", "arguments": "{}"},
    "panel_class": {"run_id": "r_x", "view_key": "k", "tool": "t", "pin": "p", "tool_class": "read"},
}
BROKEN: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "YAML that does not parse": ("s.yaml", "model: m\nbudget: {steps: 3\nrevise: never", (":3: not YAML",)),
    "JSON that does not parse": ("s.json", '{"model": "m",\n "budget" {}}', (":2: a colon must follow the key",)),
    "a duplicate key": ("s.yaml", "model: a\nbudget: {}\nmodel: b\n", (":3: model stands twice; keep one",)),
    "a duplicate key in JSON": (
        "s.json",
        '{"budget": {"steps": 1,\n"steps": 2}}',
        (":2: budget.steps stands twice; keep one",),
    ),
    "an unknown key": ("s.yaml", "model: m\nbudgt: {}\n", (":2: unknown key 'budgt'", "did you mean 'budget'?")),
    "an unknown key inside": (
        "s.yaml",
        "budget:\n  steps: 3\n  tokns: 1\n",
        (":3: unknown key 'tokns' in budget", "did you mean 'tokens'?"),
    ),
    "an unset variable": (
        "s.yaml",
        "model: m\nmodel_options:\n  api_key: ${NO_SUCH_VARIABLE_1}\n",
        (":3: model_options.api_key: variable NO_SUCH_VARIABLE_1 is not set", "${NO_SUCH_VARIABLE_1:-default}"),
    ),
    "a policy that is too wide": (
        "s.yaml",
        'policy:\n  rules:\n    - {allow: "*"}\n',
        (":3: policy.rules[0]: allow", "name the server, as in fs.read_*"),
    ),
    "a value out of range": ("s.yaml", "budget: {steps: 0}\n", (":1: budget.steps: must be greater",)),
    "no map": ("s.yaml", "- model\n", (":1: settings are a map of keys",)),
    "several at once": ("s.yaml", "modle: m\nrevise: often\n", (":1: unknown key 'modle'", ":2: revise: must be")),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("name", "text", "told"), BROKEN.values(), ids=BROKEN.keys())
async def test_every_call_of_a_host_is_told_file_line_and_fix(
    tmp_path: Path, era: Era, name: str, text: str, told: tuple[str, ...]
) -> None:
    path = tmp_path / name
    path.write_text(text)

    async def ready() -> Product:
        load_settings(Found(path, "option"), environ=os.environ, lenient=True)
        raise AssertionError("these settings hold")

    with anyio.fail_after(20):
        async with open_host(build_host_server(ready, state_key=STATE_KEY), era=era) as host:
            assert len((await host.client.list_tools()).tools) == len(CALLS)
            for tool, arguments in CALLS.items():
                result = await host.call(tool, arguments, within=5)
                assert (result.is_error, result.structured_content) == (True, None)
                check_words(text_of(result), str(path), *told)


@pytest.mark.e2e
@pytest.mark.parametrize(("name", "text", "told"), BROKEN.values(), ids=BROKEN.keys())
def test_a_command_exits_3_and_tells_file_line_and_fix(
    tmp_path: Path, name: str, text: str, told: tuple[str, ...]
) -> None:
    (tmp_path / name).write_text(text)
    ended = steprelay("run", GOAL, "--config", name, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (3, "")
    check_words(ended.stderr, str(tmp_path / name), *told)


@pytest.mark.e2e
@pytest.mark.parametrize("how", ["--config", "$STEPRELAY_CONFIG"])
def test_a_named_file_that_is_not_there_is_told_with_what_names_it(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--config", "gone.yaml"] if how == "--config" else []
    monkeypatch.setenv("STEPRELAY_CONFIG", "gone.yaml")
    ended = steprelay("run", GOAL, *words, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (3, "")
    check_words(ended.stderr, f"{tmp_path / 'gone.yaml'}: no such file, though {how} names it", "correct the path")


@pytest.mark.e2e
@pytest.mark.parametrize("era", ERAS)
async def test_serve_answers_with_what_is_wrong_and_once_mended_has_every_run_again(tmp_path: Path, era: Era) -> None:
    with anyio.fail_after(60):
        async with open_test_product(tmp_path, script=script(LOOK)) as (_, server), open_host(server) as host:
            view = await host.structured("plan_and_execute", {"goal": GOAL})
        config = tmp_path / "steprelay.json"
        whole = config.read_text()
        config.write_text(whole.replace('"model"', '"modle"', 1))
        async with open_stdio_host(serve(config), era=era) as host:
            result = await host.call("list_runs", within=20)
            assert result.is_error
            check_words(text_of(result), f"{config}:1: unknown key 'modle'", "did you mean 'model'?")
            assert text_of(result) in host.stderr()
        config.write_text(whole)
        async with open_stdio_host(serve(config), era=era) as host:
            (listed,) = (await host.structured("list_runs", within=20))["runs"]
    assert (listed["run_id"], listed["status"]) == (view["run_id"], "succeeded")


@pytest.mark.parametrize("era", ERAS)
async def test_without_a_model_no_run_begins_and_the_three_ways_to_get_one_are_told(tmp_path: Path, era: Era) -> None:
    with anyio.fail_after(40):
        async with (
            open_test_product(tmp_path, script={}, settings={"model": None}) as (_, server),
            open_host(server, era=era) as host,
        ):
            result = await host.call("plan_and_execute", {"goal": GOAL}, within=20)
            assert result.is_error
            check_words(text_of(result), "three ways to get one", "ANTHROPIC_API_KEY", "scripted:FILE")
            assert await host.structured("list_runs") == {"runs": []}


@pytest.mark.e2e
async def test_a_script_that_does_not_parse_ends_the_run_with_file_and_line(tmp_path: Path) -> None:
    config = write_settings(tmp_path, script={})
    (tmp_path / "script.json").write_text("plan: [\nanswer: x")
    ended = steprelay("run", GOAL, "--config", str(config), cwd=tmp_path)
    assert ended.returncode == 4
    check_words(ended.stdout, f"scripted model {tmp_path}/script.json, line 2: not YAML", "failed (error)")


def _project(folder: Path) -> Path:
    """Settings in a working folder whose tool server leaves a mark when it is started."""
    project = folder / "project"
    project.mkdir()
    (project / "script.json").write_text(
        json.dumps(script({"id": "a", "kind": "compose", "title": "A", "task": "Do."}, steps={"a": {"text": "hi"}}))
    )
    (project / "steprelay.yaml").write_text(
        'model: "scripted:script.json"\n'
        "mcpServers:\n"
        '  mark: {command: touch, args: ["started"], env: {MARK_TOKEN: "${MARK_TOKEN:-of-tests}"}}\n'
        '  far: {url: "http://127.0.0.1:9/mcp", headers: {Authorization: "Bearer ${FAR_TOKEN:-of-tests}"}}\n'
    )
    return project


@pytest.mark.e2e
def test_a_project_file_is_named_and_not_used_until_it_is_trusted_and_again_once_it_changed(tmp_path: Path) -> None:
    project = _project(tmp_path)
    started, file = project / "started", project / "steprelay.yaml"
    words = (f"{file}: these settings", "not trusted", f"steprelay config trust {file}")
    for command in (("run", GOAL), ("plan", GOAL), ("runs", "list")):
        refused = steprelay(*command, cwd=project)
        assert (refused.returncode, refused.stdout, started.exists()) == (3, "", False)
        check_words(refused.stderr, *words)
    shown = steprelay("config", "trust", cwd=project, stdin="y\n")
    assert (shown.returncode, "is not trusted: that takes a person's yes" in shown.stderr) == (2, True)
    hash_ = shown.stdout.rpartition("sha256: ")[2].strip()
    assert shown.stderr.endswith(f"steprelay config trust {file} --sha256 {hash_}\n")
    assert steprelay("runs", "list", cwd=project).returncode == 3
    trusted = steprelay("config", "trust", "--sha256", hash_, cwd=project)
    assert (trusted.returncode, started.exists()) == (0, False)
    check_words(
        trusted.stdout,
        *(str(file), "server mark: runs touch started", "MARK_TOKEN=${MARK_TOKEN:-of-tests}"),
        *("server far: connects to http://127.0.0.1:9/mcp with headers Authorization",),
        *("variables: FAR_TOKEN, MARK_TOKEN", "Trusted, until it is changed."),
    )
    used = steprelay("run", GOAL, cwd=project)
    assert (used.returncode, started.exists()) == (0, True), used.stderr
    check_words(used.stdout, "succeeded: 1 of 1 step", "tool server 'mark' is left out")
    started.unlink()
    with file.open("a") as text:
        text.write("# changed\n")
    changed = steprelay("run", GOAL, cwd=project)
    assert (changed.returncode, changed.stdout, started.exists()) == (3, "", False)
    check_words(changed.stderr, *words, "or were changed since")


@pytest.mark.e2e
async def test_serve_never_reads_the_working_folder(tmp_path: Path) -> None:
    project = _project(tmp_path)
    trust_file(project / "steprelay.yaml")
    env = {name: value for name, value in os.environ.items() if name.startswith(("XDG_", "COVERAGE_"))}
    command = StdioServerParameters(command=str(STEPRELAY), args=["serve"], cwd=project, env=env)
    with anyio.fail_after(40):
        async with open_host(stdio_client(command)) as host:
            result = await host.call("plan_and_execute", {"goal": GOAL}, within=20)
    assert (result.is_error, (project / "started").exists()) == (True, False)
    check_words(text_of(result), "three ways to get one")


@pytest.mark.e2e
def test_a_person_who_says_no_to_a_project_file_leaves_it_untrusted(tmp_path: Path) -> None:
    project = _project(tmp_path)
    with open_terminal("config", "trust", cwd=project) as terminal:
        terminal.expect("Trust it? [y/N] ")
        terminal.send("\n")
        assert terminal.end() == 7
    assert "Not trusted." in terminal.seen
    assert steprelay("runs", "list", cwd=project).returncode == 3
