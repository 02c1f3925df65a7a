"""Tools that say nothing of themselves: a person says once what each may do, on the page or in a panel."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from downstream.servers.catalogue import remembered_tools
from downstream.servers.confirmed import CLASSES, NotToConfirm, confirm, confirmed_classes, mark_of
from downstream.tools import Tool, ToolClass
from journal.values import JsonObject
from server.product import Product

from .cards import tool_card


@dataclass(frozen=True)
class Word:
    """What a person says that a tool is; `tool` and `pin`, the hash of its definition, are what was shown to them."""

    tool: str
    pin: str
    class_: ToolClass


async def unclassed_tools(product: Product, servers: Collection[str] | None = None) -> list[Tool]:
    """The tools that no person has classed yet: of all servers, or of these."""
    remembered = product.store.remembered
    # All of them: which tools are usable depends on what the other servers' are called.
    tools = await remembered_tools(remembered, product.settings.servers)
    confirmed = await confirmed_classes(remembered)
    unknown = [tool for tool in tools if tool.class_ == "unknown" and mark_of(tool) not in confirmed]
    return unknown if servers is None else [tool for tool in unknown if tool.server in servers]


def tool_cards(product: Product, tools: Sequence[Tool]) -> JsonObject:
    """The tools as they are shown, with all that each may be said to be."""
    return {"tools": [tool_card(tool, outlet=product.store.outlet) for tool in tools], "classes": list(CLASSES)}


def shown_tool(tools: Sequence[Tool], word: Word) -> Tool:
    """The tool that a word is about. Raises NotToConfirm."""
    about = word.tool, word.pin
    if (tool := next((tool for tool in tools if (tool.full_name, tool.pin) == about), None)) is None:
        raise NotToConfirm("no tool of this definition waits to be classed; look at the list again")
    return tool


async def class_tool(product: Product, tool: Tool, word: Word, *, client: str) -> JsonObject:
    """Take a person's word on what a tool of this definition is, and have runs go on that wait for it."""
    for run_id in await confirm(product.store, tool, word.class_, client=client):
        await product.engine.wake(run_id)
    return {"message": f"{tool.full_name} is {word.class_} from now on, as long as its definition stays."}
