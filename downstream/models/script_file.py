"""The file of a scripted model: YAML 1.2 or JSON, checked when it is read (DESIGN section 13)."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from downstream.json_shape import is_array, is_object
from journal.errors import SteprelayError
from journal.values import Json, JsonObject

Fault: TypeAlias = Literal["429", "500", "timeout", "empty", "truncated", "not_json", "refusal"]
_SCRIPT = ConfigDict(extra="forbid", frozen=True)
_DEEPEST = 64


class ScriptError(SteprelayError):
    """A script that can't be used; the text names the file and the line."""

    def __init__(self, path: str, line: int, text: str) -> None:
        self.path, self.line = path, line
        super().__init__(f"scripted model {path}, line {line}: {text}")


class Usage(BaseModel):
    """Tokens to report instead of characters / 4."""

    model_config = _SCRIPT

    input: int = Field(ge=0)
    output: int = Field(ge=0)


class ScriptedCall(BaseModel):
    """A call that a worker makes, of `server.tool` or of a built-in function."""

    model_config = _SCRIPT

    tool: str = Field(min_length=1)
    arguments: JsonObject = Field(default_factory=dict)


class Entry(BaseModel):
    """What every reply may have: a wait before it, and a fault before it or instead of it."""

    model_config = _SCRIPT

    delay: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    fault: Annotated[Fault, BeforeValidator(lambda fault: str(fault) if isinstance(fault, int) else fault)] | None = (
        None
    )
    usage: Usage | None = None
    text: str | None = None

    @property
    def says_something(self) -> bool:
        return self.text is not None


class Turn(Entry):
    """One reply of a worker: calls, text, or both."""

    calls: tuple[ScriptedCall, ...] = ()

    @property
    def says_something(self) -> bool:
        return bool(self.calls) or super().says_something


class Said(Entry):
    """One reply that is data or text: a plan, a revision, a review, a composed text, the answer."""

    data: Json = None

    @property
    def says_something(self) -> bool:
        return self.data is not None or super().says_something


def _as_said(given: Json, wrap: str | None = None) -> Json:
    """An entry as people write it: `delay`, `fault`, `usage` and `text` beside the fields of the reply itself."""
    if isinstance(given, str):
        return {"text": given}
    if is_array(given) and wrap is not None:
        return {"data": {wrap: given}}
    if not is_object(given):
        return given
    own = {key: item for key, item in given.items() if key in ("delay", "fault", "usage", "text")}
    data = {key: item for key, item in given.items() if key not in own}
    return own | ({"data": data} if data else {})


Plan = Annotated[Said, BeforeValidator(lambda given: _as_said(given, "steps"))]
Reply = Annotated[Said, BeforeValidator(_as_said)]


class Attempt(BaseModel):
    """One attempt at a worker step: its turns, then its report."""

    model_config = _SCRIPT

    turns: tuple[Turn, ...] = ()
    report: JsonObject | None = None


class StepScript(Said):
    """A step: the attempts of a worker, or what a compose step says."""

    attempts: tuple[Attempt, ...] = ()


class Script(BaseModel):
    """A whole script; what it leaves out must not be asked. `searches` are made before the first plan."""

    model_config = _SCRIPT

    searches: tuple[str, ...] = ()
    plan: Plan | None = None
    plans: tuple[Plan, ...] = ()
    steps: dict[str, StepScript] = Field(default_factory=dict)
    revise: tuple[Reply, ...] = ()
    review: tuple[Reply, ...] | dict[str, tuple[Reply, ...]] = ()
    answer: Reply | None = None

    @model_validator(mode="after")
    def _one_way_to_plan(self) -> "Script":
        if self.plan is not None and self.plans:
            raise ValueError("plan and plans exclude each other; keep one")
        return self


def read_script(text: str, path: str) -> Script:
    """The script in a text. Raises ScriptError that names the file and the line."""
    document = _Document(path)
    data = document.read(text)
    try:
        return Script.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "script"
        raise ScriptError(path, document.line_of(first["loc"]), f"{name}: {first['msg']}") from error


@dataclass
class _Document:
    """Data as read from YAML's core schema, with the line of each part; JSON is YAML too."""

    path: str
    lines: dict[tuple[str | int, ...], int] = field(default_factory=dict[tuple[str | int, ...], int])

    def read(self, text: str) -> Json:
        # Only runs on a script need it.
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            yaml: Any = YAML(typ="safe", pure=True)
            root: Any = yaml.compose(text)
        except MarkedYAMLError as error:
            told: Any = error
            mark = told.problem_mark or told.context_mark
            raise ScriptError(self.path, mark.line + 1 if mark else 1, f"not YAML: {told.problem}") from error
        except RecursionError as error:
            raise ScriptError(self.path, 1, f"nested deeper than {_DEEPEST}") from error
        except YAMLError as error:
            raise ScriptError(self.path, 1, "not YAML: it holds a character that YAML does not allow") from error
        return {} if root is None else self._data(root, ())

    def line_of(self, place: tuple[str | int, ...]) -> int:
        """The line of a part, or of the nearest one above it that the file has."""
        found = (self.lines[place[:size]] for size in range(len(place), -1, -1) if place[:size] in self.lines)
        return next(found, 1)

    def _data(self, node: Any, place: tuple[str | int, ...]) -> Json:
        line = self.lines.setdefault(place, node.start_mark.line + 1)
        if len(place) > _DEEPEST:
            raise ScriptError(self.path, line, f"nested deeper than {_DEEPEST}")
        if node.id == "mapping":
            return self._map(node, place)
        if node.id == "sequence":
            return [self._data(item, (*place, number)) for number, item in enumerate(node.value)]
        try:
            return _scalar(node.tag, node.value)
        except ValueError as error:
            raise ScriptError(self.path, line, str(error)) from error

    def _map(self, node: Any, place: tuple[str | int, ...]) -> JsonObject:
        items: JsonObject = {}
        for key, item in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in items:
                raise ScriptError(self.path, line, f"{name} stands twice")
            self.lines[(*place, name)] = line
            items[name] = self._data(item, (*place, name))
        return items


def _scalar(tag: Any, text: str) -> Json:
    kind = str(tag).rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        return int(text, 0 if text[:2] in ("0x", "0o") else 10)
    if kind == "float":
        if not text.lower().endswith(("inf", "nan")) and math.isfinite(number := float(text)):
            return number
        raise ValueError("numbers must be finite")
    return text
