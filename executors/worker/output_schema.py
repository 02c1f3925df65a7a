"""Whether data fits the JSON Schema that a step asks for; nothing is ever fetched to find out."""

import re

from downstream.gate.schema_visits import TooComplicated, bounded_validator, bounded_visits
from journal.values import Json, JsonObject

_SHOWN = 8


def schema_errors(data: Json, schema: JsonObject) -> list[str]:
    """What does not fit, each with its place; at most eight."""
    # Imported on first use: it takes a tenth of a second, and few steps have a schema.
    from jsonschema import SchemaError
    from referencing.exceptions import Unresolvable

    try:
        validator = bounded_validator(schema)
        with bounded_visits(data):
            found = list(validator.iter_errors(data))
    except SchemaError as error:
        return [f"the step's output schema is not a JSON Schema: {error.message}"]
    except (Unresolvable, RecursionError, TooComplicated, re.error) as error:
        return [f"the step's output schema cannot be used: {str(error)[:200]}"]
    found.sort(key=lambda error: error.json_path)
    return [f"data{error.json_path[1:]}: {error.message[:200]}" for error in found[:_SHOWN]]
