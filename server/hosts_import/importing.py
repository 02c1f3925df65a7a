"""The whole way from files of hosts to the servers of a settings file, with everything there is to say about it."""

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from journal.values import JsonObject
from server.settings_file.document import Problem, SettingsError

from .candidate import LeftOut, candidate
from .claude_code import turned_off
from .host_file import read_host_file
from .merging import Merged
from .places import HostFile, Machine
from .references import Inputs
from .variables import Variables, used_in
from .written import Written


@dataclass(frozen=True)
class Taken:
    """A server as it goes into the settings."""

    name: str
    entry: JsonObject
    source: HostFile
    notes: tuple[str, ...]

    @property
    def does(self) -> str:
        """What it starts, or where it connects to."""
        if "url" in self.entry:
            return f"connects to {self.entry['url']}"
        return f"runs {shlex.join([self.entry['command'], *self.entry.get('args', [])])}"


@dataclass
class Import:
    """What came of the files. No text in it holds a secret, save `secrets`."""

    read: list[tuple[HostFile, int]] = field(default_factory=list[tuple[HostFile, int]])
    """Each file that was there, and how many servers it holds."""
    problems: list[Problem] = field(default_factory=list[Problem])
    taken: list[Taken] = field(default_factory=list[Taken])
    once: list[str] = field(default_factory=list[str])
    """What was there more than once, or under a name that was taken."""
    left_out: list[tuple[Written, str]] = field(default_factory=list[tuple[Written, str]])
    hidden: list[str] = field(default_factory=list[str])
    """Which secrets became variables."""
    needed: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    secrets: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def import_servers(files: Iterable[HostFile], there: dict[str, JsonObject], *, machine: Machine) -> Import:
    """The servers of these files that the settings do not have; files that do not exist are passed over."""
    result, inputs, merged = Import(), Inputs(), Merged(there)
    for written in _written(files, result, machine=machine):
        try:
            merged.add(candidate(written, home=machine.home, inputs=inputs))
        except LeftOut as error:
            result.left_out.append((written, str(error)))
    result.once = merged.said
    taken = list(merged.taken.values())
    variables = Variables(used_in([*there.values(), *(each.entry for each in taken)]))
    result.taken = [Taken(each.name, variables.entry(each.name, each.entry), each.source, each.notes) for each in taken]
    result.hidden, result.needed, result.secrets = variables.said, variables.needed, variables.secrets
    return result


def _written(files: Iterable[HostFile], result: Import, *, machine: Machine) -> Iterable[Written]:
    for file in files:
        if not os.path.lexists(file.path):
            continue
        try:
            servers = read_host_file(file)
        except SettingsError as error:
            result.problems += error.problems
            continue
        result.read.append((file, len(servers)))
        off = turned_off(file, machine)
        yield from (replace(each, is_off=each.is_off or each.name in off) for each in servers)
