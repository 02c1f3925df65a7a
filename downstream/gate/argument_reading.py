"""Arguments as their tool's schema means them, where a model wrote them down in another way: `"5"` for 5, and the like.

Only what does not fit the schema is read anew, and only if the whole then fits; of what fits no value is ever touched.
An argument that models are shown under another name than its own is given that back in any case: many schemas take
fields that they do not name, so that what fits may still be meant for a field that they do.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from downstream.door import Arguments
from downstream.json_shape import is_array, is_object
from downstream.models.parameters import original_names
from downstream.models.replies import read_json
from downstream.models.schema_parts import at_pointer, tidy
from downstream.nesting import too_deep
from journal.canonical import NotCanonical, digest
from journal.values import Json, JsonObject, Label

from .argument_check import argument_errors
from .prompt_text import escaped
from .schema_visits import Unusable, bounded_validator, usable

_MOST_STEPS = 500
_DEEPEST = 64
_LONGEST_SHOWN = 60
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?(?:[eE][+-]?\d{1,3})?")


@dataclass(frozen=True)
class Reading:
    """The arguments to be sent, and in words, one for each place, what was read in another way than written."""

    arguments: Arguments
    read_as: tuple[str, ...] = ()


class _TooMany(Exception):
    """The schema leads round in circles, or has too many alternatives to try them all."""


def read_arguments(schema: JsonObject, arguments: Arguments) -> Reading:
    """The arguments that fit the schema, if reading some of them anew makes them fit; else as they were, but for names
    that only models are shown."""
    named, changes = _renamed(schema, arguments)
    if not argument_errors(schema, named.data):
        return Reading(named, tuple(changes))
    if (data := _read(schema, named.data)) is None or argument_errors(schema, data):
        return Reading(named, tuple(changes))
    return Reading(replace(named, data=data), (*changes, *_differences(named.data, data, "")))


def _read(schema: JsonObject, data: JsonObject) -> JsonObject | None:
    """The arguments read by the schema; None where that leads nowhere."""
    try:
        with usable(data):
            read: JsonObject = _Reader(schema).at(data, schema)
        digest(read)
    except (_TooMany, Unusable, NotCanonical):
        return None
    return read


def _renamed(schema: JsonObject, arguments: Arguments) -> tuple[Arguments, list[str]]:
    """Arguments under their own names, where models were shown others."""
    properties: Json = schema.get("properties")
    known = properties if is_object(properties) else {}
    unknown = [name for name in arguments.data if name not in known]
    shown = original_names(schema) if unknown else {}
    names = {name: shown[name] for name in unknown if name in shown and shown[name] not in arguments.data}
    if not names:
        return arguments, []
    data = {names.get(name, name): item for name, item in arguments.data.items()}
    parts: Mapping[str, Label] = {_moved(pointer, names): label for pointer, label in arguments.parts.items()}
    return Arguments(data, arguments.label, parts), [f"/{name} as {original}" for name, original in names.items()]


def _moved(pointer: str, names: Mapping[str, str]) -> str:
    _, name, *below = pointer.split("/")
    original = names.get(name, name).replace("~", "~0").replace("/", "~1")
    return "/".join(["", original, *below]) if name in names else pointer


class _Reader:
    def __init__(self, document: JsonObject) -> None:
        self._document = document
        self._validator: Any = bounded_validator(document)
        self._steps = 0

    def at(self, value: Json, schema: Json, depth: int = 0, *, wraps: tuple[bool, ...] = (False, True)) -> Json:
        """The value as this part of the schema means it; unchanged where it fits, or where no or no one way is right.

        A list is put around a single value (`wraps`) only where nothing else helps.
        """
        self._steps += 1
        if self._steps > _MOST_STEPS or depth > _DEEPEST:
            raise _TooMany
        if not is_object(schema) or self._fits(value, schema):
            return value
        for wrap in wraps:
            fitting: list[Json] = []
            for way in self._ways(value, schema, depth + 1, wrap=wrap):
                if way not in fitting and self._fits(way, schema):
                    fitting.append(way)
            if fitting:
                return fitting[0] if len(fitting) == 1 else value
        return value

    def _fits(self, value: Json, schema: Json) -> bool:
        fits: bool = self._validator.evolve(schema=schema).is_valid(value)
        return fits

    def _ways(self, value: Json, schema: JsonObject, depth: int, *, wrap: bool) -> Iterator[Json]:
        """What the value may have been meant to be."""
        parts: list[Json] = [at_pointer(self._document, schema["$ref"])] if isinstance(schema.get("$ref"), str) else []
        for part in (*parts, *_listed(schema, "allOf")):
            value = self.at(value, part, depth, wraps=(wrap,))
        yield from self._read(value, schema, depth, wrap=wrap)
        for branch in (*_listed(schema, "anyOf"), *_listed(schema, "oneOf")):
            yield self.at(value, branch, depth, wraps=(wrap,))

    def _read(self, value: Json, schema: JsonObject, depth: int, *, wrap: bool) -> Iterator[Json]:
        kinds: list[Json] = tidy(schema).get("type", [])
        if is_object(value):
            yield self._fields(value, schema, depth)
        elif is_array(value):
            yield [self.at(item, schema.get("items"), depth) for item in value]
        else:
            yield value
            yield from _scalars(value, kinds)
            yield from _choices(value, schema)
            yield from (self.at(data, schema, depth) for data in _data_in(value, kinds))
        if wrap and "array" in kinds and not is_array(value):
            yield [self.at(value, schema.get("items"), depth)]

    def _fields(self, value: JsonObject, schema: JsonObject, depth: int) -> JsonObject:
        """The fields as their parts mean them; null for absent and absent for null, where only the other one fits."""
        parts = tidy(schema).get("properties", {})
        required = _listed(schema, "required")
        fields: JsonObject = {}
        for name, item in value.items():
            part = parts.get(name, schema.get("additionalProperties"))
            if item is None and name in parts and name not in required and not self._fits(None, part):
                continue
            fields[name] = self.at(item, part, depth)
        absent = [name for name in required if name in parts and name not in fields and self._fits(None, parts[name])]
        return fields | dict.fromkeys(absent)


def _listed(schema: JsonObject, keyword: str) -> list[Json]:
    listed: Json = schema.get(keyword)
    return listed if is_array(listed) else []


def _scalars(value: Json, kinds: list[Json]) -> Iterator[Json]:
    """A number, a truth value or null that was written as text; for a whole number also 5.0."""
    text = value.strip() if isinstance(value, str) else ""
    number: Json = json.loads(text) if _NUMBER.fullmatch(text) else value
    if isinstance(number, float) and number.is_integer() and "integer" in kinds:
        yield int(number)
    elif number is not value and math.isfinite(number):
        yield number
    word = text.lower()
    if word in ("true", "false"):
        yield word == "true"
    if word in ("null", "none"):
        yield None


def _choices(value: Json, schema: JsonObject) -> Iterator[Json]:
    """The one value of an `enum` that differs in case or blanks only."""
    if isinstance(value, str):
        choices: list[Json] = tidy(schema).get("enum", [])
        alike = [item for item in choices if isinstance(item, str) and _folded(item) == _folded(value)]
        yield from alike if len(alike) == 1 else ()


def _folded(text: str) -> str:
    return text.strip().casefold()


def _data_in(value: Json, kinds: list[Json]) -> Iterator[Json]:
    """The object or list that was written as text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            data = read_json(value)
        except ValueError:
            return
        if ("object" if is_object(data) else "array") in kinds and not too_deep(data):
            yield data


def _differences(before: Json, after: Json, place: str) -> Iterator[str]:
    if is_object(before) and is_object(after):
        for name in (*before, *(name for name in after if name not in before)):
            below = f"{place}/{escaped(name)}"
            if name not in after:
                yield f"{below} left out"
            elif name not in before:
                yield f"{below} null"
            else:
                yield from _differences(before[name], after[name], below)
    elif is_array(before) and is_array(after) and len(before) == len(after):
        for number, item in enumerate(before):
            yield from _differences(item, after[number], f"{place}/{number}")
    elif type(before) is not type(after) or before != after:
        yield f"{place} {_short(before)} as {_short(after)}"


def _short(data: Json) -> str:
    text = escaped(json.dumps(data, ensure_ascii=False))
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"
