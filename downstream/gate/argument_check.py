"""Arguments against the JSON Schema that a server gave for its tool."""

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from journal.values import JsonObject

from .prompt_text import escaped
from .schema_visits import TooComplicated, bounded_validator, bounded_visits

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_MOST_ERRORS = 20
_LONGEST_ERROR = 200


def argument_errors(schema: JsonObject, arguments: JsonObject) -> list[str]:
    """All that is wrong, as `/pointer: what`; empty if they fit. A schema that cannot be read is an error too.

    Nothing is fetched: a reference to another document cannot be read. One that would take too long is not read either.
    """
    from jsonschema import SchemaError
    from referencing.exceptions import Unresolvable

    try:
        with bounded_visits(arguments):
            found = sorted(validator_of(schema).iter_errors(arguments), key=lambda error: error.json_path)
    except (SchemaError, Unresolvable, RecursionError, re.error, TooComplicated) as error:
        return [
            f"the server's schema for this tool cannot be used ({_short(str(error))}); tell whoever runs the server"
        ]
    return [f"/{'/'.join(map(str, error.absolute_path))}: {_short(error.message)}" for error in found[:_MOST_ERRORS]]


def validator_of(schema: JsonObject) -> "Validator":
    """The validator of the dialect that the schema names. Raises SchemaError where it is none."""
    return _validator(json.dumps(schema))


@lru_cache(maxsize=256)
def _validator(schema: str) -> "Validator":
    """Kept from call to call: checking a schema takes far longer than checking arguments against it."""
    return bounded_validator(json.loads(schema))


def _short(text: str) -> str:
    line = escaped(text.partition("\n")[0])
    return line if len(line) <= _LONGEST_ERROR else f"{line[: _LONGEST_ERROR - 1]}…"
