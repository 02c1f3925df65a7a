"""Conditions on single arguments, as `when` in a policy rule writes them; each holds, fails, or cannot be told."""

import math
import unicodedata
from collections.abc import Callable
from typing import Literal

from downstream.json_shape import is_array, is_object
from downstream.policy_settings import Matcher
from downstream.tool_names import fits
from journal.values import Json

from .host_places import is_host_in
from .path_places import is_under
from .same_value import is_one_of, is_same
from .told import all_of, any_of

MISSING = object()
"""What stands at a pointer that leads nowhere."""


def at_pointer(arguments: Json, pointer: str) -> Json:
    """What stands at a JSON Pointer, else MISSING."""
    found = arguments
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if is_object(found) and name in found:
            found = found[name]
        elif is_array(found) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return MISSING
    return found


def holds(matcher: Matcher, value: Json, *, of: Literal["all", "any"]) -> bool | None:
    """Whether all conditions hold; None where one cannot be told (missing, null, another type, an empty list).

    Of a list, all elements or any must fit, unless a condition is met by the list itself. Nothing is coerced.
    """
    return all_of(_holds(name, wanted, value, of=of) for name, wanted in matcher.conditions.items())


def _holds(name: str, wanted: Json, value: Json, *, of: Literal["all", "any"]) -> bool | None:
    if name == "absent":
        # Many servers take null for an argument that was left out.
        return None if value is None else (value is MISSING) == bool(wanted)
    if value is MISSING:
        return None
    check = _CHECKS[name]
    whole = check(wanted, value)
    if whole or name == "max_len" or not is_array(value):
        return whole
    parts = [check(wanted, part) for part in value]
    if not parts:
        return None
    if of == "all":
        return all_of(parts)
    if is_array(wanted) or (name == "one_of" and any(map(is_array, wanted))):
        # The list itself is of a wanted type: what cannot be told of an entry of another says nothing.
        told = (answer for part, answer in zip(value, parts, strict=True) if answer is not None or is_array(part))
        return any_of([whole, *told])
    return any_of(parts)


def _prefix(wanted: Json, value: Json) -> bool | None:
    return _nfc(value).startswith(_nfc(wanted)) if isinstance(value, str) else None


def _glob(wanted: Json, value: Json) -> bool | None:
    return fits(_nfc(wanted), _nfc(value)) if isinstance(value, str) else None


def _above(wanted: Json, value: Json) -> bool | None:
    return value > wanted if _is_number(value) else None


def _below(wanted: Json, value: Json) -> bool | None:
    return value < wanted if _is_number(value) else None


def _max_len(wanted: Json, value: Json) -> bool | None:
    return len(value) <= wanted if isinstance(value, str) or is_array(value) else None


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


_CHECKS: dict[str, Callable[[Json, Json], bool | None]] = {
    "equals": is_same,
    "one_of": is_one_of,
    "prefix": _prefix,
    "glob": _glob,
    "host_in": is_host_in,
    "path_under": is_under,
    "gt": _above,
    "lt": _below,
    "max_len": _max_len,
}
