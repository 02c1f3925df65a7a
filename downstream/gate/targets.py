"""Which arguments decide whom or what a call reaches, and whether their words are the user's."""

import re
from collections.abc import Iterator

from downstream.json_shape import is_object, leaves
from downstream.policy_settings import PolicySettings
from downstream.tool_names import matches
from downstream.tools import Tool
from journal.values import Json, JsonObject

from .matchers import MISSING, at_pointer

SHORTEST_TOKEN = 4
"""Shorter words (days, numbers, abbreviations) stand in a goal by chance."""

_TARGET_WORDS = re.compile(
    "to|cc|bcc|recipients?|receivers?|addressee|beneficiary|payee|e?mails?|address(es)?|participants?|attendees?|invitees?"
    "|users?|usernames?|members?|phone|channels?|chat|room|group|contacts?"
    "|ur[li]s?|link|href|endpoint|host|hostname|domain|webhook|callback|website|site"
    "|paths?|files?|filename|filepath|dir|directory|folder|destination|dest|target"
    "|accounts?|iban|bic|wallet|owner|repo|repository|bucket"
)
_TARGET_FORMATS = re.compile("(ur[il]|iri)(-reference)?|(idn-)?(email|hostname)|ipv[46]|((file|directory)-)?path")
_ADDRESS = re.compile(
    # Each begins where a word begins: tried from within words too, long text would take forever.
    r"(?<![a-z0-9+.-])[a-z0-9+.-]+://[^\s<>\"'`]+|\bwww\.[^\s<>\"'`]+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|\b[a-z]{2}\d{2}(?:(?: ?\d{4}){2,7}(?: ?\d{1,4})?|[a-z0-9]{10,30})\b",
    re.IGNORECASE,
)
"""A URL, a mail address or an IBAN, also amid other words."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_OPENING, _CLOSING = "([{<\"'`\u2018\u201c\u00ab\u201e", ")]}>\"'`\u2019\u201d\u00bb.,;:!?\u2026"
_BEFORE = f",;:={_OPENING}"
_CLOSED = re.compile(f"[{re.escape(_CLOSING)}]*")


def targets(tool: Tool, arguments: JsonObject, policy: PolicySettings) -> list[tuple[str, Json]]:
    """The target arguments, by pointer: those that `sinks` name, else by declared names and formats, else all.

    An undeclared argument and each address in an innocent one are targets too, but never turn attention from the rest.
    """
    named = [
        pointer for glob, pointers in policy.sinks.items() if matches(glob, tool.full_name) for pointer in pointers
    ]
    if named:
        found = [(pointer, at_pointer(arguments, pointer)) for pointer in dict.fromkeys(named)]
        chosen = [leaf for pointer, value in found if value is not MISSING for leaf in leaves(value, pointer)]
        return list(dict(chosen).items()) or list(leaves(arguments))
    everything = list(leaves(arguments))
    declared = {pointer for pointer, _ in everything if _means_target(tool.input_schema, pointer)}
    whole = [
        (pointer, value)
        for pointer, value in everything
        if not declared or pointer in declared or not _is_declared(tool.input_schema, pointer)
    ]
    return list(dict.fromkeys([*whole, *(found for leaf in everything for found in _addresses(*leaf))]))


def argument_of(pointer: str) -> str:
    """The name of the argument that a pointer leads into."""
    return pointer.split("/")[1].replace("~1", "/").replace("~0", "~")


def stands_in(value: Json, text: str) -> bool:
    """Whether the value stands in the text literally, as a whole token of at least four characters."""
    word = value if isinstance(value, str) else str(value)
    if len(word) < SHORTEST_TOKEN or word not in text:
        return False
    start, closed = text.find(word), -1
    while start >= 0:
        end = start + len(word)
        if start == 0 or text[start - 1] in _BEFORE or text[start - 1].isspace():
            # Within a run of closing signs that was gone through before, another end leads to the same place.
            closed = _after_closing(text, end) if end > closed else closed
            if text[closed : closed + 1].isspace() or closed == len(text):
                return True
        start = text.find(word, start + 1)
    return False


def _after_closing(text: str, start: int) -> int:
    found = _CLOSED.match(text, start)
    return start if found is None else found.end()


def _means_target(schema: JsonObject, pointer: str) -> bool:
    names = [name for name in pointer.split("/")[1:] if not name.isdecimal()]
    if not names or not _is_declared(schema, pointer):
        return False
    words = [word.lower() for name in names for word in _WORD.findall(name)]
    return any(map(_TARGET_WORDS.fullmatch, words)) or bool(_TARGET_FORMATS.fullmatch(_format(schema, pointer)))


def _is_declared(schema: JsonObject, pointer: str) -> bool:
    properties: Json = schema.get("properties")
    return is_object(properties) and pointer.split("/")[1] in properties


def _addresses(pointer: str, value: Json) -> Iterator[tuple[str, Json]]:
    """The addresses in a text and in the names that lead to it, each by itself."""
    names = [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]
    for text in (*names, value) if isinstance(value, str) else names:
        yield from ((pointer, found.group().rstrip(_CLOSING)) for found in _ADDRESS.finditer(text))


def _format(schema: Json, pointer: str) -> str:
    for name in pointer.split("/")[1:]:
        if not is_object(schema):
            return ""
        properties: Json = schema.get("properties")
        named = properties.get(name) if is_object(properties) else None
        schema = schema.get("items") if name.isdecimal() else named
    return str(schema.get("format", "")) if is_object(schema) else ""
