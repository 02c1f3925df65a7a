"""Lines that somebody has typed, for questions asked in this process."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager


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
