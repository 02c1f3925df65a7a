"""The words that models are shown of a tool, and whether a value may have been picked up from them."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from journal.values import Json

from .json_shape import is_array, is_object, leaves
from .servers.names import clean_text

_TOKEN = re.compile(r"[^\W_]+")
_BETWEEN_TEXTS = "\0"
_RUN_TOGETHER = 6
"""With so many letters and digits, an address is found also where blanks or signs stand within it."""
_WHOLE_WORD = 4
_TELLING = re.compile(r"\d|@|://|\w[./\\:]+\w")
# Short words that any text may hold, and nobody's name.
_COMMON = re.compile(
    "a[mnst]|all|and|any|api|are|b[ey]|but|can|day|do|for|get|go|ha[ds]|how|i[dfnst]|its|let|m[ey]|may|new|not?|now|o[fknr]"
    "|off|old|one|our|out|own|per|put|run|see|set|so|the|to|too|top|two|u[ps]|url|use|via|was|way|we|web|who|why|yes|you"
)
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null", "any"})
_PROSE = ("title", "description", "default", "examples")
_DATA = ("enum", "const", "type", *_PROSE)
_POINTING = ("format", "$ref", "$id", "$schema", "$anchor")
_NAMING = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


@dataclass(frozen=True)
class Said:
    """A value as it is looked for: its letters and digits, in lower case, without accents and what nobody sees."""

    tokens: tuple[str, ...]
    is_telling: bool
    """Whether it looks like an address or an id, which nobody writes by chance; else it is a word like others."""
    place: str
    """Of a link with a query, what comes before that, as `together`: anything may have been added there. Else empty."""

    @classmethod
    def of(cls, value: Json) -> "Said":
        text = "" if isinstance(value, bool) else value if isinstance(value, str) else str(value)
        tokens = tuple(_tokens(text))
        is_telling = sum(map(len, tokens)) >= _WHOLE_WORD and _TELLING.search(text) is not None
        place, asks, _ = text.partition("?")
        return cls(tokens, is_telling, "".join(_tokens(place)) if asks and "://" in place else "")

    @cached_property
    def spaced(self) -> str:
        return f" {' '.join(self.tokens)} "

    @cached_property
    def together(self) -> str:
        return "".join(self.tokens)

    @property
    def is_short(self) -> bool:
        return len(self.together) < _WHOLE_WORD

    @property
    def says_something(self) -> bool:
        """Short numbers and the shortest words stand anywhere by chance."""
        if not self.is_short:
            return True
        return len(self.together) > 1 and not self.together.isdecimal() and not _COMMON.fullmatch(self.together)


@dataclass(frozen=True)
class Words:
    """Texts as they are searched."""

    spaced: str

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Words":
        return cls(_BETWEEN_TEXTS.join(f" {' '.join(_tokens(text))} " for text in texts))

    @classmethod
    def all_of(cls, parts: Iterable["Words"]) -> "Words":
        return cls(_BETWEEN_TEXTS.join(part.spaced for part in parts))

    @cached_property
    def _together(self) -> str:
        return self.spaced.replace(" ", "")

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return frozenset(self.spaced.split(" "))

    def hold(self, said: Said) -> bool:
        """Whether the value stands there in whole words; an address of some length also within others or in pieces."""
        if said.is_telling and len(said.together) >= _RUN_TOGETHER:
            return said.together in self._together or (said.place != "" and said.place in self._together)
        return said.says_something and said.tokens[0] in self._vocabulary and said.spaced in self.spaced


def prose_of(schema: Json) -> Iterator[str]:
    """What a schema tells in sentences and examples."""
    parts = schema.items() if is_object(schema) else enumerate(schema) if is_array(schema) else ()
    for key, part in parts:
        if key in _PROSE:
            yield from (text for _, text in leaves(part) if isinstance(text, str))
        yield from prose_of(part)


def choices_of(schema: Json) -> Iterator[str]:
    """The names in a schema and all that it lets one choose from: whatever of it models are shown besides prose."""
    if not is_object(schema):
        for part in schema if is_array(schema) else ():
            yield from choices_of(part)
        return
    for key, part in schema.items():
        if key in _DATA:
            yield from (text for text in _strings(part) if text not in _TYPES)
            continue
        if key in _NAMING and is_object(part):
            yield from part
        elif isinstance(part, str) and key not in _POINTING:
            yield part
        yield from choices_of(part)


def _strings(data: Json) -> Iterator[str]:
    if is_object(data):
        for key, part in data.items():
            yield key
            yield from _strings(part)
    elif is_array(data):
        for part in data:
            yield from _strings(part)
    elif data is not None and not isinstance(data, bool):
        yield str(data)


def _tokens(text: str) -> list[str]:
    plain = clean_text(text)
    if not plain.isascii():
        # Marks and what cannot be printed are taken out within words, as for models.
        parts = unicodedata.normalize("NFKD", plain)
        plain = "".join(sign for sign in parts if sign.isspace() or unicodedata.category(sign)[0] not in "MC")
    return _TOKEN.findall(plain.casefold())
