"""Many files into one set of servers: the same server once, different ones of one name under names of their own."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from downstream.tool_names import normalise_server_name
from journal.values import JsonObject

from .candidate import Candidate
from .hiding import hidden
from .places import HostFile

_HIDDEN = "${\0}"


@dataclass
class Merged:
    """Servers in the order in which they are taken; `there` are those that the settings had before."""

    there: dict[str, JsonObject]
    taken: dict[str, Candidate] = field(default_factory=dict[str, Candidate])
    said: list[str] = field(default_factory=list[str])
    _matched: set[tuple[HostFile, str]] = field(default_factory=set[tuple[HostFile, str]])

    def add(self, new: Candidate) -> None:
        """Take the server, unless it is there."""
        same = self._same_as(new)
        if same is None:
            name = self._free_name(new)
            if name != new.name:
                self.said.append(f"{new.name} ({new.source}) is now {name}: another server has that name")
            self.taken[name] = replace(new, name=name)
            self._matched.add((new.source, name))
            return
        self._matched.add((new.source, same))
        kept = self.taken.get(same)
        where = str(kept.source) if kept else "these settings"
        self.said.append(f"{new.name} ({new.source}) is {same} ({where}): taken once{_differences(kept, new)}")
        if kept and kept.is_disabled and not new.is_disabled:
            entry = {key: item for key, item in kept.entry.items() if key != "disabled"}
            self.taken[same] = replace(kept, entry=entry)

    def _same_as(self, new: Candidate) -> str | None:
        alike = [name for name, entry in self._entries() if _alike(entry, new.entry)]
        equal = [name for name in alike if name in self.taken and _core(self.taken[name].entry) == _core(new.entry)]
        # Two of one file that differ in secrets alone are two accounts.
        free = [name for name in alike if (new.source, name) not in self._matched]
        of_its_name = [name for name in free if name == new.name]
        return next(iter([*equal, *of_its_name, *free]), None)

    def _entries(self) -> Iterator[tuple[str, JsonObject]]:
        yield from self.there.items()
        yield from ((name, kept.entry) for name, kept in self.taken.items())

    def _free_name(self, new: Candidate) -> str:
        used = {normalise_server_name(name) for name, _ in self._entries()}
        suffix = new.source.project.name if new.source.project else new.source.host
        wanted = [new.name, f"{new.name}-{suffix}"]
        numbered = (f"{wanted[1]}-{number}" for number in range(2, len(used) + 3))
        return next(name for name in (*wanted, *numbered) if normalise_server_name(name) not in used)


def _alike(one: JsonObject, other: JsonObject) -> bool:
    """Whether both start the same, or reach the same address; secrets may differ, and which variable holds them."""
    pairs = list(zip(_marks(one), _marks(other), strict=False))
    return len(_marks(one)) == len(_marks(other)) and all(_fits(a, b) or _fits(b, a) for a, b in pairs)


def _marks(entry: JsonObject) -> list[str]:
    masked = hidden(_core(entry), lambda secret: secret.variable or "\0")
    if "url" in masked:
        return ["url", masked["url"]]
    words = [masked.get("command", ""), *masked.get("args", [])]
    return ["command", " ".join(sorted(masked.get("env", {}))), *words, *_folder_that_counts(masked)]


def _folder_that_counts(entry: JsonObject) -> Iterable[str]:
    """What is started by a relative path is another program in another folder."""
    words = [entry.get("command", ""), *entry.get("args", [])]
    is_relative = any(
        re.match(r"\.{1,2}(?:[/\\]|$)|[\w-]+(?:[/\\][\w.-]+)*\.(?:py|js|mjs|cjs|ts|sh)$", word) for word in words
    )
    return [entry["cwd"]] if is_relative and "cwd" in entry else []


def _fits(masked: str, text: str) -> bool:
    pattern = re.escape(masked).replace(re.escape(_HIDDEN), r"\$\{[^{}]*\}")
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def _core(entry: JsonObject) -> JsonObject:
    return {key: item for key, item in entry.items() if key in ("command", "args", "env", "url", "headers", "cwd")}


def _differences(kept: Candidate | None, new: Candidate) -> str:
    if kept is None:
        return ""
    parts = [(part, kept.entry.get(part, {}), new.entry.get(part, {})) for part in ("env", "headers")]
    names = sorted(name for _, one, other in parts for name in {*one, *other} if one.get(name) != other.get(name))
    return f"; {', '.join(names)} differs there and is not taken" if names else ""
