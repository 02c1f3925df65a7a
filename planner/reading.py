"""Steps as models and files write them, read into the only shapes that a plan may hold."""

import difflib
import json
import re
from collections.abc import Iterable

from pydantic import TypeAdapter, ValidationError

from downstream.json_shape import is_object
from executors.step import Step
from journal.values import Json, JsonObject

from .plan import AnyStep, with_implied_needs

KINDS = ("call", "worker", "compose")
_ADAPTER: TypeAdapter[AnyStep] = TypeAdapter(Step)
_AS_TEXT = {"arguments_json": "arguments", "output_json": "output"}


def read_step(raw: Json, number: int) -> tuple[AnyStep | None, list[str]]:
    """The step, with needs that its references imply; or everything that is wrong with its shape."""
    if not is_object(raw):
        return None, [f'step {number} is not an object; write {{"id": …, "kind": …}}']
    name = f"step {raw['id']!r}" if isinstance(raw.get("id"), str) else f"step {number}"
    fields, errors = _fields(raw, name)
    kind = fields.get("kind")
    if kind not in KINDS:
        errors.append(f"{name}: kind {kind!r} is unknown; {closest(str(kind), KINDS)}")
        return None, errors
    if errors:
        return None, errors
    try:
        return with_implied_needs(_ADAPTER.validate_python(fields)), []
    except ValidationError as error:
        return None, [_sentence(name, kind, problem, fields) for problem in error.errors()]


def closest(wanted: str, known: Iterable[str]) -> str:
    """A suggestion for a name that does not exist."""
    names = list(known)
    near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"use one of {', '.join(names[:12])}" if names else "there are none"


def _fields(raw: JsonObject, name: str) -> tuple[JsonObject, list[str]]:
    """The fields that say something: null and empty ones are absent, JSON given as text is parsed."""
    fields = {key: value for key, value in raw.items() if value is not None and value != "" and value != []}
    errors: list[str] = []
    for key, meant in _AS_TEXT.items():
        if (text := fields.pop(key, None)) is None:
            continue
        data = _parsed(text)
        if not isinstance(data, dict):
            errors.append(f"{name}: {key} is not a JSON object written as text")
        elif data:
            fields.setdefault(meant, data)
    if isinstance(fields.get("needs"), str):
        fields["needs"] = [fields["needs"]]
    if fields.get("output") == {}:
        del fields["output"]
    return fields, errors


def _parsed(text: Json) -> Json:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return None


def _sentence(name: str, kind: str, problem: Json, fields: JsonObject) -> str:
    place = ".".join(str(part) for part in problem["loc"] if part != kind)
    if place == "id" and isinstance(fields.get("id"), str):
        slug = re.sub(r"[^a-z0-9]+", "_", fields["id"].lower()).strip("_")[:31]
        fitting = slug if slug[:1].isalpha() else f"s_{slug}"
        return f"{name}: an id is a lower-case letter, then at most 31 of a-z, 0-9 and _, such as {fitting!r}"
    if problem["type"] == "missing":
        return f"{name}: a {kind} step needs {place!r}"
    return f"{name}: {place}: {problem['msg'].lower()}"
