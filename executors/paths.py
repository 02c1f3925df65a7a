"""Paths into JSON data, as references and `read_artifact` write them: `.field` and `[0]` after each other."""

import json
import re

from downstream.json_shape import is_array, is_object
from journal.errors import SteprelayError
from journal.values import Json

_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_SHOWN_KEYS = 12


class ReferenceMissing(SteprelayError):
    """A reference names something that is not there; the text says what is there instead."""


def follow(data: Json, path: str, *, start: str) -> Json:
    """What stands at `path` below `data`, which the error text calls `start`. Raises ReferenceMissing."""
    here, position = start, 0
    while position < len(path):
        part = _PART.match(path, position)
        if part is None:
            raise ReferenceMissing(f"{start}{path} is not a path; write it as in {start}.items[0].name")
        key, index = part.groups()
        data = _step_into(data, key if index is None else int(index), here=here, whole=f"{start}{path}")
        here, position = f"{here}{part.group()}", part.end()
    return data


def _step_into(data: Json, key: str | int, *, here: str, whole: str) -> Json:
    if is_object(data) and isinstance(key, str) and key in data:
        return data[key]
    if is_array(data) and (index := _index(key)) is not None and index < len(data):
        return data[index]
    raise ReferenceMissing(f"{whole} does not exist: {here} is {kind(data)}")


def _index(key: str | int) -> int | None:
    if isinstance(key, str):
        return int(key) if key.isascii() and key.isdigit() else None
    return key


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
