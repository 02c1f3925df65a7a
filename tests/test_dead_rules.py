"""Rules that could never decide are errors that name both rules and the way out; rules that can are none."""

import json
from pathlib import Path

import pytest
from gate_case import tool
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from downstream.gate.policy import idle_waivers
from downstream.policy_settings import Matcher, PolicySettings
from downstream.tool_names import covers, matches
from journal.values import JsonObject
from server.settings import Found, SettingsError, load_settings

WHEN: JsonObject = {"/x": {"gt": 1}}
MORE: JsonObject = WHEN | {"/y": {"equals": "a"}}


def read(*rules: JsonObject) -> PolicySettings:
    return PolicySettings.model_validate({"rules": list(rules)}, strict=False)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (
            [{"deny": "*.delete_*"}, {"allow": "fs.delete_file"}],
            "rules[1] (allow fs.delete_file) can never decide: rules[0] (deny *.delete_*) beats it on every call that "
            "it fits; narrow rules[0], or take rules[1] out",
        ),
        ([{"allow": "a.b", "tainted": "allow"}, {"ask": "a.*"}], "rules[0] (allow a.b) can never decide: rules[1]"),
        ([{"ask": "a.b", "via": "passkey"}, {"deny": "*"}], "rules[0] (ask a.b) can never decide: rules[1] (deny *.*)"),
        ([{"allow": "a.b", "when": MORE}, {"ask": "a.b", "when": WHEN}], "rules[0] (allow a.b) can never decide"),
        (
            [{"allow": "fs.*"}, {"allow": "fs.write", "when": WHEN}],
            "rules[1] (allow fs.write) can never decide: rules[0] (allow fs.*) says the same without its conditions; "
            "narrow rules[0], or take rules[1] out",
        ),
        ([{"deny": "a.b", "when": MORE}, {"deny": "a.?", "when": WHEN}], "rules[0] (deny a.b) can never decide"),
        ([{"ask": "a.b", "when": WHEN}, {"ask": "a.*", "via": "person"}], "rules[0] (ask a.b) can never decide"),
    ],
)
def test_a_rule_that_another_always_beats_is_an_error(rules: list[JsonObject], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        read(*rules)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "rules",
    [
        [{"deny": "fs.delete_*"}, {"allow": "fs.*"}],
        [{"deny": "a.b", "when": WHEN}, {"allow": "a.b"}],
        [{"deny": "a.b", "when": WHEN}, {"allow": "a.b", "when": {"/x": {"gt": 2}}}],
        [{"ask": "a.*"}, {"ask": "a.b", "via": "person"}],
        [{"ask": "a.*"}, {"ask": "a.b", "via": "person", "when": WHEN}],
        [{"allow": "a.*"}, {"allow": "a.b", "tainted": "allow", "when": WHEN}],
        [{"deny": "*.delete_*"}, {"deny": "fs.delete_file"}],
        [{"deny": "a.?"}, {"allow": "a.*"}],
    ],
)
def test_a_rule_that_decides_on_some_call_is_none(rules: list[JsonObject]) -> None:
    assert len(read(*rules).rules) == len(rules)


LETTERS = st.text("ab", max_size=4)
GLOBS = st.text("ab*?", min_size=1, max_size=4)


@given(GLOBS, GLOBS, LETTERS)
def test_a_glob_covers_another_only_if_it_fits_all_that_the_other_fits(wide: str, narrow: str, name: str) -> None:
    if covers(f"s.{wide}", f"s.{narrow}") and matches(f"s.{narrow}", f"s.{name}"):
        assert matches(f"s.{wide}", f"s.{name}")
    assert covers("s.*", f"s.{narrow}")
    assert covers(f"*.{narrow}", f"s.{narrow}")


@pytest.mark.parametrize(
    ("matcher", "said"),
    [({"absent": True, "equals": 1}, "absent stands alone"), ({"gt": 5, "lt": 5}, "no number is above 5 and below 5")],
)
def test_conditions_that_never_hold_together_are_errors(matcher: JsonObject, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Matcher.model_validate(matcher)


def test_a_waiver_for_what_reads_no_open_world_is_told_once_the_class_is_known() -> None:
    policy = read({"allow": "web.*", "tainted": "allow"}, {"allow": "fs.read", "tainted": "allow"}, {"allow": "fs.*"})
    tools = [tool("web.get", "egress"), tool("web.put", "write"), tool("fs.read", "read"), tool("fs.put", "write")]
    assert idle_waivers(policy, tools) == [
        "policy.rules[1]: tainted: allow is for class egress, and fs.read is read; take it out, or mend the tool's "
        "class in server_options.*.effects"
    ]
    assert idle_waivers(policy, tools[:1]) == []


@pytest.mark.parametrize(("effect", "fits"), [("egress", True), ("read", False)])
def test_a_waiver_against_the_settings_own_word_is_an_error(tmp_path: Path, effect: str, fits: bool) -> None:
    path = tmp_path / "s.json"
    whole: JsonObject = {
        "mcpServers": {"Web": {"command": "x"}},
        "server_options": {"Web": {"effects": {"get_*": effect}}},
        "policy": {"rules": [{"allow": "web.get_page", "tainted": "allow"}, {"allow": "web.*", "tainted": "allow"}]},
    }
    path.write_text(json.dumps(whole))
    if fits:
        assert len(load_settings(Found(path, "option"), environ={}).policy.rules) == 2
        return
    with pytest.raises(SettingsError, match=r"policy\.rules\[0\]: tainted: allow is for class egress, and .* read;"):
        load_settings(Found(path, "option"), environ={})
