"""Conditions on single arguments, as `when` in a policy rule writes them; each holds, fails, or cannot be told."""

import os
import unicodedata
from collections.abc import Callable, Iterable
from typing import Literal
from urllib.parse import urlsplit

from downstream.json_shape import is_array, is_object
from downstream.policy_settings import Matcher
from downstream.tool_names import fits
from journal.canonical import NotCanonical, canonical
from journal.values import Json

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
    """Whether all conditions hold; None where one cannot be told (missing, another type, an empty list).

    Of a list, all elements or any must fit, unless a condition is met by the list itself. Nothing is coerced.
    """
    answers = [_holds(name, wanted, value, of=of) for name, wanted in matcher.conditions.items()]
    return _all(answers)


def _holds(name: str, wanted: Json, value: Json, *, of: Literal["all", "any"]) -> bool | None:
    if name == "absent":
        return (value is MISSING) == bool(wanted)
    if value is MISSING:
        return None
    check = _CHECKS[name]
    whole = check(wanted, value)
    if whole or not is_array(value):
        return whole
    parts = [check(wanted, part) for part in value]
    if not parts:
        return None
    return _all(parts) if of == "all" else _any(parts)


def _all(answers: Iterable[bool | None]) -> bool | None:
    answers = list(answers)
    if False in answers:
        return False
    return None if None in answers else True


def _any(answers: Iterable[bool | None]) -> bool | None:
    answers = list(answers)
    if True in answers:
        return True
    return None if None in answers else False


def _same(wanted: Json, value: Json) -> bool | None:
    try:
        return canonical(_nfc(wanted)) == canonical(_nfc(value))
    except NotCanonical:
        return None


def _one_of(wanted: Json, value: Json) -> bool | None:
    return _any(_same(one, value) for one in wanted)


def _prefix(wanted: Json, value: Json) -> bool | None:
    return _nfc(value).startswith(_nfc(wanted)) if isinstance(value, str) else None


def _glob(wanted: Json, value: Json) -> bool | None:
    return fits(_nfc(wanted), _nfc(value)) if isinstance(value, str) else None


def _host_in(wanted: Json, value: Json) -> bool | None:
    # Parsers disagree about backslashes and blanks in an address, so such a one is nobody's host.
    if not isinstance(value, str) or any(character == "\\" or not character.isprintable() for character in value):
        return None
    try:
        parts = urlsplit(value if "://" in value else f"//{value}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host:
        return None
    return any(fits(one, host) or one == f"{host}:{port}" for one in wanted)


def _path_under(wanted: Json, value: Json) -> bool | None:
    if not isinstance(value, str) or not os.path.isabs(value) or "\0" in value:
        return None
    root, path = os.path.realpath(wanted), os.path.realpath(value)
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def _above(wanted: Json, value: Json) -> bool | None:
    return value > wanted if _is_number(value) else None


def _below(wanted: Json, value: Json) -> bool | None:
    return value < wanted if _is_number(value) else None


def _max_len(wanted: Json, value: Json) -> bool | None:
    return len(value) <= wanted if isinstance(value, str) else None


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _nfc(data: Json) -> Json:
    if isinstance(data, str):
        return unicodedata.normalize("NFC", data)
    if is_object(data):
        return {_nfc(key): _nfc(item) for key, item in data.items()}
    if is_array(data):
        return [_nfc(item) for item in data]
    return data


_CHECKS: dict[str, Callable[[Json, Json], bool | None]] = {
    "equals": _same,
    "one_of": _one_of,
    "prefix": _prefix,
    "glob": _glob,
    "host_in": _host_in,
    "path_under": _path_under,
    "gt": _above,
    "lt": _below,
    "max_len": _max_len,
}
