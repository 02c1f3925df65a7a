"""One reading of a settings file: what is wrong with it, what to warn of, and the secrets that came in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from journal.settings import Secret, is_secret_name
from journal.values import Json

from .document import Gap, Problem, named
from .located import Located, Place, is_list, is_map
from .variables import VariableError, expand


@dataclass
class Reading:
    """Collects while a file is read, so that everything wrong is said at once."""

    located: Located
    environ: Mapping[str, str]
    path: Path | None = None
    keeps_gaps: bool = False
    """Whether a text without a value is kept as it is written, and is no problem; the store's is one always."""
    problems: list[Problem] = field(default_factory=list[Problem])
    unset: set[Place] = field(default_factory=set[Place])
    """Texts whose variables have no value; what else is wrong with them can't be told."""
    gaps: list[Gap] = field(default_factory=list[Gap])
    warnings: list[str] = field(default_factory=list[str])
    found: dict[str, str] = field(default_factory=dict[str, str])
    """Secret values, each with the first name it was met under."""
    owners: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """By the name of a secret, the servers, as written, in whose entry or login it stands."""

    @property
    def folder(self) -> Path:
        """What relative paths are relative to."""
        return self.path.parent if self.path else Path.cwd()

    def problem(self, place: Place, text: str, *, line: int | None = None) -> None:
        """Something wrong at a place; within one server's entry, it is wrong with that server only."""
        server = str(place[1]) if len(place) > 1 and place[0] == "mcpServers" else None
        self.problems.append(Problem(text, self.path, line or self.located.line_of(place), server))

    def _no_value(self, place: Place, error: VariableError, *, is_secret: bool) -> None:
        """A text whose variables have no value: a problem, or a gap where those are kept."""
        self.unset.add(place)
        text = f"{named(place)}: {error}"
        if not self.keeps_gaps or place[0] == "store":
            self.problem(place, text)
            return
        server = _server_of(place)
        hides = server is not None and (is_secret or any(map(is_secret_name, error.names)))
        problem = Problem(text, self.path, self.located.line_of(place), server)
        self.gaps.append(Gap(problem, place, error.names or (named(place),), hides))

    def settings_problem(self, place: Place, text: str) -> None:
        """Something wrong with the settings as a whole, wherever it stands."""
        self.problems.append(Problem(text, self.path, self.located.line_of(place)))

    def expanded(self, node: Json, place: Place) -> Json:
        """The same data with variables expanded in every text; what is secret of it is remembered."""
        if is_map(node):
            return {key: self.expanded(item, (*place, key)) for key, item in node.items()}
        if is_list(node):
            return [self.expanded(item, (*place, number)) for number, item in enumerate(node)]
        key = str(place[-1])
        is_named = place[-2:-1] in (("env",), ("headers",)) and is_secret_name(key)
        is_secret_field = key in ("api_key", "client_secret") or is_named
        is_secret_place = is_secret_field or bool({"headers", "auth"} & set(place))
        if is_secret_field and isinstance(node, int | float):
            # Handed on as text, so that it is one for us too.
            self.secret(key, str(node), place)
        if not isinstance(node, str):
            return node
        try:
            text = expand(node, self.environ)
        except VariableError as error:
            self._no_value(place, error, is_secret=is_secret_place)
            return node
        for name in text.taken:
            if is_secret_place or is_secret_name(name):
                self.secret(name, self.environ[name], place)
        if is_secret_field and text.text and not text.has_default:
            # Of `Authorization: Bearer VALUE`, only the value is secret.
            self.secret(key, text.text.split()[-1] if "headers" in place else text.text, place)
        return text.text

    def secret(self, name: str, value: str, place: Place = ()) -> None:
        """Remember a secret; where it stands in what one server is given, it is that server's.

        Another server's secret of the same name has the server in its name, so that a placeholder means one value.
        """
        server = _server_of(place)
        if value not in self.found and name in self.found.values():
            name = f"{name} of {server}" if server else name
        name = self.found.setdefault(value, name)
        if server:
            self.owners.setdefault(name, set()).add(server)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        return tuple(Secret(name, value) for value, name in self.found.items())


def _server_of(place: Place) -> str | None:
    """The server, as written, in whose entry or options a place lies."""
    return str(place[1]) if len(place) > 1 and place[0] in ("mcpServers", "server_options") else None
