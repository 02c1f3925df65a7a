"""Lines that somebody has typed, for questions asked in this process."""

import os
import pty
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout


@contextmanager
def typed(*lines: str) -> Generator[None]:
    """These lines, and then the end of input, on stdin."""
    reading, writing = os.pipe()
    os.write(writing, "".join(f"{line}\n" for line in lines).encode())
    os.close(writing)
    before = sys.stdin
    with os.fdopen(reading) as sys.stdin:
        try:
            yield
        finally:
            sys.stdin = before


@contextmanager
def at_a_terminal(line: str) -> Generator[int]:
    """This line typed at a pseudo-terminal, which stdin and stdout are; gives the descriptor to read what is said."""
    ours, theirs = pty.openpty()
    os.write(ours, f"{line}\n".encode())
    before = sys.stdin
    try:
        with os.fdopen(theirs) as sys.stdin, os.fdopen(os.dup(theirs), "w") as out, redirect_stdout(out):
            yield ours
    finally:
        sys.stdin = before
        os.close(ours)
