"""Settings that load: what each key becomes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from journal.settings import NotBuiltYet, Secret, local_engine, sqlite_path, state_folder
from journal.values import Json
from server.settings import Found, Settings, load_settings


def load(folder: Path, text: str, *, name: str = "steprelay.yaml", environ: dict[str, str] | None = None) -> Settings:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load_settings(Found(path, "option"), environ=environ or {})


def test_the_documented_sample_loads_whole(tmp_path: Path) -> None:
    text = """
model: anthropic/claude-sonnet-4-6        # any litellm name; or scripted:FILE
models: {planner: "p", worker: "w", answer: "a", fallbacks: ["f"]}
model_options: {api_base: "https://x.example", api_key: "${KEY}", timeout: 120, reasoning_effort: low,
                price: {input_per_million: 1.0, output_per_million: 4.0}}
mcpServers: {fs: {command: npx, args: ["-y", "@modelcontextprotocol/server-filesystem", "."]}}
server_options: {fs: {trust: annotations, private: true, effects: {"write_*": write}, max_parallel: 4, call_timeout: 60,
                      start_timeout: 30, session: shared,
                      tools: {"*": {cache: true, idempotent: false, idempotency_key: null, reconcile: null}}}}
workers: [{name: researcher, description: "…", instructions: "…", tools: ["fs.read_*"], model: "…",
           limits: {turns: 12, tool_calls: 20}}]
policy: {rules: [{deny: "*.delete_*"}, {ask: bank.send, via: person, when: {/amount: {gt: 100}}}, {allow: "fs.read_*"}],
         defaults: {write: ask}, sinks: {mail.send: [/to, /cc]}}
approvals: {approve_action: host, page: auto, pending_hours: 24, min_answer_seconds: 1.5}
budget: {steps: 20, revisions: 3, retries: 1, parallel: 8, model_calls: 80, tool_calls: 120, tokens: 600000, usd: 2.0,
         usd_day: 10.0, seconds: 1800}
store: sqlite:////absolute/path.db        # or postgresql://…
revise: on_trigger                        # always | never
engine: {local: {runs: 16}}
secrets: [MY_TOKEN_VARIABLE]
"""
    settings = load(tmp_path, text, environ={"KEY": "sk-12345678", "MY_TOKEN_VARIABLE": "abcdefgh"})
    server = settings.servers[0]
    assert (server.name, server.transport, server.cwd, server.options.private) == ("fs", "stdio", tmp_path, True)
    assert settings.secrets == (Secret("KEY", "sk-12345678"), Secret("MY_TOKEN_VARIABLE", "abcdefgh"))
    assert [worker.name for worker in settings.workers] == ["researcher", "reviewer"]
    assert [(rule.verb, rule.tool) for rule in settings.policy.rules][1] == ("ask", "bank.send")
    assert settings.policy.rules[1].when["/amount"].conditions == {"gt": 100}
    assert (settings.budget.usd_is_written, settings.workers[0].name) == (True, "researcher")
    assert sqlite_path(settings.store) == Path("/absolute/path.db")
    assert settings.warnings == (
        "policy.rules[1] names server 'bank', which is not in mcpServers; known are fs",
        "policy.sinks names server 'mail', which is not in mcpServers; known are fs",
    )
    assert "sk-12345678" not in repr(settings) + repr(settings.secrets)


def test_no_file_means_defaults_and_the_built_in_workers() -> None:
    settings = load_settings(Found(None, "defaults"), environ={})
    classes = {worker.name: worker.classes for worker in settings.workers}
    assert classes == {"researcher": {"read", "egress"}, "operator": None, "writer": None, "reviewer": {"read"}}
    assert {worker.name: worker.tools for worker in settings.workers}["writer"] == ()
    assert (settings.servers, settings.has_own_workers, settings.budget.usd_is_written) == ((), False, False)
    assert sqlite_path(settings.store) == state_folder() / "steprelay.db"
    assert local_engine(settings.engine).runs == 16


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"command": "x"}, "stdio"),
        ({"type": "stdio", "command": "x", "url": "https://x.example"}, "stdio"),
        ({"url": "https://x.example/mcp"}, "http"),
        ({"type": "http", "url": "https://x.example"}, "http"),
        ({"type": "streamable-http", "url": "https://x.example"}, "http"),
        ({"transport": "streamableHttp", "url": "https://x.example"}, "http"),
        ({"type": "sse", "url": "https://x.example"}, "sse"),
    ],
    ids=json.dumps,
)
def test_a_transport_is_read_as_hosts_write_it(tmp_path: Path, entry: Json, transport: str) -> None:
    settings = load(tmp_path, json.dumps({"servers": {"a": entry}}), name="settings.json")
    assert [server.transport for server in settings.servers] == [transport]


def test_json_may_hold_comments_and_trailing_commas(tmp_path: Path) -> None:
    text = '// ours\n{"mcpServers": {"a": {"command": "x", /* why */ "args": ["http://y", "/*", 8080,],},},}\n'
    assert load(tmp_path, text, name="config.jsonc").servers[0].args == ("http://y", "/*", "8080")
    assert load(tmp_path, text, name="config").servers[0].command == "x"


def test_yaml_texts_stay_texts(tmp_path: Path) -> None:
    text = "\ufeffworkers: [{name: no, description: 2026-01-01, instructions: on}, {name: '12', description: 1_000}]\n"
    workers = load(tmp_path, text).workers
    assert [(each.name, each.description, each.instructions) for each in workers[:2]] == [
        ("no", "2026-01-01", "on"),
        ("12", "1_000", ""),
    ]


def test_yaml_numbers_are_those_of_the_core_schema(tmp_path: Path) -> None:
    budget = load(
        tmp_path, "budget: {steps: 0x10, tokens: 0o20, tool_calls: +7, usd: .5, seconds: 1e2}\nmodel: ~\n"
    ).budget
    assert (budget.steps, budget.tokens, budget.tool_calls, budget.usd, budget.seconds) == (16, 16, 7, 0.5, 100.0)


def test_variables_are_expanded_after_parsing(tmp_path: Path) -> None:
    text = """
mcpServers:
  a:
    command: ${TOOL}
    args: ["--x=${A}-${env:B}", "${C:-d: e}", "${EMPTY:-f}", "$${KEPT}", "$5 ${#no}"]
    env: {PORT: 8080}
"""
    environ = {"TOOL": "t", "A": '"}, evil: {"', "B": "b", "EMPTY": ""}
    server = load(tmp_path, text, environ=environ).servers[0]
    assert server.command == "t"
    assert server.args == ('--x="}, evil: {"-b', "d: e", "f", "${KEPT}", "$5 ${#no}")
    assert server.env == {"PORT": "8080"}


def test_secrets_are_found_where_they_are_used(tmp_path: Path) -> None:
    text = """
mcpServers:
  a:
    command: x
    args: ["${PLAIN}", "${MY_PASSWORD}"]
    env: {HOME_PAGE: "${PLAIN}", API_TOKEN: "${ANY}", B_SECRET: written-out, C_KEY: "${UNSET:-default-value}"}
  b:
    url: https://x.example/
    headers: {X-Trace: "${TRACE}", Authorization: Bearer abcdefgh}
"""
    environ = {"PLAIN": "plain-value", "MY_PASSWORD": "pass-value", "ANY": "any-value", "TRACE": "trace-value"}
    environ |= {"OPENAI_API_KEY": "sk-openai"}
    assert {(secret.name, secret.value) for secret in load(tmp_path, text, environ=environ).secrets} == {
        ("MY_PASSWORD", "pass-value"),
        ("ANY", "any-value"),
        ("B_SECRET", "written-out"),
        ("TRACE", "trace-value"),
        ("Authorization", "abcdefgh"),
        ("OPENAI_API_KEY", "sk-openai"),
    }


def test_an_env_file_is_read_and_env_goes_first(tmp_path: Path) -> None:
    (tmp_path / "my.env").write_text("# c\n\nexport A=1 # one\nB='two # 2'\nC_TOKEN=\"three three\"\nD=file\n")
    settings = load(tmp_path, "mcpServers: {a: {command: x, envFile: my.env, env: {D: own}}}")
    assert settings.servers[0].env == {"A": "1", "B": "two # 2", "C_TOKEN": "three three", "D": "own"}
    assert settings.secrets == (Secret("C_TOKEN", "three three"),)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    text = """
model: scripted:scripts/../plan.yaml
models: {planner: "scripted:/abs.yaml", fallbacks: ["scripted:b.yaml"]}
workers: [{name: a, model: "scripted:c.yaml"}]
mcpServers: {a: {command: ./bin/server}, b: {command: x, cwd: sub}}
policy: {rules: [{allow: a.read, when: {/path: {path_under: data}}}]}
"""
    settings = load(tmp_path, text)
    assert settings.model.model == f"scripted:{tmp_path}/plan.yaml"
    assert (settings.model.models.planner, settings.model.fallbacks) == (
        "scripted:/abs.yaml",
        (f"scripted:{tmp_path}/b.yaml",),
    )
    assert settings.workers[0].model == f"scripted:{tmp_path}/c.yaml"
    assert [(server.command, server.cwd) for server in settings.servers] == [
        (f"{tmp_path}/bin/server", tmp_path),
        ("x", tmp_path / "sub"),
    ]
    assert settings.policy.rules[0].when["/path"].path_under == f"{tmp_path}/data"


def test_server_names_are_normalised_everywhere(tmp_path: Path) -> None:
    text = """
mcpServers: {My_Server: {command: x}}
server_options: {my server: {private: true}}
policy: {rules: [{allow: mcp__My_Server__read}, {deny: My Server/write}]}
"""
    settings = load(tmp_path, text)
    assert [(server.name, server.options.private) for server in settings.servers] == [("my-server", True)]
    assert [rule.tool for rule in settings.policy.rules] == ["my-server.read", "my-server.write"]
    assert settings.warnings == ()


def test_a_disabled_server_needs_no_variables(tmp_path: Path) -> None:
    settings = load(tmp_path, "mcpServers: {A: {url: '${URL}', disabled: true}}\nserver_options: {a: {private: true}}")
    assert (settings.servers, settings.off, settings.warnings) == ((), ("a",), ())


def test_keys_of_hosts_are_left_out_with_a_warning(tmp_path: Path) -> None:
    settings = load(tmp_path, "mcpServers: {a: {command: x, autoApprove: [y], description: z}}")
    assert settings.warnings == ("server 'a': autoApprove, description is for hosts and has no effect here",)


@pytest.mark.parametrize(
    ("entry", "is_left_out"),
    [
        ({"command": "steprelay", "args": ["serve"]}, True),
        ({"command": "uvx", "args": ["steprelay@0.1.0", "serve", "--config", "x"]}, True),
        ({"command": "/opt/bin/steprelay", "args": ["--config", "x", "serve"]}, True),
        ({"command": "sh", "args": ["-c", "exec steprelay serve"]}, True),
        ({"command": "steprelay", "args": ["tool-server", "notes", "serve"]}, False),
        ({"command": "my-steprelay", "args": ["serve"]}, False),
        ({"command": "npx", "args": ["serve", "steprelay"]}, False),
    ],
    ids=json.dumps,
)
def test_steprelay_never_becomes_its_own_server(tmp_path: Path, entry: Json, is_left_out: bool) -> None:
    settings = load(tmp_path, json.dumps({"mcpServers": {"a": entry}}), name="s.json")
    assert (settings.off, bool(settings.warnings)) == ((("a",), True) if is_left_out else ((), False))


def test_a_host_timeout_counts_unless_our_own_is_written(tmp_path: Path) -> None:
    text = "mcpServers: {a: {command: x, timeout: 5000}, b: {command: x, timeout: 5000}, c: {command: x}}\n"
    servers = load(tmp_path, text + "server_options: {b: {call_timeout: 7}}").servers
    assert [server.call_timeout for server in servers] == [5.0, 7.0, 60.0]


def test_tool_options_take_the_closest_name(tmp_path: Path) -> None:
    text = """
mcpServers: {a: {command: x}}
server_options: {a: {tools: {"*": {cache: false}, "read_*": {idempotent: true}, read_me: {idempotency_key: k}}}}
"""
    options = load(tmp_path, text).servers[0].options
    assert [options.for_tool(name).cache for name in ("write", "read_x")] == [False, True]
    assert options.for_tool("read_me").idempotency_key == "k"


@pytest.mark.parametrize(
    ("role", "model"),
    [("planner", "p"), ("reviser", "p"), ("worker", "w"), ("reviewer", "w"), ("compose", "w"), ("answer", "m")],
)
def test_each_role_has_its_model(tmp_path: Path, role: Json, model: str) -> None:
    assert load(tmp_path, "model: m\nmodels: {planner: p, worker: w}").model.for_role(role) == model


def test_what_is_not_built_says_so_where_it_is_used(tmp_path: Path) -> None:
    settings = load(tmp_path, "store: postgresql://h/db\nengine: {temporal: {address: a:1}}")
    assert settings.engine.kind == "temporal"
    with pytest.raises(NotBuiltYet, match=r"postgresql:// is not built yet .* use sqlite:"):
        sqlite_path(settings.store)
    with pytest.raises(NotBuiltYet, match=r"temporal is not built yet .* use engine"):
        local_engine(settings.engine)


def test_the_state_folder_is_private() -> None:
    folder = state_folder()
    folder.chmod(0o755)
    assert (state_folder().stat().st_mode & 0o777, folder.name) == (0o700, "steprelay")


FINGERPRINTED = "mcpServers: {a: {command: x, env: {A: '${A}'}}}\npolicy: {rules: [{deny: a.b}]}\n"


@pytest.mark.parametrize(
    ("text", "environ", "is_same"),
    [
        (FINGERPRINTED + "# a comment", {"A": "1"}, True),
        (FINGERPRINTED, {"A": "2"}, True),
        (FINGERPRINTED + "model: m", {"A": "1"}, True),
        (FINGERPRINTED + "retention: {days: 7}", {"A": "1"}, True),
        (FINGERPRINTED + "workers: [{name: w}]", {"A": "1"}, False),
        (FINGERPRINTED.replace("${A}", "${B:-}"), {"A": "1"}, False),
        (FINGERPRINTED.replace("a.b", "a.c"), {"A": "1"}, False),
        (FINGERPRINTED + "server_options: {a: {private: true}}", {"A": "1"}, False),
    ],
    ids=["comment", "value", "model", "retention", "worker", "variable", "policy", "options"],
)
def test_the_fingerprint_covers_servers_workers_and_policy(
    tmp_path: Path, text: str, environ: dict[str, str], is_same: bool
) -> None:
    first = load(tmp_path, FINGERPRINTED, environ={"A": "1"}).fingerprint
    assert (load(tmp_path, text, environ=environ).fingerprint == first) is is_same


def test_the_fingerprint_covers_the_path(tmp_path: Path) -> None:
    assert load(tmp_path, "{}", name="a.yaml").fingerprint != load(tmp_path, "{}", name="b.yaml").fingerprint


def test_loading_settings_imports_nothing_heavy() -> None:
    heavy = ("mcp", "litellm", "rich", "jsonschema", "typer")
    code = f"import sys, server.settings; print([name for name in {heavy!r} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert shown.stdout == "[]\n"
