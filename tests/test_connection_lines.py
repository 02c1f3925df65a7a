"""What a child process writes is cut into messages, whatever it writes and however long its lines are."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from mcp.shared.message import SessionMessage
from tool_connections import by_hand, text_of
from toy_servers.by_hand import MODERN

from downstream.servers.failures import LINE_TOO_LONG
from downstream.servers.pool import open_pool
from downstream.servers.stdio_lines import LONGEST_LINE, Lines, LineTooLong
from journal.world import World

REPLY = b'{"jsonrpc":"2.0","id":7,"result":{}}'


def read(*chunks: bytes) -> list[Any]:
    lines = Lines()
    return [said(message) for chunk in chunks for message in lines.feed(chunk)]


def said(message: SessionMessage) -> Any:
    return json.loads(message.message.model_dump_json(by_alias=True, exclude_unset=True))


@pytest.mark.parametrize(
    "chunks",
    [
        [REPLY + b"\n"],
        [bytes([byte]) for byte in REPLY + b"\r\n"],
        [b"\n\n  ", REPLY[:9], REPLY[9:] + b"\nrest"],
        [b"loading ... ", REPLY, b"\n"],
        [b"junk\n5\nnull\n", b"[" + REPLY + b"]\n"],
        [b"[1, {}]\n[\n" + b"[" * 100_000 + b"\n{\n", REPLY + b"\n"],
    ],
    ids=["whole", "by bytes", "in parts", "after words", "a batch", "after junk"],
)
def test_a_message_is_found_however_it_comes(chunks: list[bytes]) -> None:
    assert read(*chunks) == [json.loads(REPLY)]


def test_a_batch_without_end_is_read_only_so_far() -> None:
    batch = b"[" + b",".join([REPLY] * 1_001) + b"]\n"
    assert read(batch, REPLY + b"\n") == [json.loads(REPLY)] * 1_001


@pytest.mark.parametrize(
    ("begin", "end"),
    [(b'{"jsonrpc":"2.0","id":7,"result":"', b'"}'), (b'{"result":"', b'","jsonrpc":"2.0","id":7}')],
    ids=["id first", "id last"],
)
def test_a_reply_that_is_too_long_ends_its_own_call_only(begin: bytes, end: bytes) -> None:
    parts = [begin, *[b"x" * (LONGEST_LINE // 8)] * 9, end + b"\n", REPLY + b"\n"]
    error = {"code": -32700, "message": LINE_TOO_LONG}
    assert read(REPLY + b"\n", *parts) == [
        json.loads(REPLY),
        {"jsonrpc": "2.0", "id": 7, "error": error},
        json.loads(REPLY),
    ]


@pytest.mark.parametrize("times", [9, 70], ids=["for nobody", "without end"])
def test_a_line_that_is_too_long_and_for_nobody_or_without_end_ends_the_connection(times: int) -> None:
    ends = b"\n" if times == 9 else b""
    with pytest.raises(LineTooLong):
        read(*[b"x" * (LONGEST_LINE // 8)] * times, ends)


@pytest.mark.e2e
async def test_lines_before_and_after_one_that_is_too_long_are_read_and_then_the_server_is_opened_anew(
    tmp_path: Path,
) -> None:
    first, others = by_hand("box", "nine_mib", MODERN, tmp_path / "state"), list[str]()
    async with open_pool([first], World()) as pool:
        box = pool.connection("box")
        with anyio.fail_after(30):
            await box.listing()
            before = set(toys.children_of(os.getpid()))
            async with anyio.create_task_group() as group:

                async def look() -> None:
                    others.append(text_of(await box.call("look", {}, timeout=20)))

                for _ in range(3):
                    group.start_soon(look)
            assert text_of(await box.call("look", {}, timeout=20)) == f"looked, {MODERN}"
            assert before.isdisjoint(toys.children_of(os.getpid()))
    too_long = "box ran the call, but sent a line of more than 8 MiB, which was not read; ask it for less at once"
    assert sorted(others) == [too_long, f"looked, {MODERN}", f"looked, {MODERN}"]
