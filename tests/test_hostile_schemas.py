"""Whatever a tool server wrote as its schema: a check by it ends soon, in words, and never breaks a step."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from counted_work import at_most
from gate_case import Server, call, open_runs, tool

from downstream.door import Arguments, Refused
from downstream.gate.argument_check import argument_errors
from downstream.gate.argument_reading import Reading, read_arguments
from downstream.gate.schema_visits import TooComplicated, bounded_validator, bounded_visits
from downstream.models.schema_parts import at_pointer
from journal.values import Json, JsonObject
from planner.arguments import argument_errors as literal_errors

CALLS = 20_000_000
"""Of functions, in one check: each visit of a keyword takes some thirty, and there are 300,000 visits at most."""
USED_UP = "the server's schema for this tool cannot be used ("
TOO_MANY, TOO_SLOW, TOO_LONG, LEFT_OVER = (
    f"{USED_UP}it is too complicated: {why}"
    for why in (
        "there are too many ways in which the data might fit)",
        "it would take too long to match its patterns)",
        "it has 300019 characters)",
        "patterns decide which properties are left over)",
    )
)


def doubling(levels: int) -> JsonObject:
    """Two ways at each level, along which no keyword is visited."""
    ways = {
        f"l{n}": {"dependentSchemas": {name: {"$ref": f"#/$defs/l{n - 1}"} for name in "xy"}} for n in range(1, levels)
    }
    return {"$defs": {"l0": {}, **ways}, "unevaluatedProperties": True, "$ref": f"#/$defs/l{levels - 1}"}


def one(schema: Json) -> JsonObject:
    return {"properties": {"x": schema}}


OBJECTS: Json = [{"n": number} for number in range(8_000)]
HOSTILE: dict[str, tuple[JsonObject, JsonObject, str]] = {
    "a pattern": (one({"pattern": "^(a|a)*$"}), {"x": "a" * 40 + "b"}, TOO_SLOW),
    "the name of a pattern": ({"patternProperties": {"^(a|a)*$": {}}}, {"a" * 40 + "b": 1}, TOO_SLOW),
    "a pattern for what is left": (
        {"additionalProperties": False, "patternProperties": {"^(a|a)*$": {}}},
        {"a" * 40 + "b": 1},
        TOO_SLOW,
    ),
    "a pattern for what is not evaluated": (
        {"unevaluatedProperties": False, "patternProperties": {"^(a|a)*$": {}}},
        {"a" * 40 + "b": 1},
        LEFT_OVER,
    ),
    "many patterns": (
        one({"allOf": [{"pattern": f"^(a|a){{22,}}{n}$"} for n in range(500)]}),
        {"x": "a" * 23},
        TOO_SLOW,
    ),
    "an endless pattern": (one({"pattern": "a?" * 5_000}), {"x": "a"}, TOO_SLOW),
    "errors that quote all": (one({"allOf": [{"type": "integer"}] * 4_000}), {"x": "a" * 200_000}, "/x: 'aaaa"),
    "errors inside of alternatives": (
        one({"anyOf": [{"allOf": [{"type": "integer"}] * 4_000}]}),
        {"x": "a" * 200_000},
        TOO_MANY,
    ),
    "an enum for each of many": (
        one({"items": {"enum": [f"e{n}" for n in range(20_000)]}}),
        {"x": ["no"] * 5_000},
        "/x/0: 'no' is not one of",
    ),
    "a long constant": (
        one({"$defs": {}, "allOf": [{"$ref": "#/$defs/c"}] * 4_000}) | {"$defs": {"c": {"const": [[1] * 20_000]}}},
        {"x": [[1] * 20_000]},
        TOO_MANY,
    ),
    "many properties for each of many": (
        one({"items": {"properties": {f"p{n}": True for n in range(10_000)}}}),
        {"x": [{}] * 5_000},
        TOO_MANY,
    ),
    "items that are not evaluated": (one({"unevaluatedItems": {"type": "integer"}}), {"x": [1] * 20_000}, TOO_MANY),
    "ways that no keyword visits": (doubling(60), {"x": 1, "y": 2}, TOO_MANY),
    "it is too long": ({"description": "x" * 300_000}, {}, TOO_LONG),
}


LONG = frozenset({"an enum for each of many", "a long constant", "many properties for each of many"})
"""They use up all that a check may take."""


@pytest.mark.parametrize(
    ("schema", "data", "told"),
    [pytest.param(*each, id=name, marks=[pytest.mark.slow] if name in LONG else []) for name, each in HOSTILE.items()],
)
def test_a_check_ends_soon(schema: JsonObject, data: JsonObject, told: str) -> None:
    arguments = Arguments(data, frozenset({"plan"}))
    with at_most(CALLS):
        errors = argument_errors(schema, data)
    assert errors[0].startswith(told)
    assert sum(map(len, errors)) < 10_000
    with at_most(CALLS):
        assert read_arguments(schema, arguments) == Reading(arguments)
    with at_most(CALLS):
        literal_errors(replace(tool("mail.send", "write"), input_schema=schema), data, [])


def test_a_schema_of_many_equal_parts_is_itself_read_soon() -> None:
    with at_most(100_000):
        (error,) = argument_errors({"required": [{"n": number} for number in range(5_000)]}, {})
    assert error.startswith(USED_UP)


def test_whether_thousands_of_objects_differ_is_told_soon() -> None:
    schema = one({"uniqueItems": True})
    with at_most(1_000_000):
        assert argument_errors(schema, {"x": OBJECTS}) == []
        (error,) = argument_errors(schema, {"x": [*OBJECTS, {"n": 5}]})
    assert error.startswith("/x: [{'n': 0}")


@pytest.mark.parametrize(
    ("items", "fits"),
    [
        ([1, True, "1", [1], None], True),
        ([1, 1.0], False),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([[1, 2], [2, 1]], True),
        ([float("inf"), float("inf")], False),
        ("aa", True),
    ],
)
def test_items_are_equal_as_json_data_is(items: Json, fits: bool) -> None:
    assert bounded_validator(one({"uniqueItems": True})).is_valid({"x": items}) is fits
    assert bounded_validator(one({"uniqueItems": False})).is_valid({"x": items})


PATTERNS: JsonObject = {
    "properties": {"name": {"pattern": "^[a-z]+$"}, "p": {"pattern": r"^(?!\s*$)\p{L}+"}},
    "patternProperties": {"^x-": {"type": "integer"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("data", "errors"),
    [
        ({"name": "ana", "p": "é", "x-a": 1}, []),
        ({"name": 5}, []),
        ({"name": "Ana"}, ["/name: 'Ana' does not match '^[a-z]+$'"]),
        ({"p": "  "}, [r"/p: '  ' does not match '^(?!\\s*$)\\p{L}+'"]),
        ({"x-a": "one"}, ["/x-a: 'one' is not of type 'integer'"]),
        ({"y": 1}, ["/: Additional properties are not allowed: 'y'; they match none of its patterns either"]),
    ],
)
def test_patterns_say_what_they_always_said(data: JsonObject, errors: list[str]) -> None:
    assert argument_errors(PATTERNS, data) == errors


def test_what_is_left_over_by_patterns_may_have_a_schema_of_its_own() -> None:
    schema = PATTERNS | {"additionalProperties": {"type": "null"}}
    assert argument_errors(schema, {"x-a": 1, "y": None}) == []
    assert argument_errors(schema, {"x-a": 1, "y": 1}) == ["/y: 1 is not of type 'null'"]
    assert argument_errors(PATTERNS | {"additionalProperties": True}, {"y": 1}) == []
    assert list(bounded_validator(PATTERNS).iter_errors(5)) == []


def test_patterns_are_bounded_also_where_nothing_else_is() -> None:
    with pytest.raises(TooComplicated):
        bounded_validator(one({"pattern": "^(a|a)*$"})).is_valid({"x": "a" * 40 + "b"})


def test_all_patterns_of_one_check_share_their_time() -> None:
    schema = one({"items": {"not": {"pattern": "^(a|a)*$"}}})
    data: JsonObject = {"x": ["a" * 15 + "b"] * 2_000}
    assert argument_errors(schema, {"x": data["x"][:1]}) == []
    with pytest.raises(TooComplicated), bounded_visits(data):
        bounded_validator(schema).is_valid(data)


def deep(levels: int) -> Json:
    data: Json = {}
    for _ in range(levels):
        data = {"not": data}
    return data


JUNK: dict[str, JsonObject] = {
    "a bound that is none": {"$ref": "#/x", "x": {"properties": {"to": {"minLength": "no"}}}},
    "properties that are none": {"$ref": "#/x", "x": {"properties": 5}},
    "a list of properties": {"$ref": "#/x", "x": {"properties": ["to"]}},
    "no properties": {"properties": None},
    "a number of properties": {"properties": 5},
    "a type that is none": {"$ref": "#/x", "x": {"type": "nope"}},
    "an unreadable pattern": {"properties": {"to": {"pattern": "("}}},
    "a pattern that is none": {"$ref": "#/x", "x": {"properties": {"to": {"pattern": 5}}}},
    "patterns that are none": {"$ref": "#/x", "x": {"patternProperties": 5}},
    "required by a number": {"$ref": "#/x", "x": {"required": 5}},
    "a multiple of nothing": {"$ref": "#/x", "x": {"properties": {"n": {"multipleOf": 0}}}},
    "a long number in a reference": {"$ref": f"#/allOf/{'9' * 5_000}", "allOf": [{}]},
    "a reference to nowhere": {"$ref": "#/nowhere"},
    "a reference elsewhere": {"$ref": "http://127.0.0.1:9/x"},
    "a reference that is none": {"$ref": "#/x", "x": {"$ref": 5}},
    "a dialect that is none": {"$schema": ["x"]},
    "round and round": {"$ref": "#"},
    "deep": {"$ref": "#/x", "x": deep(3_000)},
}


@pytest.mark.parametrize("schema", JUNK.values(), ids=JUNK.keys())
async def test_a_schema_that_is_none_is_told_of_and_breaks_nothing(tmp_path: Path, schema: JsonObject) -> None:
    there, used = Server(), replace(tool("mail.send", "write"), input_schema=schema)
    given: JsonObject = {"to": "ana", "n": 5}
    assert literal_errors(used, given, []) == []
    async with open_runs(tmp_path) as runs:
        end = await there.door(used, policy={"rules": [{"allow": "mail.*"}]})(
            await runs.drive(), call("mail.send", given)
        )
    assert isinstance(end, Refused)
    assert end.reason.startswith(f"the arguments do not fit mail.send: {USED_UP}")
    assert end.reason.endswith(("It takes: no arguments", "It takes: to"))
    assert there.sent == []


def test_a_number_too_large_to_be_divided_is_no_reason_to_break() -> None:
    huge: Any = 10**400
    (error,) = argument_errors(one({"multipleOf": 0.5}), {"x": huge})
    assert error.startswith(USED_UP)


def test_of_many_errors_of_a_plan_those_of_literals_are_shown() -> None:
    used = replace(
        tool("mail.send", "write"),
        input_schema={"properties": {"a": {"items": {"type": "integer"}}, "b": {"type": "integer"}}},
    )
    given: JsonObject = {"a": ["text"] * 300, "b": "text"}
    (error,) = literal_errors(used, given, [("a",)])
    assert error == "arguments.b: 'text' is not of type 'integer'"
    assert len(literal_errors(used, given, [])) == 8


def test_a_reference_by_a_number_of_thousands_of_digits_leads_nowhere() -> None:
    assert at_pointer({"allOf": [{"type": "string"}]}, f"#/allOf/{'9' * 5_000}") is None
    assert at_pointer({"allOf": [{"type": "string"}]}, "#/allOf/0") == {"type": "string"}
