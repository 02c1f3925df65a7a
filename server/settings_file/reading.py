"""One reading of a settings file: what is wrong with it, what to warn of, and the secrets that came in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from journal.settings import Secret, is_secret_name
from journal.values import Json

from .document import Problem, named
from .located import Located, Place, is_list, is_map
from .variables import VariableError, expand


@dataclass
class Reading:
    """Collects while a file is read, so that everything wrong is said at once."""

    located: Located
    environ: Mapping[str, str]
    path: Path | None = None
    problems: list[Problem] = field(default_factory=list[Problem])
    unset: set[Place] = field(default_factory=set[Place])
    """Texts whose variables have no value; what else is wrong with them can't be told."""
    warnings: list[str] = field(default_factory=list[str])
    found: dict[str, str] = field(default_factory=dict[str, str])
    """Secret values, each with the first name it was met under."""

    @property
    def folder(self) -> Path:
        """What relative paths are relative to."""
        return self.path.parent if self.path else Path.cwd()

    def problem(self, place: Place, text: str, *, line: int | None = None) -> None:
        """Something wrong at a place; within one server's entry, it is wrong with that server only."""
        server = str(place[1]) if len(place) > 1 and place[0] == "mcpServers" else None
        self.problems.append(Problem(text, self.path, line or self.located.line_of(place), server))

    def settings_problem(self, place: Place, text: str) -> None:
        """Something wrong with the settings as a whole, wherever it stands."""
        self.problems.append(Problem(text, self.path, self.located.line_of(place)))

    def expanded(self, node: Json, place: Place) -> Json:
        """The same data with variables expanded in every text; what is secret of it is remembered."""
        if is_map(node):
            return {key: self.expanded(item, (*place, key)) for key, item in node.items()}
        if is_list(node):
            return [self.expanded(item, (*place, number)) for number, item in enumerate(node)]
        if not isinstance(node, str):
            return node
        try:
            text = expand(node, self.environ)
        except VariableError as error:
            self.unset.add(place)
            self.problem(place, f"{named(place)}: {error}")
            return node
        key = str(place[-1])
        is_named = place[-2:-1] in (("env",), ("headers",)) and is_secret_name(key)
        is_secret_field = key in ("api_key", "client_secret") or is_named
        for name in text.taken:
            if is_secret_field or {"headers", "auth"} & set(place) or is_secret_name(name):
                self.secret(name, self.environ[name])
        if is_secret_field and text.text and not text.has_default:
            # Of `Authorization: Bearer VALUE`, only the value is secret.
            self.secret(key, text.text.split()[-1] if "headers" in place else text.text)
        return text.text

    def secret(self, name: str, value: str) -> None:
        self.found.setdefault(value, name)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        return tuple(Secret(name, value) for value, name in self.found.items())
