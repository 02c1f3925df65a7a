"""Addresses in text that lead to this machine or its network, in every spelling that a client would follow."""

import re
import unicodedata
from collections.abc import Iterator

from .near_hosts import IGNORED, Care, is_near

_LONGEST = 1024
"""Of a link amid words, so much is looked at; one whose host has not ended by then counts as a near one."""

# Each begins where a word begins: tried from within words too, long text would take forever. What follows a link's
# beginning is looked at and not passed over, since a list or a markup may hold the next link without a blank.
_REST = rf"(?=(?P<rest>[^\s\"'<>]{{0,{_LONGEST}}}))"
_ON = r"[^\s\"'<>,;|()\[\]{}]*"
_LINK = re.compile(
    rf"(?<![a-z0-9+.-])(?P<start>[0-9+.-]*(?:(?:https?|wss?|ftp):[/\\]*|[a-z][a-z0-9+.-]*:[/\\]{{2,}})){_REST}{_ON}",
    re.IGNORECASE,
)
_FILE = re.compile(r"(?<![\w+.-])(?:local[-_])?file:[^\s\"'<>]+", re.IGNORECASE)
_WITHOUT_SCHEME = re.compile(
    rf"(?<![\w:/\\])(?P<start>[/\\]{{2,}}(?:[?.][/\\]+(?:unc[/\\]+)?)?){_REST}[^\s\"'<>/\\,;|()\[\]{{}}]{_ON}",
    re.IGNORECASE,
)
# A text that is one link as a whole: parsers of links drop these signs anywhere, and take blanks before the host's @.
_DROPPED = re.compile(r"[\t\r\n]")
_AROUND = re.compile(r"\A[\s\x00-\x20<]*(?:url:\s*)?", re.IGNORECASE)
_NESTING = r"(?:[a-z][a-z0-9+.-]*:)*?"
_WHOLE_FILE = re.compile(rf"{_NESTING}(?:local[-_])?file:.", re.IGNORECASE | re.DOTALL)
_WHOLE_LINK = re.compile(rf"{_NESTING}(?P<scheme>https?|wss?|ftp):[/\\]*(?P<rest>.+)", re.IGNORECASE | re.DOTALL)
_WHOLE_OTHER = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*:)?(?P<slashes>[/\\]*)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
# Without one of these, `File:Example.jpg` is the title of a page.
_IN_FOLDER = re.compile(r"[/\\%]")
_END = re.compile(r"[/?#]")
_BARE = re.compile(r"[\w.:%@+\[\]-]+")


def local_addresses(text: str, *, is_place: bool = False) -> list[str]:
    """Each link, or the text itself if it is an address, that leads to a loopback, link-local or private place.

    Those to files do, too. `is_place` says that the text is all that a link or host is asked for by, so that a mere
    number is one (0 or 10.1).
    """
    found: dict[str, None] = {}
    for form in _forms(text):
        found.update(dict.fromkeys(_amid_words(form)))
    for form in () if found else _forms(text):
        if _leads_here(form, care="place" if is_place else "text"):
            found[form.strip()] = None
    return list(found)


def _forms(text: str) -> list[str]:
    """As clients may read it: without what counts for nothing, and with other forms of letters as plain ones."""
    plain = IGNORED.sub("", text)
    return list(dict.fromkeys([plain, IGNORED.sub("", unicodedata.normalize("NFKC", plain))]))


def _amid_words(text: str) -> Iterator[str]:
    whole = text.strip()
    for line in dict.fromkeys([text, text.replace("\t", "")]):
        yield from (link.group() for link in _FILE.finditer(line) if _IN_FOLDER.search(link.group()))
        for link in _LINK.finditer(line):
            if link["rest"] and (link["rest"][0] in "?#" or _reaches_here(_ends(link["rest"]), care="link")):
                yield link["start"] + link["rest"]
        for link in _WITHOUT_SCHEME.finditer(line):
            written, ends = link["start"] + link["rest"], _ends(link["rest"])
            # Amid other words, `//name` is more likely a comment than a place.
            care: Care = "link" if written == whole else "place" if "." in ends[0] else "text"
            if _reaches_here(ends, care=care):
                yield written


def _ends(rest: str) -> list[str]:
    """The host, with what stands before an @ and the port: some clients take a backslash for its end, some do not."""
    longer = _END.split(rest, maxsplit=1)[0]
    return [longer.partition("\\")[0], longer] if "\\" in longer else [longer]


def _reaches_here(ends: list[str], *, care: Care) -> bool:
    return len(ends[-1]) >= _LONGEST or any(end and is_near(end, care=care) for end in ends)


def _leads_here(text: str, *, care: Care) -> bool:
    """Of a text as a whole, as a parser of links takes it."""
    whole = _DROPPED.sub("", text)
    whole = _AROUND.sub("", whole, count=1).strip()
    if (file := _WHOLE_FILE.match(whole)) and (care == "place" or _IN_FOLDER.search(whole, file.end() - 1)):
        return True
    if link := _WHOLE_LINK.match(whole):
        return _reaches_here(_ends(link["rest"]), care="link")
    bare = _ends(whole)[0]
    if _BARE.fullmatch(bare) and is_near(bare, care=care):
        return True
    other = _WHOLE_OTHER.match(whole)
    if other is None or (other["scheme"] is None and len(other["slashes"]) < 2):
        return False
    return _reaches_here(_ends(other["rest"]), care="text" if other["scheme"] else "link")
