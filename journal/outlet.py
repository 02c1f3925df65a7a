"""The one way out for text: secrets are taken out of everything that leaves, in every form they are known to take."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import cast
from urllib.parse import quote, quote_plus

from .values import Json, JsonObject

_SHORTEST = 8
"""Values with fewer characters are not treated as secrets: they would blank out ordinary words."""

_MOST_LEARNED = 8
"""So many values of one name: tokens that are replaced every hour must not slow down all text for ever."""


class Outlet:
    """Replaces each secret, also in base64 (amid other bytes too), hex, URL and JSON form, by `[secret:NAME]`.

    Half a surrogate pair, which no encoding can carry, leaves as `?`.
    """

    def __init__(self, secrets: Iterable[tuple[str, str]] = ()) -> None:
        self._given = tuple(secrets)
        self._learned: dict[str, list[str]] = {}
        self._know()

    def learn(self, name: str, value: str) -> None:
        """Take this value out too from now on; of many with one name, the latest."""
        if value not in self._forms:
            self._learned[name] = [*self._learned.get(name, ()), value][-_MOST_LEARNED:]
            self._know()

    def _know(self) -> None:
        forms: dict[str, str] = {}
        learned = [(name, value) for name, values in self._learned.items() for value in values]
        for name, value in (*self._given, *learned):
            if len(value) >= _SHORTEST:
                forms.update(dict.fromkeys(_forms(value), f"[secret:{name}]"))
        longest_first = sorted(forms, key=len, reverse=True)
        # In this order: another thread may be looking for the forms of the pattern.
        self._forms = forms
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def text(self, text: str) -> str:
        if not text.isascii():
            text = text.encode(errors="replace").decode()
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: self._forms[found.group()], text)

    def json(self, data: Json) -> Json:
        """The same data with every string, keys too, passed through `text`."""
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, dict):
            members = cast("JsonObject", data)
            return {self.text(key): self.json(item) for key, item in members.items()}
        if isinstance(data, list | tuple):
            items = cast("Sequence[Json]", data)
            return [self.json(item) for item in items]
        return data


def _forms(value: str) -> set[str]:
    raw = value.encode()
    quoted = {quote(value, safe=""), quote(value), quote_plus(value)}
    forms = {value, raw.hex(), raw.hex().upper(), *quoted, *map(_with_small_escapes, quoted)}
    forms |= {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        forms |= {encode(raw).decode(), encode(raw).decode().rstrip("=")}
        forms |= {_inside(encode, raw, shift) for shift in range(3)}
    return {form for form in forms if len(form) >= _SHORTEST}


def _with_small_escapes(quoted: str) -> str:
    return re.sub("%..", lambda escape: escape.group().lower(), quoted)


def _inside(encode: Callable[[bytes], bytes], raw: bytes, shift: int) -> str:
    """The base64 characters that hold nothing but `raw` where `shift` other bytes (or 3 n more) stand before it."""
    first, end = -(-8 * shift // 6), 8 * (shift + len(raw)) // 6
    return encode(bytes(shift) + raw)[first:end].decode()
