"""Many files into one set of servers: the same server once, different ones of one name under names of their own."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from downstream.tool_names import ToolNameError, normalise_server_name
from journal.values import JsonObject
from server.settings_file.located import is_list, is_map

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
    _marks: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By name what makes a server the same as another."""
    _matched: set[tuple[HostFile, str]] = field(default_factory=set[tuple[HostFile, str]])

    def __post_init__(self) -> None:
        self._marks = {name: _marks(entry) for name, entry in self.there.items()}

    def add(self, new: Candidate) -> None:
        """Take the server, unless it is there."""
        marks = _marks(new.entry)
        same = self._same_as(new, marks)
        if same is None:
            name = self._free_name(new)
            if name != new.name:
                self.said.append(f"{new.name} ({new.source}) is now {name}: another server has that name")
            self.taken[name], self._marks[name] = replace(new, name=name), marks
            self._matched.add((new.source, name))
            return
        self._matched.add((new.source, same))
        kept = self.taken.get(same)
        where = str(kept.source) if kept else "these settings"
        self.said.append(f"{new.name} ({new.source}) is {same} ({where}): taken once{_differences(kept, new)}")
        if kept and kept.is_disabled and not new.is_disabled:
            entry = {key: item for key, item in kept.entry.items() if key != "disabled"}
            self.taken[same] = replace(kept, entry=entry)

    def _same_as(self, new: Candidate, marks: list[str]) -> str | None:
        alike = [name for name, known in self._marks.items() if _alike(known, marks)]
        equal = [name for name in alike if name in self.taken and _core(self.taken[name].entry) == _core(new.entry)]
        # Two of one file that differ in secrets alone are two accounts.
        free = [name for name in alike if (new.source, name) not in self._matched]
        of_its_name = [name for name in free if name == new.name]
        return next(iter([*equal, *of_its_name, *free]), None)

    def _free_name(self, new: Candidate) -> str:
        used = {_normal(name) for name in self._marks}
        suffix = new.source.project.name if new.source.project else new.source.host
        wanted = [new.name, f"{new.name}-{suffix}"]
        numbered = (f"{wanted[1]}-{number}" for number in range(2, len(used) + 3))
        return next(name for name in (*wanted, *numbered) if _normal(name) not in used)


def _normal(name: str) -> str:
    try:
        return normalise_server_name(name)
    except ToolNameError:
        # In settings that people wrote; loading them says so.
        return name


def _alike(one: list[str], other: list[str]) -> bool:
    """Whether both start the same, or reach the same address; secrets may differ, and which variable holds them."""
    return len(one) == len(other) and all(_fits(a, b) or _fits(b, a) for a, b in zip(one, other, strict=True))


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
    """What says which server it is, as texts; in settings that people wrote it may be anything."""
    core: JsonObject = {key: entry[key] for key in ("command", "url", "cwd") if isinstance(entry.get(key), str)}
    args = entry.get("args")
    core["args"] = [str(each) for each in args] if is_list(args) else []
    for part in ("env", "headers"):
        given = entry.get(part)
        core[part] = {name: str(each) for name, each in given.items()} if is_map(given) else {}
    return core


def _differences(kept: Candidate | None, new: Candidate) -> str:
    if kept is None:
        return ""
    parts = [(part, kept.entry.get(part, {}), new.entry.get(part, {})) for part in ("env", "headers")]
    names = sorted(name for _, one, other in parts for name in {*one, *other} if one.get(name) != other.get(name))
    return f"; {', '.join(names)} differs there and is not taken" if names else ""
