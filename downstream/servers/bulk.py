"""Messages of so many parts that the SDK is not to read them: of each that does not fit it makes several errors."""

import logging

from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCResponse

from downstream.json_shape import is_array, is_object
from journal.values import Json, JsonObject

from .failures import TOO_MANY_PARTS

log = logging.getLogger(__name__)

_PARTS = 20_000
_FREE = ("structuredContent", "_meta", "tools")
"""Where anything may stand, so that the SDK reads it without looking; and listings, which are cut before."""


def bounded(item: SessionMessage | Exception) -> SessionMessage | Exception | None:
    """The message; in place of an answer that has too many parts an error; None for anything else that has."""
    if isinstance(item, Exception):
        return item
    message = item.message
    held: Json = message.result if isinstance(message, JSONRPCResponse) else getattr(message, "params", None)
    if not is_object(held):
        return item
    looked_at: JsonObject = {name: part for name, part in held.items() if name not in _FREE}
    if parts_of(looked_at, at_most=_PARTS) <= _PARTS:
        return item
    if isinstance(message, JSONRPCResponse):
        said = ErrorData(code=PARSE_ERROR, message=TOO_MANY_PARTS)
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=said))
    log.warning("message_left_out", extra={"method": getattr(message, "method", None), "why": "it has too many parts"})
    return None


def parts_of(data: Json, *, at_most: int) -> int:
    """How many values the data holds, itself included; counted no further than one beyond `at_most`."""
    left, count = [data], 0
    while left and count <= at_most:
        part = left.pop()
        count += 1
        inner = part.values() if is_object(part) else part if is_array(part) else ()
        if len(inner) > at_most:
            return at_most + 1
        left.extend(inner)
    return count
