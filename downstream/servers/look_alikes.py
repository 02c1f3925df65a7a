"""Names that can be taken for others, or that are none: kept from models until a person has accepted them."""

import re
import unicodedata
from collections.abc import Collection, Iterable

from downstream.gate.prompt_text import quoted

from .names import clean_text

_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,128}")
_RESERVED = frozenset({"mcp", "steprelay"})
"""The first is how hosts begin the names of tools of any server, the second are we."""
_LETTERS = str.maketrans(
    # Letters and dashes of Cyrillic, Greek, Armenian and others that are drawn as those of ASCII.
    "\u0430\u0441\u0501\u0435\u04bb\u0456\u0458\u043a\u04cf\u043c\u043e\u0440\u051b\u0455\u0475\u051d"
    "\u0445\u0443\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u041a\u041c\u041e\u0420\u0405\u0422\u0474"
    "\u051c\u0425\u04ae\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5\u03c7\u03c9\u0391\u0392\u0395\u0396"
    "\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u0585\u057d\u0578\u0581\u0570\u0566"
    "\u0131\u0261\u029f\u1d0f\u1d1c\u1d20\u1d21\u1d22\u2010\u2011\u2013\u2014\u2212\u2024",
    "acdehijklmopqsvwxyABCEHIJKMOPSTVWXYaikvopuxwABEZHIKMNOPTYXounghqiglouvwz-----.",
)
_DRAWN_ALIKE = str.maketrans("I1|0", "lllO")


def tool_troubles(names: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Why tools of one server, besides those `known`, should not be used under their names: reasons by name.

    Of two that can be taken for each other, a known one counts, then one with a plain name.
    """
    seen: dict[str, str] = {}
    troubles: dict[str, str] = {}
    for name in (*known, *sorted(set(names) - set(known), key=_the_likelier_first)):
        shapes = _shapes(name)
        other = next((seen[shape] for shape in shapes if shape in seen), None)
        why = [] if _PLAIN.fullmatch(name) else ["its name is not 1 to 128 letters, digits, '.', '_' or '-' of ASCII"]
        why += [f"its name can be taken for {quoted(other)}"] if other is not None else []
        if why and name not in known:
            troubles[name] = " and ".join(why)
        for shape in shapes:
            seen.setdefault(shape, name)
    return troubles


def server_troubles(names: Iterable[str]) -> dict[str, str]:
    """Why servers are left out for their names, in the order of the settings: reasons by name."""
    seen: dict[str, str] = {}
    troubles: dict[str, str] = {}
    for name in names:
        if name in _RESERVED:
            troubles[name] = "its name has a meaning of its own in names of tools; rename it"
        elif (other := next((seen[shape] for shape in _shapes(name) if shape in seen), None)) is not None:
            troubles[name] = f"its name can be taken for {quoted(other)}; rename one of them"
        else:
            seen |= dict.fromkeys(_shapes(name), name)
    return troubles


def _the_likelier_first(name: str) -> tuple[bool, str]:
    return _PLAIN.fullmatch(name) is None, name.swapcase()


def _shapes(name: str) -> tuple[str, str]:
    """What is left of a name for a reader who overlooks its case, and for one who overlooks which letters it has."""
    parts = unicodedata.normalize("NFKD", clean_text(name).translate(_LETTERS))
    letters = "".join(part for part in parts if not unicodedata.combining(part)).translate(_LETTERS)
    return f"case {letters.casefold()}", f"look {letters.translate(_DRAWN_ALIKE)}"
