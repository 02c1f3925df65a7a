"""What holds of any policy and any data: more rules never allow more, and labels are never lost."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from gate_case import Server, call, open_runs, tool
from hypothesis import given
from hypothesis import strategies as st

from downstream.door import Arguments, Called, Refused, Waiting
from downstream.gate.explain import explain
from downstream.gate.taint import Flow, described_in
from downstream.json_shape import is_array, is_object
from downstream.policy_settings import PolicyRule, PolicySettings, Verb
from downstream.tools import ToolClass
from journal.actions import LEVELS
from journal.canonical import NotCanonical, canonical, digest
from journal.values import WORST, Json, JsonObject, Label, has_private, is_clean, join

STRICTNESS: tuple[Verb, ...] = ("allow", "ask", "deny")
CLASSES: tuple[ToolClass, ...] = ("read", "egress", "write", "destructive", "unknown")

NAMES = st.sampled_from(["shop.buy", "shop.*", "*.buy", "shop.sell", "?hop.b??", "*.b*", "shop.a.buy"])
MATCHERS = st.sampled_from(
    [
        {"equals": 1},
        {"equals": True},
        {"equals": None},
        {"equals": 2**53},
        {"equals": [1, "a"]},
        {"equals": {"a": 1}},
        {"one_of": [1, "a"]},
        {"one_of": [None, [1]]},
        {"prefix": "a"},
        {"glob": "*b"},
        {"gt": 1},
        {"lt": 2.5},
        {"max_len": 1},
        {"absent": True},
        {"absent": False},
        {"host_in": ["a.b"]},
        {"host_in": ["127.0.0.1", "a.b:443"]},
        {"path_under": "/a"},
        {"path_under": "/etc"},
    ]
)
WHEN = st.dictionaries(st.sampled_from(["/price", "/item"]), MATCHERS, max_size=2)
SIMPLE: list[Json] = [0, 1, 2, 2.0, True, None, "a", "ab", "", [], [1, "a"], ["b", []], {"a": 1}, "//a.b/", "/a/b"]
RETYPED: list[Json] = ["1", "true", "null", [[True]], [["1"]], {"a": "1"}, 2**53, 2**53 + 1, 2.0**53, 10**400]
HOSTS = ["http://127.0.0.1", "http://[::ffff:127.0.0.1]", "http://0.0.0.0", "https://a.b", "a.b", "https://a.b:444"]
PATHS = ["/etc/x", "/ETC/x", "/etc./x", "/%65tc/x", "/proc/self/root/etc/x", "/dev/fd/../../etc/x", "/b/../etc/x"]
VALUES = st.sampled_from([*SIMPLE, *RETYPED, *HOSTS, *PATHS])
ARGUMENTS = st.dictionaries(st.sampled_from(["price", "item"]), VALUES, max_size=2)
LABELS = st.frozensets(
    st.sampled_from(["user", "host", "config", "plan", "model", "open:web", "private:notes", "private:*"])
)


def anchored(verb: str, name: str) -> str:
    return name.replace("*.", "shop.").replace("?hop", "shop") if verb == "allow" else name


@st.composite
def rules(draw: st.DrawFn, verbs: tuple[Verb, ...] = STRICTNESS) -> PolicyRule:
    verb = draw(st.sampled_from(verbs))
    rule: JsonObject = {verb: anchored(verb, draw(NAMES)), "when": draw(WHEN)}
    if verb == "ask":
        rule["via"] = draw(st.sampled_from([None, *LEVELS]))
    if verb == "allow":
        rule["tainted"] = draw(st.sampled_from([None, "allow"]))
    return PolicyRule.model_validate_json(json.dumps(rule))


DEFAULTS = st.dictionaries(st.sampled_from(CLASSES), st.sampled_from(STRICTNESS), max_size=3)


def past_checks(written: Sequence[PolicyRule], defaults: JsonObject | None = None) -> PolicySettings:
    """A policy whose rules may be dead: what holds of any policy must hold of those too."""
    return PolicySettings.model_validate({"defaults": defaults or {}}).model_copy(update={"rules": tuple(written)})


def strictness(written: list[PolicyRule], defaults: JsonObject, flow: Flow) -> tuple[int, int]:
    """How strict a policy is about a call, taint included: its verb, then the level of a yes."""
    decided = explain(past_checks(written, defaults), flow).decided
    return STRICTNESS.index(decided.verb), LEVELS.index(decided.level) if decided.level else 0


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    label = draw(LABELS) or WORST
    name = draw(st.sampled_from(["shop.buy", "shop.buy", "shop.a.buy", "shop.a__buy", "shop.a/b"]))
    bought = tool(name, draw(st.sampled_from(CLASSES)), ["item", "price"])
    arguments = Arguments(draw(ARGUMENTS), label)
    return Flow(bought, arguments, draw(st.sampled_from([label, WORST])), "goal", described_in({}), frozenset())


@given(st.lists(rules(), max_size=4), rules(("deny", "ask")), DEFAULTS, flows(), st.integers(0, 4))
def test_adding_a_deny_or_an_ask_never_allows_more(
    written: list[PolicyRule], added: PolicyRule, defaults: JsonObject, flow: Flow, place: int
) -> None:
    before = strictness(written, defaults, flow)
    after = strictness([*written[:place], added, *written[place:]], defaults, flow)
    denied_by_default = before[0] == 2 and not explain(past_checks(written), flow).deciders
    if denied_by_default and added.verb == "ask":
        # A rule is an exception to the default: then a person is asked, and nothing goes out by itself.
        assert after[0] >= 1
    else:
        assert after >= before


@given(WHEN, WHEN, flows())
def test_what_an_allow_lets_through_a_deny_under_the_same_conditions_stops(
    when: JsonObject, more: JsonObject, flow: Flow
) -> None:
    name = flow.tool.full_name
    allow, deny = ({verb: name, "when": conditions} for verb, conditions in (("allow", more | when), ("deny", when)))
    alone, both = (
        past_checks([PolicyRule.model_validate_json(json.dumps(each)) for each in rules], {flow.tool.class_: "ask"})
        for rules in ([allow], [allow, deny])
    )
    if explain(alone, flow).deciders:
        assert explain(both, flow).decided.verb == "deny"


@given(st.lists(rules(), max_size=5), st.randoms(use_true_random=False), DEFAULTS, flows())
def test_the_order_of_rules_never_matters(
    written: list[PolicyRule], chance: Random, defaults: JsonObject, flow: Flow
) -> None:
    shuffled = list(written)
    chance.shuffle(shuffled)
    assert strictness(shuffled, defaults, flow) == strictness(written, defaults, flow)


@given(st.lists(rules(), max_size=4), DEFAULTS, flows(), LABELS)
def test_a_worse_label_never_allows_more(
    written: list[PolicyRule], defaults: JsonObject, flow: Flow, more: Label
) -> None:
    arguments = Arguments(flow.arguments.data, flow.arguments.label | more)
    worse = replace(flow, arguments=arguments, read=flow.read | more)
    assert strictness(written, defaults, worse) >= strictness(written, defaults, flow)


@given(st.lists(LABELS, max_size=4))
def test_joining_labels_never_cleans(labels: list[Label]) -> None:
    joined = join(labels)
    assert all(label <= joined for label in labels)
    assert not (is_clean(joined) and not all(is_clean(label) or not label for label in labels))
    assert has_private(joined) or not any(has_private(label) for label in labels)
    assert join([joined, *labels]) == joined
    if not any(labels):
        assert joined == WORST


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=3) | st.sampled_from(["\u00e9", "e\u0301"])
NUMBERS = st.integers(-(2**54), 2**54) | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1, 1.0])
DATA = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def same(one: Json, other: Json) -> bool:
    """Equality as JSON has it: members in any order, no text normalised, and 1 and 1.0 one number.

    Beyond 2**53 - 1 a whole number is exact, and none of the numbers that a float may stand for.
    """
    if is_object(one) and is_object(other):
        return set(one) == set(other) and all(same(one[key], other[key]) for key in one)
    if is_array(one) and is_array(other):
        return len(one) == len(other) and all(map(same, one, other))
    exact = [isinstance(each, int) and abs(each) >= 2**53 for each in (one, other)]
    if exact[0] != exact[1] or isinstance(one, bool) != isinstance(other, bool):
        return False
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return bool(one == other) and (numbers or type(one) is type(other))


@given(DATA, DATA)
def test_equal_data_have_equal_hashes_and_only_they(one: Json, other: Json) -> None:
    assert (digest(one) == digest(other)) == same(one, other)
    assert digest(one) == digest(json.loads(json.dumps(one)))


@given(DATA, st.sampled_from([float("nan"), float("inf"), float("-inf"), "\ud800", "a\udfff"]))
def test_what_has_no_single_form_has_no_hash_wherever_it_stands(data: Json, odd: Json) -> None:
    for spoilt in ([data, odd], {"a": [data, {"b": odd}]}, *([{odd: data}] if isinstance(odd, str) else [])):
        with pytest.raises(NotCanonical):
            canonical(spoilt)


MAIL: JsonObject = {"to": "ana@x.example"}
SEND = tool("mail.send", "write", ["to"])


@pytest.mark.parametrize(
    ("narrower", "end_type"),
    [
        ({"rules": [{"deny": "mail.send", "when": {"/to": {"prefix": "ana"}}}]}, Refused),
        ({"rules": [{"deny": "mail.send", "when": {"/cc": {"equals": "x"}}}]}, Refused),
        ({"rules": [{"ask": "mail.*", "via": "person"}]}, Waiting),
        ({"defaults": {"write": "deny"}}, Refused),
        ({"sinks": {"mail.send": ["/to"]}}, Waiting),
        ({}, Called),
    ],
    ids=["denied", "cannot be told", "a person's", "by default", "another target", "the same"],
)
async def test_a_yes_given_under_a_wider_policy_does_not_count_under_a_narrower_one(
    tmp_path: Path, narrower: JsonObject, end_type: type
) -> None:
    sender = Server()
    async with open_runs(tmp_path) as runs:
        asked = await sender.door(SEND)(await runs.drive(), call("mail.send", MAIL))
        assert isinstance(asked, Waiting)
        await runs.decide(asked.action, "approve", level="host", via="form")
        end = await sender.door(SEND, policy=narrower)(await runs.drive(), call("mail.send", MAIL))
        assert isinstance(end, end_type)
        assert len(sender.sent) == (end_type is Called)
