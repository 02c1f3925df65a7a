"""Literal arguments against a tool's schema; what only a run will fill in is left alone."""

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from downstream.gate.schema_visits import TooComplicated, bounded_validator, bounded_visits
from downstream.tools import Tool
from journal.values import Json, JsonObject

from .reading import closest
from .references import Pointer, plain

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

_SHOWN = 8
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
    validator = _validator(json.dumps(tool.open_schema))
    if validator is None:
        return []
    found = _literal_errors(validator, plain(arguments), places)
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


@lru_cache(maxsize=256)
def _validator(text: str) -> "Validator | None":
    """For the schema in the text; None for one that is broken itself: then the gate has the last word."""
    # Imported on first use: it takes a tenth of a second.
    from jsonschema.exceptions import SchemaError

    try:
        return bounded_validator(json.loads(text))
    except SchemaError:
        return None


def _literal_errors(
    validator: "Validator", arguments: JsonObject, places: Sequence[Pointer]
) -> "Iterator[ValidationError]":
    from referencing.exceptions import Unresolvable

    try:
        with bounded_visits(arguments):
            found = sorted(validator.iter_errors(arguments), key=lambda error: list(map(str, error.absolute_path)))
    except (Unresolvable, RecursionError, TooComplicated):
        return
    for error in found:
        path = tuple(error.absolute_path)
        inside = any(path[: len(place)] == place for place in places)
        around = any(place[: len(path)] == path for place in places) and error.validator not in _LOOKS_AT_NAMES_ONLY
        if not inside and not around:
            yield error


def _sentence(tool: Tool, error: "ValidationError") -> str:
    place = ".".join(["arguments", *map(str, error.absolute_path)])
    text = f"{place}: {error.message[:200]}"
    if error.validator == "required":
        return f"{text} of {tool.full_name}"
    known: JsonObject = tool.open_schema.get("properties") or {}
    if error.validator == "additionalProperties" and not error.absolute_path:
        given: Json = error.instance
        extra = next((name for name in given if name not in known), "")
        return f"{text}; {closest(extra, known)}"
    return text
