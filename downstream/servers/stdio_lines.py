"""What a child process writes, cut into messages: in linear time, and no line without end."""

import json
import logging
from collections.abc import Iterable, Iterator

from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from downstream.json_shape import is_array

from .failures import LINE_TOO_LONG
from .unreadable import as_answer, request_of

log = logging.getLogger(__name__)

LONGEST_LINE = 8 * 1024 * 1024
_GIVEN_UP = 8 * LONGEST_LINE
_END_BYTES = 400
_MOST_IN_BATCH = 1_000
"""As many as no server has to say at once: reading them holds up everything else."""
_BEGIN = b'{"jsonrpc"'


class LineTooLong(Exception):
    """A line of more than 8 MiB, of which nobody knows whom it is for, or which does not end."""


class Lines:
    """Takes bytes as they come; `too_long` says whether a line was skipped for its length."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._length = 0
        self._has_written_junk = False
        self.too_long = False

    def feed(self, chunk: bytes) -> Iterator[SessionMessage]:
        """The messages that end in this chunk. Raises LineTooLong; lines that are no messages are left out."""
        first, *others = chunk.split(b"\n")
        self._add(first)
        for other in others:
            yield from self._end_of_line()
            self._add(other)

    def _add(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > _GIVEN_UP:
            raise LineTooLong
        self._line += part
        if self._length > LONGEST_LINE:
            del self._line[_END_BYTES:-_END_BYTES]

    def _end_of_line(self) -> Iterable[SessionMessage]:
        line, length = self._line.strip(), self._length
        self._line, self._length = bytearray(), 0
        if length > LONGEST_LINE:
            return (self._skipped(line.decode(errors="replace")),)
        if line.startswith(b"["):
            return self._batch(line.decode(errors="replace"))
        # A server may have written something without an end of line before.
        begin = 0 if line.startswith(b"{") else line.find(_BEGIN)
        if begin >= 0:
            return self._message(line[begin:].decode(errors="replace"))
        self._note_junk(line)
        return ()

    def _skipped(self, ends: str) -> SessionMessage:
        self.too_long = True
        if (request := request_of(ends)) is None:
            raise LineTooLong
        said = ErrorData(code=PARSE_ERROR, message=LINE_TOO_LONG)
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=said))

    def _message(self, text: str) -> Iterator[SessionMessage]:
        try:
            yield SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
        except ValidationError as error:
            if isinstance(answer := as_answer(error), SessionMessage):
                yield answer
            else:
                self._note_junk(text.encode())

    def _batch(self, text: str) -> Iterator[SessionMessage]:
        # A server of 2025-03-26 may send several messages as one.
        try:
            read = json.loads(text)
        except (ValueError, RecursionError):
            read = None
        if not is_array(read):
            self._note_junk(text.encode())
            return
        for each in read[:_MOST_IN_BATCH]:
            yield from self._message(json.dumps(each))
        if len(read) > _MOST_IN_BATCH:
            log.warning("batch_cut", extra={"messages": len(read)})

    def _note_junk(self, line: bytes | bytearray) -> None:
        # The first is enough to see what a server does; a flood must not push all else out of the log.
        if line and not self._has_written_junk:
            self._has_written_junk = True
            log.debug("server_junk", extra={"line": line[:_END_BYTES].decode(errors="replace")})
