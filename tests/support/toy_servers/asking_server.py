"""A tool server that asks its client for a form before it does anything: `asking_server.py`."""

from typing import Annotated

from mcp.server.mcpserver import Elicit, MCPServer, Resolve
from pydantic import BaseModel


class Sure(BaseModel):
    """The form."""

    sure: bool


async def ask(item: str) -> Sure | Elicit[Sure]:
    """Ask before the tool begins."""
    return Elicit(f"order {item}?", Sure)


server = MCPServer("shop", version="1")


@server.tool()
async def order(item: str, answer: Annotated[Sure, Resolve(ask)]) -> str:
    """Order something."""
    return f"{item}: {answer.sure}"


if __name__ == "__main__":
    server.run()
