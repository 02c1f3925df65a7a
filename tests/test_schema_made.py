"""Arguments that tests make from the schemas of tools which others wrote."""

import jsonschema
import pytest
from schema_made import made_arguments

from journal.values import Json, JsonObject


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ({}, {}),
        ({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"]}, {"b": "hours"}),
        ({"properties": {"a": {"type": ["null", "integer"], "minimum": 3}}, "required": ["a"]}, {"a": 3}),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, {"type": "boolean"}]}}, "required": ["a"]}, {"a": False}),
        ({"properties": {"a": {"enum": ["x", "y"]}, "path": {}}, "required": ["a"]}, {"a": "x", "path": "/room"}),
        ({"properties": {"a": {"type": "string", "format": "date"}}, "required": ["a"]}, {"a": "2026-01-02"}),
        ({"properties": {"a": {"default": 7}, "b": {"const": "z"}}, "required": ["a", "b"]}, {"a": 7, "b": "z"}),
    ],
    ids=["nothing", "what is required", "several types", "a union", "a hint", "a format", "given values"],
)
def test_arguments_are_what_a_schema_requires_and_a_hint_says(schema: JsonObject, made: Json) -> None:
    assert made_arguments(schema, {"path": "/room"}) == made


def test_a_schema_that_stands_in_itself_is_followed_only_so_deep() -> None:
    tree = {"type": "object", "properties": {"parts": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    schema = {"$defs": {"tree": tree | {"required": ["parts"]}}, "properties": {"a": {"$ref": "#/$defs/tree"}}}
    made = made_arguments(schema | {"required": ["a"]})
    jsonschema.validate(made, schema)
    assert made["a"]["parts"][0]["parts"][0]["parts"][0] == {"parts": []}
