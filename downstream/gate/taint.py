"""Where a call's arguments come from, and what that adds to the policy's verdict. It only ever raises."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from downstream.door import Arguments
from downstream.json_shape import is_array, is_object, leaves
from downstream.tool_words import Said, Words
from downstream.tools import HAS_EFFECT, Tool
from journal.values import CLEAN, Json, Label, has_private, is_clean, join

from .addresses import local_addresses
from .policy import Verdict
from .prompt_text import quoted
from .targets import stands_in

Described: TypeAlias = Callable[[Json, str], Label]
"""The servers whose tools a value may have been picked up from, as origins of it, for a call to the server named."""

_NAMED = 8
"""Reasons name so many arguments or addresses at most; the prompt shows them all anyway."""

_PLACES = re.compile(
    "ur[il]s?|links?|href|endpoints?|hosts?|hostnames?|ips?|address(es)?|domains?|servers?|sites?|websites?|webhook|callback"
)
_WORD = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True)
class Flow:
    """What flows into a call. `read` is what the model that made it had read; `described` gives the origins of a word
    that stands in the definition of a tool, for a call to a server; `private` are the servers that the settings call
    private."""

    tool: Tool
    arguments: Arguments
    read: Label
    goal: str
    described: Described
    private: frozenset[str]

    @property
    def joined(self) -> Label:
        return self.arguments.joined | self.read

    def label_of(self, pointer: str, value: Json) -> Label:
        return self.arguments.label_at(pointer) | self.read | self.described(value, self.tool.server)


def raise_for_taint(verdict: Verdict, flow: Flow, targets: list[tuple[str, Json]]) -> Verdict:
    """The verdict, raised where a target, or anything private, does not come from where it should."""
    if verdict.verb == "deny":
        return verdict
    if flow.tool.class_ in HAS_EFFECT:
        return _for_effect(verdict, flow, targets)
    if flow.tool.class_ == "egress":
        return _for_egress(verdict, flow)
    return _for_read(verdict, flow)


@dataclass(frozen=True)
class ServerWords:
    """What models are shown of a server's tools: the sentences as they stand, and both kinds of words for a search."""

    prose: str
    told: Words
    offered: Words

    def use(self, said: Said) -> bool:
        return self.told.hold(said) or self.offered.hold(said)


def words_of_tools(tools: Sequence[Tool]) -> Mapping[str, ServerWords]:
    """By server, the words of its tools' definitions."""
    by_server: dict[str, list[Tool]] = {}
    for tool in tools:
        by_server.setdefault(tool.server, []).append(tool)
    return {
        server: ServerWords(
            "\n".join(tool.words for tool in own),
            Words.all_of(tool.told for tool in own),
            Words.all_of(tool.offered for tool in own),
        )
        for server, own in by_server.items()
    }


def described_in(words: Mapping[str, ServerWords]) -> Described:
    """The servers whose tools' definitions hold a value, however it is dressed up there.

    The choices that the called server itself offers are not counted: they are all that it takes. A word like any other
    that it uses, too, counts only where it stands literally in the sentences of a definition.
    """

    def origins(value: Json, called: str) -> Label:
        said = Said.of(value)
        is_usual = not said.is_telling and called in words and words[called].use(said)

        def holds(server: str, its: ServerWords) -> bool:
            # For all others, the search tells as much.
            if (is_usual or said.is_short) and stands_in(value, its.prose):
                return True
            return not is_usual and (its.told.hold(said) if server == called else its.use(said))

        return frozenset(f"open:{server}" for server, its in words.items() if holds(server, its))

    return origins


def _for_effect(verdict: Verdict, flow: Flow, targets: list[tuple[str, Json]]) -> Verdict:
    foreign, origins = _unclean(flow, targets)
    if foreign:
        said = f"not given in the goal, but from {_places(origins)}: {_names(foreign)}"
        verdict = verdict.asking("person", said)
    aimed = set(targets)
    rest = [leaf for leaf in leaves(flow.arguments.data) if leaf not in aimed]
    other, origins = _unclean(flow, rest)
    if other and verdict.verb == "ask":
        verdict = verdict.noting(f"holds content from {_places(origins)}: {_names(other)}")
    return verdict


def _for_egress(verdict: Verdict, flow: Flow) -> Verdict:
    if has_private(flow.joined) and not verdict.waived:
        private = frozenset(origin for origin in flow.joined if origin.startswith("private:"))
        verdict = verdict.asking("host", f"it may carry out what was read from {_places(private)}")
    return _for_addresses(verdict, flow)


def _for_read(verdict: Verdict, flow: Flow) -> Verdict:
    here = flow.tool.server
    foreign = frozenset(
        origin
        for origin in flow.joined
        if origin.startswith("private:")
        and (server := origin.partition(":")[2]) != here
        and not (here in flow.private and server in flow.private)
    )
    if foreign:
        verdict = verdict.asking("host", f"it may hand {here} what was read from {_places(foreign)}")
    return verdict


def _for_addresses(verdict: Verdict, flow: Flow) -> Verdict:
    found = list(
        dict.fromkeys(
            address
            for name, text in _texts(flow.arguments.data)
            for address in local_addresses(text, is_place=_asks_for_a_place(name))
        )
    )
    for address in found[:_NAMED]:
        verdict = verdict.asking("host", f"it reaches into this machine or its network: {quoted(address)}")
    more = len(found) - _NAMED
    return verdict.noting(f"and into {more} more places there") if more > 0 else verdict


def _texts(data: Json, name: str = "") -> Iterator[tuple[str, str]]:
    """Every text, names within objects too, with the innermost name that leads to it."""
    if is_object(data):
        for key, item in data.items():
            yield name, key
            yield from _texts(item, key)
    elif is_array(data):
        for item in data:
            yield from _texts(item, name)
    elif isinstance(data, str):
        yield name, data


def _asks_for_a_place(name: str) -> bool:
    words = _WORD.findall(name)
    return bool(words) and _PLACES.fullmatch(words[-1].lower()) is not None


def _unclean(flow: Flow, found: list[tuple[str, Json]]) -> tuple[list[str], Label]:
    # By no pointer: a name and what stands under it have the same.
    labels = [(pointer, flow.label_of(pointer, value)) for pointer, value in found if not stands_in(value, flow.goal)]
    unclean = [(pointer, label) for pointer, label in labels if not is_clean(label)]
    return [pointer for pointer, _ in unclean], join(label for _, label in unclean) - CLEAN


def _places(label: Label) -> str:
    servers = sorted({place for origin in label if (place := origin.partition(":")[2]) and place != "*"})
    if any(origin.endswith(":*") for origin in label):
        servers.append("an unknown place")
    return ", ".join(servers) or "a model"


def _names(pointers: list[str]) -> str:
    names = list(dict.fromkeys(pointer.removeprefix("/") for pointer in pointers))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(quoted(name) for name in names[:_NAMED]) + more
