"""Text by models made fit for people: no images, no HTML, no links to where the run has not been."""

import re
from collections.abc import Collection

LONGEST = 6_000
_CODE = re.compile(r"(```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]+`)", re.DOTALL)
_LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\[\]]*)\](?:\((?P<target>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)[^()]*\)|\[[^\[\]]*\])"
)
_DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s*(\S+).*$", re.MULTILINE)
_AUTOLINK = re.compile(r"<([a-zA-Z][a-zA-Z0-9+.-]*:[^<>\s]*)>")
_TAG = re.compile(r"<(?=[a-zA-Z/!?])")
_URL = re.compile(
    r"(?:\b(?:[a-z][a-z0-9+.-]{1,15}:[/\\]{2}|mailto:|data:|javascript:|www\.)|(?<![\w:/\\.])[/\\]{2,}(?=\w))"
    r"[^\s<>\"'`\[\](){}]+",
    re.IGNORECASE,
)
_BIDI = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def urls_in(text: str) -> set[str]:
    """The addresses that stand in a text."""
    return {_trimmed(found) for found in _URL.findall(text)}


def cleaned(text: str, *, known: Collection[str] = (), longest: int = LONGEST) -> str:
    """Markdown without images and HTML, in which an address that is not `known` is code and can't be followed."""
    parts = _CODE.split(_BIDI.sub("", text).strip())
    # Every second part is code, which nobody renders.
    whole = "".join(part if index % 2 else _prose(part, known) for index, part in enumerate(parts))
    return _cut(whole, longest)


def plain_line(text: str) -> str:
    """One line without markup that could become an image, a tag or a link."""
    return _prose(" ".join(_BIDI.sub("", text).replace("`", "'").split()), ())


def _prose(text: str, known: Collection[str]) -> str:
    kept: list[str] = []

    def keep(replacement: str) -> str:
        kept.append(replacement)
        return f"\x00{len(kept) - 1}\x00"

    def address(url: str) -> str:
        return url if _trimmed(url) in known else f"`{url}`"

    def link(found: re.Match[str]) -> str:
        words, target = found["text"], found["target"]
        if target and _trimmed(target) in known and not found["image"]:
            return f"{keep('[')}{words}{keep(f']({target})')}"
        return f"{words} ({keep(address(target))})" if target else words

    text = text.replace("\x00", "")
    text = _DEFINITION.sub(lambda found: keep(address(found[1])), text)
    text = _AUTOLINK.sub(lambda found: keep(address(found[1])), text)
    # Links inside the text of a link need a second pass; what is left of an image's mark is taken away.
    for _ in range(3):
        text = _LINK.sub(link, text)
    text = _URL.sub(lambda found: keep(_bare(found[0], known)), text)
    text = _TAG.sub("&lt;", text).replace("![", "[")
    while "\x00" in text:
        text = re.sub("\x00(\\d+)\x00", lambda found: kept[int(found[1])], text)
    return text


def _bare(url: str, known: Collection[str]) -> str:
    address = _trimmed(url)
    return url if address in known else f"`{address}`{url[len(address) :]}"


def _trimmed(url: str) -> str:
    return url.rstrip(".,;:!?*_")


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    mark = "\n\n… (cut)"
    text = text[: longest - len(mark) - 4]
    text = text[: max(text.rfind("\n"), text.rfind(" "), longest // 2)].rstrip()
    return f"{text}\n```{mark}" if text.count("```") % 2 else f"{text}{mark}"
