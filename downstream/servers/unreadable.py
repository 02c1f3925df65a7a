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


def request_of(text: str) -> int | None:
    """Which request a reply is for, read from its beginning and its end alone."""
    found = _HEAD.match(text) or (_HEAD_WITHOUT_ID.match(text) and _TAIL.search(text[-_TAIL_CHARACTERS:]))
    return int(found[1]) if found and '"jsonrpc"' in text else None


def _requests(inputs: Iterable[Json]) -> Iterator[int]:
    for read in inputs:
        if isinstance(read, str):
            if (request := request_of(read)) is not None:
                yield request
        elif is_object(read) and "jsonrpc" in read and type(read.get("id")) is int and "method" not in read:
            yield read["id"]
