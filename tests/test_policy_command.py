"""`policy explain` and `policy test`: which rule decides, and whether a policy does what is expected of it."""

import json
from pathlib import Path
from typing import Any

import pytest
import toys
from command_line import called
from quick_jobs import LOG, quick

from journal.values import JsonObject

ROOT = Path(__file__).parent.parent
RULES: list[JsonObject] = [
    {"deny": "*.drop", "when": {"/key": {"prefix": "sys"}}},
    {"ask": "quick.*", "via": "person", "when": {"/key": {"max_len": 3}}},
    {"allow": "quick.add"},
    {"deny": "other.*"},
]


def config(folder: Path, **more: Any) -> str:
    path = folder / "steprelay.json"
    whole: JsonObject = {
        "store": f"sqlite:///{folder / 'store.db'}",
        "mcpServers": {"quick": toys.entry(quick(folder / LOG)), "gone": {"command": "no-such-command"}},
        "server_options": {"gone": {"effects": {"get_*": "egress"}}},
        "policy": {"rules": RULES},
        **more,
    }
    path.write_text(json.dumps(whole))
    return str(path)


def table(folder: Path, *cases: JsonObject, **more: Any) -> str:
    path = folder / "cases.json"
    path.write_text(json.dumps({"cases": cases, **more}))
    return str(path)


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> JsonObject:
    assert called("policy", "explain", *words, "--json") == 0
    told: JsonObject = json.loads(capsys.readouterr().out)
    return told


@pytest.mark.e2e
def test_a_tool_is_explained_once_its_server_was_listed_and_without_it_from_then_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option = ("--config", config(tmp_path))
    told = explained(capsys, "quick__drop", '{"key": "system"}', *option)
    assert (told["tool"], told["class"], told["class_from"], told["default"]) == (
        "quick.drop",
        "destructive",
        "listed",
        "ask",
    )
    assert (told["verdict"], told["level"], told["rule"]) == ("deny", None, 0)
    assert [(each["decides"], each["fits"], each["why"]) for each in told["rules"]] == [
        (True, True, '/key is "system": {prefix: "sys"} holds'),
        (False, False, '/key is "system": {max_len: 3} does not hold'),
        (False, False, "it names other tools"),
        (False, False, "it names other tools"),
    ]
    assert told["targets"] == [{"pointer": "/key", "value": "system"}]
    assert explained(capsys, "quick.drop", "{}", *option)["misfits"] != []
    assert called("policy", "explain", "quick.drop", '{"key": "abc"}', *option) == 0
    assert capsys.readouterr().out.splitlines() == [
        "quick.drop: class destructive; without a rule: ask",
        "  ask, level person, by policy.rules[1] (ask quick.*)",
        "  because a rule of the settings says ask: quick.*",
        '  targets: /key "abc"',
        "  with arguments that come from outside: the same",
        "  the rules:",
        '    policy.rules[0] deny *.drop: does not fit; /key is "abc": {prefix: "sys"} does not hold',
        '    policy.rules[1] ask quick.*: decides; /key is "abc": {max_len: 3} holds',
        "    policy.rules[2] allow quick.add: does not fit; it names other tools",
        "    policy.rules[3] deny other.*: does not fit; it names other tools",
    ]
    assert called("policy", "explain", "quick.nothing", *option) == 2
    assert "server 'quick' has no tool 'quick.nothing'; did you mean quick.wait?" in capsys.readouterr().err


@pytest.mark.e2e
def test_a_tool_in_quarantine_is_told_to_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    box = {"box": toys.entry(toys.bad("change", tmp_path / "starts"))}
    option = ("--config", config(tmp_path, mcpServers=box, server_options={}, policy={}))
    assert [called("servers", "tools", "box", *option) for _ in range(2)] == [0, 0]
    capsys.readouterr()
    assert called("policy", "explain", "box.added", *option) == 2
    assert "box.added may not be used: it was added since the server was first listed" in capsys.readouterr().err


def test_what_a_host_cannot_show_is_a_persons_to_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long: JsonObject = {"tool": "mail.send", "class": "write", "arguments": {"body": "x" * 4_001}}
    cases = table(tmp_path, long | {"expect": "ask", "level": "person", "rule": "default"})
    assert called("policy", "test", cases, "--config", config(tmp_path)) == 0
    assert capsys.readouterr().out == "1 of 1 cases are as expected.\n"


def test_what_effects_say_needs_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    option = ("--config", config(tmp_path, policy={}))
    told = explained(capsys, "gone.get_page", '{"url": "https://x.example"}', *option)
    assert (told["class"], told["class_from"], told["verdict"], told["rule"]) == ("egress", "effects", "allow", None)
    assert told["tainted"]["verdict"] == "ask"
    assert called("policy", "explain", "gone.get_page", *option) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "gone.get_page: class egress, by effects; its arguments are not known yet; without a rule: allow"
    assert lines[1] == "  allow, by the default of class egress"
    assert lines[-2:] == ["  with arguments that come from outside: ask, level host", "  there are no rules"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gone.put",), "gone.put is not known yet, and its server cannot be opened: "),
        (("far.get",), "far.get: the settings have no server 'far' that is on; they have: quick, gone"),
        (("gone.*",), "'gone.*' names many tools; write one, as in fs.read_file"),
        (("gone",), "'gone' names no tool"),
        (("gone.get_x", "[1]"), "the arguments are no JSON object"),
        (("gone.get_x", "{"), "the arguments are no JSON: "),
        (("gone.get_x", '{"a": 1, "a": 2}'), "the arguments hold 'a' twice; keep one"),
    ],
)
def test_what_cannot_be_explained_is_told_with_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert called("policy", "explain", *words, "--config", config(tmp_path)) == 2
    assert said in capsys.readouterr().err


def test_the_example_table_holds_for_the_example_settings(capsys: pytest.CaptureFixture[str]) -> None:
    examples = ROOT / "examples"
    words = (str(examples / "policy-tests.yaml"), "--config", str(examples / "steprelay.yaml"))
    assert called("policy", "test", *words) == 0
    assert capsys.readouterr().out == "9 of 9 cases are as expected.\n"


def test_each_case_that_differs_is_printed_with_what_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases: list[JsonObject] = [
        {"tool": "gone.get_page", "expect": "allow", "rule": "default"},
        {"tool": "quick.add", "class": "write", "arguments": {"key": "abcd"}, "expect": "ask"},
        {"tool": "quick.drop", "class": "destructive", "expect": "deny", "rule": 2},
        {"tool": "quick.add", "class": "write", "expect": "ask", "level": "host", "rule": "default"},
        {"tool": "mail.send", "class": "write", "labels": ["model", "open:web"], "expect": "ask", "level": "host"},
    ]
    words = (table(tmp_path, *cases), "--config", config(tmp_path))
    assert called("policy", "test", *words) == 4
    assert capsys.readouterr().out.splitlines() == [
        'cases[1] quick.add {"key": "abcd"}: it is allow, not ask',
        "  allow, by policy.rules[2] (allow quick.add)",
        "cases[2] quick.drop {}: policy.rules[2] does not decide",
        "  deny, by policy.rules[0] (deny *.drop)",
        "  because a rule of the settings says deny: *.drop",
        "cases[3] quick.add {}: it needs a yes of level person, not host; the default of its class does not decide",
        "  ask, level person, by policy.rules[1] (ask quick.*)",
        "  because a rule of the settings says ask: quick.*",
        "2 of 5 cases are as expected.",
    ]
    assert called("policy", "test", *words, "--json") == 4
    told = json.loads(capsys.readouterr().out)
    assert (told["passed"], told["failed"], [case["ok"] for case in told["cases"]]) == (
        2,
        3,
        [True, False, False, False, True],
    )
    assert told["cases"][1]["expected"] == {"verdict": "ask", "level": None, "rule": None}
    assert told["cases"][1]["got"] == {"rule": 2, "verdict": "allow", "level": None, "reasons": []}
    assert called("policy", "test", table(tmp_path, {"tool": "far.x", "expect": "ask"}), *words[1:]) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cases: []", "cases.yaml:1: a table of cases is a map with a list"),
        ("[]", "cases.yaml:1: a table of cases is a map with a list"),
        ("cases: [{tool: a.b}]", "cases.yaml:1: cases[0].expect: is missing"),
        ("cases:\n- {tool: a.b, expect: maybe}", "cases.yaml:2: cases[0].expect: must be 'deny', 'ask' or 'allow'"),
        ("cases:\n- {tool: a.b, expect: ask, rul: 1}", "unknown key 'rul'; did you mean 'rule'?"),
        ("cases:\n- {tool: a.b, expect: ask, labels: [web]}", "cases[0].labels: no origin 'web'; write one of user,"),
        ("cases:\n- {tool: a.b, expect: deny, level: host}", "cases[0]: level belongs to expect: ask"),
        ("cases:\n- {tool: a.b, tool: a.c, expect: ask}", "cases.yaml:2: 'tool' stands twice; keep one"),
        (None, "cases.yaml: cannot be read"),
    ],
)
def test_a_table_that_cannot_be_read_is_told_with_line_and_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    path = tmp_path / "cases.yaml"
    if text is not None:
        path.write_text(text)
    assert called("policy", "test", str(path), "--config", config(tmp_path)) == 2
    assert said in capsys.readouterr().err
