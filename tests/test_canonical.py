"""One form for equal JSON data, another for different data."""

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.canonical import NotCanonical, canonical, digest
from journal.values import Json, JsonObject

TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["$integer", "$$integer", "a$integer"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
DATA = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20)


def rebuilt(data: Json, name: Callable[[str], str], *, items: type[Any]) -> Json:
    """The same data with its members in reverse, their names changed, and its arrays as `items`."""
    if isinstance(data, dict):
        members = cast("JsonObject", data)
        if set(members) == {"$integer"} and items is list:
            return int(members["$integer"])
        return {name(key): rebuilt(members[key], name, items=items) for key in reversed(members)}
    if isinstance(data, list):
        found = cast("Sequence[Json]", data)
        return items(rebuilt(item, name, items=items) for item in found)
    return data


def read_back(data: Json) -> Json:
    return rebuilt(data, lambda key: key[1:] if key.endswith("$integer") else key, items=list)


def shuffled(data: Json) -> Json:
    return rebuilt(data, lambda key: key, items=tuple)


@settings(max_examples=50)
@given(DATA)
def test_nothing_is_lost_in_the_canonical_form_so_different_data_never_look_alike(data: Any) -> None:
    assert read_back(json.loads(canonical(data), parse_int=float)) == data


@settings(max_examples=50)
@given(DATA)
def test_the_order_of_members_makes_no_difference(data: Any) -> None:
    assert digest(shuffled(data)) == digest(data)


@pytest.mark.parametrize(
    ("one", "other"),
    [(True, 1), ("1", 1), (None, False), (2**60, 2**60 + 1), (2**60, {"$integer": str(2**60)}), ([1, 2], [2, 1])],
)
def test_values_that_are_not_the_same_have_different_hashes(one: Any, other: Any) -> None:
    assert digest(one) != digest(other)


def test_equal_numbers_have_one_form() -> None:
    assert canonical([1.0, -0.0, 2**53]) == canonical([1, 0, 2**53]) == b'[1,0,{"$integer":"9007199254740992"}]'


def nested(depth: int) -> Any:
    data: Any = []
    for _ in range(depth):
        data = [data]
    return data


@pytest.mark.parametrize(
    "data",
    [float("nan"), float("inf"), "\ud800", {"\ud800": 1}, {1: 2}, {"a": {1, 2}}, b"bytes", nested(100_000)],
    ids=["nan", "infinity", "half a pair", "half a pair in a key", "number as key", "set", "bytes", "too deep"],
)
def test_what_has_no_single_form_is_refused(data: Any) -> None:
    with pytest.raises(NotCanonical, match="not plain JSON data"):
        canonical(data)
