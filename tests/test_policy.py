"""Deny beats ask beats allow; what cannot be told lets nothing through; without a rule the class decides."""

import pytest
from gate_case import tool

from downstream.gate.matchers import MISSING, at_pointer, holds
from downstream.gate.policy import Verdict, decide
from downstream.policy_settings import Matcher, PolicyRule, PolicySettings, Verb
from downstream.tools import ToolClass
from journal.values import Json, JsonObject


def loose(policy: JsonObject) -> PolicySettings:
    """A policy whose rules may be dead: what decides must not depend on that."""
    read = PolicySettings.model_validate(policy | {"rules": []}, strict=False)
    return read.model_copy(update={"rules": tuple(map(PolicyRule.model_validate, policy.get("rules", ())))})


def decided(policy: JsonObject, arguments: JsonObject | None = None, class_: ToolClass = "write") -> Verdict:
    return decide(loose(policy), tool("shop.buy", class_, ["item", "price"]), arguments or {})


@pytest.mark.parametrize(
    ("class_", "expected"),
    [
        ("read", ("allow", "host")),
        ("egress", ("allow", "host")),
        ("write", ("ask", "host")),
        ("destructive", ("ask", "person")),
        ("unknown", ("ask", "person")),
    ],
)
def test_without_a_rule_the_class_decides(class_: ToolClass, expected: tuple[str, str]) -> None:
    verdict = decided({}, class_=class_)
    assert (verdict.verb, verdict.level) == expected


@pytest.mark.parametrize(
    ("policy", "class_", "expected"),
    [
        ({"rules": [{"allow": "shop.*"}, {"deny": "*.buy"}, {"ask": "shop.buy"}]}, "read", ("deny", "host")),
        ({"rules": [{"allow": "shop.*"}, {"ask": "shop.buy"}]}, "read", ("ask", "host")),
        ({"rules": [{"allow": "shop.buy"}]}, "destructive", ("allow", "person")),
        ({"rules": [{"ask": "shop.buy", "via": "host"}]}, "destructive", ("ask", "person")),
        ({"rules": [{"ask": "shop.buy", "via": "person"}]}, "write", ("ask", "person")),
        ({"rules": [{"ask": "shop.*"}, {"ask": "shop.buy", "via": "passkey"}]}, "read", ("ask", "passkey")),
        ({"rules": [{"deny": "shop.sell"}, {"deny": "shops.buy"}]}, "read", ("allow", "host")),
        ({"rules": [{"deny": "mcp__shop__buy"}]}, "read", ("deny", "host")),
        ({"defaults": {"write": "allow"}}, "write", ("allow", "host")),
        ({"defaults": {"read": "deny"}}, "read", ("deny", "host")),
        ({"defaults": {"egress": "ask"}}, "egress", ("ask", "host")),
    ],
)
def test_deny_beats_ask_beats_allow_whatever_their_order(
    policy: JsonObject, class_: ToolClass, expected: tuple[str, str]
) -> None:
    backwards = policy | {"rules": policy.get("rules", [])[::-1]}
    for form in (policy, backwards):
        verdict = decided(form, class_=class_)
        assert (verdict.verb, verdict.level) == expected


@pytest.mark.parametrize("verb", ["deny", "ask", "allow"])
@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ({"price": 101}, True),
        ({"price": 100}, False),
        ({"price": [101, 200]}, True),
        ({"price": [5, 6]}, False),
        ({"price": [5, 200]}, None),
        ({"price": []}, None),
        ({"price": "101"}, None),
        ({"price": True}, None),
        ({}, None),
    ],
)
def test_a_condition_that_cannot_be_told_fits_deny_and_ask_but_no_allow(
    verb: Verb, arguments: JsonObject, fits: bool | None
) -> None:
    other = "ask" if verb == "allow" else "allow"
    policy = {"rules": [{verb: "shop.buy", "when": {"/price": {"gt": 100}}}], "defaults": {"write": other}}
    expected = verb if (fits if fits is not None else verb != "allow") else other
    assert decided(policy, arguments).verb == expected


@pytest.mark.parametrize(
    ("matcher", "value", "expected"),
    [
        ({"equals": 1}, 1.0, True),
        ({"equals": 1}, True, None),
        ({"equals": "1"}, 1, None),
        ({"equals": "\u00e9"}, "e\u0301", True),
        ({"equals": None}, None, True),
        ({"equals": [1, 2]}, [1, 2], True),
        ({"equals": {"a": "\u00e9"}}, {"a": "e\u0301"}, True),
        ({"one_of": ["a", "b"]}, "b", True),
        ({"one_of": ["a", "b"]}, "c", False),
        ({"prefix": "acme/"}, "acme/site", True),
        ({"prefix": "acme/"}, "acme", False),
        ({"prefix": "acme/"}, 3, None),
        ({"glob": "*.md"}, "a.md", True),
        ({"glob": "[a].md"}, "a.md", False),
        ({"host_in": ["example.org"]}, "https://example.org:8443/x", True),
        ({"host_in": ["*.example.org"]}, "https://a.EXAMPLE.org", True),
        ({"host_in": ["example.org"]}, "https://example.org@evil.net/", False),
        ({"host_in": ["example.org"]}, "https://example.org.evil.net/", False),
        ({"host_in": ["example.org"]}, "https://evil.net\\@example.org/", None),
        ({"host_in": ["example.org"]}, "https://[oops", None),
        ({"host_in": ["example.org"]}, "ana@example.org", True),
        ({"host_in": ["example.org:81"]}, "example.org:81", True),
        ({"host_in": ["example.org"]}, "/local/file", None),
        ({"host_in": ["example.org"]}, "mailto:ana@example.org", True),
        ({"host_in": ["example.org"]}, "https://example.org./x", True),
        ({"host_in": ["example.org"]}, "eve@evil.net,ana@example.org", None),
        ({"host_in": ["example.org"]}, "https://eve@evil.net@example.org/", None),
        ({"host_in": ["evil.net"]}, "Eve <eve@evil.net>", None),
        ({"host_in": ["evil.net"]}, "https:/evil.net/", None),
        ({"host_in": ["evil.net"]}, "https://ev%69l.net/", None),
        ({"host_in": ["evil.net"]}, "https://\uff45vil.net/", None),
        ({"host_in": ["evil.net"]}, "https://evil.net:port/", None),
        ({"host_in": ["127.0.0.1"]}, "http://127.0.0.1:80/", True),
        ({"host_in": ["127.0.0.1"]}, "http://127.1/", None),
        ({"host_in": ["127.0.0.1"]}, "http://0x7f000001/", None),
        ({"host_in": ["[0:0::1]"]}, "http://[::1]:80/", True),
        ({"host_in": ["[::1]:80"]}, "http://[0:0:0:0:0:0:0:1]:80/", True),
        ({"host_in": ["::1"]}, "http://[::1/", None),
        ({"path_under": "/srv/docs"}, "/srv/docs/a/../b", True),
        ({"path_under": "/srv/docs"}, "/srv/docs/../secret", False),
        ({"path_under": "/srv/docs"}, "/srv/docs2", False),
        ({"path_under": "/"}, "/etc", True),
        ({"path_under": "/srv/docs"}, "docs/a", None),
        ({"lt": 5}, 4, True),
        ({"gt": 1, "lt": 5}, 7, False),
        ({"max_len": 3}, "abc", True),
        ({"max_len": 3}, "abcd", False),
        ({"max_len": 3}, 1234, None),
        ({"max_len": 2}, ["abc", "d"], True),
        ({"max_len": 2}, ["a", "b", "c"], False),
        ({"absent": True}, MISSING, True),
        ({"absent": True}, "x", False),
        ({"absent": False}, MISSING, False),
        ({"equals": "x"}, MISSING, None),
        ({"equals": "x"}, "\ud800", None),
    ],
)
def test_matchers_are_typed_and_coerce_nothing(matcher: JsonObject, value: Json, expected: bool | None) -> None:
    found = holds(Matcher.model_validate(matcher, strict=False), value, of="all")
    assert found is expected


def test_a_pointer_leads_through_objects_lists_and_escapes_or_nowhere() -> None:
    arguments: JsonObject = {"to": [{"a/b": 1, "c~d": 2}]}
    found = [at_pointer(arguments, pointer) for pointer in ("/to/0/a~1b", "/to/0/c~0d", "/to/1", "/to/x", "/cc")]
    assert found == [1, 2, MISSING, MISSING, MISSING]


def test_a_rule_may_let_private_data_leave_by_an_egress_tool_only() -> None:
    policy: JsonObject = {"rules": [{"allow": "shop.buy", "tainted": "allow"}]}
    assert [decided(policy, class_=class_).waived for class_ in ("egress", "read", "write")] == [True, False, False]
