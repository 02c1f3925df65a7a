"""An entry with its secrets taken out: each literal value that is or looks secret becomes a `${VAR}`."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from journal.values import JsonObject

from .secret_text import (
    REFERENCE,
    Span,
    apart,
    names_secret,
    span_of_all,
    spans_in,
    spans_of_argument,
    spans_of_header,
)


@dataclass(frozen=True)
class Secret:
    """A secret value; `label` says what it is, `where` its place, `variable` one that stands there already."""

    value: str
    label: str
    where: str
    variable: str = ""


Choose = Callable[[Secret], str]
"""The name of the variable for a secret."""


def hidden(entry: JsonObject, choose: Choose) -> JsonObject:
    """The same entry with each secret value as a reference; `entry` holds texts where settings do.

    A value that is secret in one place is so in all.
    """
    return _hidden(entry, _Hider(choose, [secret for secret in secrets_in(entry) if _can_stand_elsewhere(secret)]))


def secrets_in(entry: JsonObject) -> list[Secret]:
    """The secret values of an entry."""
    found: list[Secret] = []

    def noted(secret: Secret) -> str:
        found.append(secret)
        return "X"

    _hidden(entry, _Hider(noted))
    return found


@dataclass
class _Hider:
    choose: Choose
    everywhere: Iterable[Secret] = ()

    def text(self, text: str, where: str, *, find: Callable[[str], list[Span]]) -> str:
        text = REFERENCE.sub(lambda found: self._without_default(found.group(), where), text)
        known = [
            Span(found.start(), found.end(), secret.label)
            for secret in self.everywhere
            for found in re.finditer(re.escape(secret.value), text)
        ]
        result, at = "", 0
        for span in apart([*find(text), *known]):
            variable = self.choose(Secret(text[span.start : span.end], span.label, where))
            result += f"{text[at : span.start]}${{{variable}}}"
            at = span.end
        return result + text[at:]

    def _without_default(self, reference: str, where: str) -> str:
        """A default is written out in the file, so it may be a secret too."""
        sign, _, inside = reference[:-1].partition("{")
        name, _, default = inside.partition(":-")
        if not default or not (names_secret(name, default) or spans_in(default)):
            return reference
        self.choose(Secret(default, name, f"the default in {where}", name))
        return f"{sign}{{{name}}}"


def _hidden(entry: JsonObject, hider: _Hider) -> JsonObject:
    kept = dict(entry)
    for key in ("command", "cwd", "envFile", "url"):
        if key in kept:
            kept[key] = hider.text(kept[key], key, find=spans_in)
    if "args" in kept:
        args: list[str] = kept["args"]
        kept["args"] = [
            hider.text(text, _named_argument(before, number), find=partial(spans_of_argument, before))
            for number, (before, text) in enumerate(zip(["", *args], args, strict=False), start=1)
        ]
    for part, find in (("env", span_of_all), ("headers", spans_of_header)):
        if part in kept:
            named: dict[str, str] = kept[part]
            kept[part] = {
                name: hider.text(text, f"{part} {name}", find=partial(find, name)) for name, text in named.items()
            }
    return kept


def _can_stand_elsewhere(secret: Secret) -> bool:
    """Not a word, which may stand for something else: a password `postgres` is also the name of a package."""
    return len(secret.value) >= 8 and not secret.value.isalpha()


def _named_argument(before: str, number: int) -> str:
    return f"argument {before}" if re.fullmatch(r"--?[A-Za-z][\w-]*", before) else f"argument {number}"
