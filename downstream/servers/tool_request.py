"""The request for a call of a tool. Made by the SDK, its answer would be checked without any bound on the time."""

from collections.abc import Mapping
from typing import TypeAlias, cast

from mcp import ClientSession
from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult, InputRequiredResult, RequestParamsMeta
from pydantic import TypeAdapter

from downstream.resources import READ
from journal.values import Json, JsonObject

from .caller import Caller, Patience
from .resource_read import read_resource

Answer: TypeAlias = CallToolResult | InputRequiredResult
_ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)


async def request_call(
    session: ClientSession, tool: str, arguments: JsonObject, *, caller: Caller, patience: Patience
) -> Answer:
    """Have the tool called, or with the name `READ` a resource read. Raises what the SDK raises."""
    meta, resumed = _meta(caller.meta), caller.resumed
    if tool == READ:
        return await read_resource(session, arguments["uri"], meta=meta, resumed=resumed)
    params = CallToolRequestParams(
        name=tool,
        arguments=arguments,
        input_responses=resumed.responses(),
        request_state=resumed.state,
        _meta=meta,
    )
    return await session.send_request(CallToolRequest(params=params), _ANSWER, progress_callback=patience.on_progress)


def _meta(meta: Mapping[str, Json] | None) -> RequestParamsMeta | None:
    return cast("RequestParamsMeta", dict(meta)) if meta else None
