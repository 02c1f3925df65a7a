"""Arguments against the JSON Schema that a server gave for its tool."""

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from journal.values import JsonObject

from .prompt_text import escaped

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_MOST_ERRORS = 20
_LONGEST_ERROR = 200


def argument_errors(schema: JsonObject, arguments: JsonObject) -> list[str]:
    """All that is wrong, as `/pointer: what`; empty if they fit. A schema that cannot be read is an error too.

    Nothing is fetched: a reference to another document cannot be read.
    """
    from jsonschema import SchemaError
    from referencing.exceptions import Unresolvable

    try:
        found = sorted(validator_of(schema).iter_errors(arguments), key=lambda error: error.json_path)
    except (SchemaError, Unresolvable, RecursionError, re.error) as error:
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
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    read = json.loads(schema)
    kind = validator_for(read, default=Draft202012Validator)
    kind.check_schema(read)
    return kind(read, registry=Registry())


def _short(text: str) -> str:
    line = escaped(text.partition("\n")[0])
    return line if len(line) <= _LONGEST_ERROR else f"{line[: _LONGEST_ERROR - 1]}…"
