"""JSON Schemas of servers, checked in bounded time: a few nested alternatives can stand for billions of ways to fit."""

import json
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from downstream.json_shape import is_array, is_object
from journal.values import Json, JsonObject

from .patterns import TooSlow, found
from .schema_keywords import CHARACTERS, Keyword, Purse, own_keywords

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_LEAST, _FOR_EACH, _MOST = 5_000, 30, 300_000
"""Visits of a keyword: for any data, for each value in it, and at most."""
_ITEMS, _COMPARED, _PAIRS = 20, 4, 1_000
"""So many items that are gone through, or compared with all in them, or pairs of items, cost as much as one visit."""
_SECONDS = 0.25
"""Of the processor, for all patterns that are matched in one check."""

_LONGEST = 200_000
"""Characters of a schema: what is longer takes a second to be read already. Those of real tools have some thousands."""
_LONG, _LONG_KEPT, _KEPT = 20_000, 16, 256
"""Characters from which on a schema is long, and how many validators of long ones and of others are kept."""
_MOST_ERRORS = 20


class TooComplicated(Exception):
    """It would take too long to tell whether the data fits."""

    def __init__(self, why: str = "there are too many ways in which the data might fit") -> None:
        super().__init__(f"it is too complicated: {why}")


class Unusable(Exception):
    """A schema by which nothing can be checked: it is none, refers to what is not there, or is too complicated."""


@dataclass
class _Visits:
    keywords: int
    parts: int
    seconds: float = _SECONDS

    def spend(self, keywords: int, parts: int = 0) -> None:
        self.keywords -= keywords
        self.parts -= parts
        if self.keywords < 0 or self.parts < 0:
            raise TooComplicated


_VISITS: ContextVar[_Visits | None] = ContextVar("visits", default=None)


@contextmanager
def bounded_visits(data: Json) -> Generator[None]:
    """What is checked within raises TooComplicated once it takes out of all proportion to the size of this data."""
    most = min(_LEAST + _FOR_EACH * _size(data), _MOST)
    token = _VISITS.set(_Visits(most, most))
    try:
        yield
    finally:
        _VISITS.reset(token)


@contextmanager
def usable(data: Json) -> Generator[None]:
    """As `bounded_visits`; whatever a schema that is none, or goes too far, raises within is Unusable, in words."""
    from jsonschema import SchemaError
    from jsonschema.exceptions import UnknownType
    from referencing.exceptions import Unresolvable

    try:
        with bounded_visits(data):
            yield
    except SchemaError as error:
        raise Unusable(f"it is not a JSON Schema: {error.message}") from error
    except (Unresolvable, RecursionError, re.error, TooComplicated) as error:
        raise Unusable(str(error)) from error
    except (TypeError, AttributeError, ValueError, LookupError, ArithmeticError, UnknownType) as error:
        # What a reference leads to has not been checked to be a schema.
        raise Unusable(f"part of it is no JSON Schema: {error}") from error


def bounded_validator(schema: JsonObject) -> "Validator":
    """The validator of the dialect that the schema names; nothing is fetched. Raises SchemaError where it is none, and
    TooComplicated for one that is too long or could not be checked in bounded time."""
    text = json.dumps(schema)
    if len(text) > _LONGEST:
        raise TooComplicated(f"it has {len(text)} characters")
    return _kept(text) if len(text) <= _LONG else _long_kept(text)


@lru_cache(_KEPT)
def _kept(text: str) -> "Validator":
    """Each call of a tool is checked by its schema, and to check the schema itself takes longest."""
    return _made(text)


@lru_cache(_LONG_KEPT)
def _long_kept(text: str) -> "Validator":
    return _made(text)


def _made(text: str) -> "Validator":
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    if '"unevaluatedProperties": ' in text and '"patternProperties": ' in text:
        # The package matches these patterns by itself, and nothing can stop it.
        raise TooComplicated("patterns decide which properties are left over")
    schema = json.loads(text)
    dialect = validators.validator_for(schema, default=Draft202012Validator)
    kind = _counting(dialect)
    _check_schema(kind, schema)
    made: Validator = kind(schema, registry=Registry[Any]())
    return made


def _check_schema(kind: Any, schema: JsonObject) -> None:
    """As the package's own does, but not by its keywords, some of which take for ever. Raises SchemaError."""
    from jsonschema import SchemaError, exceptions

    # The package has no types for what comes out, and the bound that may be in force is for data.
    token = _VISITS.set(None)
    try:
        error = cast("Any", exceptions).best_match(islice(kind(kind.META_SCHEMA).iter_errors(schema), _MOST_ERRORS))
    finally:
        _VISITS.reset(token)
    if error is not None:
        raise SchemaError.create_from(error)


@cache
def _counting(dialect: Any) -> Any:
    """The validator of a dialect, which counts its visits."""
    from jsonschema import validators

    theirs: dict[str, Keyword] = dialect.VALIDATORS
    checks = theirs | own_keywords(Purse(_spend, _matches), theirs)
    # The package has no types for what it makes at run time.
    kind = cast("Any", validators).extend(dialect, {name: _counted(name, each) for name, each in checks.items()})
    kind.evolve = _in_one_dialect(kind.evolve)
    return kind


def _counted(name: str, check: Keyword) -> Keyword:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if _VISITS.get() is not None:
            _spend(_cost(name, value, instance))
        for error in check(validator, value, instance, schema) or ():
            if not isinstance(error.validator, str):
                # It is new, and quotes what it is about; further out it is only handed on.
                _spend(len(error.message) // CHARACTERS)
            yield error

    return counted


def _cost(name: str, value: Json, instance: Json) -> int:
    """What one visit of a keyword costs: the more, the more its value and the data hold that it goes through."""
    if name in ("const", "enum"):
        return 1 + _length(value) // _ITEMS + _size(instance) // _COMPARED
    if name in ("unevaluatedItems", "unevaluatedProperties"):
        return 1 + _length(instance) ** 2 // _PAIRS
    return 1 + (_length(value) + _length(instance)) // _ITEMS


def _length(data: Json) -> int:
    return len(data) if is_object(data) or is_array(data) else 0


def _spend(visits: int) -> None:
    if (bound := _VISITS.get()) is not None:
        bound.spend(visits)


def _matches(pattern: str, text: str) -> bool:
    bound = _VISITS.get()
    try:
        is_found, took = found(pattern, text, seconds=_SECONDS if bound is None else bound.seconds)
    except TooSlow as error:
        raise TooComplicated("it would take too long to match its patterns") from error
    if bound is not None:
        bound.seconds -= took
    return is_found


def _in_one_dialect(evolve: Callable[..., Any]) -> Callable[..., Any]:
    """Part of a schema that named a dialect would be checked by another validator, which counts nothing."""

    def evolved(self: Any, **changes: Any) -> Any:
        if (bound := _VISITS.get()) is not None:
            bound.spend(0, parts=1)
        schema = changes.get("schema")
        if is_object(schema) and "$schema" in schema:
            changes["schema"] = {name: part for name, part in schema.items() if name != "$schema"}
        return evolve(self, **changes)

    return evolved


def _size(data: Json) -> int:
    """How many values the data holds, itself included; a long text counts as several."""
    if is_object(data):
        return 1 + sum(map(_size, data.values())) + sum(map(len, data)) // CHARACTERS
    if is_array(data):
        return 1 + sum(map(_size, data))
    return 1 + len(data) // CHARACTERS if isinstance(data, str) else 1
