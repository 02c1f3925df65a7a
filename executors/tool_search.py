"""Finding tools by words: BM25 over their names, titles, descriptions and arguments."""

import math
import re
from collections import Counter
from collections.abc import Sequence

from downstream.tools import Tool

_WORD = re.compile(r"[a-z]+|[0-9]+|[A-Z]+(?![a-z])|[A-Z][a-z]*|[^\W\d_]+")
_K1, _B = 1.2, 0.75
_NAME_WEIGHT = 3
"""A word of the name counts as often as so many in the description."""


def find_tools(query: str, tools: Sequence[Tool], *, limit: int) -> list[Tool]:
    """The tools that fit the query best, best first; equal ones by wire name, and none that shares no word with it."""
    texts = [Counter(_words_of(tool)) for tool in tools]
    wanted = set(_words(query))
    rarity = {word: _rarity(sum(word in text for text in texts), len(texts)) for word in wanted}
    mean = sum(text.total() for text in texts) / max(1, len(texts))
    scored = [(_score(text, rarity, mean), tool) for text, tool in zip(texts, tools, strict=True)]
    scored.sort(key=lambda pair: (-pair[0], pair[1].wire))
    return [tool for score, tool in scored[:limit] if score > 0]


def _score(text: Counter[str], rarity: dict[str, float], mean: float) -> float:
    length = _K1 * (1 - _B + _B * text.total() / mean) if mean else 0.0
    return sum(weight * text[word] * (_K1 + 1) / (text[word] + length) for word, weight in rarity.items() if text[word])


def _rarity(containing: int, total: int) -> float:
    return math.log(1 + (total - containing + 0.5) / (containing + 0.5))


def _words_of(tool: Tool) -> list[str]:
    arguments = " ".join(tool.open_schema.get("properties", {}))
    return _words(tool.full_name) * _NAME_WEIGHT + _words(f"{tool.title} {tool.description} {arguments}")


def _words(text: str) -> list[str]:
    """Lower-case words, camelCase and snake_case taken apart, without the plural s."""
    return [_stem(word.lower()) for word in _WORD.findall(text)]


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
