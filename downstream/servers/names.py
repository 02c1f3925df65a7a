"""Names and texts of tools as models may see them."""

import hashlib
import re
from collections.abc import Iterable

from downstream.json_shape import is_array, is_object
from journal.values import Json

_WIRE_CHARACTERS = 64
_HASH_CHARACTERS = 8
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Controls but tab and newline, soft hyphen, zero-width and bidirectional marks, tag letters, variation selectors.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def clean_text(text: str) -> str:
    """The text without what nobody sees: terminal sequences, control, bidirectional and zero-width characters."""
    text = _ANSI.sub("", text).replace("\r\n", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    return _LONE_SURROGATE.sub("\ufffd", _UNSEEN.sub("", text))


def clean_json(data: Json) -> Json:
    """The same data with every string, keys too, passed through `clean_text`."""
    if isinstance(data, str):
        return clean_text(data)
    if is_object(data):
        return {clean_text(key): clean_json(item) for key, item in data.items()}
    if is_array(data):
        return [clean_json(item) for item in data]
    return data


def wire_names(full_names: Iterable[str]) -> dict[str, str]:
    """A name for models for each `server.tool`: `server__tool` in `[a-zA-Z0-9_-]{1,64}`, each one different.

    A name that had to be changed ends in a hash of the full one, so it does not depend on which other tools there are.
    """
    wires: dict[str, str] = {}
    taken: set[str] = set()
    for full in sorted(full_names):
        wire = _wire_name(full)
        salt = 0
        while wire in taken:
            salt += 1
            wire = _hashed(wire, f"{full} {salt}")
        taken.add(wire)
        wires[full] = wire
    return wires


def _wire_name(full: str) -> str:
    server, _, tool = full.partition(".")
    plain = f"{server}__{tool}"
    wire = re.sub(r"[^a-zA-Z0-9_-]", "_", plain)
    return wire if wire == plain and len(wire) <= _WIRE_CHARACTERS else _hashed(wire, full)


def _hashed(wire: str, text: str) -> str:
    mark = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_HASH_CHARACTERS]
    return f"{wire[: _WIRE_CHARACTERS - _HASH_CHARACTERS - 1]}_{mark}"
