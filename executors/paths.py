"""Paths into JSON data, as references and `read_artifact` write them: `.field` and `[0]` after each other."""

import json
import re

from downstream.json_shape import is_array, is_object
from journal.errors import SteprelayError
from journal.values import Json

_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_SHOWN_KEYS = 12
_DIGITS = 18


class ReferenceMissing(SteprelayError):
    """A reference names something that is not there; the text says what is there instead."""


def follow(data: Json, path: str, *, start: str) -> Json:
    """What stands at `path` below `data`, which the error text calls `start`. Raises ReferenceMissing."""
    here, position = start, 0
    while position < len(path):
        part = _PART.match(path, position)
        if part is None:
            raise ReferenceMissing(f"{start}{path} is not a path; write it as in {start}.items[0].name")
        data = _step_into(data, part, here=here, whole=f"{start}{path}")
        here, position = f"{here}{part.group()}", part.end()
    return data


def _step_into(data: Json, part: re.Match[str], *, here: str, whole: str) -> Json:
    key, index = part.groups()
    if is_object(data) and key is not None and key in data:
        return data[key]
    if is_array(data) and (place := _place(key or index)) is not None and place < len(data):
        return data[place]
    raise ReferenceMissing(f"{whole} does not exist: {here} is {kind(data)}")


def _place(written: str) -> int | None:
    """The number that is written; none where no list could be so long."""
    return int(written) if written.isascii() and written.isdigit() and len(written) <= _DIGITS else None


def kind(data: Json) -> str:
    """What data is, in words, for an error text: type, size and, for an object, its fields."""
    if is_object(data):
        names = ", ".join(sorted(data)[:_SHOWN_KEYS]) or "no fields"
        return f"an object with {names}{', …' if len(data) > _SHOWN_KEYS else ''}"
    if is_array(data):
        return f"a list of {len(data)}"
    if isinstance(data, str):
        return f"a text of {len(data)} characters"
    return json.dumps(data)
