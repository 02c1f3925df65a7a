"""What a server promises of its results, and how much it sends, costs its own call a moment and nothing else."""

import json
import logging
import sys
from pathlib import Path

import anyio
import pytest
from mcp import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import CallToolResult, JSONRPCNotification
from mcp_types import URL_ELICITATION_REQUIRED, JSONRPCError, JSONRPCRequest, JSONRPCResponse
from tool_connections import ODD, stdio, text_of
from toy_servers.by_hand import MODERN

from downstream.servers.asking import asked_in_error
from downstream.servers.bulk import bounded, parts_of
from downstream.servers.failures import CallFailed
from downstream.servers.pool import open_pool
from downstream.servers.promise import misfit
from downstream.settings import ServerSettings
from journal.values import Json, JsonObject
from journal.world import World

SUPPORT = Path(__file__).parent / "support"
OLDER = "2025-06-18"
WELL: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def promising(folder: Path, schema: Json, version: str = OLDER, **result: Json) -> ServerSettings:
    """A server whose one tool lists this schema and answers with this result."""
    told: Json = {"outputSchema": schema, "result": {"content": [], **result}}
    (folder / "told.json").write_text(json.dumps(told), encoding="utf-8")
    command = [sys.executable, "-m", "toy_servers.promising_server", str(folder / "told.json"), version]
    return stdio("p", command).model_copy(update={"cwd": SUPPORT})


def one(schema: Json) -> JsonObject:
    return {"type": "object", "properties": {"x": schema}}


def twofold(levels: int) -> JsonObject:
    ways = {f"l{n}": {"anyOf": [{"$ref": f"#/$defs/l{n - 1}"}] * 2} for n in range(1, levels + 1)}
    return one({"$ref": f"#/$defs/l{levels}"}) | {"$defs": {"l0": {"type": "integer"}, **ways}}


TEXT: JsonObject = {"x": "a" * 40 + "b"}
ENDLESS: dict[str, tuple[JsonObject, JsonObject]] = {
    "a pattern": (one({"pattern": "^(a|a)*$"}), TEXT),
    "the name of a pattern": ({"type": "object", "patternProperties": {"^(a|a)*$": {}}}, {TEXT["x"]: 1}),
    "ways": (twofold(60), TEXT),
    "round and round": ({"type": "object", "allOf": [{"$ref": "#"}]}, TEXT),
    "it is too long": ({"type": "object", "description": "x" * 300_000}, TEXT),
    "it is none": (one({"type": "integer", "minimum": "three"}), {"x": 1}),
    "a reference elsewhere": (one({"$ref": "http://127.0.0.1:9/x"}), TEXT),
}


@pytest.mark.e2e
@pytest.mark.parametrize("version", [OLDER, MODERN])
@pytest.mark.parametrize(("schema", "data"), ENDLESS.values(), ids=ENDLESS.keys())
async def test_a_promise_that_cannot_be_checked_costs_no_result_and_is_told_of_once(
    tmp_path: Path, schema: JsonObject, data: JsonObject, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="downstream.servers.connection")
    async with open_pool([promising(tmp_path, schema, version, structuredContent=data)], World()) as pool:
        with anyio.fail_after(30):
            results = [await pool.connection("p").call("look", {}, timeout=20) for _ in range(2)]
    assert [(result.is_error or False, result.structured_content) for result in results] == [(False, data)] * 2
    (told,) = [record for record in caplog.records if record.message == "result_unchecked"]
    assert (told.__dict__["server"], told.__dict__["tool"]) == ("p", "look")


async def test_the_loop_goes_on_while_a_result_is_checked(tmp_path: Path) -> None:
    schema = one({"items": {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}})
    turns, ended = 0, anyio.Event()

    async def turn() -> None:
        nonlocal turns
        while not ended.is_set():
            await anyio.lowlevel.checkpoint()
            turns += 1

    result = CallToolResult(content=[], structured_content={"x": [None] * 9_000})
    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        assert await misfit("look", schema, result) is None
        ended.set()
    assert turns > 10


@pytest.mark.e2e
@pytest.mark.parametrize("version", [OLDER, MODERN])
async def test_a_result_that_breaks_its_promise_is_an_error_of_a_call_that_ran(tmp_path: Path, version: str) -> None:
    async with open_pool([promising(tmp_path, WELL, version, structuredContent={"n": "three"})], World()) as pool:
        with anyio.fail_after(20):
            result = await pool.connection("p").call("look", {}, timeout=10)
    wrong = "Invalid structured content returned by tool look: 'three' is not of type 'integer', at $.n"
    assert text_of(result) == f"p ran the call, but its answer does not fit what it promised: {wrong}"
    assert (result.is_error, result.meta and result.meta["steprelay/did_run"]) == (True, True)


KEPT: list[tuple[JsonObject | None, CallToolResult, str | None]] = [
    (None, CallToolResult(content=[], structured_content={"n": 3}), None),
    (WELL, CallToolResult(content=[], structured_content={"n": 3}), None),
    (WELL, CallToolResult(content=[], is_error=True), None),
    (WELL, CallToolResult(content=[]), "Tool look has an output schema but did not return structured content"),
    (
        WELL,
        CallToolResult(content=[], structured_content={"n": "x" * 1000}),
        f"Invalid structured content returned by tool look: '{'x' * 299}, at $.n",
    ),
]


@pytest.mark.parametrize(("schema", "result", "wrong"), KEPT, ids=["none", "kept", "an error", "missing", "long"])
async def test_only_what_was_promised_is_asked_for(
    schema: JsonObject | None, result: CallToolResult, wrong: str | None
) -> None:
    assert await misfit("look", schema, result) == wrong


@pytest.mark.e2e
async def test_an_answer_of_too_many_parts_is_not_read_and_the_next_call_goes_well(tmp_path: Path) -> None:
    server = promising(tmp_path, WELL)
    told = json.loads((tmp_path / "told.json").read_text())
    (tmp_path / "told.json").write_text(json.dumps(told | {"result": {"content": [0] * 1_000_000}}))
    async with open_pool([server], World()) as pool:
        with anyio.fail_after(30):
            results = [await pool.connection("p").call("look", {}, timeout=20) for _ in range(2)]
    text = "p ran the call, but sent an answer of more than 20,000 parts, which was not read; ask it for less at once"
    assert [text_of(result) for result in results] == [text] * 2


def test_a_message_of_too_many_parts_is_left_out_and_an_answer_says_so() -> None:
    many: Json = [0] * 20_001
    answer = SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=7, result={"content": many}))
    refused = bounded(answer)
    assert isinstance(refused, SessionMessage)
    assert isinstance(refused.message, JSONRPCError)
    assert refused.message.id == 7
    form = JSONRPCRequest(jsonrpc="2.0", id=1, method="elicitation/create", params={"requestedSchema": many})
    note = JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params={"message": many})
    assert [bounded(SessionMessage(each)) for each in (form, note)] == [None, None]


@pytest.mark.e2e
async def test_an_answer_is_read_also_after_a_message_that_is_left_out() -> None:
    many = json.dumps({"jsonrpc": "2.0", "method": "notifications/odd", "params": {"of": [0] * 20_001}})
    answer = '{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "read"}]}}'
    async with open_pool([stdio("odd", [sys.executable, str(ODD), "raw", f"{many}\n{answer}"])], World()) as pool:
        with anyio.fail_after(20):
            result = await pool.connection("odd").call("look", {}, timeout=10)
    assert text_of(result) == "read"


def test_what_the_sdk_reads_without_looking_may_be_large() -> None:
    free: JsonObject = {"structuredContent": {"x": [0] * 50_000}, "_meta": {"x": [0] * 50_000}, "content": []}
    kept: list[SessionMessage | Exception] = [
        SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=7, result=free)),
        SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")),
        ValueError("no message"),
    ]
    assert [bounded(each) for each in kept] == kept


NESTED: Json = {"a": [1, 2, {"b": None}], "c": "text"}


@pytest.mark.parametrize(("most", "count"), [(100, 7), (7, 7), (6, 7), (2, 3)])
def test_parts_are_counted_no_further_than_asked(most: int, count: int) -> None:
    assert parts_of(NESTED, at_most=most) == count


@pytest.mark.parametrize("asked_for", [9, 100_000])
def test_an_error_that_wants_too_much_is_not_read(asked_for: int) -> None:
    asked = asked_in_error("shop", MCPError(URL_ELICITATION_REQUIRED, "first", {"elicitations": [0] * asked_for}))
    assert isinstance(asked, CallFailed)
    assert asked.text == f"shop asks for {asked_for} things at once; at most 8 are put before a person"
