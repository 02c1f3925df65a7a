"""Settings that do not load: each mistake is named with its line and the way out, all at once, and no secret shows."""

from pathlib import Path

import pytest

from server.settings import Found, Settings, SettingsError, load_settings


def load(path: Path, text: str, *, environ: dict[str, str] | None = None, lenient: bool = False) -> Settings:
    path.write_text(text, encoding="utf-8")
    return load_settings(Found(path, "option"), environ=environ or {}, lenient=lenient)


def problems(path: Path, text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(path, text)
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


RULE = "policy:\n  rules:\n    - {deny: a.b}\n    - "
SERVER = "mcpServers:\n  gh:\n    command: x\n    "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model: m\n\nbudgt: {}\n", "3: unknown key 'budgt'; did you mean 'budget'?"),
        ("budget:\n  steps: 3\n  tokns: 1\n", "3: unknown key 'tokns' in budget; did you mean 'tokens'?"),
        ("model: a\nmodels: {}\nmodel: b\n", "3: model stands twice; keep one"),
        (SERVER + "comand: y", "4: unknown key 'comand' in mcpServers.gh; did you mean 'command'?"),
        (SERVER + "env:\n      T: a-secret\n      T: b-secret\n", "6: mcpServers.gh.env.T stands twice; keep one"),
        (
            "server_options:\n  gh: {privat: true}\nmcpServers: {gh: {command: x}}",
            "2: unknown key 'privat' in server_options.gh; did you mean 'private'?",
        ),
        (
            "mcpServers: {github: {command: x}}\nserver_options:\n  githb: {}",
            "3: server_options names 'githb', which is not in mcpServers; did you mean 'github'?",
        ),
        (
            "model_options: {temperature: 0}",
            "1: unknown key 'temperature' in model_options; known are api_base, api_key, price, "
            "reasoning_effort, timeout",
        ),
        (
            "workers:\n  - name: a\n  - name: b\n    classes: [read]\n",
            "4: unknown key 'classes' in workers[1]; known are description, disallowed_tools, instructions, "
            "limits, model, name, tools",
        ),
        ("workers: [{description: x}]", "1: workers[0]: name is missing"),
        ("workers: [{name: Big One}]", "1: workers[0].name: must match pattern '^[a-z0-9][a-z0-9_-]{0,63}$'"),
        ("workers: [{name: a}, {name: a}]", "1: worker 'a' is there 2 times, worker files counted; rename one"),
        (
            "workers: [{name: a, tools: [Read]}]",
            "1: workers[0].tools[0]: 'Read' names no tool; write server.tool, as in fs.read_file or fs.*",
        ),
        ("budget: {steps: 0}", "1: budget.steps: must be greater than or equal to 1"),
        ("budget: {usd: -1}", "1: budget.usd: must be greater than 0"),
        ("budget: {steps: '20'}", "1: budget.steps: must be a valid integer"),
        ("budget: {steps: true}", "1: budget.steps: must be a valid integer"),
        ("budget: 5", "1: budget: must be a map of keys"),
        ("revise: sometimes", "1: revise: must be 'on_trigger', 'always' or 'never'"),
        ("store: sqlite:///here.db", "1: store: must be sqlite:////absolute/path.db (four slashes) or postgresql://…"),
        ("store: /tmp/x.db", "1: store: must be sqlite:////absolute/path.db (four slashes) or postgresql://…"),
        ("engine: {local: {}, temporal: {}}", "1: engine: local and temporal exclude each other; keep one"),
        ("approvals: {approve_action: model}", "1: approvals.approve_action: must be 'host' or 'person'"),
        ("mcpServers: [x]", "1: mcpServers: must be a map of keys"),
        ("mcpServers: {a: npx}", "1: mcpServers.a: must be a map of keys"),
        ("mcpServers: {a: {}}", "1: mcpServers.a: needs command (a program) or url (a remote server)"),
        ("mcpServers: {a: {command: 5}}", "1: mcpServers.a.command: must be a text; put it into quotes"),
        ("mcpServers: {a: {command: x, cwd: 5}}", "1: mcpServers.a.cwd: must be a text; put it into quotes"),
        (
            "mcpServers: {a: {command: x, args: [1, true]}}",
            "1: mcpServers.a.args[1]: must be a text; put it into quotes",
        ),
        ("mcpServers: {a: {type: http, command: x}}", "1: mcpServers.a: needs url"),
        (
            "mcpServers: {a: {command: x, url: 'http://x'}}",
            "1: mcpServers.a: has both command and url; keep one, or say which with type",
        ),
        ("mcpServers: {a: {url: 'ftp://me:secret@x'}}", "1: mcpServers.a.url: must be http://HOST… or https://HOST…"),
        ("mcpServers: {a: {command: x, disabled: no}}", "1: mcpServers.a.disabled: must be a valid boolean"),
        (
            "mcpServers: {a b: {command: x}, A_B: {command: y}}",
            "1: servers 'a b' and 'A_B' are both 'a-b' in tool names; rename one",
        ),
        ("mcpServers: {'!': {command: x}}", "1: server name '!' has no letter or digit; rename it"),
        ("mcpServers: {}\nservers: {}", "2: mcpServers and servers mean the same; move all entries into one of them"),
        (
            SERVER + "env:\n      TOKEN: pre-${GH_TOKEN}",
            "5: mcpServers.gh.env.TOKEN: variable GH_TOKEN is not set; set it, or write ${GH_TOKEN:-default}",
        ),
        (
            "model_options: {api_key: '${KEY}'}",
            "1: model_options.api_key: variable KEY is not set; set it, or write ${KEY:-default}",
        ),
        (
            SERVER + "args: ['${input:token}']",
            "4: mcpServers.gh.args[0]: ${input:token} asks a person, which only an editor can; write ${VAR} "
            "and set that variable",
        ),
        (SERVER + "envFile: gone.env", "4: envFile {folder}/gone.env: cannot be read: No such file or directory"),
        (SERVER + "envFile: bad.env", "4: envFile {folder}/bad.env:2: write NAME=value"),
        (RULE + "{deny: a.b, ask: a.c}", "4: policy.rules[1]: a rule has one of deny, ask and allow; this one has 2"),
        (RULE + "{via: host}", "4: policy.rules[1]: a rule has one of deny, ask and allow; this one has 0"),
        (
            RULE + "{allow: '*.get_*'}",
            "4: policy.rules[1]: allow: *.get_* holds for servers yet unknown; name the server, as in fs.read_*",
        ),
        (
            RULE + "{allow: '*'}",
            "4: policy.rules[1]: allow: *.* holds for servers yet unknown; name the server, as in fs.read_*",
        ),
        (RULE + "{allow: a.b, via: person}", "4: policy.rules[1]: via belongs to ask; take it out or write ask"),
        (
            RULE + "{deny: a.b, tainted: allow}",
            "4: policy.rules[1]: tainted: allow belongs to allow; take it out or write allow",
        ),
        (RULE + "{deny: a.b}", "1: policy: rules[1] says the same as rules[0]; take one out"),
        (
            RULE + "{ask: a.c, when: {amount: {gt: 1}}}",
            "4: policy.rules[1].when.amount: 'amount' is no JSON Pointer; write /argument, as in /to or /items/0",
        ),
        (
            RULE + "{ask: a.c, when: {/n: {}}}",
            "4: policy.rules[1].when./n: holds no condition; write one of equals, one_of, prefix, glob, "
            "host_in, path_under, gt, lt, max_len, absent",
        ),
        (RULE + "{ask: a.c, when: {/n: {gt: '5'}}}", "4: policy.rules[1].when./n.gt: must be a valid number"),
        (
            RULE + "{ask: a.c, when: {/n: {above: 5}}}",
            "4: unknown key 'above' in policy.rules[1].when./n; known are absent, equals, glob, gt, "
            "host_in, lt, max_len, one_of, path_under, prefix",
        ),
        (
            "policy: {defaults: {risky: ask}}",
            "1: policy.defaults.risky: must be 'read', 'egress', 'write', 'destructive' or 'unknown'",
        ),
    ],
    ids=lambda value: value.split(": ", 1)[-1][:60] if isinstance(value, str) else None,
)
def test_a_mistake_is_named_with_line_and_way_out(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "bad.env").write_text("A=1\nsecret line\n")
    assert problems(tmp_path / "s.yaml", text) == [expected.replace("{folder}", str(tmp_path))]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("s.yaml", "a: [1\nb: 2", "2: not YAML: expected ',' or ']', but got ':'"),
        ("s.yaml", "a: 1\n b: 2", "2: not YAML: mapping values are not allowed here"),
        ("s.yaml", "a: \x00", " not YAML: it holds a character that YAML does not allow"),
        ("s.yaml", "a: 1\n---\nb: 2", "2: a second document begins here; settings are one"),
        ("s.yaml", "a: &x [y]\nb: *x", "1: anchors and aliases are not read; write the value out"),
        ("s.yaml", "b:\n- *x", "2: anchors and aliases are not read; write the value out"),
        ("s.yaml", "a: !!python/object:os.system x", "1: tags are not read; leave it out, or put a text into quotes"),
        ("s.yaml", "? [a]\n: b", "1: a key must be a text"),
        ("s.yaml", "a: .inf", "1: numbers must be finite"),
        ("s.yaml", "a: 1e999", "1: numbers must be finite"),
        ("s.yaml", "a: " + "9" * 5000, "1: the number is too long"),
        ("s.yaml", "[" * 5000, "1: nested deeper than 64"),
        ("s.yaml", "- a", "1: settings are a map of keys, as in `model: …`"),
        ("s.json", "[" * 5000, "1: nested deeper than 64"),
        ("s.json", '{\n"a" 1}', "2: a colon must follow the key 'a'"),
        ("s.json", '{"a": 1\n"b": 2}', '2: a comma or "}" must stand here'),
        ("s.json", "{a: 1}", '1: a key in double quotes or "}" must stand here'),
        ("s.json", '{"a": yes}', "1: this is no JSON value; texts need double quotes"),
        ("s.json", '{"a": NaN}', "1: this is no JSON value; texts need double quotes"),
        ("s.json", '{"a": 1e999}', "1: the number is too large"),
        ("s.json", '{"a": ,}', "1: a value must stand here"),
        ("s.json", '{"a": 1} x', "1: nothing may follow the closing bracket"),
        ("s.json", '{"a": 1 /* open', '1: a comma or "}" must stand here'),
        ("s.json", '{"budget": {"steps": 1,\n"steps": 2}}', "2: budget.steps stands twice; keep one"),
        (
            "s.json",
            '{"workers": [\n{"name": "a"},\n{"nam": "b", "name": "b"}]}',
            "3: unknown key 'nam' in workers[1]; did you mean 'name'?",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)
def test_what_cannot_be_read_is_named_with_its_line(tmp_path: Path, name: str, text: str, expected: str) -> None:
    assert problems(tmp_path / name, text)[0].removeprefix("1:") == expected.removeprefix("1:")


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(b"model: a\nmodels: \xff")
    with pytest.raises(SettingsError, match=r"s.yaml:2: not UTF-8"):
        load_settings(Found(path, "option"), environ={})
    path.write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(SettingsError, match="larger than 1 MiB"):
        load_settings(Found(path, "option"), environ={})
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(Found(tmp_path / "gone", "option"), environ={})


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = """model: 5
mcpServers:
  a: {command: x, env: {T: "${T}"}, comand: y}
  b: {url: "${URL}"}
policy: {rules: [{allow: "*.x"}], rles: []}
budget: {steps: -1}
budget: {steps: 1}
"""
    assert [line.partition(":")[0] for line in problems(tmp_path / "s.yaml", text)] == [
        "1",
        "3",
        "3",
        "4",
        "5",
        "5",
        "6",
        "7",
    ]


def test_no_error_shows_a_value(tmp_path: Path) -> None:
    text = """
mcpServers:
  a: {url: "${TOKEN}", headers: {Authorization: ["${TOKEN}"]}}
  b: {command: x, env: {T: {x: "${TOKEN}"}}, timeout: "${TOKEN}"}
model_options: {api_key: {x: "${TOKEN}"}, timeout: "${TOKEN}", api_base: ["${TOKEN}"]}
store: ${TOKEN}
"""
    with pytest.raises(SettingsError) as caught:
        load(tmp_path / "s.yaml", text, environ={"TOKEN": "canary-value"})
    assert len(caught.value.problems) >= 7
    assert "canary" not in str(caught.value)


def test_serve_turns_a_broken_server_off_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    text = "mcpServers:\n  a: {command: x, oops: 1}\n  b: {command: y}\n  c: {url: '${URL}'}\nserver_options: {a: {}}\n"
    settings = load(path, text, lenient=True)
    assert ([server.name for server in settings.servers], settings.off) == (["b"], ("a", "c"))
    assert [warning.partition("; ")[0] for warning in settings.warnings] == [
        f"server 'a' is off: {path}:2: unknown key 'oops' in mcpServers.a",
        f"server 'c' is off: {path}:4: mcpServers.c.url: variable URL is not set",
    ]


@pytest.mark.parametrize(
    "text", ["policy: {rules: [{deny: x}]}", "budget: {steps: 0}", "servers: {a-b: {command: x}, a_b: {command: x}}"]
)
def test_serve_does_not_go_on_without_a_sound_policy(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError):
        load(tmp_path / "s.yaml", "mcpServers: {}\n"[: 0 if "servers" in text else None] + text, lenient=True)
