"""Reading a settings file into located data, and the one error that holds all that is wrong with settings."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from journal.errors import SteprelayError

from .json_text import read_json
from .located import Located, Place, TextError, is_map
from .yaml_text import read_yaml

_LARGEST = 1 << 20


@dataclass(frozen=True)
class Problem:
    """One thing wrong in a file; `server` where only that server entry is broken."""

    text: str
    path: Path | None = None
    line: int | None = None
    server: str | None = None

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}: " if self.line else f"{self.path}: "
        return f"{where if self.path else ''}{self.text}"


@dataclass(frozen=True)
class Gap:
    """A text that stands there as it was written, since variables in it, by `names`, have no value; `problem` says so.

    With `hides`, the value is a secret that a tool server gets, and may stand in what runs kept.
    """

    problem: Problem
    place: Place
    names: tuple[str, ...]
    hides: bool


def by_line(problems: Iterable[Problem]) -> list[Problem]:
    """In the order of the files."""
    return sorted(problems, key=lambda problem: (str(problem.path), problem.line or 0))


class SettingsError(SteprelayError):
    """Settings that can't be used; one line, `path:line: text`, for each problem."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(by_line(problems))
        super().__init__("\n".join(map(str, self.problems)))


class UntrustedSettings(SettingsError):
    """A project's settings that this user has not trusted as they are now."""

    def __init__(self, path: Path) -> None:
        text = (
            "these settings were found in the working folder and are not trusted, or were changed since; "
            f"see what they run and trust them with: steprelay config trust {path}"
        )
        super().__init__([Problem(text, path=path)])


def read_document(path: Path, *, otherwise: str = "settings are a map of keys, as in `model: …`") -> Located:
    """The file's data, JSON with comments or YAML by suffix, else by its first character.

    Raises SettingsError; `otherwise` is what it says of data that is no map.
    """
    text = read_text(path)
    is_json = path.suffix in (".json", ".jsonc") or (
        path.suffix not in (".yaml", ".yml") and text.lstrip().startswith(("{", "//", "/*"))
    )
    try:
        located = read_json(text) if is_json else read_yaml(text)
    except TextError as error:
        raise SettingsError([Problem(error.text, path=path, line=error.line)]) from error
    if located.data is None:
        located.data = {}
    if not is_map(located.data):
        raise SettingsError([Problem(otherwise, path=path, line=1)])
    return located


def read_text(path: Path) -> str:
    """The text of a small UTF-8 file, without a byte order mark. Raises SettingsError."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise SettingsError([Problem("larger than 1 MiB; no settings are", path=path)])
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise SettingsError([Problem(f"cannot be read: {error.strerror}", path=path)]) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SettingsError([Problem("not UTF-8; save it as UTF-8", path=path, line=line)]) from error


def named(place: Place) -> str:
    """A place as people write it: `policy.rules[2].when`."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def meant(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: what was meant, or what there is."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(names)}" if names else ""
