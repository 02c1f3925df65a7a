"""Schemas as models are sent them, and replies as they are read back."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from downstream.json_shape import is_array, is_object
from downstream.model_port import FunctionUse, ModelReply
from downstream.models.replies import ReplyErrors, broken_json, found_in, objects_at_end, objects_in, tidied
from downstream.models.schemas import for_function, for_reply

Json = Any
REFUSED = frozenset(
    {"$ref", "$defs", "const", "oneOf", "allOf", "not", "if", "then", "else", "patternProperties", "prefixItems"}
    | {"default", "title", "minimum", "maximum", "pattern"}
)
NOTHING: list[Json] = []
WILD: Json = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "q": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Q"},
        "node": {"$ref": "#/$defs/Node"},
        "mode": {"const": "a"},
        "when": {"type": "string", "format": "date-time"},
        "n": {"type": ["integer", "null"], "minimum": 0, "exclusiveMaximum": 10},
        "either": {"type": ["string", "array"], "items": {"type": "string"}},
        "open": {"type": "object", "patternProperties": {"^x": {"type": "string"}}},
        "list": {"type": "array", "prefixItems": [{"type": "string"}]},
        "level": {"enum": [1, 2, 3]},
        "x/y": {"$ref": "#/properties/when"},
        "both": {
            "allOf": [{"$ref": "#/$defs/Named"}, {"properties": {"age": {"type": "integer"}}, "required": ["age"]}]
        },
        "shape": {
            "oneOf": [
                {"type": "object", "properties": {"kind": {"const": "dot"}}, "required": ["kind"]},
                {
                    "type": "object",
                    "properties": {"kind": {"const": "line"}, "to": {"type": "number"}},
                    "required": ["kind"],
                },
            ]
        },
        "missing": {"$ref": "#/$defs/Nothing"},
        "elsewhere": {"$ref": "https://example.org/schema"},
        "twice": {"anyOf": [{"type": "string"}, {"type": "string"}]},
        "nothing": {"anyOf": [{"type": "null"}]},
        "untyped": {"items": {"type": "string"}},
        "half": {
            "properties": {"id": {"type": "string"}},
            "anyOf": [{"required": ["id"]}, {"properties": {"name": {"type": "string"}}}],
        },
        "wide": {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"description": "W"}]},
        "anything": True,
    },
    "required": ["q"],
    "$defs": {
        "Node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}}},
        "Named": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
}
FITTING: Json = {
    "q": "x",
    "node": {"v": 1, "next": {"v": 2}},
    "mode": "a",
    "n": 3,
    "either": ["x"],
    "open": {"x1": "y"},
    "both": {"name": "A", "age": 3},
    "shape": {"kind": "line", "to": 2.5},
    "anything": 5,
}
FORM: Json = {
    "type": "object",
    "properties": {
        "steps": {
            "type": "array",
            "items": {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {
                            "kind": {"const": "call"},
                            "tool": {"type": "string"},
                            "arguments": {"type": "object", "additionalProperties": True},
                        },
                        "required": ["kind", "tool"],
                    },
                    {
                        "type": "object",
                        "properties": {
                            "kind": {"const": "worker"},
                            "task": {"type": "string"},
                            "tools": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
                        },
                        "required": ["kind", "task"],
                    },
                ]
            },
        },
        "reason": {"type": "string"},
    },
    "required": ["steps"],
}


def words_of(schema: Json, *, names: bool = False) -> Iterator[str]:
    """Every keyword of a schema, not the names of its properties."""
    if is_object(schema):
        for key, item in schema.items():
            if not names:
                yield key
            yield from words_of(item, names=not names and key == "properties")
    elif is_array(schema):
        for item in schema:
            yield from words_of(item)


def objects_of(schema: Json) -> Iterator[Json]:
    if is_object(schema):
        if schema.get("type") == "object":
            yield schema
        for item in schema.values():
            yield from objects_of(item)
    elif is_array(schema):
        for item in schema:
            yield from objects_of(item)


@pytest.mark.parametrize(
    "schema", [WILD, FORM, {}, True, {"oneOf": [FORM, WILD]}], ids=["wild", "form", "empty", "true", "union"]
)
def test_what_providers_refuse_is_not_sent_and_simplifying_twice_changes_nothing(schema: Json) -> None:
    plain = for_function(schema)
    assert REFUSED & set(words_of(plain)) == set()
    Draft202012Validator.check_schema(plain)
    assert plain["type"] == "object"
    assert for_function(plain) == plain


def complaints(schema: Json, data: Json) -> list[str]:
    validator: Any = Draft202012Validator(schema)
    return [error.message for error in validator.iter_errors(data)]


def test_arguments_that_fit_the_original_fit_what_is_sent() -> None:
    assert complaints(WILD, FITTING) == []
    assert complaints(for_function(WILD), FITTING) == []


def test_what_can_not_be_said_in_keywords_is_said_in_words() -> None:
    properties = for_function(WILD)["properties"]
    assert properties["n"] == {"type": "integer", "description": "(minimum 0, exclusiveMaximum 10) (or null)"}
    assert properties["level"] == {"type": "integer", "description": "(one of [1, 2, 3])"}
    assert properties["mode"] == {"type": "string", "enum": ["a"]}
    assert for_function(WILD | {"required": ["q", "mode", "gone"]})["required"] == ["mode"]
    assert properties["q"] == {"type": "string", "description": "(leave out for null)"}


def test_alternatives_at_the_top_become_one_object_that_says_what_they_were() -> None:
    by_id: Json = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    by_name: Json = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    plain = for_function({"oneOf": [by_id, by_name]})
    assert (sorted(plain["properties"]), plain.get("required")) == (["id", "name"], None)
    assert plain["description"] == "(alternatives: {id}; {name})"


ODD: tuple[Json, ...] = (
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
    {"properties": {"c": {"type": "integer"}}},
    {"properties": {"c": {"type": "boolean"}, "a": {"type": "number"}}},
)


def test_parts_that_servers_write_in_other_ways_than_most_are_understood() -> None:
    a, b, c, d = ODD
    schema: Json = {
        "type": "object",
        "properties": {
            "nullable": {"type": "integer", "nullable": True},
            "numbers": {"enum": [1, 2.5]},
            "from a list": {"$ref": "#/properties/union/allOf/0/oneOf/1"},
            "beyond the list": {"$ref": "#/properties/union/allOf/9"},
            "union": {"allOf": [{"oneOf": [a, b]}, {"anyOf": [c, d]}, {"anyOf": [{"required": ["c"]}, 5]}]},
            "with default": {"type": ["string", "integer"], "default": "x"},
            "inner words": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}], "description": "D"},
            "anchor": {"$ref": "#node", "description": "D"},
        },
        "if": {"required": ["numbers"]},
        "then": {"properties": {"then": {"type": "string"}}},
        "dependentSchemas": {"then": {"properties": {"dependent": {"type": "string"}}}},
    }
    properties = for_function(schema)["properties"]
    assert for_function(for_function(schema))["properties"] == properties
    assert set(properties) == {*schema["properties"], "then", "dependent"}
    assert properties["nullable"] == {"type": "integer", "description": "(or null)"}
    assert properties["numbers"] == {"type": "number", "description": "(one of [1, 2.5])"}
    assert properties["from a list"] == b
    assert properties["union"] == {
        "type": "object",
        "properties": {
            "c": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
            "a": {"type": "string"},
            "b": {"type": "string"},
        },
        "description": "(alternatives: {a}; {b})",
    }
    either = [{"type": "string"}, {"type": "integer"}]
    assert properties["with default"] == {"anyOf": either, "description": '(default "x")'}
    assert properties["inner words"] == {"type": "string", "description": "D ((minLength 1)) (or null)"}
    kinds = {"string", "number", "boolean", "object", "array"}
    for name in ("anchor", "beyond the list"):
        assert {branch["type"] for branch in properties[name]["anyOf"]} == kinds


def test_a_schema_that_holds_itself_through_plain_nesting_ends() -> None:
    deep: Json = {"type": "object", "properties": {"x": {"type": "string"}}}
    for _ in range(30):
        deep = {"type": "object", "properties": {"x": deep}}
    assert "properties" in for_function(deep)


def test_a_form_is_closed_all_the_way_down_with_every_field_required_and_open_objects_as_text() -> None:
    wire = for_reply(FORM)
    assert all(each["additionalProperties"] is False for each in objects_of(wire))
    assert all(sorted(each["required"]) == sorted(each["properties"]) for each in objects_of(wire))
    call, worker = wire["properties"]["steps"]["items"]["anyOf"]
    assert call["properties"]["arguments_json"]["type"] == "string"
    assert worker["properties"]["tools"]["description"] == "(empty where it does not apply)"


def test_by_grammar_fields_may_be_left_out_objects_are_open_or_closed_as_they_were_and_lists_end() -> None:
    wire = for_reply(
        {
            "type": "object",
            "properties": {
                "list": {"type": "array", "maxItems": 3, "items": {"type": "string"}},
                "open": {"type": "object"},
                "none": {"type": "object", "additionalProperties": False},
                "text": {"type": "string", "maxLength": 9},
            },
            "required": ["list"],
        },
        by_grammar=True,
    )
    assert wire == {
        "type": "object",
        "properties": {
            "list": {"type": "array", "maxItems": 3, "items": {"type": "string"}},
            "open": {"type": "object"},
            "none": {"type": "object", "properties": {}, "additionalProperties": False},
            "text": {"type": "string", "description": "(maxLength 9)"},
        },
        "required": ["list"],
        "additionalProperties": False,
    }


def test_a_reply_is_tidied_by_its_schema() -> None:
    said: Json = {
        "steps": [
            {"kind": "call", "tool": "a.b", "arguments_json": '{"data_json": "{}", "x": null}', "task": None},
            {"kind": "call", "tool": "a.b", "arguments": '{"y": []}'},
            {"kind": "worker", "task": "do", "tools": NOTHING, "mood": "good"},
        ],
        "reason": "",
        "thoughts": "…",
    }
    tidy, dropped = tidied(said, FORM)
    assert tidy == {
        "steps": [
            {"kind": "call", "tool": "a.b", "arguments": {"data_json": "{}", "x": None}},
            {"kind": "call", "tool": "a.b", "arguments": {"y": []}},
            {"kind": "worker", "task": "do"},
        ]
    }
    assert dropped == ["steps[0].task", "steps[2].mood", "thoughts"]


def test_text_that_should_hold_an_object_and_does_not_is_an_error_that_names_the_place() -> None:
    with pytest.raises(ReplyErrors, match=r"steps\[0\].arguments_json: not JSON"):
        tidied({"steps": [{"kind": "call", "tool": "a.b", "arguments_json": "{oops"}]}, FORM)
    with pytest.raises(ReplyErrors, match="must be a JSON object, not list"):
        tidied({"steps": [{"kind": "call", "tool": "a.b", "arguments_json": "[1]"}]}, FORM)


def test_a_reply_nested_too_deeply_is_an_error_of_the_reply() -> None:
    nested: Json = []
    for _ in range(5_000):
        nested = [nested]
    with pytest.raises(ReplyErrors, match="nested too deeply"):
        tidied({"steps": nested}, FORM)


PLAN = '{"steps": []}'


@pytest.mark.parametrize(
    "text",
    [
        PLAN,
        f"\n {PLAN} \n",
        f"Here it is:\n```json\n{PLAN}\n```\nGood luck.",
        f"I looked at {{braces}} and {{}} first. {PLAN} That is all.",
        f'One that I reject: {{"steps": [1]}}. Mine:\n```json\n{PLAN}\n```\n',
        f'{{"name": "submit_plan", "arguments": {PLAN}}}',
        f'{{"submit_plan": {PLAN}}}',
    ],
    ids=["bare", "blanks", "fenced", "prose", "after another", "call", "named"],
)
def test_json_is_found_wherever_the_model_put_it(text: str) -> None:
    assert found_in(ModelReply("m", text), "submit_plan", FORM) == {"steps": []}


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('{"a": [1, 2,], "b": "x,]",}', {"a": [1, 2], "b": "x,]"}),
        ('{"a": "one\ntwo"}', {"a": "one\ntwo"}),
        ('Here: {"a": {"b": 1,},} Done.', {"a": {"b": 1}}),
        ('```json\n{"a": [{"b": "say \\"hi\\","},]}\n```', {"a": [{"b": 'say "hi",'}]}),
    ],
    ids=["commas", "a line break", "in prose", "fenced"],
)
def test_small_slips_are_read_as_they_are_meant(text: str, data: Json) -> None:
    assert objects_in(text) == [data]


def test_of_several_replies_without_one_at_the_end_none_counts() -> None:
    text = f'Mine is {PLAN}, and {{"steps": [1]}} stood in what I was given.'
    with pytest.raises(ReplyErrors, match="2 replies for submit_plan are in it"):
        found_in(ModelReply("m", text), "submit_plan", FORM)


@pytest.mark.parametrize(
    ("text", "ending", "alone"),
    [
        ('{"a": 1}', 1, True),
        ('```json\n{"a": 1}\n```', 1, True),
        ('[{"a": 1}, {"b": 2}].', 2, True),
        ('<tool_call>\n{"a": 1}\n</tool_call><|im_end|>', 1, True),
        ('I look. {"a": 1}\n{"b": 2,}', 2, False),
        ('It says {"a": 1}; I do {"b": 2}', 1, False),
        ('It says {"a": 1}, which I will not do.', 0, False),
        ('```json\n{"a": 1}\n```\nThat is what it says.', 0, False),
        ("no", 0, False),
    ],
)
def test_what_a_text_ends_with_is_told_from_what_it_quotes(text: str, ending: int, alone: bool) -> None:
    assert len(objects_at_end(text)) == ending
    assert bool(objects_at_end(text, alone=True)) == alone


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1e400}', "1e400 is not JSON"),
        ('{"a": "Find out wh', 'it breaks off within the string that begins "\\"Find out wh"'),
        ('Sure: {"a": [1,', "it breaks off after"),
        ('```json\n{"a": 1 "b"}\n```', 'Expecting \',\' delimiter at "\\"b\\"}" (line 1, column 9)'),
        ('{"a": NaN}', "NaN is not JSON"),
        ("prose", None),
        ('{"a": 1}', None),
    ],
    ids=["too large", "a string", "a list", "a comma", "a number", "none", "whole"],
)
def test_json_that_is_broken_is_told_where_it_breaks(text: str, why: str | None) -> None:
    told = broken_json(text)
    assert told is None if why is None else (told is not None and why in told)


def test_a_call_of_the_name_counts_before_the_text_and_other_calls_do_not_count() -> None:
    uses = (FunctionUse("1", "search_tools", '{"steps": [1]}'), FunctionUse("2", "submit_plan", '{"steps": [2]}'))
    assert found_in(ModelReply("m", '{"steps": [3]}', uses), "submit_plan", FORM) == {"steps": [2]}
    assert found_in(ModelReply("m", "", uses[:1]), "submit_plan", FORM) is None
    with pytest.raises(ReplyErrors, match="the arguments of submit_plan: not JSON"):
        found_in(ModelReply("m", "", (FunctionUse("1", "submit_plan", "{"),)), "submit_plan", FORM)


@pytest.mark.parametrize(
    "text",
    ["", "no", '{"steps": NaN}', "{" * 100_000, '{"a":' * 100_000, '"steps"', '{"steps": ['],
    ids=["empty", "prose", "nan", "braces", "nested", "string", "cut"],
)
def test_what_is_no_json_is_not_found(text: str) -> None:
    assert found_in(ModelReply("m", text), "submit_plan", FORM) is None


def test_half_a_surrogate_pair_becomes_something_that_can_be_stored() -> None:
    [data, *_] = objects_in(r'{"steps": "\ud83d \u00fc"}')
    assert json.dumps(data, ensure_ascii=False).encode() == '{"steps": "? ü"}'.encode()
