"""Whether an argument is a JSON value that a rule names; cannot be told where a lenient server may take it for that."""

import json
import math
import unicodedata
from collections.abc import Sequence

from downstream.json_shape import is_array, is_object
from journal.canonical import NotCanonical, canonical
from journal.values import Json

from .told import all_of, any_of

_EXACT = 2**53
_WORDS_FOR_NULL = ("", "null", "none")


def is_same(wanted: Json, value: Json) -> bool | None:
    """None for a value of another type, for numbers that only some clients tell apart, and for what is not plain JSON.

    Only null is null: values of other types are told from it, save those that are empty or spell it.
    """
    try:
        canonical([wanted, value])
    except NotCanonical:
        return None
    return _same(wanted, value)


def is_one_of(wanted: Sequence[Json], value: Json) -> bool | None:
    """As `is_same` for any of them; of a type that is among theirs, the value is told from what it does not spell."""
    kinds = [_kind(each) for each in wanted]
    if _kind(value) not in kinds:
        return any_of(is_same(each, value) for each in wanted)
    return any_of(_same_or_told(each, value) for each in wanted)


def _same_or_told(wanted: Json, value: Json) -> bool | None:
    answer = is_same(wanted, value)
    if answer is not None or wanted is None or _kind(wanted) == _kind(value):
        return answer
    return None if _spelled(wanted) == _spelled(value) else False


def _spelled(data: Json) -> Json:
    """What a lenient reader makes of it: of a text, the JSON in it. That 1 is true goes without saying in Python."""
    for text in (data, data.casefold()) if isinstance(data, str) else ():
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            continue
    return data


def _kind(data: Json) -> str:
    if data is None or isinstance(data, bool):
        return "null" if data is None else "boolean"
    if isinstance(data, int | float):
        return "number"
    if isinstance(data, str):
        return "text"
    return "list" if is_array(data) else "object"


def _same(wanted: Json, value: Json) -> bool | None:
    if wanted is None:
        return None if _is_as_good_as_null(value) else value is None
    if _kind(wanted) != _kind(value):
        return None
    if is_object(wanted):
        return _same_members(_by_name(wanted), _by_name(value), plain=len(value))
    if is_array(wanted):
        return len(wanted) == len(value) and all_of(map(_same, wanted, value))
    if isinstance(wanted, str):
        return _nfc(wanted) == _nfc(value)
    return wanted == value if isinstance(wanted, bool) else _same_number(wanted, value)


def _is_as_good_as_null(value: Json) -> bool:
    return value in ([], {}) or (isinstance(value, str) and value.strip().casefold() in _WORDS_FOR_NULL)


def _by_name(members: dict[str, Json]) -> dict[str, Json]:
    return {_nfc(name): member for name, member in members.items()}


def _same_members(wanted: dict[str, Json], value: dict[str, Json], *, plain: int) -> bool | None:
    # Of two members whose names are one in NFC nobody knows which counts.
    if len(value) < plain:
        return None
    return wanted.keys() == value.keys() and all_of(_same(wanted[name], value[name]) for name in wanted)


def _same_number(wanted: float, value: float) -> bool | None:
    if wanted == value and (type(wanted) is type(value) or abs(wanted) < _EXACT):
        return True
    # Beyond this many clients keep only what a double holds.
    return None if _double(wanted) == _double(value) else False


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)
