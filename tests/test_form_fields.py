"""Forms of tool servers: which are taken, what fits them, and what is said about the rest."""

import math
from typing import Any

import pytest

from downstream.gate.form_fields import BadForm, ContentUnfit, fields_of, fitted
from journal.values import Json, JsonObject


def form(*required: str, **fields: Any) -> JsonObject:
    return {"type": "object", "properties": fields, "required": list(required)}


TEXT = {"type": "string", "minLength": 2, "maxLength": 4}
MANY = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 2}
TITLED = {"type": "string", "oneOf": [{"const": "a", "title": "First"}, {"const": "b", "title": "Second"}]}

FITS: list[tuple[JsonObject, Json]] = [
    (TEXT, "four"),
    ({"type": "string", "format": "email"}, "ann@example.org"),
    ({"type": "string", "format": "uri"}, "https://example.org/x"),
    ({"type": "string", "format": "date"}, "2026-01-31"),
    ({"type": "string", "format": "date-time"}, "2026-01-31T09:30:00Z"),
    ({"type": "string", "format": "of ours"}, "whatever"),
    ({"type": "integer", "minimum": 1}, 1),
    ({"type": "number", "maximum": 1}, 0.5),
    ({"type": "boolean"}, False),
    (TITLED, "b"),
    ({"enum": ["a", "b"]}, "a"),
    (MANY, ["a", "c"]),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 3),
    ({"type": ["string", "null"], "minLength": 2}, "ab"),
    ({"type": ["null", "integer"]}, 3),
    ({"type": "string", "format": []}, "whatever"),
    ({"type": "integer", "minimum": -(10**400), "maximum": 10**400}, 10**20),
    ({"type": "number", "minimum": math.nan}, 1e300),
    ({"$ref": "#/$defs/Color"}, "red"),
]


@pytest.mark.parametrize(("field", "value"), FITS)
def test_what_fits_goes_to_the_server_as_it_is(field: JsonObject, value: Json) -> None:
    schema = form("x", x=field) | {"$defs": {"Color": {"type": "string", "enum": ["red"]}}}
    assert fitted(fields_of(schema), {"x": value}) == {"x": value}


MISFITS: list[tuple[JsonObject, Json, str]] = [
    (TEXT, "f", "a text from 2 to 4 characters"),
    (TEXT, "fiver", "a text from 2 to 4 characters"),
    (TEXT, 5, "a text from 2 to 4 characters"),
    ({"type": "string", "minLength": 3}, "", "a text of at least 3 characters"),
    ({"type": "string", "maxLength": 3}, "four", "a text of at most 3 characters"),
    ({"type": "string"}, "x" * 20_001, "a text"),
    ({"type": "string", "format": "email"}, "ann", "an e-mail address"),
    ({"type": "string", "format": "uri"}, "no address", "an address such as https://example.com"),
    ({"type": "string", "format": "uri"}, "http://[", "an address such as https://example.com"),
    ({"type": "string", "format": "date"}, "31.1.2026", "a date such as 2026-01-31"),
    ({"type": "string", "format": "date-time"}, "2026-01-31", "a time such as 2026-01-31T09:30:00Z"),
    ({"type": "integer", "minimum": 1}, 0, "a whole number of at least 1"),
    ({"type": "integer"}, 1.5, "a whole number"),
    ({"type": "integer"}, True, "a whole number"),
    ({"type": "number", "maximum": 1}, 2, "a number of at most 1"),
    ({"type": "number"}, math.inf, "a number"),
    ({"type": "number"}, math.nan, "a number"),
    ({"type": "boolean"}, "true", "true or false"),
    (TITLED, "First", 'one of "a", "b"'),
    (MANY, [], 'a list from 1 to 2 of "a", "b", "c"'),
    (MANY, ["a", "d"], 'a list from 1 to 2 of "a", "b", "c"'),
    (MANY, "a", 'a list from 1 to 2 of "a", "b", "c"'),
]


@pytest.mark.parametrize(("field", "value", "takes"), MISFITS)
def test_what_does_not_fit_is_said_without_the_value(field: JsonObject, value: Json, takes: str) -> None:
    with pytest.raises(ContentUnfit) as unfit:
        fitted(fields_of(form(x=field)), {"x": value})
    assert unfit.value.errors == [f'"x" takes {takes}']


@pytest.mark.parametrize("kind", ["number", "integer"])
def test_an_integer_too_large_to_compare_is_a_misfit_and_no_error(kind: str) -> None:
    with pytest.raises(ContentUnfit):
        fitted(fields_of(form(x={"type": kind})), {"x": 10**400})


def test_all_errors_are_told_at_once_and_null_counts_as_left_open() -> None:
    fields = fields_of(form("a", "b", a=TEXT, b={"type": "integer"}, c={"type": "boolean"}))
    with pytest.raises(ContentUnfit) as unfit:
        fitted(fields, {"b": None, "c": 1, "d": 1})
    missing = ['"a" is missing', '"b" is missing']
    assert unfit.value.errors == ['the form has no field "d"', *missing, '"c" takes true or false']
    assert fitted(fields, {"a": "ab", "b": 2.0, "c": None}) == {"a": "ab", "b": 2}
    assert fitted(fields_of(form()), None) == {}
    with pytest.raises(ContentUnfit, match='an object with "a", "b", "c"'):
        fitted(fields, ["ab", 2])


BAD: dict[str, tuple[JsonObject, str]] = {
    "no object": ({"type": "array"}, "no object with properties"),
    "properties that are none": ({"properties": []}, "no object with properties"),
    "too many": (form(**{f"f{n}": TEXT for n in range(41)}), "41 fields"),
    "a field in a field": (form(x={"type": "object", "properties": {}}), "is none of text"),
    "no field at all": (form(x=5), "is none of text"),
    "several kinds at once": (form(x={"type": ["string", "integer"]}), "is none of text"),
    "no kind but null": (form(x={"type": ["null"]}), "is none of text"),
    "a kind that is no name": (form(x={"type": [["string"]]}), "is none of text"),
    "definitions that are none": (form(x={"$ref": "#/$defs/x"}) | {"$defs": None}, "is none of text"),
    "a definition that is missing": (form(x={"$ref": "#/$defs/x"}) | {"$defs": {}}, "is none of text"),
    "a list of anything": (form(x={"type": "array", "items": {"type": "string"}}), "is none of text"),
    "a name that is not seen": (form(**{"a\u200bb": TEXT}), "cannot be shown as it is"),
    "a choice that is not seen": (form(x={"enum": ["a", "\u202eb"]}), 'the choices of field "x"'),
    "a choice that is no text": (form(x={"enum": ["a", 5]}), 'the choices of field "x"'),
    "no choice": (form(x={"enum": []}), 'the choices of field "x"'),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_form_is_named(what: str) -> None:
    schema, why = BAD[what]
    with pytest.raises(BadForm, match=why):
        fields_of(schema)


@pytest.mark.parametrize("bad", [{"required": "a"}, {"required": ["z"]}], ids=["a text", "an unknown name"])
def test_what_is_odd_about_a_form_but_does_no_harm_is_read_past(bad: JsonObject) -> None:
    (field,) = fields_of({"properties": {"a": {"type": "string", "title": 5, "minLength": "x"}}} | bad)
    assert (field.required, field.title, field.takes) == (False, "", "a text")


@pytest.mark.parametrize("name", ["password", "apiKey", "api_key", "card-number", "PIN", "access_token"])
def test_a_field_that_asks_for_a_secret_is_noticed(name: str) -> None:
    assert [field.looks_secret for field in fields_of(form(**{name: TEXT}, shipping=TEXT))] == [True, False]


def test_a_field_as_we_pass_it_on_says_exactly_what_fits() -> None:
    fields = fields_of(form(x=TEXT, y=MANY, z={"type": "string", "format": "date"}, t=TITLED))
    assert [field.to_schema() for field in fields] == [
        TEXT,
        MANY,
        {"type": "string", "format": "date"},
        {"type": "string", "enum": ["a", "b"]},
    ]
