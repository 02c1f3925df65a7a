"""What a schema for models says in words, because no keyword that every provider takes can say it."""

import json
from collections.abc import Collection

from journal.values import Json, JsonObject

_LONGEST = 2_000
_LONGEST_NOTE = 200
_LONGEST_NOTES = 500
_MOST_CHOICES = 250
"""OpenAI counts the text of longer lists."""
_FORMATS = frozenset({"date-time"})
"""Gemini refuses any other format of a string."""
_NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
TELLING: dict[str, tuple[str, ...]] = {
    "object": (
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "dependentRequired",
    ),
    "array": ("minItems", "maxItems", "uniqueItems", "contains"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": _NUMERIC,
    "integer": _NUMERIC,
    "boolean": (),
}
"""The keywords that are told, by the type that they speak of."""
_TOLD_ALWAYS = ("default", "not", "if", "then", "else")
_SAYS_NOTHING: tuple[Json, ...] = (None, {}, [])


def keywords(whole: JsonObject, kind: str | None, *, kept: Collection[str] = ()) -> tuple[JsonObject, list[str]]:
    """Of a tidied part of this type: what may stay as it is (`kept` too), and in words what may not."""
    plain: JsonObject = {key: whole[key] for key in ("description",) if key in whole}
    telling = TELLING.get(kind or "", ())
    notes: list[str] = []
    for key, item in whole.items():
        if (key == "format" and kind == "string" and item in _FORMATS) or (key in kept and key in telling):
            plain[key] = item
        elif (key in telling or key in _TOLD_ALWAYS) and _says_something(key, item):
            notes.append(f"{key} {short(item)}")
    choices = [item for item in whole.get("enum", ()) if item is not None and fits(item, kind)]
    if choices and kind == "string" and all(choices) and len(choices) <= _MOST_CHOICES:
        plain["enum"] = choices
    elif choices:
        notes.append(f"one of {short(choices)}")
    return plain, notes


def _says_something(key: str, item: Json) -> bool:
    if key == "default":
        return item is not None
    return key == "uniqueItems" and item if isinstance(item, bool) else item not in _SAYS_NOTHING


def fits(item: Json, kind: str | None) -> bool:
    """Whether a value is of this JSON type; of None, every one is."""
    if isinstance(item, bool):
        return kind in (None, "boolean")
    kinds = {"string": str, "integer": int, "number": int | float, "array": list, "object": dict}
    return kind is None or (kind in kinds and isinstance(item, kinds[kind]))


def short(data: Json) -> str:
    """The data as JSON on one line, cut where it is long."""
    text = json.dumps(data, ensure_ascii=False)
    return text if len(text) <= _LONGEST_NOTE else f"{text[: _LONGEST_NOTE - 1]}…"


def described(schema: JsonObject, notes: list[str]) -> JsonObject:
    """The schema with these notes behind its description; a description that is too long is cut, not the notes."""
    words: Json = schema.get("description") or ""
    said = ", ".join(notes)
    told = f" ({said if len(said) <= _LONGEST_NOTES else f'{said[: _LONGEST_NOTES - 1]}…'})" if notes else ""
    room = _LONGEST - len(told)
    text = f"{words if len(words) <= room else f'{words[: room - 1]}…'}{told}".strip()
    if text == schema.get("description", ""):
        return schema
    return schema | {"description": text}
