"""A tool server whose tools change while it runs: `-m toy_servers.changing_http_server LOG PORT`.

grow    adds a tool `added`, and says so in the way of either era
At `/mcp` it speaks every version of the protocol, at `/older` none of the newer era, at `/sse` the older HTTP+SSE.
"""

import sys

from mcp.server.mcpserver import Context, MCPServer
from starlette.types import ASGIApp, Receive, Scope, Send
from toy_servers.ledger_server import READ
from toy_servers.legacy_http_server import refusing_newer, serve


def build_server() -> MCPServer:
    """The server before its tools changed."""
    server = MCPServer("changing")

    @server.tool(annotations=READ)
    async def grow(ctx: Context) -> str:
        """Add a tool."""
        server.add_tool(added, annotations=READ)
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return "grown"

    return server


def added() -> str:
    """Was not there before."""
    return "added"


def build_app() -> ASGIApp:
    """All three ways in."""
    server = build_server()
    plain, events = server.streamable_http_app(), server.sse_app()
    older = refusing_newer(plain)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path == "/older":
            await older({**scope, "path": "/mcp", "raw_path": b"/mcp"}, receive, send)
        elif path.startswith(("/sse", "/messages")):
            await events(scope, receive, send)
        else:
            await plain(scope, receive, send)

    return app


if __name__ == "__main__":
    serve(build_app(), int(sys.argv[2]))
