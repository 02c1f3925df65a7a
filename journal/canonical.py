"""One form for equal JSON data (RFC 8785) and hashes over it."""

import hashlib
import json
from collections.abc import Sequence
from typing import cast

import rfc8785

from .errors import SteprelayError
from .values import Json, JsonObject

_EXACT = 2**53 - 1


class NotCanonical(SteprelayError):
    """Data that has no single JSON form: NaN, infinity, lone surrogates, or something that is not JSON."""


def canonical(data: Json) -> bytes:
    """RFC 8785 bytes of `data`. Raises NotCanonical.

    Integers beyond 2**53 - 1 are kept exact as {"$integer": "…"}; a member of that name has one more `$` in front.
    """
    try:
        if _is_plain(data):
            return _PLAIN.encode(data).encode()
        return rfc8785.dumps(_exact(data))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise NotCanonical(f"not plain JSON data: {error}") from error


# For data without floats and long integers, whose names are ASCII, sorted JSON is the canonical form: a few times
# faster, and most that is hashed is such data.
_PLAIN = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _is_plain(data: Json) -> bool:
    kind = cast("type[object]", type(data))
    if kind is str or kind is bool or data is None:
        return True
    if kind is int:
        return bool(-_EXACT <= data <= _EXACT)
    if kind is dict:
        members = cast("JsonObject", data)
        return all(map(_is_plain_name, members)) and all(map(_is_plain, members.values()))
    return kind in (list, tuple) and all(map(_is_plain, data))


def _is_plain_name(name: Json) -> bool:
    return type(name) is str and name.isascii() and not name.endswith("$integer")


def digest(data: Json) -> str:
    """SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical(data)).hexdigest()


def _exact(data: Json) -> Json:
    if isinstance(data, int) and not isinstance(data, bool) and abs(data) > _EXACT:
        return {"$integer": str(data)}
    if isinstance(data, dict):
        members = cast("JsonObject", data)
        return {_escaped(key): _exact(item) for key, item in members.items()}
    if isinstance(data, list | tuple):
        items = cast("Sequence[Json]", data)
        return [_exact(item) for item in items]
    return data


def _escaped(key: Json) -> Json:
    # A key that is no text is left for the canonical form to refuse.
    return f"${key}" if isinstance(key, str) and key.endswith("$integer") else key
