"""The streams of a tool server that is a child process: one JSON-RPC message a line, none of more than 8 MiB."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import IO, TypeAlias

import anyio
import anyio.lowlevel
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from .failures import LINE_TOO_LONG
from .life import Life
from .stdio_lines import Lines, LineTooLong
from .stdio_process import Start, open_process

Incoming: TypeAlias = SessionMessage | Exception
_Inbox: TypeAlias = MemoryObjectSendStream[Incoming]
_Outbox: TypeAlias = MemoryObjectReceiveStream[SessionMessage]

_FLUSH_SECONDS = 0.5
_GONE = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


@asynccontextmanager
async def open_stdio(
    start: Start, stderr: IO[str], life: Life
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]]:
    """Streams to and from a process that is started now and ended with them; a line too long wears `life` out.

    Raises OSError or ValueError where it cannot be started.
    """
    inbox, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, outbox = anyio.create_memory_object_stream[SessionMessage](0)
    written = anyio.Event()
    async with anyio.create_task_group() as group:
        with inbox, incoming, outgoing, outbox:
            async with open_process(start, stderr) as process:
                stderr.close()
                assert process.stdout is not None
                assert process.stdin is not None
                group.start_soon(_read, process.stdout, inbox, life)
                group.start_soon(_write, process.stdin, outbox, inbox, written)
                try:
                    yield incoming, outgoing
                finally:
                    # First let the reader drop what still comes: a server stuck in writing reads nothing.
                    incoming.close()
                    outgoing.close()
                    with anyio.move_on_after(_FLUSH_SECONDS, shield=True):
                        await written.wait()
            group.cancel_scope.cancel()


async def _read(stdout: ByteReceiveStream, inbox: _Inbox, life: Life) -> None:
    lines, heard = Lines(), True
    try:
        while True:
            try:
                chunk = await stdout.receive()
            except _GONE:
                break
            # To the end, also when nobody listens: the server may be writing, and is to see the end of its input.
            heard = heard and await _hand_on(lines, chunk, inbox, life)
            await anyio.lowlevel.checkpoint()
        if heard:
            await _hand_on(lines, b"\n", inbox, life)
    finally:
        inbox.close()


async def _hand_on(lines: Lines, chunk: bytes, inbox: _Inbox, life: Life) -> bool:
    """Whether somebody still listens."""
    try:
        for message in lines.feed(chunk):
            if lines.too_long:
                life.wear_out()
            await inbox.send(message)
    except LineTooLong:
        life.end(LINE_TOO_LONG)
        inbox.close()
        return False
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return False
    return True


async def _write(stdin: ByteSendStream, outbox: _Outbox, inbox: _Inbox, written: anyio.Event) -> None:
    try:
        async for message in outbox:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stdin.send(line.encode() + b"\n")
    except _GONE:
        # The process may live on; whoever waits for an answer is told that none will come.
        inbox.close()
    finally:
        written.set()
