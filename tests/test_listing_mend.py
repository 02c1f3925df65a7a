"""A listing with malformed tools costs those tools at most, and the run is told which."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from gate_case import open_runs
from mcp import Client
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp.types import ListToolsResult, PaginatedRequestParams, Tool
from mcp_types import PROTOCOL_VERSION_META_KEY, JSONRPCRequest, JSONRPCResponse
from tool_connections import ODD, stdio
from toy_servers.by_hand import MODERN

from downstream.servers.catalogue import Catalogue
from downstream.servers.listing_mend import Mender
from downstream.servers.listing_read import read_listing
from downstream.servers.pool import open_pool
from journal.world import World

WELL = {"name": "well", "inputSchema": {"type": "object"}}
OBJECT = {"type": "object"}
SEALED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
LEFT_OUT = "its tool {} is left out: what it lists of it cannot be read ({})"


def listed(mender: Mender, version: str, *tools: Any, cursor: str | None = None, **more: Any) -> Any:
    """What a session is shown of a listing in answer to a request of this version."""
    meta = {PROTOCOL_VERSION_META_KEY: version} if version == MODERN else {}
    params = {"_meta": meta} | ({"cursor": cursor} if cursor else {})
    mender.note(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=7, method="tools/list", params=params)))
    result = {"tools": list(tools), **(SEALED if version == MODERN else {}), **more}
    shown = mender.mended(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=7, result=result)))
    assert isinstance(shown, SessionMessage)
    assert isinstance(shown.message, JSONRPCResponse)
    return shown.message.result["tools"]


MENDED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"inputSchema": {"properties": {}}}, {"inputSchema": {"properties": {}, "type": "object"}}),
    ({"inputSchema": {"type": None}}, {"inputSchema": OBJECT}),
    ({"inputSchema": None}, {"inputSchema": OBJECT}),
    ({}, {"inputSchema": OBJECT}),
    ({"inputSchema": OBJECT, "annotations": {"readOnlyHint": "perhaps"}}, {"inputSchema": OBJECT}),
    ({"inputSchema": OBJECT, "outputSchema": ["a"], "title": "T"}, {"inputSchema": OBJECT}),
]


@pytest.mark.parametrize("version", ["2025-06-18", MODERN])
@pytest.mark.parametrize(("given", "shown"), MENDED)
def test_a_tool_is_mended_where_it_only_lacks_what_can_be_known(
    version: str, given: dict[str, Any], shown: dict[str, Any]
) -> None:
    mender = Mender()
    assert listed(mender, version, WELL, {"name": "odd", **given}) == [WELL, {"name": "odd", **shown}]
    assert mender.notes == ("what it lists of 'odd' does not fit the protocol and was mended",)


LEFT = [
    ({"name": 3, "inputSchema": OBJECT}, LEFT_OUT.format("without a name", "name: Input should be a valid string")),
    ({"name": "a\u202eb", "inputSchema": [1]}, LEFT_OUT.format("'ab'", "inputSchema: Input should be ")),
    (
        {"name": "odd", "inputSchema": {"type": "string"}},
        LEFT_OUT.format("'odd'", "inputSchema.type: Input should be "),
    ),
    ("tool", LEFT_OUT.format("without a name", "Input should be ")),
]


@pytest.mark.parametrize("version", ["2025-06-18", MODERN])
@pytest.mark.parametrize(("given", "said"), LEFT)
def test_a_tool_that_cannot_be_read_is_left_out_and_no_other(version: str, given: Any, said: str) -> None:
    mender = Mender()
    assert listed(mender, version, given, WELL) == [WELL]
    (note,) = mender.notes
    assert note.startswith(said.removesuffix(")"))


def test_what_is_well_and_what_is_no_listing_stays_as_it_came() -> None:
    mender, odd = Mender(), {"name": "odd"}
    assert listed(mender, "2025-06-18", WELL) == [WELL]
    # Nothing is made of an answer that is none by itself.
    assert listed(mender, MODERN, odd, nextCursor=5) == [odd]
    again = SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=7, result={"tools": [odd]}))
    broken = ValueError("no message")
    assert (mender.mended(again), mender.mended(broken), mender.notes) == (again, broken, ())


def test_notes_are_of_all_pages_of_the_latest_listing() -> None:
    mender = Mender()
    listed(mender, "2025-06-18", {"name": "one"})
    listed(mender, "2025-06-18", *({"name": name} for name in ("two", "three", "four")), cursor="2")
    assert mender.notes == (
        "what it lists of 'one', 'two', 'three' and others does not fit the protocol and was mended",
    )
    listed(mender, "2025-06-18", WELL)
    assert not mender.notes


async def test_a_tool_that_its_server_keeps_for_its_own_view_is_not_offered() -> None:
    server = MCPServer("views")

    def look() -> str:
        return "seen"

    for name, visible in (("plain", None), ("both", ["model", "app"]), ("own", ["app"]), ("odd", "app")):
        server.add_tool(look, name=name, meta={"ui": {"visibility": visible}} if visible else None)
    async with Client(server) as client:
        listing = await read_listing(client, Mender())
    assert [tool.name for tool in listing.tools] == ["both", "odd", "plain"]


def paged(page: Callable[[int], ListToolsResult]) -> tuple[Server[Any], list[int]]:
    """A server that lists its tools on pages without end, and the pages that it was asked for."""
    asked: list[int] = []

    async def listed(_: object, params: PaginatedRequestParams | None) -> ListToolsResult:
        asked.append(int((params.cursor if params else None) or 0))
        return page(asked[-1])

    return Server("paged", on_list_tools=listed), asked


async def test_no_more_pages_are_asked_for_once_a_listing_is_longer_than_any_answer_may_be() -> None:
    def page(number: int) -> ListToolsResult:
        tool = Tool(name=f"t{number}", description="x" * 9_000_000, input_schema=OBJECT)
        return ListToolsResult(tools=[tool], next_cursor=str(number + 1))

    server, asked = paged(page)
    async with Client(server) as client:
        listing = await read_listing(client, Mender())
    assert (asked, [tool.name for tool in listing.tools]) == ([0, 1], ["t0", "t1"])
    assert listing.notes == ("its list of tools is longer than 100 pages or 16 MiB; the rest is left out",)


@pytest.mark.e2e
async def test_a_server_with_malformed_tools_is_used_without_them_and_the_run_is_told(tmp_path: Path) -> None:
    servers = [stdio("odd", [sys.executable, str(ODD), "malformed"])]
    async with open_runs(tmp_path) as runs:
        with anyio.fail_after(20):
            async with open_pool(servers, World()) as pool:
                catalogue = Catalogue(pool, runs.store.remembered, servers)
                tools = {tool.full_name: tool for tool in await catalogue.tools()}
                result = await pool.connection("odd").call("hinted", {"n": 1}, timeout=10)
            async with open_pool(servers, World()) as pool:
                # It stays known without asking the server again.
                later = Catalogue(pool, runs.store.remembered, servers)
                await later.tools()
    assert (list(tools), result.is_error) == (["odd.hinted", "odd.look", "odd.typeless"], False)
    assert tools["odd.hinted"].class_ == "unknown"
    assert tools["odd.typeless"].input_schema == {"properties": {"n": {"type": "integer"}}, "type": "object"}
    listed, unnamed, mended = catalogue.warnings()
    assert listed.startswith("tool server 'odd': its tool 'listed' is left out: what it lists of it cannot be read (in")
    assert unnamed.startswith("tool server 'odd': its tool without a name is left out: ")
    assert mended == "tool server 'odd': what it lists of 'typeless', 'hinted' does not fit the protocol and was mended"
    assert later.warnings() == [listed, unnamed, mended]


CUT = "a page of its list of tools has more than 5,000 tools or 200,000 parts; the rest is left out"


@pytest.mark.parametrize(
    ("tools", "kept"),
    [
        ([WELL | {"name": f"t{n}"} for n in range(6_000)], 5_000),
        ([WELL, WELL | {"icons": [0] * 200_000}, WELL | {"name": "third"}], 1),
    ],
    ids=["many tools", "one of many parts"],
)
def test_of_a_page_that_is_too_large_the_rest_is_left_out(tools: list[Any], kept: int) -> None:
    mender = Mender()
    assert listed(mender, MODERN, *tools) == tools[:kept]
    assert list(mender.notes) == [CUT]
    assert listed(mender, MODERN, WELL) == [WELL]
    assert list(mender.notes) == []


def test_of_many_tools_that_cannot_be_read_twenty_are_named() -> None:
    mender = Mender()
    assert listed(mender, MODERN, *({"name": f"t{n}", "inputSchema": 5} for n in range(1_000)), WELL) == [WELL]
    *named, rest = mender.notes
    assert [note.partition(" is left out")[0] for note in named] == [f"its tool 't{n}'" for n in range(20)]
    assert rest == "and 980 more are left out"


def test_of_a_thousand_errors_in_a_tool_only_their_number_is_told() -> None:
    mender = Mender()
    assert listed(mender, MODERN, {"inputSchema": 5, "name": 3, "icons": [0] * 1_001}) == []
    assert mender.notes == (LEFT_OUT.format("without a name", "1,003 errors"),)
