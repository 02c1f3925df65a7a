"""Names and texts of tools as models may see them."""

import hashlib
import itertools
import re
from collections.abc import Iterable

from downstream.json_shape import is_array, is_object
from journal.values import Json

_WIRE_CHARACTERS = 64
_HASH_CHARACTERS = 8
_WIRE = re.compile(rf"[a-zA-Z_][a-zA-Z0-9_-]{{0,{_WIRE_CHARACTERS - 1}}}")
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

    It begins with a letter or an underscore. A name that had to be changed ends in a hash of the full one, so it does
    not depend on which other tools there are; one that another tool has as it is gives way to it.
    """
    plain = {full: _plain_name(full) for full in sorted(full_names)}
    wires = {full: name for full, name in plain.items() if _WIRE.fullmatch(name)}
    taken = set(wires.values())
    for full in plain:
        if full not in wires:
            tries = (_hashed(plain[full], f"{full} {salt}" if salt else full) for salt in itertools.count())
            wires[full] = next(wire for wire in tries if wire not in taken)
            taken.add(wires[full])
    return wires


def _plain_name(full: str) -> str:
    server, _, tool = full.partition(".")
    return f"{server}__{tool}"


def _hashed(name: str, text: str) -> str:
    wire = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    wire = wire if re.match(r"[a-zA-Z_]", wire) else f"_{wire}"
    mark = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_HASH_CHARACTERS]
    return f"{wire[: _WIRE_CHARACTERS - _HASH_CHARACTERS - 1]}_{mark}"
