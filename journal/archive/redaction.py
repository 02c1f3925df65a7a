"""Text and data without what they say: shapes stay, so that a redacted record can still be driven once more.

Letters become letters and digits digits, one for one; space and punctuation stay. That goes together with cutting,
joining and wrapping: what is made of masked pieces has the mask of what was made of the pieces themselves.
"""

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import cast

from journal.values import Json

_KEPT = re.compile(r"\b(?:https?://|mailto:|data:|javascript:|www\.)", re.IGNORECASE)
"""By these an answer's addresses are known, and treated with care."""
_ID = re.compile(r"[acfr]_[a-z0-9]{8,64}")
_PART = re.compile(r"[^.\[\]]+")
_RUN = re.compile("1+")
_REFERENCES = frozenset({"$step", "$artifact"})
_MARKS = _REFERENCES | {"$literal"}
_ROWS = {"x": "xyzabcdefghijklmnopqrstuvw", "X": "XYZABCDEFGHIJKLMNOPQRSTUVW", "1": "1234567890"}


def shape(text: str) -> str:
    """The text with `x` or `X` for each letter and `1` for each digit."""
    kept = {place for found in _KEPT.finditer(text) for place in range(*found.span())}
    return "".join(char if place in kept else _shape_of(char) for place, char in enumerate(text))


def _shape_of(char: str) -> str:
    match unicodedata.category(char)[0]:
        case "L" | "M":
            return "X" if char.isupper() else "x"
        case "N":
            return "1"
        case _:
            return char


def what_counts(data: Json) -> Json:
    """What of a text or number is compared where one side, or both, are masked."""
    if isinstance(data, bool) or not isinstance(data, str | int | float):
        unmasked: Json = data
        return unmasked
    # How many digits a number has differs where it was calculated with.
    return _RUN.sub("1", shape(data if isinstance(data, str) else repr(data)))


class Mask:
    """Masks the data of one record: equal texts stay equal, and different ones of one shape stay different.

    `words` stay where they stand alone as a word of ours; `keys` stay as names of members.
    """

    def __init__(self, words: Collection[str], keys: Collection[str]) -> None:
        self._words = frozenset(words)
        self._keys = _MARKS | set(keys)
        self._masked: dict[str, str] = {}
        self._count: defaultdict[str, int] = defaultdict(int)

    def text(self, text: str) -> str:
        if text not in self._masked:
            form = shape(text)
            self._masked[text] = _numbered(form, self._count[form], text)
            self._count[form] += 1
        return self._masked[text]

    def put_together(self, text: str, *, masked: str) -> None:
        """A text that is made of others has the mask that is made of theirs."""
        self._masked[text] = masked

    def word(self, text: str) -> str:
        """A word of ours or an id as it is; anything else masked."""
        return text if text in self._words or _ID.fullmatch(text) else self.text(text)

    def number(self, number: float) -> float:
        """Another number with as many digits."""
        if isinstance(number, bool):
            return number
        whole, mark, power = repr(number).partition("e")
        masked: float = json.loads(self.text(whole) + mark + shape(power))
        return masked

    def key(self, name: str) -> str:
        return name if name in self._keys else self.text(name)

    def data(self, data: Json) -> Json:
        """Data of a person, a model or a tool; only references stay what they are."""
        match data:
            case str():
                return self.text(data)
            case int() | float():
                return self.number(data)
            case list():
                items = cast("Sequence[Json]", data)
                return [self.data(item) for item in items]
            case dict():
                members = cast("Mapping[str, Json]", data)
                return {self.key(name): self._member(name, item) for name, item in members.items()}
            case _:
                return data

    def _member(self, name: str, item: Json) -> Json:
        return self.reference(item) if name in _REFERENCES and isinstance(item, str) else self.data(item)

    def reference(self, text: str) -> str:
        """`step.path.to[0].field`: the step stays, and so do the numbers."""
        first, *_ = _PART.findall(text) or [""]

        def part(found: re.Match[str]) -> str:
            if found.start() == text.find(first):
                return self.word(found[0])
            return found[0] if found[0].isdecimal() else self.key(found[0])

        return _PART.sub(part, text)


def _numbered(form: str, number: int, text: str) -> str:
    """The `number`th text of this form, counted up from its end; a form with too few places gives out in the end."""
    kept = {place for found in _KEPT.finditer(text) for place in range(*found.span())}
    # The first digit is no zero, so that a number keeps its length.
    first = form.find("1")
    chars = list(form)
    for place in range(len(chars) - 1, -1, -1):
        row = _ROWS.get(chars[place])
        if row is None or place in kept:
            continue
        row = row[:9] if place == first else row
        number, rest = divmod(number, len(row))
        chars[place] = row[rest]
    return "".join(chars)
