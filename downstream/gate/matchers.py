"""Conditions on single arguments, as `when` in a policy rule writes them; each holds, fails, or cannot be told."""

import os
import re
import unicodedata
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

from downstream.json_shape import is_array, is_object
from downstream.policy_settings import Matcher
from downstream.tool_names import fits
from journal.canonical import NotCanonical, canonical
from journal.values import Json

MISSING = object()
"""What stands at a pointer that leads nowhere."""

_PLAIN_AUTHORITY = re.compile(r"([\w.+=~!$&*:-]+@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d*)?", re.ASCII)
_ENDS_IN_NUMBER = re.compile(r"(.*\.)?(\d+|0[xX][0-9a-fA-F]*)", re.DOTALL)


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
    if whole or name == "max_len" or not is_array(value):
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
    if not isinstance(value, str) or (found := _host_and_port(value)) is None:
        return None
    host, port = found
    forms = (f"{host}:{port}", f"[{host}]:{port}")
    return any(fits(one, host) or one in forms for one in wanted)


def _host_and_port(text: str) -> tuple[str, int | None] | None:
    """The host that every client would go to; None where they might disagree, or there is none.

    So is a text in which a second address, a backslash, a blank or an escape stands in or before the host.
    """
    # Some clients add the slashes that are missing here.
    if not text.isprintable() or re.match(r"(https?|wss?|ftp|file):(?!//)", text, re.IGNORECASE):
        return None
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return None
    if not _PLAIN_AUTHORITY.fullmatch(parts.netloc):
        return None
    if ":" in host or _ENDS_IN_NUMBER.fullmatch(host):
        # Numbers that only some resolvers take for an address are nobody's host.
        try:
            host = str(ip_address(host))
        except ValueError:
            return None
    return (host, port) if host else None


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
    return len(value) <= wanted if isinstance(value, str) or is_array(value) else None


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
