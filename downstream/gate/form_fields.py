"""The fields of a form that a server asks for: read from its schema, shown in our words, and checked when filled in."""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from downstream.json_shape import is_array, is_object
from journal.errors import SteprelayError
from journal.values import Json, JsonObject

from .prompt_text import escaped, quoted

Kind: TypeAlias = Literal["text", "number", "integer", "boolean", "choice", "choices"]

_MOST_FIELDS = 40
_MOST_OPTIONS = 200
_LONGEST_NAME = 64
_LONGEST_OPTION = 200
_LONGEST_TEXT = 20_000
_LARGEST_NUMBER = sys.float_info.max
_KINDS: Mapping[str, Kind] = {"string": "text", "number": "number", "integer": "integer", "boolean": "boolean"}
_SECRET = re.compile(
    r"pass(word|phrase|code)|secret|token|credential|(api|private)[ _-]?key|card[ _-]?number|\b(pin|cvv|cvc|otp)\b",
    re.IGNORECASE,
)
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "text": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "choices": ("minItems", "maxItems"),
}


class BadForm(SteprelayError):
    """A server asked for something that is no form by the protocol."""


class ContentUnfit(SteprelayError):
    """What was filled in does not fit the form; `errors` name each field, and never what was filled in."""

    def __init__(self, errors: list[str]) -> None:
        self.errors = errors
        super().__init__(f"what was filled in does not fit: {'; '.join(errors)}")


@dataclass(frozen=True)
class Field:
    """One field; `low` and `high` bound a number, the length of a text or how many are chosen."""

    name: str
    kind: Kind
    title: str = ""
    description: str = ""
    required: bool = False
    options: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    format: str | None = None

    @property
    def looks_secret(self) -> bool:
        """Whether it seems to ask for what the protocol forbids in a form."""
        return any(_SECRET.search(text.replace("_", " ")) for text in (self.name, self.title))

    @property
    def takes(self) -> str:
        """What may be filled in, such as `a whole number from 0 to 120`."""
        match self.kind:
            case "boolean":
                return "true or false"
            case "choice":
                return f"one of {', '.join(map(quoted, self.options))}"
            case "choices":
                return f"a list{self._bounds} of {', '.join(map(quoted, self.options))}"
            case "text":
                what = _FORMATS[self.format][0] if self.format in _FORMATS else "a text"
                return f"{what}{self._bounds}{' characters' if self._bounds else ''}"
            case _:
                return f"{'a whole number' if self.kind == 'integer' else 'a number'}{self._bounds}"

    @property
    def _bounds(self) -> str:
        if self.low is not None and self.high is not None:
            return f" from {self.low:g} to {self.high:g}"
        if self.low is not None:
            return f" of at least {self.low:g}"
        return f" of at most {self.high:g}" if self.high is not None else ""

    def fits(self, value: Json) -> bool:
        match self.kind:
            case "boolean":
                return isinstance(value, bool)
            case "choice":
                return isinstance(value, str) and value in self.options
            case "choices":
                return is_array(value) and all(each in self.options for each in value) and self._within(len(value))
            case "text":
                fits = isinstance(value, str) and self._within(len(value)) and len(value) <= _LONGEST_TEXT
                return fits and (self.format not in _FORMATS or _FORMATS[self.format][1](value))
            case _:
                if not _is_number(value):
                    return False
                return (self.kind == "number" or float(value).is_integer()) and self._within(value)

    def _within(self, amount: float) -> bool:
        return (self.low is None or self.low <= amount) and (self.high is None or amount <= self.high)

    def to_schema(self) -> JsonObject:
        """The field as a schema of exactly what `fits` takes."""
        shape: JsonObject = {"type": "string" if self.kind in ("text", "choice") else self.kind}
        if self.kind == "choice":
            shape |= {"enum": list(self.options)}
        if self.kind == "choices":
            shape = {"type": "array", "items": {"type": "string", "enum": list(self.options)}}
        bounds = zip(_BOUNDS.get(self.kind, ()), (self.low, self.high), strict=False)
        shape |= {name: bound for name, bound in bounds if bound is not None}
        return shape | ({"format": self.format} if self.format else {})


def fields_of(schema: JsonObject) -> list[Field]:
    """The fields of a form, flat and of plain kinds as the protocol has it. Raises BadForm that names what is not."""
    properties: Json = schema.get("properties", {})
    if schema.get("type", "object") != "object" or not is_object(properties):
        raise BadForm("its schema is no object with properties")
    if len(properties) > _MOST_FIELDS:
        raise BadForm(f"it has {len(properties)} fields; at most {_MOST_FIELDS} are shown")
    required = schema.get("required", [])
    required = required if is_array(required) else []
    return [_field(name, _plain(shape, schema), required=name in required) for name, shape in properties.items()]


def fitted(fields: list[Field], content: Json) -> JsonObject:
    """The content, of which there may be none, without what was left open. Raises ContentUnfit."""
    content = {} if content is None else content
    if not is_object(content):
        raise ContentUnfit([f"content is to be an object with {', '.join(quoted(field.name) for field in fields)}"])
    by_name = {field.name: field for field in fields}
    given: JsonObject = {name: value for name, value in content.items() if value is not None}
    errors = [f"the form has no field {quoted(name)}" for name in given if name not in by_name]
    errors += [f"{quoted(name)} is missing" for name, field in by_name.items() if field.required and name not in given]
    misfits = (field for name, field in by_name.items() if name in given and not field.fits(given[name]))
    errors += [f"{quoted(field.name)} takes {field.takes}" for field in misfits]
    if errors:
        raise ContentUnfit(errors)
    return {name: int(value) if by_name[name].kind == "integer" else value for name, value in given.items()}


def _plain(shape: Json, schema: JsonObject) -> JsonObject:
    """The shape with what some SDKs wrap it in taken off: a reference to a definition, or `or null` in either way."""
    whole: JsonObject = shape if is_object(shape) else {}
    arms = whole.get("anyOf")
    if is_array(arms):
        some = [arm for arm in arms if arm != {"type": "null"}]
        whole = {**whole, **some[0]} if len(some) == 1 and is_object(some[0]) else whole
    reference = whole.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        shapes: Json = schema.get("$defs")
        found: Json = shapes.get(reference.removeprefix("#/$defs/")) if is_object(shapes) else None
        whole = {**found, **whole} if is_object(found) else whole
    if is_array(types := whole.get("type")) and len(plain := [type_ for type_ in types if type_ != "null"]) == 1:
        whole = {**whole, "type": plain[0]}
    return whole


def _field(name: str, shape: JsonObject, *, required: bool) -> Field:
    if not name or len(name) > _LONGEST_NAME or escaped(name) != name:
        raise BadForm(f"a field has the name {quoted(name)}, which cannot be shown as it is")
    kind, options, titles = _kind(name, shape)
    low, high = (shape.get(bound) for bound in _BOUNDS.get(kind, ("", "")))
    said = shape.get("format")
    return Field(
        name=name,
        kind=kind,
        title=_text(shape.get("title")),
        description=_text(shape.get("description")),
        required=required,
        options=options,
        titles=titles,
        low=low if _is_number(low) else None,
        high=high if _is_number(high) else None,
        format=said if kind == "text" and isinstance(said, str) and said in _FORMATS else None,
    )


def _kind(name: str, shape: JsonObject) -> tuple[Kind, tuple[str, ...], tuple[str, ...]]:
    type_: Json = shape.get("type")
    if type_ == "array":
        items: Json = shape.get("items")
        if is_object(items) and (found := _options(name, items)) is not None:
            return "choices", *found
    elif type_ in ("string", None) and (found := _options(name, shape)) is not None:
        return "choice", *found
    elif isinstance(type_, str) and type_ in _KINDS:
        return _KINDS[type_], (), ()
    raise BadForm(f"field {quoted(name)} is none of text, number, true or false, and choices")


def _options(name: str, shape: JsonObject) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    arms: Json = shape.get("oneOf", shape.get("anyOf"))
    if is_array(arms):
        given = [(arm.get("const"), arm.get("title")) for arm in arms if is_object(arm)]
    elif is_array(named := shape.get("enum")):
        titles: Json = shape.get("enumNames")
        given = list(zip(named, titles if is_array(titles) and len(titles) == len(named) else named, strict=True))
    else:
        return None
    options = [value for value, _ in given if isinstance(value, str)]
    shown = all(len(value) <= _LONGEST_OPTION and escaped(value) == value for value in options)
    if not options or len(options) != len(given) or len(options) > _MOST_OPTIONS or not shown:
        raise BadForm(f"the choices of field {quoted(name)} cannot be shown as they are")
    return tuple(options), tuple(_text(title) for _, title in given)


def _text(data: Json) -> str:
    return data if isinstance(data, str) else ""


def _is_number(data: Json) -> bool:
    """Neither without end nor, being an integer, so large that it could not be compared or shown."""
    return isinstance(data, int | float) and not isinstance(data, bool) and abs(data) <= _LARGEST_NUMBER


def _is_read_by(read: Callable[[str], object]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            return bool(read(text))
        except ValueError:
            return False

    return fits


def _address(text: str) -> bool:
    split = urlsplit(text)
    return bool(split.scheme and (split.netloc or split.path)) and not any(character.isspace() for character in text)


_FORMATS: Mapping[str | None, tuple[str, Callable[[str], bool]]] = {
    "email": ("an e-mail address", lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None),
    "uri": ("an address such as https://example.com", _is_read_by(_address)),
    "date": ("a date such as 2026-01-31", _is_read_by(date.fromisoformat)),
    "date-time": (
        "a time such as 2026-01-31T09:30:00Z",
        _is_read_by(lambda text: "T" in text.upper() and datetime.fromisoformat(text)),
    ),
}
