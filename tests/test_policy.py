"""Deny beats ask beats allow; what cannot be told lets nothing through; without a rule the class decides."""

import pytest
from gate_case import tool
from hypothesis import given
from hypothesis import strategies as st

from downstream.gate.matchers import MISSING, at_pointer, holds
from downstream.gate.policy import Verdict, decide
from downstream.policy_settings import Matcher, PolicySettings, Verb
from downstream.tools import ToolClass
from journal.actions import LEVELS
from journal.values import Json, JsonObject

STRICTNESS: tuple[Verb, ...] = ("allow", "ask", "deny")


def decided(policy: JsonObject, arguments: JsonObject | None = None, class_: ToolClass = "write") -> Verdict:
    settings = PolicySettings.model_validate(policy, strict=False)
    return decide(settings, tool("shop.buy", class_, ["item", "price"]), arguments or {})


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
        ({"equals": 1}, True, False),
        ({"equals": "1"}, 1, False),
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


conditions = st.sampled_from(["equals", "gt", "lt"]).flatmap(
    lambda name: st.integers(0, 3).map(lambda number: {name: number})
)


def rule(verb: str, glob: str, when: JsonObject | None) -> JsonObject:
    return {verb: glob} | ({"when": {"/price": when}} if when else {})


rules = st.builds(
    rule, st.sampled_from(STRICTNESS), st.sampled_from(["shop.buy", "shop.*", "shop.sell"]), st.none() | conditions
)
prices = st.sampled_from([None, 0, 1, 2, 3, "1", [1, 3]])
classes = st.sampled_from(["read", "egress", "write", "destructive", "unknown"])


@given(st.lists(rules, max_size=4, unique_by=str), rules, prices, classes)
def test_adding_a_deny_never_allows_more(
    before: list[JsonObject], added: JsonObject, price: Json, class_: ToolClass
) -> None:
    denied = {"deny": next(iter(added.values())), **{key: item for key, item in added.items() if key == "when"}}
    arguments = {} if price is None else {"price": price}
    without = decided({"rules": before}, arguments, class_)
    given_too = decided({"rules": [*before, denied] if denied not in before else before}, arguments, class_)
    assert STRICTNESS.index(given_too.verb) >= STRICTNESS.index(without.verb)
    if given_too.verb == without.verb == "ask":
        assert LEVELS.index(given_too.level) >= LEVELS.index(without.level)


@given(st.lists(rules, max_size=5, unique_by=str), st.permutations(range(5)), prices)
def test_the_order_of_rules_means_nothing(written: list[JsonObject], order: list[int], price: Json) -> None:
    shuffled = [written[place] for place in order if place < len(written)]
    arguments = {} if price is None else {"price": price}
    one, other = decided({"rules": written}, arguments), decided({"rules": shuffled}, arguments)
    assert (one.verb, one.level, sorted(one.reasons)) == (other.verb, other.level, sorted(other.reasons))
