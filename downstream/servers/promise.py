"""What a tool answered against the schema that its server listed for its results."""

from itertools import islice
from typing import Any, cast

import anyio.to_thread
from mcp.types import CallToolResult

from downstream.gate.schema_visits import bounded_validator, usable
from journal.values import Json, JsonObject

_MOST_ERRORS = 20
_SHOWN = 300


async def misfit(tool: str, schema: JsonObject | None, result: CallToolResult) -> str | None:
    """How a result breaks its server's promise; None where it keeps it, is an error, or nothing was promised.

    Raises Unusable where the schema cannot be used, or is too complicated to tell.
    """
    if schema is None or result.is_error:
        return None
    if result.structured_content is None and "structured_content" not in result.model_fields_set:
        return f"Tool {tool} has an output schema but did not return structured content"
    # In a thread: all that a check may take is seconds, in which nothing else would go on.
    wrong = await anyio.to_thread.run_sync(_wrong, schema, result.structured_content, abandon_on_cancel=True)
    return None if wrong is None else f"Invalid structured content returned by tool {tool}: {wrong}"


def _wrong(schema: JsonObject, data: Json) -> str | None:
    from jsonschema import exceptions

    with usable(data):
        errors = islice(bounded_validator(schema).iter_errors(data), _MOST_ERRORS)
        # The package has no types for what comes out.
        error = cast("Any", exceptions).best_match(errors)
        return None if error is None else f"{error.message[:_SHOWN]}, at {error.json_path[:_SHOWN]}"
