"""Where a call's arguments come from, and what that adds to the policy's verdict. It only ever raises."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from downstream.door import Arguments
from downstream.json_shape import leaves
from downstream.tools import HAS_EFFECT, Tool
from journal.values import CLEAN, Json, Label, has_private, is_clean, join

from .addresses import local_addresses
from .policy import Verdict
from .prompt_text import quoted
from .targets import stands_in

_NAMED = 8
"""A reason names so many arguments at most; the prompt shows them all anyway."""


@dataclass(frozen=True)
class Flow:
    """What flows into a call. `read` is what the model that made it had read; `described` gives the origins of a word
    that stands in the description of a tool; `private` are the servers that the settings call private."""

    tool: Tool
    arguments: Arguments
    read: Label
    goal: str
    described: Callable[[Json], Label]
    private: frozenset[str]

    @property
    def joined(self) -> Label:
        return self.arguments.joined | self.read

    def label_of(self, pointer: str, value: Json) -> Label:
        return self.arguments.label_at(pointer) | self.read | self.described(value)


def raise_for_taint(verdict: Verdict, flow: Flow, targets: list[tuple[str, Json]]) -> Verdict:
    """The verdict, raised where a target, or anything private, does not come from where it should."""
    if verdict.verb == "deny":
        return verdict
    if flow.tool.class_ in HAS_EFFECT:
        return _for_effect(verdict, flow, targets)
    if flow.tool.class_ == "egress":
        return _for_egress(verdict, flow)
    return _for_read(verdict, flow)


def words_of_tools(tools: Sequence[Tool]) -> Mapping[str, str]:
    """By server, all the free text of its tools' definitions."""
    texts: dict[str, list[str]] = {}
    for tool in tools:
        texts.setdefault(tool.server, []).append(tool.words)
    return {server: "\n".join(parts) for server, parts in texts.items()}


def described_in(words: Mapping[str, str]) -> Callable[[Json], Label]:
    """The servers whose tools' descriptions hold a value, as origins of it."""

    def origins(value: Json) -> Label:
        return frozenset(f"open:{server}" for server, text in words.items() if stands_in(value, text))

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
    for _, value in leaves(flow.arguments.data):
        for address in local_addresses(value) if isinstance(value, str) else ():
            verdict = verdict.asking("host", f"it reaches into this machine or its network: {quoted(address)}")
    return verdict


def _unclean(flow: Flow, found: list[tuple[str, Json]]) -> tuple[list[str], Label]:
    labels = {pointer: flow.label_of(pointer, value) for pointer, value in found if not stands_in(value, flow.goal)}
    unclean = {pointer: label for pointer, label in labels.items() if not is_clean(label)}
    return list(unclean), join(unclean.values()) - CLEAN


def _places(label: Label) -> str:
    servers = sorted({place for origin in label if (place := origin.partition(":")[2]) and place != "*"})
    if any(origin.endswith(":*") for origin in label):
        servers.append("an unknown place")
    return ", ".join(servers) or "a model"


def _names(pointers: list[str]) -> str:
    names = list(dict.fromkeys(pointer.removeprefix("/") for pointer in pointers))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(quoted(name) for name in names[:_NAMED]) + more
