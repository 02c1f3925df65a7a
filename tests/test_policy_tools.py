"""Which tools a rule is about: a name is one in whatever form of Unicode, and what forbids reaches into long names."""

import pytest
from gate_case import tool
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from downstream.gate.policy import decide
from downstream.policy_settings import PolicySettings
from downstream.tool_names import covers, matches, reaches
from journal.values import JsonObject


def verb(rule: JsonObject, name: str) -> str:
    return decide(PolicySettings.model_validate({"rules": [rule]}, strict=False), tool(name, "write"), {}).verb


@pytest.mark.parametrize(
    ("glob", "name", "reached"),
    [
        ("*.delete_*", "svc.delete_user", True),
        ("*.delete_*", "svc.admin.delete_user", True),
        ("*.delete_*", "svc.admin/delete_user", True),
        ("*.delete_*", "svc.admin__delete_user", True),
        ("*/delete_*", "svc.v1.admin.delete_user", True),
        ("s*.delete_*", "svc.admin.delete_user", True),
        ("*.admin.*", "svc.admin.delete_user", True),
        ("mcp__svc__admin__delete_*", "svc.admin.delete_user", True),
        ("*.delete_*", "svc.undelete_user", False),
        ("*.delete_*", "svc.admin.undelete_user", False),
        ("svc.delete_*", "svc.admin.delete_user", False),
        ("other.*", "svc.other.delete_user", False),
        ("svc.l\u00f6schen", "svc.lo\u0308schen", True),
        ("svc.lo\u0308schen", "svc.l\u00f6schen", True),
        ("svc.l?schen", "svc.lo\u0308schen", True),
        ("svc.Delete", "svc.delete", False),
    ],
)
def test_a_deny_and_an_ask_reach_into_the_tools_own_long_name(glob: str, name: str, reached: bool) -> None:
    assert verb({"deny": glob}, name) == ("deny" if reached else "ask")
    asked = decide(
        PolicySettings.model_validate({"rules": [{"ask": glob}], "defaults": {"write": "allow"}}, strict=False),
        tool(name, "write"),
        {},
    )
    assert asked.verb == ("ask" if reached else "allow")


@pytest.mark.parametrize(
    ("glob", "name", "allowed"),
    [
        ("svc.admin.delete_*", "svc.admin.delete_user", True),
        ("svc.admin.delete_*", "svc.admin__delete_user", False),
        ("svc.delete_*", "svc.admin.delete_user", False),
        ("svc.*", "svc.admin.delete_user", True),
        ("svc.l\u00f6schen", "svc.lo\u0308schen", True),
    ],
)
def test_an_allow_is_about_no_name_but_its_own(glob: str, name: str, allowed: bool) -> None:
    assert verb({"allow": glob}, name) == ("allow" if allowed else "ask")


def test_an_allow_that_a_reaching_deny_always_beats_is_an_error() -> None:
    rules = {"rules": [{"deny": "*.delete_*"}, {"allow": "svc.admin.delete_user"}]}
    with pytest.raises(ValidationError, match=r"rules\[1\] \(allow svc\.admin\.delete_user\) can never decide"):
        PolicySettings.model_validate(rules, strict=False)


PARTS = st.text("a_./*?", min_size=1, max_size=4)
NAMES = st.text("a_./e\u0301", max_size=5)


@given(PARTS, PARTS, PARTS, PARTS, NAMES)
def test_a_glob_covers_another_only_if_it_reaches_all_that_the_other_reaches(
    server: str, one: str, other_server: str, other: str, name: str
) -> None:
    wide, narrow = f"{server.replace('.', '')}.{one}", f"{other_server.replace('.', '')}.{other}"
    whole = f"a.{name}"
    assert not matches(narrow, whole) or reaches(narrow, whole)
    if covers(wide, narrow) and reaches(narrow, whole):
        assert reaches(wide, whole)
