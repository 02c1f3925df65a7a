"""Reading all pages of what a server lists."""

from mcp import Client, MCPError
from mcp.types import Tool
from mcp_types import METHOD_NOT_FOUND

from downstream.json_shape import is_array, is_object
from downstream.resources import READ

from .exchange import LARGEST_ANSWER
from .listing import Definition, Listing
from .listing_mend import Mender
from .names import clean_text

_PAGES = 100
_ENDLESS = f"its list of tools is longer than {_PAGES} pages or 16 MiB; the rest is left out"
_NO_BINDING = "its tool {} is left out: what it lists of it holds numbers that no JSON has, such as 1e999"
_NAMED = 80


async def read_listing(client: Client, mender: Mender) -> Listing:
    """Every tool once, by name, with notes on what was mended or left out; a server without tools lists none.

    Raises what the SDK raises.
    """
    tools: dict[str, Definition] = {}
    cursor: str | None = None
    size = 0
    try:
        for _ in range(_PAGES):
            page = await client.list_tools(cursor=cursor)
            for tool in page.tools:
                if tool.name != READ and _is_for_models(tool):
                    tools.setdefault(tool.name, _definition(tool))
            cursor, size = page.next_cursor, size + len(page.model_dump_json())
            if not cursor or size > LARGEST_ANSWER:
                break
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
    by_name = sorted(tools.values(), key=lambda tool: tool.name)
    notes = [_ENDLESS] if cursor else []
    notes += [_NO_BINDING.format(repr(clean_text(tool.name)[:_NAMED])) for tool in by_name if not tool.has_binding]
    return Listing(
        client.instructions or "", tuple(tool for tool in by_name if tool.has_binding), (*mender.notes, *notes)
    )


def _is_for_models(tool: Tool) -> bool:
    """Not one that a server keeps for a view of its own: the extension for apps wants those hidden from models."""
    ui = (tool.meta or {}).get("ui")
    visible = ui.get("visibility") if is_object(ui) else None
    return not is_array(visible) or "model" in visible


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
