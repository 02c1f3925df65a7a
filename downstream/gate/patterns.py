"""Regular expressions from JSON Schemas of servers, matched in bounded time: a few characters can stand for years."""

import importlib
import re
import time
from typing import Any

LONGEST_PATTERN = 4_000
"""Characters; what is longer could take long to compile already."""


class TooSlow(Exception):
    """The time for it is over."""


def found(pattern: str, text: str, *, seconds: float) -> tuple[bool, float]:
    """Whether the pattern matches somewhere in the text, and how many seconds of the processor that took.

    Raises TooSlow where it takes more than it may, and re.error for what is no pattern.
    """
    if len(pattern) > LONGEST_PATTERN or seconds <= 0:
        raise TooSlow
    # Imported on first use: few schemas have patterns. Of the standard library's no search can be ended.
    # It has no types.
    engine: Any = importlib.import_module("regex")
    began = time.process_time()
    try:
        match = engine.search(pattern, text, timeout=seconds)
    except (TimeoutError, MemoryError) as error:
        raise TooSlow from error
    except (engine.error, RecursionError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise re.error(f"{str(error)[:100]} in the pattern {pattern[:100]!r}") from error
    return match is not None, time.process_time() - began
