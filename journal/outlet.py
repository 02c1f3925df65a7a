"""The one way out for text: secrets are taken out of everything that leaves, in every form they are known to take."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote, quote_plus

from .values import Json, JsonObject

_SHORTEST = 8
"""Values with fewer characters are not treated as secrets: they would blank out ordinary words."""

_MOST_LEARNED = 8
"""So many values of one name: tokens that are replaced every hour must not slow down all text for ever."""

_BREAK = re.compile(r"[ \t]*(?:\r?\n|(?:\\r)?\\n)[ \t]*")
_WRAPPED = re.compile(rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{20,}}(?:{_BREAK.pattern}[A-Za-z0-9+/_=-]+)+")
"""Base64 in lines, as mail and command lines write it; also within JSON."""

_LONG_LINE = 32
"""Shorter lines of a secret are more likely words."""

_NUMERAL = re.compile(r"-?\d{1,300}(?:\.\d{1,300})?")
_LEAST_NUMBER = 10 ** (_SHORTEST - 1)


class Outlet:
    """Replaces each secret, also in base64 (amid other bytes too), hex, URL and JSON form, by `[secret:NAME]`.

    So it does with one that `…` cuts short after 8 characters. Half a surrogate pair, which no encoding can carry,
    leaves as `?`. `owners` names the tool servers that a secret is for; only they get it back, by `restored`.
    """

    def __init__(
        self, secrets: Iterable[tuple[str, str]] = (), *, owners: Mapping[str, frozenset[str]] | None = None
    ) -> None:
        self._given = tuple(secrets)
        self._owners = dict(owners or {})
        self._learned: dict[str, list[str]] = {}
        self._know()

    def learn(self, name: str, value: str) -> None:
        """Take this value out too from now on; of many with one name, the latest."""
        if value not in self._known.forms:
            self._learned[name] = [*self._learned.get(name, ()), value][-_MOST_LEARNED:]
            self._know()

    def _know(self) -> None:
        learned = [(name, value) for name, values in self._learned.items() for value in values]
        known = [(name, value) for name, value in (*self._given, *learned) if len(value) >= _SHORTEST]
        # At once: another thread may be looking for secrets in a text.
        self._known = _Known.of(known)

    def text(self, text: str) -> str:
        if not text.isascii():
            text = text.encode(errors="replace").decode()
        known = self._known
        # Most texts hold none, which this tells far sooner than one pattern of all forms does.
        if found := [form for form in known.forms if form in text]:
            text = re.sub("|".join(map(re.escape, found)), lambda form: known.forms[form.group()], text)
        if known.forms and ("\n" in text or "\\n" in text):
            text = _WRAPPED.sub(known.without_breaks, text)
        return known.without_cut(text) if "…" in text else text

    def names_in_bytes(self, content: bytes) -> list[str]:
        """The secrets that stand in content which is no text, or text of another encoding."""
        forms, encodings = self._known.forms, ("utf-8", "utf-16-le", "utf-16-be")
        return sorted({forms[form] for form in forms if any(form.encode(each) in content for each in encodings)})

    def json(self, data: Json) -> Json:
        """The same data with every string, keys too, passed through `text`."""
        return self._data(data, {})

    def foreign(self, data: Json) -> Json:
        """As `json`, and numbers that are a secret are replaced too: for what is not of our own making."""
        return self._data(data, self._known.numbers)

    def _data(self, data: Json, numbers: Mapping[float, str]) -> Json:
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, dict):
            members = cast("JsonObject", data)
            return {self.text(key): self._data(item, numbers) for key, item in members.items()}
        if isinstance(data, list | tuple):
            items = cast("Sequence[Json]", data)
            return [self._data(item, numbers) for item in items]
        return numbers.get(data, data) if isinstance(data, int | float) else data

    def names_in(self, data: Json) -> list[str]:
        """The secrets whose placeholders stand in the data, in its texts or names."""
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        return [name for name in self._known.values if _placeholder(name) in text]

    def owners(self, name: str) -> frozenset[str]:
        """The tool servers that the secret of this name is for; of two values with one name nobody knows which is."""
        return self._owners.get(name, frozenset()) if len(self._known.values.get(name, ())) == 1 else frozenset()

    def restored(self, data: Json, server: str) -> Json:
        """The data with the placeholders of the server's own secrets filled in again, but not in names of members."""
        values = self._known.values
        own = {_placeholder(name): values[name][0] for name in values if server in self.owners(name)}
        return _filled(data, own) if own else data


@dataclass(frozen=True)
class _Known:
    """What is looked for: `forms`, longest first, and `numbers` with their placeholders; `values` by name."""

    forms: Mapping[str, str]
    numbers: Mapping[float, str]
    values: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, secrets: Sequence[tuple[str, str]]) -> "_Known":
        forms: dict[str, str] = {}
        values: dict[str, list[str]] = {}
        for name, value in secrets:
            forms.update(dict.fromkeys(_forms(value), _placeholder(name)))
            values.setdefault(name, []).append(value)
        numbers = {number: _placeholder(name) for name, value in secrets if (number := _number(value)) is not None}
        longest_first = sorted(forms, key=len, reverse=True)
        return cls({form: forms[form] for form in longest_first}, numbers, values)

    def without_breaks(self, wrapped: re.Match[str]) -> str:
        """The lines as they are, but for what is a secret once they are joined."""
        text, start, places = wrapped.group(), 0, list[int]()
        for pause in _BREAK.finditer(text):
            places += range(start, pause.start())
            start = pause.end()
        places += range(start, len(text))
        joined, parts, start = "".join(text[place] for place in places), list[str](), 0
        found = [form for form in self.forms if form in joined]
        for secret in re.finditer("|".join(map(re.escape, found)), joined) if found else ():
            parts += [text[start : places[secret.start()]], self.forms[secret.group()]]
            start = places[secret.end() - 1] + 1
        return "".join([*parts, text[start:]])

    def without_cut(self, text: str) -> str:
        """The text without what was left of secrets that were cut short before they came here."""
        *cut, last = text.split("…")
        return "…".join([*map(self._without_rest, cut), last])

    def _without_rest(self, text: str) -> str:
        for name, values in self.values.items():
            for value in values:
                start = text.find(value[:_SHORTEST])
                while start >= 0:
                    if value.startswith(text[start:]):
                        return text[:start] + _placeholder(name)
                    start = text.find(value[:_SHORTEST], start + 1)
        return text


def _placeholder(name: str) -> str:
    return f"[secret:{name}]"


def _number(value: str) -> float | None:
    """The value as JSON would carry it as a number, where it is one of eight digits or more."""
    if not _NUMERAL.fullmatch(value):
        return None
    number = float(value) if "." in value else int(value)
    return number if abs(number) >= _LEAST_NUMBER else None


def _filled(data: Json, own: Mapping[str, str]) -> Json:
    if isinstance(data, str):
        return re.sub("|".join(map(re.escape, own)), lambda found: own[found.group()], data)
    if isinstance(data, dict):
        return {key: _filled(item, own) for key, item in cast("JsonObject", data).items()}
    if isinstance(data, list):
        items = cast("Sequence[Json]", data)
        return [_filled(item, own) for item in items]
    return data


def _forms(value: str) -> set[str]:
    raw = value.encode()
    quoted = {quote(value, safe=""), quote(value), quote_plus(value)}
    forms = {value, raw.hex(), raw.hex().upper(), *quoted, *map(_with_small_escapes, quoted)}
    for ascii_only in (True, False):
        # JSON also stands in texts of JSON; Python's servers answer with what `repr` makes of their data.
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        forms |= {once, json.dumps(once, ensure_ascii=ascii_only)[1:-1], repr(value)[1:-1]}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        forms |= {encode(raw).decode(), encode(raw).decode().rstrip("=")}
        forms |= {_inside(encode, raw, shift) for shift in range(3)}
    # A key in several lines may come one line at a time, as to a log.
    forms |= {line for line in value.split() if len(line) >= _LONG_LINE and "\n" in value}
    return {form for form in forms if len(form) >= _SHORTEST}


def _with_small_escapes(quoted: str) -> str:
    return re.sub("%..", lambda escape: escape.group().lower(), quoted)


def _inside(encode: Callable[[bytes], bytes], raw: bytes, shift: int) -> str:
    """The base64 characters that hold nothing but `raw` where `shift` other bytes (or 3 n more) stand before it."""
    first, end = -(-8 * shift // 6), 8 * (shift + len(raw)) // 6
    return encode(bytes(shift) + raw)[first:end].decode()
