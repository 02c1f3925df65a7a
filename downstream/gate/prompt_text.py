"""The question that a person is asked: a fixed template. Nothing of a worker or server stands outside quotes in it."""

import json
import unicodedata

from downstream.tools import Tool
from journal.canonical import canonical
from journal.values import Json, JsonObject

SHOWN_CHARACTERS = 4_000
"""Arguments whose canonical JSON is longer are shown on the page and in a terminal only."""
LARGEST_ARGUMENTS = 256 * 1024
"""Nobody can judge more; such a call is refused."""

_QUOTED = 120
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_HIDDEN_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def escaped(text: str) -> str:
    """The text with everything that is not seen, or that reorders what is seen, as `\\uXXXX`."""
    return "".join(json.dumps(character)[1:-1] if _is_hidden(character) else character for character in text)


def quoted(text: str) -> str:
    """At most 120 characters of text from elsewhere, escaped and in quotes."""
    cut = text if len(text) <= _QUOTED else f"{text[: _QUOTED - 1]}…"
    return escaped(json.dumps(cut, ensure_ascii=False))


def is_shown(arguments: Json) -> bool:
    """Whether the arguments are short enough to be shown by a host."""
    return len(canonical(arguments).decode()) <= SHOWN_CHARACTERS


def argument_lines(arguments: JsonObject, first: tuple[str, ...] = ()) -> list[str]:
    """Every argument in full and escaped, one a line, those named in `first` (the targets) before the others."""
    names = [*(name for name in first if name in arguments), *(name for name in arguments if name not in first)]
    return [f"{_as_text(name)}: {_as_text(arguments[name])}" for name in dict.fromkeys(names)]


def call_question(tool: Tool, arguments: JsonObject, targets: tuple[str, ...] = ()) -> str:
    """What is asked about a call; `targets` are the names of the arguments to show first."""
    title = f"Call {_as_name(tool.full_name)} ({tool.class_})"
    return f"{title} once, with exactly these arguments?\n" + _arguments(arguments, targets)


def unknown_question(tool_name: str, arguments: JsonObject) -> str:
    """What is asked when nobody knows whether a call ran."""
    title = f"{_as_name(tool_name)} was called and no answer came, so it may have run or not."
    choices = "Look there first, then say: done, not_done, retry (it is sent again), or give_up."
    return f"{title} {choices} It was called with:\n" + _arguments(arguments, ())


def trust_question(tool_name: str, why: str) -> str:
    """What is asked about a tool that is not what was accepted; the difference stands in the action's arguments."""
    asked = f"Use {_as_name(tool_name)} as its server lists it now, in this run and later ones?"
    return f"{asked} It is in quarantine: {why}. The difference shows what went (-) and what is new (+)."


def _arguments(arguments: JsonObject, targets: tuple[str, ...]) -> str:
    if not arguments:
        return "(no arguments)"
    if not is_shown(arguments):
        length = len(canonical(arguments).decode())
        return f"Its arguments have {length} characters, too many for here: see them on the page or in a terminal."
    return "\n".join(argument_lines(arguments, targets))


def _as_name(name: str) -> str:
    return name if name.isascii() and name.isprintable() and " " not in name else quoted(name)


def _as_text(data: Json) -> str:
    return escaped(json.dumps(data, ensure_ascii=False))


def _is_hidden(character: str) -> bool:
    if character.isascii():
        return not character.isprintable()
    category = unicodedata.category(character)
    variation = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return category in _HIDDEN_CATEGORIES or category == "Zs" or character in _INVISIBLE or variation


def size_of(arguments: Json) -> int:
    """How many bytes the arguments take in canonical form. Raises NotCanonical."""
    return len(canonical(arguments))
