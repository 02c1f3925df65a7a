"""What a model meant: the JSON in its function calls or its text, read leniently and tidied by a schema."""

import json
import re
from collections.abc import Iterator

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


def _no_number(text: str) -> Json:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number, strict=False)


class ReplyErrors(SteprelayError, ValueError):
    """What is wrong with a reply, one sentence each; the model is shown all of them."""

    def __init__(self, errors: list[str]) -> None:
        self.errors = errors
        super().__init__("; ".join(errors))


def found_in(reply: ModelReply, name: str, schema: JsonObject) -> JsonObject | None:
    """The reply called `name`: a function call of that name, else JSON in the text (bare, fenced, in prose).

    None where there is none. Raises ReplyErrors for a call whose arguments are no JSON object.
    """
    for use in reply.uses:
        if use.name == name:
            return read_object(use.arguments, f"the arguments of {name}")
    known = known_fields(for_function(schema))
    for data in objects_in(reply.text):
        inner = _unwrapped(data, name)
        if known & inner.keys():
            return inner
    return None


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


def objects_in(text: str) -> Iterator[JsonObject]:
    """Every JSON object in the text, outermost ones only: bare or fenced first, then those within prose."""
    for candidate in (text, *_FENCED.findall(text)):
        try:
            data = read_json(candidate.strip())
        except ValueError:
            continue
        if is_object(data):
            yield data
    found = False
    for within in (text, _without_loose_commas(text)):
        for data in _within(within):
            found = True
            yield _clean(data, text)
        if found:
            return


def _within(text: str) -> Iterator[JsonObject]:
    place = text.find("{")
    for _ in range(_TRIES):
        if place < 0:
            return
        try:
            data, place = _DECODER.raw_decode(text, place)
            yield data
        except (ValueError, RecursionError):
            place += 1
        place = text.find("{", place)


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
