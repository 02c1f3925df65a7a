"""The two shapes of JSON data that hold other data, told apart for readers and type checkers alike."""

from collections.abc import Iterator
from typing import TypeGuard

from journal.values import Json, JsonObject


def is_object(data: Json) -> TypeGuard[JsonObject]:
    return isinstance(data, dict)


def is_array(data: Json) -> TypeGuard[list[Json]]:
    return isinstance(data, list)


def leaves(data: Json, pointer: str = "") -> Iterator[tuple[str, Json]]:
    """Every value that holds no other, with its JSON Pointer, in order; what is empty or null has nothing to give."""
    if is_object(data):
        for key, item in data.items():
            yield from leaves(item, f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}")
    elif is_array(data):
        for number, item in enumerate(data):
            yield from leaves(item, f"{pointer}/{number}")
    elif data is not None and data != "":
        yield pointer, data
