"""JSON Schemas of servers, checked in bounded time: a few nested alternatives can stand for billions of ways to fit."""

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from downstream.json_shape import is_array, is_object
from journal.values import Json, JsonObject

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_LEAST, _FOR_EACH, _MOST = 5_000, 30, 300_000
"""Visits of a keyword: for any data, for each value in it, and at most."""

_LONGEST_KEPT, _MOST_KEPT = 20_000, 256
"""Characters of a schema whose validator is kept, and how many of these."""

Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


class TooComplicated(Exception):
    """It would take too long to tell whether the data fits."""

    def __init__(self) -> None:
        super().__init__("it is too complicated: there are too many ways in which the data might fit")


@dataclass
class _Visits:
    left: int


_VISITS: ContextVar[_Visits | None] = ContextVar("visits", default=None)


@contextmanager
def bounded_visits(data: Json) -> Generator[None]:
    """What is checked within raises TooComplicated once it takes out of all proportion to the size of this data."""
    token = _VISITS.set(_Visits(min(_LEAST + _FOR_EACH * _size(data), _MOST)))
    try:
        yield
    finally:
        _VISITS.reset(token)


def bounded_validator(schema: JsonObject) -> "Validator":
    """The validator of the dialect that the schema names; nothing is fetched. Raises SchemaError where it is none."""
    text = json.dumps(schema)
    return _kept(text) if len(text) <= _LONGEST_KEPT else _made(schema)


@lru_cache(_MOST_KEPT)
def _kept(text: str) -> "Validator":
    """Each call of a tool is checked by its schema, and to check the schema itself takes longest."""
    return _made(json.loads(text))


def _made(schema: JsonObject) -> "Validator":
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    dialect = validators.validator_for(schema, default=Draft202012Validator)
    dialect.check_schema(schema)
    made: Validator = _counting(dialect)(schema, registry=Registry[Any]())
    return made


@cache
def _counting(dialect: Any) -> Any:
    """The validator of a dialect, which counts its visits."""
    from jsonschema import validators

    # The package has no types for what it makes at run time.
    kind = cast("Any", validators).extend(dialect, {name: _counted(each) for name, each in dialect.VALIDATORS.items()})
    kind.evolve = _in_one_dialect(kind.evolve)
    return kind


def _counted(check: Keyword) -> Keyword:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
        if (visits := _VISITS.get()) is not None:
            visits.left -= 1
            if visits.left < 0:
                raise TooComplicated
        return check(validator, value, instance, schema)

    return counted


def _in_one_dialect(evolve: Callable[..., Any]) -> Callable[..., Any]:
    """Part of a schema that named a dialect would be checked by another validator, which counts nothing."""

    def evolved(self: Any, **changes: Any) -> Any:
        schema = changes.get("schema")
        if is_object(schema) and "$schema" in schema:
            changes["schema"] = {name: part for name, part in schema.items() if name != "$schema"}
        return evolve(self, **changes)

    return evolved


def _size(data: Json) -> int:
    if is_object(data):
        return 1 + sum(map(_size, data.values()))
    return 1 + sum(map(_size, data)) if is_array(data) else 1
