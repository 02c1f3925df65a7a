"""A value of another type than a rule names cannot be told: a lenient server may take the one for the other."""

import json
import math

import pytest
from gate_case import tool
from hypothesis import given
from hypothesis import strategies as st

from downstream.gate.matchers import MISSING, holds
from downstream.gate.policy import decide
from downstream.policy_settings import Matcher, PolicySettings
from journal.values import Json, JsonObject


def told(matcher: JsonObject, value: Json) -> tuple[bool | None, bool | None]:
    """What holds for a deny or an ask, and for an allow."""
    read = Matcher.model_validate(matcher, strict=False)
    return holds(read, value, of="any"), holds(read, value, of="all")


UNTOLD = (None, None)
NO = (False, False)
YES = (True, True)


@pytest.mark.parametrize(
    ("matcher", "value", "expected"),
    [
        ({"equals": True}, "true", UNTOLD),
        ({"equals": True}, 1, UNTOLD),
        ({"equals": True}, [[True]], UNTOLD),
        ({"equals": True}, None, UNTOLD),
        ({"equals": True}, {"on": True}, UNTOLD),
        ({"equals": True}, False, NO),
        ({"equals": "eve"}, [["eve"]], UNTOLD),
        ({"equals": "eve"}, {"name": "eve"}, UNTOLD),
        ({"equals": "eve"}, ["bob"], NO),
        ({"equals": "eve"}, ["bob", "eve"], (True, False)),
        ({"equals": 5}, "5", UNTOLD),
        ({"equals": 5}, [4, "5"], (None, False)),
        ({"equals": None}, "null", UNTOLD),
        ({"equals": None}, " NULL ", UNTOLD),
        ({"equals": None}, {}, UNTOLD),
        ({"equals": None}, "x", NO),
        ({"equals": None}, 0, NO),
        ({"equals": None}, [None], YES),
        ({"equals": [1, 2]}, [1, "2"], UNTOLD),
        ({"equals": [1, 2]}, [1, 3], NO),
        ({"equals": [1, 2]}, [1, 2, 3], NO),
        ({"equals": [1, 2]}, [[1, 2], [3]], (True, False)),
        ({"equals": [1, 2]}, [["1", "2"]], UNTOLD),
        ({"equals": ["a"]}, "a", UNTOLD),
        ({"equals": {"a": 1}}, {"a": "1"}, UNTOLD),
        ({"equals": {"a": 1, "b": 2}}, {"a": "1", "b": 3}, NO),
        ({"equals": {"a": 1}}, {"b": 1}, NO),
        ({"equals": {"\u00e9": 1}}, {"\u00e9": 2, "e\u0301": 1}, UNTOLD),
        ({"one_of": ["a", "b"]}, 5, UNTOLD),
        ({"one_of": ["a", "b"]}, [["a"]], UNTOLD),
        ({"one_of": [True, "true"]}, False, NO),
        ({"one_of": [True, "true"]}, "false", NO),
        ({"one_of": [True, "true"]}, 1, UNTOLD),
        ({"one_of": [1, "a"]}, "1", UNTOLD),
        ({"one_of": [1, "a"]}, " 1.0", UNTOLD),
        ({"one_of": [True, "a"]}, "TRUE", UNTOLD),
        ({"one_of": [{"A": 1}, "a"]}, '{"A": 1}', UNTOLD),
        ({"one_of": [1, "a"]}, "b", NO),
        ({"one_of": [1, "a"]}, "[" * 9999, NO),
        ({"one_of": [None, "a"]}, "b", NO),
        ({"one_of": [None, "a"]}, "", UNTOLD),
        ({"one_of": [["a"], ["b"]]}, ["c"], NO),
        ({"one_of": [["a"], ["b"]]}, [["b"], "c"], (True, False)),
        ({"equals": 2**53}, float(2**53), UNTOLD),
        ({"equals": 2**53 + 1}, 2**53, UNTOLD),
        ({"equals": 10**30}, 1e30, UNTOLD),
        ({"equals": 1e30}, 1e30, YES),
        ({"equals": 2**60}, 2**60, YES),
        ({"equals": 10**400}, 2 * 10**400, UNTOLD),
        ({"equals": -(10**400)}, 10**400, NO),
        ({"equals": 1}, 2, NO),
        ({"equals": 0}, -0.0, YES),
        ({"equals": 1}, math.nan, UNTOLD),
        ({"lt": 3}, math.nan, UNTOLD),
        ({"gt": 3}, math.inf, UNTOLD),
        ({"gt": 3}, 10**400, YES),
        ({"absent": True}, None, UNTOLD),
        ({"absent": False}, None, UNTOLD),
    ],
)
def test_what_a_server_might_take_for_the_value_cannot_be_told(
    matcher: JsonObject, value: Json, expected: tuple[bool | None, bool | None]
) -> None:
    found = told(matcher, value)
    # An allow takes only what holds; whether the rest fails or cannot be told is one to it.
    assert (found[0], found[1] is True) == (expected[0], expected[1] is True)


@pytest.mark.parametrize("force", [True, "true", 1, [[True]], None])
def test_a_denied_flag_is_denied_in_every_spelling(force: Json) -> None:
    policy = PolicySettings.model_validate_json(
        '{"rules": [{"allow": "git.push"}, {"deny": "git.push", "when": {"/force": {"equals": true}}}]}'
    )
    push = tool("git.push", "write", ["force"])
    assert decide(policy, push, {"force": force}).verb == "deny"
    assert decide(policy, push, {"force": False}).verb == "allow"


SCALARS = (
    st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
)
DATA = st.recursive(
    st.none() | SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner)
)


@given(SCALARS, SCALARS)
def test_no_spelling_of_a_value_is_told_from_it(wanted: Json, other: Json) -> None:
    spellings: list[Json] = [wanted, json.dumps(wanted), [wanted], [[wanted]], [other, [wanted]], {"value": wanted}]
    if isinstance(wanted, int | float):
        spellings += [float(wanted), str(wanted), f" {wanted} "]
    for spelling in spellings:
        assert told({"equals": wanted}, spelling)[0] is not False or isinstance(wanted, type(spelling))
        assert told({"one_of": [wanted]}, spelling)[0] == told({"equals": wanted}, spelling)[0]


@given(DATA, DATA)
def test_what_an_allow_takes_a_deny_under_the_same_condition_stops(wanted: Json, value: Json) -> None:
    for matcher in ({"equals": wanted}, {"one_of": [wanted, "a", 1]}):
        for_deny, for_allow = told(matcher, value)
        assert for_deny is not False or for_allow is not True
        assert told(matcher, MISSING) == UNTOLD
