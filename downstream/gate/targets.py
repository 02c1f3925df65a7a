"""Which arguments decide whom or what a call reaches, and whether their words are the user's."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from downstream.json_shape import is_array, is_object
from downstream.models.schema_parts import at_pointer
from downstream.policy_settings import PolicySettings
from downstream.tool_names import matches
from downstream.tools import Tool
from journal.values import Json, JsonObject

SHORTEST_TOKEN = 4
"""Shorter words (days, numbers, abbreviations) stand in a goal by chance."""

_MOST_PARTS = 64
"""Of the parts of a schema that speak of one place no more are looked at; what only others declare is undeclared."""

_TARGET_WORDS = re.compile(
    "to|b?ccs?"
    "|(recipient|receiver|addressee|payee|e?mail|participant|attendee|invitee|user|member|contact|owner"
    "|phone|channel|chat|room|group|ur[li]|link|href|endpoint|host|domain|webhook|callback|website|site"
    "|path|file|dir|folder|destination|dest|target|account|iban|bic|wallet|repo|bucket)s?"
    # Also where a name is written as one word, such as `chatid` or `filenames`.
    "((id|name|number|url|path)s?|address(es)?)?"
    "|beneficiar(y|ies)|address(es)?|director(y|ies)|repositor(y|ies)"
)
_FURTHER_WORDS = re.compile(
    "(assignee|collaborator|guest|reviewer|approver|watcher|follower|subscriber|friend|delegate|grantee|creditor"
    "|editor|viewer|reader|commenter|admin|administrator|moderator|team|org|organi[sz]ation|tenant|server|subdomain|ip"
    "|webpage|telephone|mobile|addr)s?|(mail|in)box(es)?|tel|fax|prox(y|ies)"
    "|shared?with|(send|reply|forward|mail|deliver)to|[a-z]+(ur[li]s?|e?mails?|address(es)?|ibans?|paths?)"
)
"""Often a target, and often a count or a place, so that next to one the other arguments still count."""
_TARGET_FORMATS = re.compile("(ur[il]|iri)(-reference)?|(idn-)?(email|hostname)|ipv[46]|((file|directory)-)?path")
_ENDING = (
    "(?:com|net|org|info|biz|xyz|site|online|shop|store|club|live|link|click|app|dev|cloud|icu|onion|example|io|co|ai|ly"
    "|me|gg|to|cc|tv|tk|ml|ga|cf|gq|pw|ws|eu|ru|su|ir|cn|jp|kr|in|de|at|ch|uk|ie|fr|es|pt|it|nl|be|pl|cz|hu|ro|gr|ua|tr"
    "|se|no|dk|fi|us|ca|au|nz|br|mx|za|xn--[a-z0-9-]+)"
)
"""Of hosts that stand without a scheme: any word would take names of files and members of objects for them."""
_GAP = "[ \u00a0\u202f-]?"
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ADDRESS = re.compile(
    # Each begins where a word begins: tried from within words too, long text would take forever.
    r"(?<![a-z0-9+.-])[a-z0-9+.-]+://[^\s<>\"'`]+|\bwww\.[^\s<>\"'`]+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    # Many programs also follow one whose slashes are missing or turned round, or that has no scheme.
    r"|(?<![a-z0-9+.-])(?:https?|wss?|ftps?|file):[/\\][^\s<>\"'`]+"
    rf"|(?<![\w.:/\\-])//(?:[\w-]+\.)+{_ENDING}(?![\w.(-])[^\s<>\"'`]*"
    rf"|(?<![\w./\\-])(?:[\w-]+\.)+{_ENDING}/[^\s<>\"'`]*"
    r"|\b[a-z]{2}\d{2}(?:(?: ?\d{4}){2,7}(?: ?\d{1,4})?|[a-z0-9]{10,30})\b"
    # What looks like an IBAN in groups, but for the parts of a UUID: none has fewer than fifteen characters.
    rf"|\b(?!{_UUID}\b)[a-z]{{2}}\d{{2}}(?<![0-9a-f]{{4}}-\w{{4}})(?=(?:{_GAP}[a-z0-9]){{11}})"
    rf"(?:(?:{_GAP}[a-z]{{4}})?(?:{_GAP}\d{{4}}){{2,7}}(?:{_GAP}\d{{1,4}})?"
    rf"|(?-i:(?:{_GAP}[A-Z0-9]{{4}}){{2,7}}(?:{_GAP}[A-Z0-9]{{1,4}})?))\b",
    re.IGNORECASE,
)
"""A URL, a mail address or an IBAN, also amid other words."""
_WORD = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_OPENING, _CLOSING = "([{<\"'`\u2018\u201c\u00ab\u201e", ")]}>\"'`\u2019\u201d\u00bb.,;:!?\u2026"
_BEFORE = f",;:={_OPENING}"
_CLOSED = re.compile(f"[{re.escape(_CLOSING)}]*")


class _Meaning(IntEnum):
    """What an argument is by its name, the strongest last. ASIDE is a target that turns no attention from the rest."""

    OTHER = 0
    ASIDE = 1
    TARGET = 2


@dataclass(frozen=True)
class _Spot:
    """A value that holds no other, or, by the pointer of its member, a name that the tool says nothing of."""

    pointer: str
    value: Json
    meaning: _Meaning
    is_name: bool = False

    @property
    def pair(self) -> tuple[str, Json]:
        return self.pointer, self.value

    def is_of(self, sink: str) -> bool:
        """Whether it stands there or below; a name in the sink itself is the settings' own."""
        return (self.pointer == sink and not self.is_name) or self.pointer.startswith(f"{sink}/")


def targets(tool: Tool, arguments: JsonObject, policy: PolicySettings) -> list[tuple[str, Json]]:
    """The target arguments, by pointer: those that `sinks` name, else by declared names and formats, else all.

    What is undeclared turns no attention from the rest. Yet targets are: an undeclared argument; in a declared one each
    undeclared name of which the tool says nothing, and what stands under a name that means a target; and each address
    in an innocent one. A name has the pointer of its member, as a value there has.
    """
    spots = list(_Finder(tool).spots(arguments, [tool.input_schema]))
    sinks = dict.fromkeys(
        pointer for glob, pointers in policy.sinks.items() if matches(glob, tool.full_name) for pointer in pointers
    )
    if sinks:
        chosen = [spot.pair for sink in sinks for spot in spots if spot.is_of(sink)]
        return list(dict.fromkeys(chosen or [spot.pair for spot in spots]))
    least = _Meaning.ASIDE if any(spot.meaning == _Meaning.TARGET for spot in spots) else _Meaning.OTHER
    whole = [spot.pair for spot in spots if spot.meaning >= least]
    return list(dict.fromkeys([*whole, *(found for spot in spots for found in _addresses(*spot.pair))]))


def words_of(tool: Tool, arguments: JsonObject) -> list[Json]:
    """Every value that holds no other, and every name that the tool says nothing of."""
    return [spot.value for spot in _Finder(tool).spots(arguments, [tool.input_schema])]


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


def _meaning(name: str) -> _Meaning:
    # The words of an address say nothing of what stands under it.
    words = [word.lower() for word in _WORD.findall(_ADDRESS.sub("", name))]
    if any(map(_TARGET_WORDS.fullmatch, words)):
        return _Meaning.TARGET
    return _Meaning.ASIDE if any(map(_FURTHER_WORDS.fullmatch, [*words, "".join(words)])) else _Meaning.OTHER


class _Finder:
    """Goes through arguments and, beside them, through all the parts of the schema that speak of each place."""

    def __init__(self, tool: Tool) -> None:
        self._document = tool.input_schema
        self._told = tool.words
        self._meanings: dict[str, _Meaning] = {}
        self._whole: dict[tuple[int, ...], list[JsonObject]] = {}

    def spots(
        self, value: Json, parts: Sequence[Json], *, pointer: str = "", meaning: _Meaning = _Meaning.OTHER
    ) -> Iterator[_Spot]:
        """In order; what is empty or null has nothing to give, save the names that lead to it."""
        if is_object(value):
            for name, item in value.items():
                below = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
                declared = self._of_member(parts, name)
                by_name = max(meaning, self._meaning(name))
                if not declared:
                    if not (self._tells_of(name) if pointer else self._is_argument(name)):
                        yield _Spot(below, name, _Meaning.ASIDE, is_name=True)
                    by_name = min(by_name, _Meaning.ASIDE) if pointer else _Meaning.ASIDE
                yield from self.spots(item, declared, pointer=below, meaning=by_name)
        elif is_array(value):
            for number, item in enumerate(value):
                yield from self.spots(
                    item, self._of_item(parts, number), pointer=f"{pointer}/{number}", meaning=meaning
                )
        elif value is not None and value != "":
            yield _Spot(pointer, value, self._meant(value, parts, meaning))

    def _meaning(self, name: str) -> _Meaning:
        if name not in self._meanings:
            self._meanings[name] = _meaning(name)
        return self._meanings[name]

    def _is_argument(self, name: str) -> bool:
        """A tool that declares none of its arguments still has some, with the usual names."""
        return _TARGET_WORDS.fullmatch(name) is not None or self._tells_of(name)

    def _tells_of(self, name: str) -> bool:
        """Whether the tool's own sentences give the name; whom a call reaches is no matter of theirs."""
        return stands_in(name, self._told) and not _ADDRESS.search(name)

    def _meant(self, value: Json, parts: Sequence[Json], meaning: _Meaning) -> _Meaning:
        if any(_TARGET_FORMATS.fullmatch(str(part.get("format", ""))) for part in self._all(parts)):
            return _Meaning.TARGET
        # Whether to do a thing is not whom it reaches.
        return min(meaning, _Meaning.ASIDE) if isinstance(value, bool) else meaning

    def _of_member(self, parts: Sequence[Json], name: str) -> list[Json]:
        known: list[Json] = [part.get("properties") for part in self._all(parts)]
        return [properties[name] for properties in known if is_object(properties) and name in properties]

    def _of_item(self, parts: Sequence[Json], number: int) -> list[Json]:
        return [_item(part, number) for part in self._all(parts)]

    def _all(self, parts: Sequence[Json]) -> list[JsonObject]:
        """The parts and those that they refer to or are made of."""
        key = tuple(map(id, parts))
        if key not in self._whole:
            self._whole[key] = self._gathered(parts)
        return self._whole[key]

    def _gathered(self, parts: Sequence[Json]) -> list[JsonObject]:
        found: list[JsonObject] = []
        seen: set[int] = set()
        waiting = list(parts)
        while waiting and len(found) < _MOST_PARTS:
            part = waiting.pop()
            if is_object(part) and id(part) not in seen:
                seen.add(id(part))
                found.append(part)
                waiting += self._beside(part)
        return found

    def _beside(self, part: JsonObject) -> list[Json]:
        reference: Json = part.get("$ref")
        referred: list[Json] = [at_pointer(self._document, reference)] if isinstance(reference, str) else []
        listed: list[Json] = [part.get(keyword) for keyword in ("allOf", "anyOf", "oneOf")]
        made_of: list[Json] = [each for some in listed if is_array(some) for each in some[:_MOST_PARTS]]
        return [*referred, *made_of, part.get("then"), part.get("else")]


def _item(part: JsonObject, number: int) -> Json:
    """The schema of one entry of a list, where its place or all entries have one."""
    items: Json = part.get("items")
    first: Json = items if is_array(items) else part.get("prefixItems")
    if is_array(first) and number < len(first):
        return first[number]
    return None if is_array(items) else items


def _addresses(pointer: str, value: Json) -> Iterator[tuple[str, Json]]:
    """The addresses in a text, each by itself."""
    if isinstance(value, str):
        yield from ((pointer, found.group().rstrip(_CLOSING)) for found in _ADDRESS.finditer(value))
