"""What hosts write for a value that is filled in later, translated to `${VAR}`."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from journal.errors import SteprelayError

from .places import HostFile

_BRACED = re.compile(r"(?<!\$)\$\{([^{}]*)\}")
_BARE = re.compile(r"(?<!\$)\$([A-Za-z_][A-Za-z0-9_]*)")
_NAME = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-.*)?", re.DOTALL)
_WITH_BARE = ("gemini-cli", "goose")
_PROJECT = ("workspaceFolder", "cwd", "CLAUDE_PROJECT_DIR")


class CannotTranslate(SteprelayError):
    """A reference to what only that host knows."""


@dataclass
class References:
    """Translates the texts of one server; `said` collects what became of references that look different now."""

    source: HostFile
    server: str
    home: Path
    inputs: "Inputs"
    own: Mapping[str, object]
    """The variables that the entry sets itself."""
    said: list[str] = field(default_factory=list[str])

    def translated(self, text: str) -> str:
        """The text with references as settings have them. Raises CannotTranslate."""
        if self.source.host in _WITH_BARE:
            text = _BARE.sub(lambda found: self._say(found.group(), f"${{{found[1]}}}"), text)
        return _BRACED.sub(self._one, text)

    def _one(self, found: re.Match[str]) -> str:
        inside, whole = found[1], found.group()
        kind, _, rest = inside.partition(":")
        if kind == "input" and rest:
            name = self.inputs.name_of(rest, self.source.path, server=self.server)
            return self._say(whole, f"${{{name}}}")
        if kind == "env" and _NAME.fullmatch(rest):
            return self._say(whole, f"${{{rest}}}")
        if kind == "file" and rest:
            return self._say(
                whole, f"${{{variable_name(self.server, Path(rest).stem)}}}", more="the content of that file"
            )
        fixed = self._fixed(inside)
        if fixed is not None:
            return self._say(whole, fixed)
        named = _NAME.fullmatch(inside)
        if named is None:
            if kind in ("command", "config", "workspaceFolder"):
                raise CannotTranslate(f"{whole} is known to its host only; write what it stands for")
            return whole
        is_its_own = named["name"] in self.own and self.own[named["name"]] != whole
        # The program fills it in from its own environment, as mcp-remote does.
        return f"${whole}" if is_its_own and not named["default"] else whole

    def _fixed(self, inside: str) -> str | None:
        if inside in ("/", "pathSeparator"):
            return os.sep
        if inside == "userHome":
            return str(self.home)
        project = self.source.project
        if inside.partition(":-")[0] in _PROJECT or inside == "workspaceFolderBasename":
            if project is None and inside.startswith("CLAUDE"):
                return None
            if project is None:
                raise CannotTranslate(f"${{{inside}}} has no folder here: this file is not of one project")
            return project.name if inside == "workspaceFolderBasename" else str(project)
        return None

    def _say(self, was: str, text: str, *, more: str = "") -> str:
        # A default may be a secret.
        shown = re.sub(r":-[^}]*", ":-…", f"{was} is now {text}")
        self.said.append(f"{shown}, {more}" if more else shown)
        return text


@dataclass
class Inputs:
    """Variables for what VS Code asks a person; an id of another file is another input."""

    taken: dict[str, Path] = field(default_factory=dict[str, Path])

    def name_of(self, identifier: str, path: Path, *, server: str) -> str:
        """The variable for an input."""
        name = variable_name(identifier)
        if self.taken.setdefault(name, path) != path:
            name = variable_name(server, identifier)
        self.taken.setdefault(name, path)
        return name


def variable_name(*words: str) -> str:
    """A name for a variable, of these words."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", "_".join(words))
    name = re.sub(r"[^A-Za-z0-9]+", "_", apart).strip("_").upper()
    return name if name[:1].isalpha() else f"VALUE_{name}".rstrip("_")
