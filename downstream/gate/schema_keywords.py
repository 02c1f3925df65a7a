"""Keywords of JSON Schema that the validator's own package may spend minutes on, in a way that it cannot."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from downstream.json_shape import is_array, is_object
from journal.canonical import NotCanonical, canonical
from journal.values import Json

Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


@dataclass(frozen=True)
class Purse:
    """What checking may take: `spend` raises once that is used up; `matches` seeks a pattern in a text out of it."""

    spend: Callable[[int], None]
    matches: Callable[[str, str], bool]


CHARACTERS = 100
"""So many characters cost as much as one visit of a keyword."""


def own_keywords(purse: Purse, theirs: dict[str, Keyword]) -> dict[str, Keyword]:
    """The keywords to be checked in another way than `theirs`, as far as a dialect has them."""
    own = {
        "pattern": _pattern(purse),
        "patternProperties": _pattern_properties(purse),
        "additionalProperties": _additional(purse, theirs["additionalProperties"]),
        "uniqueItems": _unique(purse),
    }
    return {name: check for name, check in own.items() if name in theirs}


def _pattern(purse: Purse) -> Keyword:
    def check(validator: Any, pattern: Any, instance: Json, schema: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not purse.matches(pattern, instance):
            yield _error(f"{instance!r} does not match {pattern!r}")

    return check


def _pattern_properties(purse: Purse) -> Keyword:
    def check(validator: Any, patterns: Any, instance: Json, schema: Any) -> Iterator[Any]:
        for pattern, part in patterns.items() if is_object(instance) else ():
            for name, item in instance.items():
                if purse.matches(pattern, name):
                    yield from validator.descend(item, part, path=name, schema_path=pattern)

    return check


def _additional(purse: Purse, plain: Keyword) -> Keyword:
    def check(validator: Any, allowed: Any, instance: Json, schema: Any) -> Iterator[Any]:
        patterns = schema.get("patternProperties")
        if not is_object(instance) or not patterns:
            yield from plain(validator, allowed, instance, schema) or ()
            return
        known = schema.get("properties", {})
        extras = [
            name for name in instance if name not in known and not any(purse.matches(each, name) for each in patterns)
        ]
        if is_object(allowed):
            for name in extras:
                yield from validator.descend(instance[name], allowed, path=name)
        elif allowed is False and extras:
            named = ", ".join(map(repr, extras))
            yield _error(f"Additional properties are not allowed: {named}; they match none of its patterns either")

    return check


def _unique(purse: Purse) -> Keyword:
    def check(validator: Any, wanted: Any, instance: Json, schema: Any) -> Iterator[Any]:
        if not wanted or not is_array(instance):
            return
        seen = set[bytes]()
        for item in instance:
            form = _form(item)
            purse.spend(len(form) // CHARACTERS)
            if form in seen:
                yield _error(f"{instance!r} holds {item!r} more than once")
                return
            seen.add(form)

    return check


def _form(item: Json) -> bytes:
    """The same for equal items, whether 1 or 1.0, and for no others."""
    try:
        return canonical(item)
    except NotCanonical:
        # It holds a number beyond what can be sent.
        return json.dumps(item, sort_keys=True).encode()


def _error(text: str) -> Any:
    # Imported on first use: it takes a tenth of a second.
    from jsonschema import ValidationError

    return ValidationError(text)
