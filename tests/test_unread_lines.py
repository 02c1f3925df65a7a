"""A request that the protocol's reader cannot read is answered, so that its host does not wait for ever."""

from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from server.host.unread_lines import Item, open_answered

HALF = '"\\ud800"'


def read(line: str) -> Item:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line))
    except ValidationError as error:
        return error


async def through(*items: Item) -> tuple[list[Item], list[Any]]:
    """What is passed on, and what is answered."""
    into, receive = anyio.create_memory_object_stream[Item](len(items))
    send, answers = anyio.create_memory_object_stream[SessionMessage](len(items))
    passed: list[Item] = []
    async with into, receive, send, answers:
        for item in items:
            into.send_nowait(item)
        await into.aclose()
        with anyio.fail_after(5):
            async with open_answered(receive, send) as rest:
                async for item in rest:
                    passed.append(item)
        return passed, [answers.receive_nowait().message for _ in range(answers.statistics().current_buffer_used)]


@pytest.mark.parametrize("id_", ["7", '"seven"'])
@pytest.mark.parametrize(
    "value", [HALF, "9" * 5_000, "[" * 50_000 + "]" * 50_000], ids=["half a character", "a long number", "depth"]
)
async def test_a_request_that_no_reader_takes_is_answered_under_its_id(id_: str, value: str) -> None:
    line = f'{{"jsonrpc": "2.0", "params": {{"id": 3, "a\\"": {value}}}, "id": {id_}, "method": "m"}}'
    passed, (answer,) = await through(read(line))
    assert not passed
    assert isinstance(answer, JSONRPCError)
    assert (str(answer.id), answer.error.code) == (id_.strip('"'), -32700)
    assert "the request cannot be read" in answer.error.message


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc": "2.0", "id": 7, "method": "m"}',
        "{",
        f"[{HALF}]",
        f'{{"jsonrpc": "2.0", "method": "m", "params": {HALF}}}',
        f'{{"jsonrpc": "2.0", "id": true, "method": {HALF}}}',
        f'{{"jsonrpc": "2.0", "id": 7, "result": {HALF}}}',
        f'{{"jsonrpc": "2.0", "params": {{"id": 7, "method": "m"}}, "b": {HALF}}}',
        '{"jsonrpc": 2}',
    ],
    ids=["whole", "no JSON", "no object", "no id", "no such id", "no request", "inside", "no message"],
)
async def test_all_else_is_passed_on_as_it_came(line: str) -> None:
    item = read(line)
    assert await through(item) == ([item], [])
