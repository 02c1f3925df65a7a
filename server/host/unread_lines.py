"""Requests that the protocol's reader cannot read: it drops them without a word, and their host would wait for ever."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ObjectReceiveStream
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

Item = SessionMessage | Exception

_OPENING, _CLOSING = ("{", "["), ("}", "]")
_TEXT = r'"[^"\\\x00-\x1f]*"'
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[][{}]', re.DOTALL)
_VALUE = re.compile(rf"\s*:\s*({_TEXT}|-?(?:0|[1-9]\d{{0,17}}))\s*[,}}]")
"""A name's value, if it is one that a request can have for an id."""


@asynccontextmanager
async def open_answered(
    receive: ReadStream[Item], send: WriteStream[SessionMessage]
) -> AsyncGenerator[ObjectReceiveStream[Item]]:
    """What comes in, but for requests that cannot be read: they are answered with an error on `send`."""
    into, passed_on = anyio.create_memory_object_stream[Item](0)

    async def relay() -> None:
        async with into:
            async for item in receive:
                answer = _answer(item) if isinstance(item, ValidationError) else None
                await (into.send(item) if answer is None else send.send(SessionMessage(answer)))

    async with passed_on, anyio.create_task_group() as group:
        group.start_soon(relay)
        yield passed_on
        group.cancel_scope.cancel()


def _answer(error: ValidationError) -> JSONRPCError | None:
    """An error for the request in a line that is no JSON to the reader; None where no request can be made out."""
    problem = error.errors(include_url=False)[0]
    if problem["type"] != "json_invalid":
        return None
    asked = _outermost(str(problem["input"]))
    if "method" not in asked or "id" not in asked:
        return None
    why = f"{problem['msg']} (half a character, nested too deeply, or too long a number)"
    told = f"the request cannot be read: {why}; send whole text"
    return JSONRPCError(jsonrpc="2.0", id=json.loads(asked["id"]), error=ErrorData(code=PARSE_ERROR, message=told))


def _outermost(line: str) -> dict[str, str]:
    """The texts and short whole numbers that stand in the outermost object, by name; read without going into the rest,
    which may be too deep or too long for any reader."""
    depth, found = 0, dict[str, str]()
    for token in _TOKEN.finditer(line):
        if (sign := token.group()) in _OPENING:
            depth += 1
        elif sign in _CLOSING:
            depth -= 1
        elif depth == 1 and (value := _VALUE.match(line, token.end())):
            found[sign[1:-1]] = value[1]
    return found
