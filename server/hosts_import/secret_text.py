"""Which parts of a text are secret, or look so: by the name beside them, by known forms, by chance-like characters."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from journal.settings import is_secret_name


class Span(NamedTuple):
    """A secret part of a text; `label` says what it is, for the name of a variable."""

    start: int
    end: int
    label: str


_WORDS = re.compile(
    r"CREDENTIAL|PASSPHRASE|PWD|BEARER|COOKIE|SIGNATURE|CONNECTION_?STRING|PRIVATE"
    r"|(?:^|_)(?:PAT|SIG|DSN|PIN|JWT|SESSION)(?:_|$)"
)
_PLAIN_NAME = re.compile(
    r"(?:_|^)(?:FILE|PATH|DIR|CREDENTIALS|TYPE|MODE|METHOD|LIMIT|ENABLED)$|(?:^|_)(?:MAX|NO)_|TOKENS$"
)
_PLAIN_VALUE = re.compile(
    r"(?i)true|false|yes|no|on|off|none|null|oauth2?|basic|bearer|\d{1,7}|(?:[A-Z]:[\\/]|[~.]{0,2}/)[^\s:]*"
)
_ALWAYS_PLAIN = re.compile(r"(?i)true|false|yes|no|on|off")
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|digest|api-?key)\s+")
_USER = re.compile(r"://([^/\s?#]*)@")
_QUERY = re.compile(r"(?<=[?&#;])([\w.\[\]-]+)=([^&#;\s\"']+)")
_VALUE = r"""(?:"([^"]*)"|'([^']*)'|((?:(?:bearer|basic|token)\s+)?[^\s"';]+))"""
# Of no width, since the value of one pair may be the name of the next: `--header=X-Api-Key: …`.
_PAIR = re.compile(r"(?<![?&#\w.])(?=([A-Za-z][\w.-]*)[\"']?\s*[=:](?!//)\s*" + _VALUE + ")", re.I)
_OPTION = re.compile(r"(?<!\S)--([A-Za-z][\w.-]*)\s+(?!-)" + _VALUE, re.I)
_WHOLE_PAIR = re.compile(r"-{0,2}([A-Za-z][\w.-]*)=(.+)", re.DOTALL)
_AFTER_SCHEME = re.compile(r"(?i)\bbearer\s+([^\s\"',}]{4,})|\b(?:basic|token)\s+([A-Za-z0-9+/_=-]{16,})")
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|pk|rk|ak)[-_](?:[a-z]+[-_])*[A-Za-z0-9_-]{6,}|gh[pousr]_\w{6,}|github_pat_\w{6,}"
    r"|gl(?:pat|dt|rt|ptt)-[\w-]{6,}|xox[a-z]-[\w-]{6,}|xapp-[\w-]{6,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{20,}"
    r"|ya29\.[\w-]{6,}|GOCSPX-[\w-]{6,}|eyJ[\w-]{5,}(?:\.[\w-]+)*|SG\.[\w-]{6,}\.[\w-]+|ATATT[\w=-]{10,}"
    r"|(?:npm|hf|ntn|figd|lin_api|dop_v1|gsk|glsa|phc|r8|secret|whsec|sntrys|sbp|shpat|shpss|re)_[\w-]{12,}"
    r"|(?:tskey|nvapi|tvly|pplx|xai)-[\w-]{12,})"
)
_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_CHUNK = re.compile(r"[A-Za-z0-9_+-]{16,}={0,2}")
_WITH_SLASHES = re.compile(r"(?:^|(?<=[=\s\"':]))[A-Za-z0-9+_-][A-Za-z0-9+/_-]{18,}={0,2}(?=$|[\s\"'])")
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REVISION = re.compile(r"(?:@|sha256:|#)$")
_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_NO_SECRET = re.compile(r"AUTHOR(?!I)|KEYWORD|KEYBOARD|TOKENIZER")
REFERENCE = re.compile(r"\${1,2}\{[^{}]*\}")
"""A reference, or with two dollar signs a text that looks like one."""


def names_secret(name: str, value: str) -> bool:
    """Whether a variable, header, option or query part of this name holds a secret, this value considered."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).upper().strip("_")
    plain = _NO_SECRET.sub("", plain)
    if not is_secret_name(plain) and not _WORDS.search(plain):
        return False
    if _PLAIN_NAME.search(plain) and _PLAIN_VALUE.fullmatch(value):
        return False
    return bool(value) and not _ALWAYS_PLAIN.fullmatch(value)


def spans_in(text: str) -> list[Span]:
    """The secret parts of a text whose own name says nothing; references are never part of one."""
    masked = _without_references(text)
    if _BLOCK.search(masked):
        return [Span(0, len(text), "PRIVATE_KEY")]
    found = [*_in_addresses(masked), *_beside_names(masked), *_by_form(masked)]
    return apart(span for span in found if masked[span.start : span.end].strip("\0"))


def spans_of_header(name: str, text: str) -> list[Span]:
    """The secret parts of a header's value; of `Bearer VALUE` only the value."""
    scheme = _SCHEME.match(text)
    start = scheme.end() if scheme else 0
    literal = _without_references(text)[start:].replace("\0", "")
    if not names_secret(name, literal) or (len(literal) < len(text) - start and len(literal) < 8):
        return spans_in(text)
    return [Span(start, len(text), "TOKEN" if name.lower().endswith("authorization") else label_of(name))]


def span_of_all(name: str, text: str) -> list[Span]:
    """All of a variable's value, where its name or anything in it says that it is secret."""
    literal = _without_references(text).replace("\0", "")
    is_named = names_secret(name, literal) and (literal == text or len(literal) >= 8)
    return [Span(0, len(text), name)] if is_named or spans_in(text) else []


def spans_of_argument(before: str, text: str) -> list[Span]:
    """The secret parts of an argument, which may be the value of the option before it."""
    option = before.lstrip("-/") if before.startswith("-") and "=" not in before else ""
    literal = _without_references(text)
    if option and not option.startswith("no-") and not text.startswith("-") and "\0" not in literal:
        if option.lower() in ("header", "h"):
            name, colon, value = text.partition(":")
            start = len(name) + 1 + len(value) - len(value.lstrip())
            spans = spans_of_header(name, value.lstrip()) if colon else spans_in(text)
            return [Span(span.start + start, span.end + start, span.label) for span in spans] if colon else spans
        if names_secret(option, text):
            return [Span(0, len(text), label_of(option))]
    pair = _WHOLE_PAIR.fullmatch(text)
    if pair and "\0" not in literal and names_secret(pair[1], pair[2]):
        return [Span(pair.start(2), pair.end(2), label_of(pair[1]))]
    return spans_in(text)


def label_of(name: str) -> str:
    """How a variable for such a value is called."""
    label = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).upper().strip("_").removeprefix("X_")
    return "TOKEN" if label.endswith("AUTHORIZATION") else label


def _without_references(text: str) -> str:
    return REFERENCE.sub(lambda found: "\0" * len(found.group()), text)


def _in_addresses(text: str) -> Iterator[Span]:
    for found in _USER.finditer(text):
        user, colon, _ = found[1].partition(":")
        start = found.start(1) + len(user) + 1
        if colon:
            yield Span(start, found.end(1), "PASSWORD")
        elif user:
            yield Span(found.start(1), found.end(1), "USER")


def _beside_names(text: str) -> Iterator[Span]:
    for found in _QUERY.finditer(text):
        if names_secret(found[1], found[2]) or found[1].lower() in ("code", "sid", "auth"):
            yield Span(found.start(2), found.end(2), label_of(found[1]))
    for found in (*_PAIR.finditer(text), *_OPTION.finditer(text)):
        start, end = next(found.span(group) for group in (2, 3, 4) if found[group] is not None)
        if names_secret(found[1], text[start:end]):
            scheme = _SCHEME.match(text, start, end)
            yield Span(scheme.end() if scheme else start, end, label_of(found[1]))


def _by_form(text: str) -> Iterator[Span]:
    for found in _AFTER_SCHEME.finditer(text):
        group = 1 if found[1] else 2
        yield Span(found.start(group), found.end(group), "TOKEN")
    for found in _KNOWN.finditer(text):
        yield Span(found.start(), found.end(), "KEY")
    for found in (*_CHUNK.finditer(text), *_WITH_SLASHES.finditer(text)):
        if not _REVISION.search(text[: found.start()]) and _is_by_chance(found.group()):
            yield Span(found.start(), found.end(), "KEY")


def _is_by_chance(chunk: str) -> bool:
    """Whether this can't be words, numbers and dates: it changes too often between letters, capitals and digits."""
    if _UUID.search(chunk):
        return True
    plain = re.sub(r"[^A-Za-z0-9]", "", chunk)
    is_mixed = all(re.search(kind, plain) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    parts = [part for part in re.split(r"[-_+=]", chunk.replace("/", "")) if len(part) >= 12]
    return (is_mixed and _length_of_pieces(plain) < 3) or any(
        _length_of_pieces(part) < 4 or len(re.findall("[0-9]+", part)) > 2 for part in parts
    )


def _length_of_pieces(text: str) -> float:
    return len(text) / len(_PIECE.findall(text))


def apart(spans: Iterable[Span]) -> list[Span]:
    """Spans that overlap, as one; the first names it."""
    whole: list[Span] = []
    for span in sorted(spans, key=lambda each: (each.start, -each.end)):
        if whole and span.start < whole[-1].end:
            whole[-1] = Span(whole[-1].start, max(span.end, whole[-1].end), whole[-1].label)
        else:
            whole.append(span)
    return whole
