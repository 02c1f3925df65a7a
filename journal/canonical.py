"""One form for equal JSON data (RFC 8785) and hashes over it."""

import hashlib
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
        return rfc8785.dumps(_exact(data))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise NotCanonical(f"not plain JSON data: {error}") from error


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
