"""YAML 1.2 with the core schema (`no` is a text), and the line of every key.

Anchors, aliases and tags are refused: settings need none, and a few aliases can stand for gigabytes.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

from journal.values import Json

from .located import DEEPEST, Located, Place, TextError

_NULL = re.compile(r"|~|null|Null|NULL")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def read_yaml(text: str) -> Located:
    """The one document in the text, None where it is empty. Raises TextError for what is not YAML 1.2 as above."""
    # Not needed for settings in JSON, and not free.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    located = Located()
    reader: Any = YAML(typ="safe", pure=True)
    try:
        _Reader(reader.parse(text), located).document()
    except MarkedYAMLError as error:
        marked: Any = error
        mark = marked.problem_mark or marked.context_mark
        raise TextError(f"not YAML: {marked.problem or marked.context}", line=mark.line + 1 if mark else 1) from error
    except YAMLError as error:
        raise TextError("not YAML: it holds a character that YAML does not allow", line=1) from error
    return located


class _Reader:
    def __init__(self, events: Iterator[Any], located: Located) -> None:
        self.events, self.located = events, located

    def next(self) -> tuple[str, Any]:
        event = next(self.events)
        return type(event).__name__, event

    def document(self) -> None:
        self.next()
        kind, event = self.next()
        if kind == "DocumentStartEvent":
            self.located.data = self.value((), *self.next())
            self.next()
            kind, event = self.next()
        if kind != "StreamEndEvent":
            raise self.error("a second document begins here; settings are one", event)

    def error(self, text: str, event: Any) -> TextError:
        return TextError(text, line=event.start_mark.line + 1)

    def value(self, place: Place, kind: str, event: Any) -> Json:
        if kind == "AliasEvent" or event.anchor:
            raise self.error("anchors and aliases are not read; write the value out", event)
        if event.tag:
            raise self.error("tags are not read; leave it out, or put a text into quotes", event)
        if len(place) > DEEPEST:
            raise self.error(f"nested deeper than {DEEPEST}", event)
        if kind == "MappingStartEvent":
            return self._map(place)
        if kind == "SequenceStartEvent":
            return self._list(place)
        return event.value if event.style else self._plain(event)

    def _map(self, place: Place) -> Json:
        items: dict[str, Json] = {}
        while (key := self.next())[0] != "MappingEndEvent":
            kind, event = key
            if kind != "ScalarEvent":
                raise self.error("a key must be a text", event)
            below = (*place, str(event.value))
            is_new = self.located.put(below, line=event.start_mark.line + 1, seen=items)
            item = self.value(below, *self.next())
            if is_new:
                items[event.value] = item
        return items

    def _list(self, place: Place) -> Json:
        items: list[Json] = []
        while (item := self.next())[0] != "SequenceEndEvent":
            below = (*place, len(items))
            self.located.lines.setdefault(below, item[1].start_mark.line + 1)
            items.append(self.value(below, *item))
        return items

    def _plain(self, event: Any) -> Json:
        text: str = event.value
        if _NULL.fullmatch(text):
            return None
        if _BOOL.fullmatch(text):
            return text.lower() == "true"
        try:
            number = _number(text)
        except ValueError as error:
            raise self.error("the number is too long", event) from error
        if _NO_NUMBER.fullmatch(text) or (isinstance(number, float) and not math.isfinite(number)):
            raise self.error("numbers must be finite", event)
        return text if number is None else number


def _number(text: str) -> int | float | None:
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    return float(text) if _FLOAT.fullmatch(text) else None
