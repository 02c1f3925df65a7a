"""Reading all pages of what a server lists."""

from mcp import Client, MCPError
from mcp.types import Tool
from mcp_types import METHOD_NOT_FOUND

from .listing import Definition, Listing

_PAGES = 100


async def read_listing(client: Client) -> Listing:
    """Every tool once, by name; a server without tools lists none. Raises what the SDK raises."""
    tools: dict[str, Definition] = {}
    cursor: str | None = None
    try:
        for _ in range(_PAGES):
            page = await client.list_tools(cursor=cursor)
            for tool in page.tools:
                tools.setdefault(tool.name, _definition(tool))
            cursor = page.next_cursor
            if not cursor:
                break
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
    return Listing(client.instructions or "", tuple(sorted(tools.values(), key=lambda tool: tool.name)))


def _definition(tool: Tool) -> Definition:
    annotations = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else {}
    return Definition(
        name=tool.name,
        title=tool.title or "",
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=annotations,
    )
