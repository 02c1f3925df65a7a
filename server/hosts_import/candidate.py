"""From what a host wrote to an entry that settings take, or the reason why there is none."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from downstream.tool_names import ToolNameError, normalise_server_name
from journal.errors import SteprelayError
from journal.values import Json, JsonObject
from server.settings_file.located import is_list, is_map
from server.settings_file.server_entries import is_steprelay
from server.settings_file.shape import HOST_KEYS

from .places import HostFile
from .references import CannotTranslate, Inputs, References
from .written import Written

_KINDS = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}
_LOCAL, _REMOTE = ("command", "args", "env", "cwd", "envFile"), ("url", "headers")
_EVERYWHERE = ("type", "timeout", "disabled", "enabled")


class LeftOut(SteprelayError):
    """A server that can't be taken, and why."""


@dataclass(frozen=True)
class Candidate:
    """A server that can be taken; `entry` still holds its secrets, its references are translated."""

    name: str
    entry: JsonObject
    source: HostFile
    notes: tuple[str, ...] = ()

    @property
    def is_disabled(self) -> bool:
        """Whether it is taken turned off."""
        return self.entry.get("disabled") is True


def candidate(written: Written, *, home: Path, inputs: Inputs) -> Candidate:
    """The server as settings take it. Raises LeftOut."""
    entry = written.entry
    if not is_map(entry):
        raise LeftOut("its entry is no map of keys")
    try:
        normalise_server_name(written.name)
    except ToolNameError as error:
        raise LeftOut(str(error)) from error
    kind = _kind(entry)
    own = entry.get("env")
    references = References(written.source, written.name, home, inputs, own if is_map(own) else {})
    parts = _Parts(entry, references)
    try:
        taken = parts.local() if kind == "stdio" else parts.remote(kind)
    except CannotTranslate as error:
        raise LeftOut(str(error)) from error
    if is_steprelay(taken) or (written.name == "steprelay" and _is_own_address(taken)):
        raise LeftOut("it is steprelay itself, which never calls itself")
    timeout = entry.get("timeout")
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout >= 1:
        taken["timeout"] = int(timeout)
    if written.is_off or entry.get("disabled") is True or entry.get("enabled") is False:
        taken["disabled"] = True
    notes = [*parts.said, *references.said, *_not_taken(entry, kind)]
    return Candidate(written.name, taken, written.source, tuple(dict.fromkeys(notes)))


def _kind(entry: JsonObject) -> str:
    given = entry.get("type")
    if given is None:
        given = "stdio" if entry.get("command") else "http"
    kind = _KINDS.get(given) if isinstance(given, str) else None
    if kind is None:
        raise LeftOut(f"its type {str(given)[:40]!r} is none that can be started: stdio, http and sse are")
    wanted = "command" if kind == "stdio" else "url"
    if not isinstance(entry.get(wanted), str) or not entry[wanted].strip():
        raise LeftOut(f"it has no {wanted}" if entry.get("type") else "it has neither command nor url")
    return kind


class _Parts:
    """Takes an entry's values over, one after the other, and collects what to say of them."""

    def __init__(self, entry: JsonObject, references: References) -> None:
        self.entry, self.references, self.project = entry, references, references.source.project
        self.said: list[str] = []

    def local(self) -> JsonObject:
        taken: JsonObject = {"command": self._text(self.entry["command"])}
        args = self.entry.get("args")
        if is_list(args) and args:
            taken["args"] = [self._text(each) for each in args]
        self._map("env", taken)
        self._folder(taken)
        self._env_file(taken)
        return taken

    def remote(self, kind: str) -> JsonObject:
        url = self._text(self.entry["url"])
        if not re.match(r"https?://[^/?#\s]|\$\{", url):
            raise LeftOut("its address is neither http:// nor https://")
        path = re.split(r"[?#]", url)[0]
        if kind == "http" and "type" not in self.entry and path.endswith("/sse"):
            kind = "sse"
            self.said.append("type sse, as its address ends in /sse")
        taken: JsonObject = {"type": kind, "url": url}
        self._map("headers", taken)
        return taken

    def _text(self, value: Json) -> str:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return self.references.translated(text)

    def _map(self, key: str, taken: JsonObject) -> None:
        given = self.entry.get(key)
        texts = {name: self._text(each) for name, each in given.items() if each is not None} if is_map(given) else {}
        if texts:
            taken[key] = texts

    def _folder(self, taken: JsonObject) -> None:
        """Hosts start the servers of a project in its folder."""
        given, project = self.entry.get("cwd"), self.project
        if project is not None and not project.is_dir():
            raise LeftOut(f"the folder of its project is gone: {project}")
        cwd = Path(os.path.expanduser(self._text(given))) if given else None
        if cwd is not None and not cwd.is_absolute() and project is None and "${" not in str(cwd):
            self.said.append("cwd is left out: it is relative, and this file is not of one project")
            cwd = None
        if project is not None:
            cwd = project / cwd if cwd else project
        if cwd is not None:
            taken["cwd"] = os.path.normpath(cwd)

    def _env_file(self, taken: JsonObject) -> None:
        given = self.entry.get("envFile")
        if not given:
            return
        path = (self.project or self.references.home) / os.path.expanduser(self._text(given))
        if path.is_file():
            taken["envFile"] = str(path)
        else:
            self.said.append(f"envFile is left out: there is no {path}")


def _not_taken(entry: JsonObject, kind: str) -> list[str]:
    """Names of keys that stay behind, without their values."""
    taken = {*(_LOCAL if kind == "stdio" else _REMOTE), *_EVERYWHERE}
    left = {key for key, item in entry.items() if key not in taken and item not in (None, [], {}, "")}
    of_hosts, others = sorted(left & HOST_KEYS), sorted(left - HOST_KEYS)
    notes = [f"not taken, since only hosts read it: {', '.join(of_hosts)}"] if of_hosts else []
    return [*notes, f"not taken, since settings have no such key: {', '.join(others)}"] if others else notes


def _is_own_address(entry: JsonObject) -> bool:
    return bool(re.match(r"http://(?:127\.|localhost|\[::1\])", entry.get("url", "")))
