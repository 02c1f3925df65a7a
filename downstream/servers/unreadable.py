"""Replies that the SDK cannot read: without a word about them, their call would wait until its time is over."""

import re
from collections.abc import Iterable, Iterator

from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

from downstream.json_shape import is_object
from journal.values import Json

_HEAD = re.compile(
    r'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,'
    r'\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"\s*:'
)
_HEAD_WITHOUT_ID = re.compile(r'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"\s*:')
_TAIL = re.compile(r',\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_TAIL_CHARACTERS = 200


def as_answer(item: SessionMessage | Exception) -> SessionMessage | Exception:
    """An error answer in place of a reply that cannot be read but says which request it is for; else `item` itself."""
    if not isinstance(item, ValidationError):
        return item
    request = next(_requests(error["input"] for error in item.errors(include_url=False)), None)
    if request is None:
        return item
    said = ErrorData(code=PARSE_ERROR, message="it cannot be read")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=said))


def _requests(inputs: Iterable[Json]) -> Iterator[int]:
    for read in inputs:
        if isinstance(read, str):
            found = _HEAD.match(read) or (_HEAD_WITHOUT_ID.match(read) and _TAIL.search(read[-_TAIL_CHARACTERS:]))
            if found and '"jsonrpc"' in read:
                yield int(found[1])
        elif is_object(read) and "jsonrpc" in read and type(read.get("id")) is int and {"result", "error"} & set(read):
            yield read["id"]
