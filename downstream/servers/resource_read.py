"""Reading a linked resource over the wire; what comes is given the form of a tool's result."""

from mcp import ClientSession
from mcp.types import (
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    InputRequiredResult,
    RequestParamsMeta,
    TextContent,
    TextResourceContents,
)

from .asking import Resumed


async def read_resource(
    session: ClientSession, uri: str, *, meta: RequestParamsMeta | None, resumed: Resumed
) -> CallToolResult | InputRequiredResult:
    """The parts of the resource at this address; one that is a single text is that text. Raises what the SDK raises."""
    result = await session.read_resource(
        uri, input_responses=resumed.responses(), request_state=resumed.state, meta=meta, allow_input_required=True
    )
    if isinstance(result, InputRequiredResult):
        return result
    content: list[ContentBlock] = [EmbeddedResource(type="resource", resource=part) for part in result.contents]
    match result.contents:
        case [TextResourceContents(text=text)]:
            content = [TextContent(type="text", text=text)]
        case _:
            pass
    return CallToolResult(content=content)
