"""Requests that the protocol's reader cannot read: it drops them without a word, and their host would wait for ever."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import cast

import anyio
from anyio.abc import ObjectReceiveStream
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

from journal.values import Json

Item = SessionMessage | Exception


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
    try:
        message: Json = json.loads(problem["input"])
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, Mapping):
        return None
    asked = cast("Mapping[str, Json]", message)
    id_ = asked.get("id")
    if "method" not in asked or isinstance(id_, bool) or not isinstance(id_, str | int):
        return None
    told = f"the request cannot be read: {problem['msg']} (half a character, or nested too deeply); send whole text"
    return JSONRPCError(jsonrpc="2.0", id=id_, error=ErrorData(code=PARSE_ERROR, message=told))
