"""Whether data fits the JSON Schema that a step asks for; nothing is ever fetched to find out."""

import re

from journal.values import Json, JsonObject

_SHOWN = 8


def schema_errors(data: Json, schema: JsonObject) -> list[str]:
    """What does not fit, each with its place; at most eight."""
    # Imported on first use: it takes a tenth of a second, and few steps have a schema.
    import jsonschema
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    validator_class = validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        validator_class.check_schema(schema)
        found = list(validator_class(schema, registry=Registry()).iter_errors(data))
    except jsonschema.SchemaError as error:
        return [f"the step's output schema is not a JSON Schema: {error.message}"]
    except (Unresolvable, RecursionError, re.error) as error:
        return [f"the step's output schema cannot be used: {str(error)[:200]}"]
    found.sort(key=lambda error: error.json_path)
    return [f"data{error.json_path[1:]}: {error.message[:200]}" for error in found[:_SHOWN]]
