"""Text by models made fit for people: no images, no HTML, no links to where the run has not been."""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from downstream.servers.names import clean_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LONGEST = 6_000
_CODE = re.compile(r"(```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]+`)", re.DOTALL)
_LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\[\]]*)\](?:\((?P<target>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)[^()]*\)|\[[^\[\]]*\])"
)
_DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s*(\S+).*$", re.MULTILINE)
_AUTOLINK = re.compile(r"<([a-zA-Z][a-zA-Z0-9+.-]*:[^<>\s]*)>")
_TAG = re.compile(r"<(?=[a-zA-Z/!?])")
_BEGIN = (
    r"(?:(?<![a-z0-9])(?:[a-z][a-z0-9+.-]{1,15}:[/\\]{2}|mailto:|data:|javascript:|www\.)"
    r"|(?<![a-z0-9:/\\.])[/\\]{2,}(?=\w))"
)
_URL = re.compile(rf"{_BEGIN}[^\s<\x00]+", re.IGNORECASE)
"""As far as a host may take an address to go: what a known one is prolonged by would go out with it."""
_SHORT_URL = re.compile(rf"{_BEGIN}[^\s<>\"'`\[\](){{}}]+", re.IGNORECASE)
_STOPS = ".,;:!?*_~"
_BRACKETS = "\"'()[]{}>|`\\"
_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*(.*)")
_LANGUAGE = re.compile(
    "bash|c|cpp|csharp|css|csv|diff|go|ini|java|javascript|js|json|jsonc|kotlin|lua|makefile|markdown|md|perl|php|powershell"
    "|py|python|r|ruby|rust|scala|sh|shell|sql|swift|text|toml|ts|tsx|txt|typescript|xml|yaml|yml|zsh"
)
"""Names of code that hosts show as it is; under others (mermaid, svg, math) some draw pictures and follow links."""
_CUT = "\n\n… (cut)"
_DEEPEST = 60
_SUSPECT = re.compile(r"[<\[&\\`~]|[a-z]:\S|//|www\.", re.IGNORECASE)
"""Without any of these, there is nothing in a text to find."""
_TICKS = re.compile("`+")


def urls_in(text: str) -> set[str]:
    """The addresses that stand in a text."""
    found = {form for url in _URL.findall(text) for form in _forms(url)}
    return found | {url.rstrip(_STOPS) for url in _SHORT_URL.findall(text)}


def cleaned(text: str, *, known: Collection[str] = (), longest: int = LONGEST) -> str:
    """Markdown without images and HTML, in which an address that is not `known` is code and can't be followed.

    A text that is too clever for that is shown as code, all of it.
    """
    parts = _CODE.split(clean_text(text).strip())
    # Every second part is code, which nobody renders.
    whole = "".join(_plainly(part) if index % 2 else _prose(part, known) for index, part in enumerate(parts))
    if is_harmless(whole := _cut(whole, longest), known=known):
        return whole
    plain = clean_text(text).strip()
    fence = "`" * max(3, *(len(run) + 1 for run in _TICKS.findall(plain)), 3)
    room = longest - 2 * len(fence) - len(_CUT) - 2
    return f"{fence}\n{plain if len(plain) <= room else plain[:room] + _CUT}\n{fence}"


def plain_line(text: str, *, longest: int = LONGEST) -> str:
    """One line without markup that could become an image, a tag or a link; cut so that this stays so."""
    words = " ".join(clean_text(text).replace("`", "'").split())
    while len(line := _plain(words)) > longest:
        words = f"{words[: longest - 1 - (len(line) - len(words))].rstrip('…')}…"
    return line


def _plain(words: str) -> str:
    line = _prose(words, ())
    # As it may stand at the beginning of a line, and within one.
    return line if is_harmless(line) and is_harmless(f"x {line}") else f"`{words}`"


def is_harmless(text: str, *, known: Collection[str] = ()) -> bool:
    """Whether a reader of CommonMark finds no image, HTML, drawing or unknown address in the text."""
    if not _SUSPECT.search(text):
        return True
    reader = _reader()
    allowed = {*known, *(reader.normalizeLink(url) for url in known)}
    return all(_is_harmless(token, allowed) for token in _all_tokens(reader.parse(text)))


@cache
def _reader() -> "MarkdownIt":
    # Loading it takes as long as many a command.
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": 2 * _DEEPEST}).enable(["table", "strikethrough"])


def _all_tokens(tokens: Iterable["Token"]) -> Iterator["Token"]:
    for token in tokens:
        yield token
        yield from _all_tokens(token.children or ())


def _is_harmless(token: "Token", allowed: Collection[str]) -> bool:
    if token.type in ("image", "html_block", "html_inline") or token.level > _DEEPEST:
        return False
    if token.type == "link_open":
        return _is_known(str(token.attrs.get("href")), allowed)
    if token.type == "fence":
        return not token.info or _LANGUAGE.fullmatch(token.info.strip()) is not None
    return token.type != "text" or all(_is_known(url, allowed) for url in _URL.findall(token.content))


def _plainly(code: str) -> str:
    """Code whose language is none in which hosts draw."""
    fence = _FENCE.match(code)
    if fence is None or _LANGUAGE.fullmatch(fence[2].strip()):
        return code
    return fence[1] + code[fence.end() :]


def _prose(text: str, known: Collection[str]) -> str:
    kept: list[str] = []

    def keep(replacement: str) -> str:
        kept.append(replacement)
        return f"\x00{len(kept) - 1}\x00"

    def address(url: str) -> str:
        return url if _is_known(url, known) else f"`{url}`"

    def link(found: re.Match[str]) -> str:
        words, target = found["text"], found["target"]
        if target and _is_known(target, known) and not found["image"]:
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
    address = _forms(url)[-1]
    return url if _is_known(url, known) else f"`{address}`{url[len(address) :]}"


def _is_known(url: str, known: Collection[str]) -> bool:
    return any(form in known for form in _forms(url))


def _forms(url: str) -> tuple[str, str, str]:
    """An address as it stands in a text, and without what may belong to the text around it."""
    return url, url.rstrip(_STOPS), url.rstrip(_STOPS + _BRACKETS)


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    text = text[: longest - len(_CUT) - 4]
    text = text[: max(text.rfind("\n"), text.rfind(" "), longest // 2)].rstrip()
    return f"{text}\n```{_CUT}" if text.count("```") % 2 else f"{text}{_CUT}"
