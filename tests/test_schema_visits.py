"""A schema of a server that would take for ever to check costs its own calls a moment, and the process nothing."""

from typing import Any

import pytest
from counted_work import at_most

from downstream.door import Arguments
from downstream.gate.argument_check import argument_errors
from downstream.gate.argument_reading import Reading, read_arguments
from downstream.gate.schema_visits import bounded_validator

COMPLICATED = "the server's schema for this tool cannot be used (it is too complicated: there are too many ways in"
CALLS = 2_000_000
"""Of functions, in all checks of one schema; without a bound there were more than a million times as many."""


def doubling(levels: int, keyword: str = "anyOf", **more: Any) -> dict[str, Any]:
    """Each level twice the one below, so that all of them are two to the power of the levels."""
    twice = {
        f"l{level}": {keyword: [{"$ref": f"#/$defs/l{level - 1}"} for _ in range(2)], **more}
        for level in range(1, levels + 1)
    }
    never = {"type": "integer"} if keyword == "anyOf" else {}
    return {"properties": {"x": {"$ref": f"#/$defs/l{levels}"}}, "$defs": {"l0": never, **twice}}


def tree(levels: int) -> Any:
    return "leaf" if levels == 0 else {"next": tree(levels - 1)}


TWO_WAYS = {"$defs": {"node": {"anyOf": [{"properties": {"next": {"$ref": "#/$defs/node"}}, "type": "object"}] * 2}}}
HOSTILE: dict[str, tuple[dict[str, Any], Any]] = {
    "alternatives": (doubling(60), "text"),
    "all of two": (doubling(60, "allOf"), "text"),
    "one of two": (doubling(60, "oneOf"), "text"),
    "of another dialect inside": (doubling(60, **{"$schema": "http://json-schema.org/draft-07/schema#"}), "text"),
    "of an older dialect": ({"$schema": "http://json-schema.org/draft-07/schema#", **doubling(60)}, "text"),
    "along the data": ({"properties": {"x": {"$ref": "#/$defs/node"}}, **TWO_WAYS}, tree(40)),
    "nothing unevaluated": ({**doubling(60, "allOf"), "unevaluatedProperties": False}, "text"),
}


@pytest.mark.parametrize(("schema", "value"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_schema_that_would_take_for_ever_is_refused_in_clear_words(schema: dict[str, Any], value: Any) -> None:
    with at_most(CALLS):
        (error,) = argument_errors(schema, {"x": value})
        assert error.startswith(COMPLICATED)
        arguments = Arguments({"x": value}, frozenset({"plan"}))
        assert read_arguments(schema, arguments) == Reading(arguments)


def test_large_arguments_of_a_plain_schema_are_checked_to_the_end() -> None:
    item = {"type": "object", "properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}
    schema = {"properties": {"items": {"type": "array", "items": item}}}
    data: Any = {"items": [{"n": number} for number in range(2_000)]}
    assert argument_errors(schema, data) == []
    data["items"][-1]["n"] = "1999"
    assert len(argument_errors(schema, data)) == 1
    assert argument_errors({"properties": {"items": {"items": {"type": "integer"}}}}, {"items": [1] * 20_000}) == []


def test_outside_of_a_bound_nothing_is_counted_and_a_part_in_another_dialect_is_read_in_the_first() -> None:
    validator = bounded_validator({"properties": {"x": {"$schema": "http://json-schema.org/draft-04/schema#"}}})
    assert validator.is_valid({"x": 1})
    assert bounded_validator(doubling(10)).is_valid({"x": "text"}) is False


def test_a_schema_too_long_to_be_kept_is_checked_all_the_same() -> None:
    schema = {"properties": {f"name{number}": {"type": "integer"} for number in range(1_000)}}
    assert [bounded_validator(schema).is_valid({"name999": value}) for value in (1, "one")] == [True, False]
