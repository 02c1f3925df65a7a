"""Steps as models and files write them, read into the only shapes that a plan may hold."""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from downstream.json_shape import is_array, is_object
from downstream.nesting import TOO_DEEP, too_deep
from executors.step import ComposeStep, Step
from journal.values import Json, JsonObject

from .plan import AnyStep, with_implied_needs
from .references import referenced_steps

KINDS = ("call", "worker", "compose")
_ADAPTER: TypeAdapter[AnyStep] = TypeAdapter(Step)
_BESIDES = frozenset({"id", "title", "needs", "optional", "review"})
"""Fields without which the rest of a step can still be checked."""
_SCHEMA_WORDS = frozenset(
    {"type", "properties", "required", "items", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"}
)
_MOST = 1_000
"""So many entries of a list are read; each is looked for among the names that there are."""
_AS_TEXT = {"arguments_json": "arguments", "output_json": "output"}


@dataclass(frozen=True)
class Known:
    """The names that stand around a step: of its plan's `steps`, of `workers`, and which ones name a tool."""

    steps: Collection[str]
    workers: Collection[str]
    is_tool: Callable[[str], bool]

    def is_no_step(self, name: Json) -> bool:
        """Whether this is surely a tool or a worker, put where the id of a step belongs."""
        return isinstance(name, str) and name not in self.steps and (name in self.workers or self.is_tool(name))

    def step_of(self, name: Json) -> Json:
        """The id of the step whose result, or a part of it, is named; whatever else this is as it stands."""
        step = name.partition(".")[0] if isinstance(name, str) else ""
        return step if step in self.steps and name not in self.steps else name


def read_step(raw: Json, number: int, *, known: Known) -> tuple[AnyStep | None, list[str]]:
    """The step, with needs that its references imply, and everything that is wrong with its shape.

    What stands in the wrong field and can mean one thing only is taken for that. With errors it may not run; it is
    there, as far as it can be read, to be checked for others. None: it is no object.
    """
    if not is_object(raw):
        return None, [f'step {number} is not an object; write {{"id": …, "kind": …}}']
    name = f"step {raw['id']!r}" if isinstance(raw.get("id"), str) else f"step {number}"
    if (problem := TOO_DEEP if too_deep(raw) else _too_long(raw)) is not None:
        return _stub({"id": raw.get("id")}, number), [f"{name}: {problem}"]
    fields, errors = _fields(raw, name)
    if any(too_deep(value) for value in fields.values()):
        return _stub({"id": raw.get("id")}, number), [f"{name}: {TOO_DEEP}"]
    _put_in_place(fields, known)
    readable, kind = not errors, fields.get("kind")
    if kind not in KINDS:
        errors.append(f"{name}: kind {kind!r} is unknown; {closest(str(kind), KINDS)}")
        fields["kind"] = _meant_kind(fields)
    try:
        step = with_implied_needs(_ADAPTER.validate_python(fields))
    except ValidationError as error:
        problems = [problem for problem in error.errors() if kind in KINDS or problem["loc"][1] in _BESIDES]
        errors += [_sentence(name, fields["kind"], problem, fields) for problem in problems]
        step = _mended(fields, {problem["loc"][1] for problem in error.errors()}, number)
    return step if readable else _stub(fields, number), errors


def _too_long(raw: JsonObject) -> str | None:
    lists = {field: raw.get(field) for field in ("needs", "tools")}
    too_long = (
        f"{field} has {len(raw[field]):,} entries; at most {_MOST:,} are read"
        for field, value in lists.items()
        if is_array(value) and len(value) > _MOST
    )
    return next(too_long, None)


def _meant_kind(fields: JsonObject) -> str:
    """The kind that a step of an unknown one seems to be, by what else it says."""
    return "call" if "tool" in fields else "worker" if "worker" in fields else "compose"


def _mended(fields: JsonObject, wrong: Collection[Json], number: int) -> AnyStep:
    """The step without those of its fields that are wrong, where it can be told without them what it is to do."""
    if not _BESIDES.issuperset(wrong):
        return _stub(fields, number)
    right = {name: value for name, value in fields.items() if name not in wrong}
    step = _ADAPTER.validate_python(right | {"id": "a"}).model_copy(update={"id": _name(fields, number)})
    return with_implied_needs(step)


def _stub(fields: JsonObject, number: int) -> AnyStep:
    """A step that does nothing, in the place of one that can't be read: other steps may need it."""
    needs = fields.get("needs")
    named = tuple(need for need in needs if isinstance(need, str)) if is_array(needs) else ()
    implied = referenced_steps(fields.get("arguments")).ids
    needed = tuple(dict.fromkeys((*named, *implied)))
    return ComposeStep.model_construct(id=_name(fields, number), kind="compose", task="", needs=needed)


def _name(fields: JsonObject, number: int) -> str:
    return fields["id"] if isinstance(fields.get("id"), str) else str(number)


def read_texts(raw: Json) -> list[str]:
    """What was asked for as a list of texts: one text alone is a list of it; what is neither says nothing."""
    texts = [raw] if isinstance(raw, str) else raw if is_array(raw) else []
    return [str(text) for text in texts if text is not None and str(text).strip()]


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
    if is_object(output := fields.get("output")) and not _SCHEMA_WORDS & output.keys():
        if output and all(is_object(field) and "type" in field for field in output.values()):
            fields["output"] = {"type": "object", "properties": output}
        else:
            # Empty, or what a weak model thinks that the worker will find: no schema, and nothing to tell a worker.
            del fields["output"]
    return fields, errors


def _put_in_place(fields: JsonObject, known: Known) -> None:
    """What weak models write into a field beside the right one, where only one thing can be meant by it."""
    kind, tool, tools, needs = (fields.get(name) for name in ("kind", "tool", "tools", "needs"))
    if is_array(needs):
        named = [known.step_of(need) for need in needs if not known.is_no_step(need)]
        fields["needs"] = [need for number, need in enumerate(named) if need not in named[:number]]
    if kind == "call" and tool is None and is_array(tools) and len(tools) == 1:
        fields["tool"] = tools[0]
    if kind == "worker" and tools is None and isinstance(tool, str) and known.is_tool(tool):
        fields["tools"] = [tool]


def _parsed(text: Json) -> Json:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
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
