"""JSON as people write it: with comments and trailing commas, and the line of every key."""

import json
import math
import re
from bisect import bisect_left

from journal.values import Json

from .located import DEEPEST, Located, Place, TextError

_SKIPPED = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)


def read_json(text: str) -> Located:
    """Raises TextError for text that is not JSON, comments and trailing commas aside."""
    reader = _Reader(text)
    reader.located.data = reader.value(())
    if reader.peek():
        raise reader.error("nothing may follow the closing bracket")
    return reader.located


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON number")


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.located = text, 0, Located()
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self._scalars = json.JSONDecoder(parse_constant=_no_constant)

    def line(self) -> int:
        return bisect_left(self._ends, self.at) + 1

    def error(self, text: str) -> TextError:
        return TextError(text, line=self.line())

    def peek(self) -> str:
        """The next character that counts, or nothing at the end."""
        skipped = _SKIPPED.match(self.text, self.at)
        self.at = skipped.end() if skipped else self.at
        return self.text[self.at : self.at + 1]

    def take(self, wanted: str) -> bool:
        found = self.peek() == wanted
        self.at += found
        return found

    def value(self, place: Place) -> Json:
        if len(place) > DEEPEST:
            raise self.error(f"nested deeper than {DEEPEST}")
        if self.take("{"):
            return self._map(place)
        if self.take("["):
            return self._list(place)
        return self._scalar()

    def _map(self, place: Place) -> Json:
        items: dict[str, Json] = {}
        while not self.take("}"):
            if self.peek() != '"':
                raise self.error('a key in double quotes or "}" must stand here')
            line, key = self.line(), self._scalar()
            if not self.take(":"):
                raise self.error(f"a colon must follow the key {key!r}")
            below = (*place, key)
            is_new = self.located.put(below, line=line, seen=items)
            item = self.value(below)
            if is_new:
                items[key] = item
            self._comma("}")
        return items

    def _list(self, place: Place) -> Json:
        items: list[Json] = []
        while not self.take("]"):
            self.peek()
            below = (*place, len(items))
            self.located.lines.setdefault(below, self.line())
            items.append(self.value(below))
            self._comma("]")
        return items

    def _comma(self, end: str) -> None:
        if not self.take(",") and self.peek() != end:
            raise self.error(f'a comma or "{end}" must stand here')

    def _scalar(self) -> Json:
        if self.peek() in ("", "{", "[", "]", "}", ",", ":"):
            raise self.error("a value must stand here")
        try:
            value, self.at = self._scalars.raw_decode(self.text, self.at)
        except ValueError as error:
            raise self.error("this is no JSON value; texts need double quotes") from error
        if isinstance(value, float) and not math.isfinite(value):
            raise self.error("the number is too large")
        return value
