"""`${VAR}`, `${VAR:-default}` and `${env:VAR}` in texts of the settings."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from journal.errors import SteprelayError

_REFERENCE = re.compile(r"(?P<escape>\$)?\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_ASKED = re.compile(r"\$\{(?:input|command|promptString):[^}]*\}")


class VariableError(SteprelayError):
    """A reference that has no value here; `names` are the variables that are not set."""

    def __init__(self, text: str, names: Iterable[str] = ()) -> None:
        self.names = tuple(names)
        super().__init__(text)


@dataclass(frozen=True)
class Expanded:
    """A text with its references replaced, the variables taken from the environment, and whether a default came in."""

    text: str
    taken: frozenset[str]
    has_default: bool


def expand(text: str, environ: Mapping[str, str]) -> Expanded:
    """Replace each reference; `$${VAR}` stands for itself. Raises VariableError naming what is not set."""
    asked = _ASKED.search(text)
    if asked:
        raise VariableError(
            f"{asked.group()} asks a person, which only an editor can; write ${{VAR}} and set that variable"
        )
    taken: set[str] = set()
    missing: list[str] = []
    has_default = False

    def value(found: re.Match[str]) -> str:
        nonlocal has_default
        name, default = found["name"], found["default"]
        if found["escape"]:
            return found.group()[1:]
        # As in a shell, `:-` also stands in for a variable that is set and empty.
        if name in environ and (environ[name] or default is None):
            taken.add(name)
            return environ[name]
        if default is None:
            missing.append(name)
        has_default = True
        return default or ""

    expanded = _REFERENCE.sub(value, text)
    if missing:
        names = tuple(dict.fromkeys(missing))
        raise VariableError(
            f"variable {', '.join(names)} is not set; set it, or write ${{{names[0]}:-default}}", names=names
        )
    return Expanded(expanded, frozenset(taken), has_default)


def variables_in(text: str) -> list[str]:
    """The names of the variables that a text refers to."""
    return [found["name"] for found in _REFERENCE.finditer(text) if not found["escape"]]
