"""Literal arguments against a tool's schema; what only a run will fill in is left alone."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from downstream.gate.schema_visits import Unusable, bounded_validator, usable
from downstream.json_shape import is_object
from downstream.tools import Tool
from journal.values import Json, JsonObject

from .reading import closest
from .references import Pointer, plain

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_MOST, _SHOWN = 50, 8
"""So many errors of one step help; more only hide the first."""
_LOOKS_AT_NAMES_ONLY = frozenset(
    {
        "required",
        "additionalProperties",
        "type",
        "maxProperties",
        "minProperties",
        "maxItems",
        "minItems",
        "dependentRequired",
    }
)
"""Keywords whose verdict on an object or a list does not depend on the values inside it."""


def argument_errors(tool: Tool, arguments: JsonObject, places: Sequence[Pointer]) -> list[str]:
    """What is wrong with the literal parts of these arguments; `places` are those that hold references."""
    if () in places:
        return ["arguments is an object of named arguments; a reference stands for one value inside it"]
    try:
        found = _literal_errors(tool.open_schema, plain(arguments), places)
    except Unusable:
        # Then the gate has the last word.
        return []
    return [_sentence(tool, error) for error in found][:_SHOWN]


def output_errors(schema: JsonObject | None) -> list[str]:
    """What is wrong with a step's `output`, which has to be a JSON Schema."""
    if schema is None:
        return []
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return [f"output is not a JSON Schema: {error.message[:200]}"]
    return []


def _literal_errors(schema: JsonObject, arguments: JsonObject, places: Sequence[Pointer]) -> "list[ValidationError]":
    with usable(arguments):
        errors = bounded_validator(schema).iter_errors(arguments)
        found = list(islice((error for error in errors if _is_of_literals(error, places)), _MOST))
    return sorted(found, key=lambda error: list(map(str, error.absolute_path)))


def _is_of_literals(error: "ValidationError", places: Sequence[Pointer]) -> bool:
    path = tuple(error.absolute_path)
    inside = any(path[: len(place)] == place for place in places)
    around = any(place[: len(path)] == path for place in places) and error.validator not in _LOOKS_AT_NAMES_ONLY
    return not inside and not around


def _sentence(tool: Tool, error: "ValidationError") -> str:
    place = ".".join(["arguments", *map(str, error.absolute_path)])
    text = f"{place}: {error.message[:200]}"
    if error.validator == "required":
        return f"{text} of {tool.full_name}"
    properties: Json = tool.open_schema.get("properties")
    known = properties if is_object(properties) else {}
    if error.validator == "additionalProperties" and not error.absolute_path:
        given: Json = error.instance
        extra = next((name for name in given if name not in known), "")
        return f"{text}; {closest(extra, known)}"
    return text
