"""What a model meant: the JSON in its function calls or its text, read leniently and tidied by a schema."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from downstream.json_shape import is_array, is_object
from downstream.model_port import ModelReply
from journal.errors import SteprelayError
from journal.values import Json, JsonObject

from .schemas import for_function

_FENCED = re.compile(r"```[a-zA-Z0-9_-]*[^\S\n]*\n(.*?)```", re.DOTALL)
# A string that breaks off ends with the text: sought again from each of its quotes, its end would take forever to miss.
_LOOSE_COMMA = re.compile(r"""(?P<string>"(?:[^"\\]|\\.)*(?:"|\\?\Z))|,(?=\s*[}\]])""", re.DOTALL)
_TRIES = 200
"""So many opening braces of a text are tried at most."""
_SHOWN = 40
_WRAPPERS = ("arguments", "parameters", "input")
_AROUND = re.compile(r"(?:[\s,;.`\[\]]|(?<=```)[a-zA-Z0-9_-]+(?=\s)|<[/|]?\w+\|?>)*")
"""What may stand beside JSON without being a word about it: blanks, fences, brackets, the signs of templates."""


def _no_number(text: str) -> Json:
    raise ValueError(f"{text} is not JSON")


def _number(text: str) -> Json:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


_DECODER = json.JSONDecoder(parse_constant=_no_number, parse_float=_number, strict=False)


class ReplyErrors(SteprelayError, ValueError):
    """What is wrong with a reply, one sentence each; the model is shown all of them."""

    def __init__(self, errors: list[str]) -> None:
        self.errors = errors
        super().__init__("; ".join(errors))


def found_in(reply: ModelReply, name: str, schema: JsonObject) -> JsonObject | None:
    """The reply called `name`: a function call of that name, else JSON in the text (bare, fenced, in prose).

    None where there is none. Raises ReplyErrors for a call whose arguments are no JSON object, and where several are in
    the text and none of them at its end: a model quotes what it was given, and what it rejects.
    """
    for use in reply.uses:
        if use.name == name:
            return read_object(use.arguments, f"the arguments of {name}")
    known = known_fields(for_function(schema))
    said = [inner for data in objects_in(reply.text) if known & (inner := _unwrapped(data, name)).keys()]
    if len(said) > 1:
        ending = [_unwrapped(data, name) for data in objects_at_end(reply.text)]
        if not ending or not known & ending[-1].keys():
            raise ReplyErrors([f"{len(said)} replies for {name} are in it; give the one that counts, at its end"])
        return ending[-1]
    return said[0] if said else None


def read_object(text: str, what: str) -> JsonObject:
    """The JSON object that the text is. Raises ReplyErrors that names `what`."""
    try:
        data = read_json(text)
    except ValueError as error:
        raise ReplyErrors([f"{what}: {_why_broken(text, error)}"]) from error
    if not is_object(data):
        raise ReplyErrors([f"{what}: must be a JSON object, not {type(data).__name__}"])
    return data


def read_json(text: str) -> Json:
    """The data that a model wrote as JSON; without NaN, infinity and lone surrogates. Raises ValueError.

    Commas too many and line breaks within strings are read as they are meant.
    """
    try:
        return _clean(_DECODER.decode(text), text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError:
        if (mended := _without_loose_commas(text)) == text:
            raise
        return _clean(_DECODER.decode(mended), text)


def broken_json(text: str) -> str | None:
    """Why the JSON in a text can't be read; None where it holds none."""
    inside = (*(each for each in _FENCED.findall(text) if "{" in each), text[text.find("{") :])[0].strip()
    if not inside.startswith("{"):
        return None
    try:
        read_json(inside)
    except ValueError as error:
        return _why_broken(inside, error)
    return None


def _why_broken(text: str, error: ValueError) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error}"
    if error.msg.startswith("Unterminated string"):
        return f"not JSON: it breaks off within the string that begins {_quoted(text[error.pos :])}"
    if error.pos >= len(text.rstrip()):
        return f"not JSON: it breaks off after {_quoted(text.rstrip()[-_SHOWN:])}"
    return f"not JSON: {error.msg} at {_quoted(text[error.pos :])} (line {error.lineno}, column {error.colno})"


def _quoted(text: str) -> str:
    return json.dumps(text[:_SHOWN], ensure_ascii=False)


def _without_loose_commas(text: str) -> str:
    return _LOOSE_COMMA.sub(lambda found: found["string"] or "", text)


def objects_in(text: str) -> list[JsonObject]:
    """The JSON objects in the text, outermost ones only, in their order."""
    return [_clean(found.data, text) for found in _found(text)[1]]


def objects_at_end(text: str, *, alone: bool = False) -> list[JsonObject]:
    """The JSON objects that the text ends with, without a word between or behind them, and, if `alone`, before them.

    What a model says something about, it may only quote.
    """
    within, objects = _found(text)
    first, start = len(objects), len(within)
    while first and _AROUND.fullmatch(within, objects[first - 1].end, start):
        first -= 1
        start = objects[first].start
    if alone and not _AROUND.fullmatch(within, 0, start):
        return []
    return [_clean(found.data, text) for found in objects[first:]]


@dataclass(frozen=True)
class _Found:
    start: int
    end: int
    data: JsonObject


def _found(text: str) -> tuple[str, list[_Found]]:
    """The objects, and the text that they stand in: without loose commas where more of it can then be read."""
    mended = _without_loose_commas(text)
    ways = [(within, list(_within(within))) for within in ([text] if mended == text else [text, mended])]
    return max(ways, key=lambda way: sum(found.end - found.start for found in way[1]))


def _within(text: str) -> Iterator[_Found]:
    start = text.find("{")
    for _ in range(_TRIES):
        if start < 0:
            return
        end = start + 1
        try:
            data, end = _DECODER.raw_decode(text, start)
            yield _Found(start, end, data)
        except (ValueError, RecursionError):
            pass
        start = text.find("{", end)


def tidied(data: JsonObject, schema: JsonObject) -> tuple[JsonObject, list[str]]:
    """The data as its schema means it, and the names of the unknown fields that were dropped.

    Null or empty optional fields are left out; `x_json` is read as `x`. Raises ReplyErrors where that is no object.
    """
    tidier = _Tidier()
    try:
        tidy = tidier.at(data, for_function(schema), "")
    except RecursionError as error:
        raise ReplyErrors(["nested too deeply"]) from error
    if tidier.errors:
        raise ReplyErrors(tidier.errors)
    return tidy, tidier.dropped


def known_fields(plain: JsonObject) -> set[str]:
    """The fields that an object of this plain schema may have, under either name."""
    names: set[str] = set(plain.get("properties", ()))
    return names | {f"{name}_json" for name in names}


class _Tidier:
    def __init__(self) -> None:
        self.dropped: list[str] = []
        self.errors: list[str] = []

    def at(self, data: Json, plain: JsonObject, place: str) -> Json:
        if is_array(data):
            items: JsonObject = plain.get("items", {})
            return [self.at(item, items, f"{place}[{number}]") for number, item in enumerate(data)]
        properties, required = _expected(data, plain)
        if not is_object(data) or not properties:
            return data
        tidy: JsonObject = {}
        for name, item in data.items():
            below = f"{place}.{name}" if place else name
            field = name if name in properties else name.removesuffix("_json")
            if field not in properties:
                self.dropped.append(below)
                continue
            value = self._opened(item, properties[field], below, said=name != field)
            if field in required or not _is_empty(value):
                tidy[field] = self.at(value, properties[field], below)
        return tidy

    def _opened(self, value: Json, plain: JsonObject, place: str, *, said: bool) -> Json:
        """An open object that was given as text; `said` when its name says so."""
        is_open = plain.get("type") == "object" and not plain.get("properties")
        if not isinstance(value, str) or not value.strip() or not (said or is_open):
            return value
        try:
            return read_object(value, place)
        except ReplyErrors as error:
            self.errors += error.errors
            return None


def _expected(data: Json, plain: JsonObject) -> tuple[JsonObject, set[str]]:
    """The properties that fit the data, and those required; of alternatives, the ones that its words choose."""
    branches: list[JsonObject] = plain.get("anyOf") or [plain]
    fitting = [branch for branch in branches if is_object(data) and _chosen(data, branch)] or branches
    properties: JsonObject = {}
    for branch in fitting:
        properties = branch.get("properties", {}) | properties
    return properties, set[str].intersection(*(set(branch.get("required", ())) for branch in fitting))


def _chosen(data: JsonObject, branch: JsonObject) -> bool:
    properties: JsonObject = branch.get("properties", {})
    return all(data[name] in field["enum"] for name, field in properties.items() if "enum" in field and name in data)


def _is_empty(value: Json) -> bool:
    return value is None or value in ("", [], {})


def _unwrapped(data: JsonObject, name: str) -> JsonObject:
    """The arguments of a call that was written down as text."""
    if data.get("name") == name or data.get("tool") == name:
        inner = next((data[key] for key in _WRAPPERS if key in data), None)
    else:
        inner = data.get(name) if len(data) == 1 else None
    return inner if is_object(inner) else data


def _clean(data: Json, text: str) -> Json:
    r"""Half of a \ud83d\ude00 pair is no character, and nothing could store it."""
    if "\\ud" not in text and "\\uD" not in text:
        return data
    return json.loads(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"))
