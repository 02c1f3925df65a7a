"""Whether data fits the JSON Schema that a step asks for; nothing is ever fetched to find out."""

from downstream.gate.schema_visits import Unusable, bounded_validator, usable
from journal.values import Json, JsonObject

_SHOWN = 8


def schema_errors(data: Json, schema: JsonObject) -> list[str]:
    """What does not fit, each with its place; at most eight."""
    try:
        with usable(data):
            found = list(bounded_validator(schema).iter_errors(data))
    except Unusable as error:
        return [f"the step's output schema cannot be used: {str(error)[:200]}"]
    found.sort(key=lambda error: error.json_path)
    return [f"data{error.json_path[1:]}: {error.message[:200]}" for error in found[:_SHOWN]]
