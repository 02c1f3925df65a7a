"""How much work something is, in calls of Python functions: the same on every machine, however busy it is."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import pytest


@contextmanager
def at_most(calls: int) -> Generator[None]:
    """Fails at once, and does not wait for the end, when what is within calls more functions than that."""
    left = calls

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        if event == "call":
            left -= 1
            if left < 0:
                sys.setprofile(None)
                pytest.fail(f"it made more than {calls:,} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
