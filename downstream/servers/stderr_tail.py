"""The last lines that a tool server wrote to stderr: they often say why it does not work."""

import io
import logging
import os
import re
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO

import anyio.to_thread

from .names import clean_text
from .watchdog import EXIT_CODE

log = logging.getLogger(__name__)

_LINES = 200
_LINE_CHARACTERS = 2000
_SHORT_CHARACTERS = 120
_SETTLE_SECONDS = 0.5
_SHORT_LINES = 3
_BETWEEN = " / "
_NO_REASON = (
    "npm notice",
    "npm warn deprecated",
    "npm error A complete log",
    "npm error Log files",
    "npm error 404 Note that you can also install",
    "npm error 404 tarball, folder",
    "Node.js v",
    "Traceback (most recent call last)",
)
"""What npm, Node.js and Python say beside what is wrong."""
_SAYS = re.compile(r"(?!npm error(?: \d+)?$).*[^\W\d_]")
"""A line with a letter; npm also writes its prefix alone."""


class StderrTail:
    """Keeps the last lines of one server's present or last process; all of them go to the log at debug."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._reader: threading.Thread | None = None

    @contextmanager
    def open_pipe(self) -> Generator[IO[str]]:
        """The end to hand to a new process; close it once the process has it, so that its end is noticed."""
        reading, writing = os.pipe()
        self._lines.clear()
        # A thread, since not every platform can wait for pipes; a daemon, since a grandchild may keep its end open.
        self._reader = threading.Thread(target=self._read, args=(reading,), name=f"stderr {self._server}", daemon=True)
        self._reader.start()
        with open(writing, "w", encoding="utf-8") as end:
            yield end

    async def settle(self) -> None:
        """Wait a moment for the last words of a process that has ended."""
        if self._reader is not None:
            await anyio.to_thread.run_sync(self._reader.join, _SETTLE_SECONDS)

    def text(self) -> str:
        """Everything that is kept, without control characters."""
        return clean_text("\n".join(self._lines))

    def short(self) -> str:
        """The last lines of the server's own that tell something, else its exit code, in at most 120 characters."""
        lines = [line.rstrip() for line in self.text().splitlines() if line.strip()]
        said = [line for line in lines if _SAYS.match(line) and not line.startswith((EXIT_CODE, *_NO_REASON))]
        # Indented are places in a program, and its own lines.
        own = [line for line in said if not line[0].isspace()] or said or lines
        told = [_cut(own[-1].strip(), _SHORT_CHARACTERS)] if own else []
        for line in reversed(own[-_SHORT_LINES:-1]):
            if line.strip() not in told and len(_BETWEEN.join([line.strip(), *told])) <= _SHORT_CHARACTERS:
                told.insert(0, line.strip())
        return _BETWEEN.join(told)

    def _read(self, reading: int) -> None:
        with io.TextIOWrapper(open(reading, "rb"), encoding="utf-8", errors="replace") as stream:
            within = False
            while part := stream.readline(_LINE_CHARACTERS):
                # The rest of a long line is left out: a secret that spans two parts would be found in neither.
                if not within:
                    line = _cut(part.rstrip("\n"), _LINE_CHARACTERS - 1)
                    self._lines.append(line)
                    log.debug("server_stderr", extra={"server": self._server, "line": line})
                within = not part.endswith("\n")


def _cut(text: str, most: int) -> str:
    """With a mark where it is cut, by which what is left of a secret is found."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
