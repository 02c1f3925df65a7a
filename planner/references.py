"""References in a plan's arguments: where they stand, which steps they name, and what is wrong with them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from downstream.json_shape import is_array, is_object
from journal.values import Json

Pointer = tuple[str | int, ...]
"""Where something stands inside arguments: keys and indexes from the outside in."""

_FORM = re.compile(r"([a-z][a-z0-9_]{0,31})((\.[^.\[\]]+|\[\d+\])*)")


@dataclass(frozen=True)
class References:
    """What arguments refer to: ids of steps, the places that only a run will fill, and malformed references."""

    ids: tuple[str, ...]
    places: tuple[Pointer, ...]
    errors: tuple[str, ...]


def referenced_steps(arguments: Json) -> References:
    """All references inside arguments; what stands in a `$literal` is not read."""
    found = list(_walk(arguments, ()))
    return References(
        ids=tuple(dict.fromkeys(id_ for _, id_, _ in found if id_ is not None)),
        places=tuple(place for place, _, _ in found),
        errors=tuple(error for _, _, error in found if error is not None),
    )


def plain(arguments: Json) -> Json:
    """The arguments with each `$literal` replaced by what it holds."""
    if is_object(arguments):
        if set(arguments) == {"$literal"}:
            return arguments["$literal"]
        return {key: plain(item) for key, item in arguments.items()}
    if is_array(arguments):
        return [plain(item) for item in arguments]
    return arguments


def _walk(data: Json, place: Pointer) -> Iterator[tuple[Pointer, str | None, str | None]]:
    if is_array(data):
        for index, item in enumerate(data):
            yield from _walk(item, (*place, index))
    if not is_object(data) or set(data) == {"$literal"}:
        return
    if "$step" in data:
        yield place, *_read(data)
    elif "$artifact" in data:
        yield place, None, None
    else:
        for key, item in data.items():
            yield from _walk(item, (*place, key))


def _read(reference: Json) -> tuple[str | None, str | None]:
    text = reference["$step"]
    if len(reference) > 1:
        return None, 'a reference stands alone: {"$step": "id.path"} without other keys'
    match = _FORM.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None, f'{text!r} is no reference; write {{"$step": "id"}} or {{"$step": "id.path.to[0].field"}}'
    return match[1], None
