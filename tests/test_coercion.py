"""Arguments that a model wrote down in another way than the tool's schema has them."""

from pathlib import Path
from typing import Any, TypeAlias

import pytest
from gate_case import PLAN, Server, call, open_runs, tool, worker_call
from hypothesis import given
from hypothesis import strategies as st

from downstream.door import Arguments, Called, Refused, Waiting
from downstream.gate.argument_check import argument_errors
from downstream.gate.argument_reading import Reading, read_arguments
from downstream.models.parameters import original_names, parameters_of
from journal.canonical import digest

Json: TypeAlias = Any
NODE: Json = {"type": "object", "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}}}
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 0},
        "share": {"type": "number"},
        "deep": {"type": "boolean"},
        "body": {"type": "object", "properties": {"to": {"type": "array", "items": {"type": "string"}}}},
        "to": {"type": "array", "items": {"type": "string"}},
        "ids": {"type": "array", "items": {"type": "integer"}},
        "note": {"type": "string"},
        "state": {"type": "string", "enum": ["open", "closed"]},
        "cases": {"enum": ["a", "A", "b"]},
        "level": {"enum": [1, 2]},
        "maybe": {"type": ["integer", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
        "shape": {
            "oneOf": [
                {"type": "object", "properties": {"kind": {"const": "dot"}, "size": {"type": "integer"}}},
                {"type": "object", "properties": {"kind": {"const": "line"}, "size": {"type": "boolean"}}},
            ]
        },
        "node": {"$ref": "#/$defs/Node"},
        "all": {"allOf": [{"properties": {"n": {"type": "integer"}}}, {"properties": {"b": {"type": "boolean"}}}]},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "turn": {"anyOf": [{"enum": ["Left"]}, {"enum": ["LEFT"]}]},
        "free": {},
    },
    "additionalProperties": False,
    "$defs": {"Node": NODE},
}


def deep(value: Json, levels: int) -> Json:
    return {"n": value} if levels == 0 else {"next": deep(value, levels - 1)}


def read(arguments: Json, schema: Json = SCHEMA) -> Reading:
    return read_arguments(schema, Arguments(arguments, PLAN))


@pytest.mark.parametrize(
    ("given", "meant", "said"),
    [
        ({"count": "5"}, {"count": 5}, '/count "5" as 5'),
        ({"count": " 5.0 "}, {"count": 5}, '/count " 5.0 " as 5'),
        ({"share": "-1.5e2"}, {"share": -150.0}, '/share "-1.5e2" as -150.0'),
        ({"deep": "True"}, {"deep": True}, '/deep "True" as true'),
        ({"body": '{"to": "ana"}'}, {"body": {"to": ["ana"]}}, None),
        ({"body": {"to": '["ana", "bo"]'}}, {"body": {"to": ["ana", "bo"]}}, None),
        ({"to": "ana"}, {"to": ["ana"]}, '/to "ana" as ["ana"]'),
        ({"ids": ["1", 2]}, {"ids": [1, 2]}, '/ids/0 "1" as 1'),
        ({"ids": "3"}, {"ids": [3]}, '/ids "3" as [3]'),
        ({"note": None}, {}, "/note left out"),
        ({"state": " Open"}, {"state": "open"}, '/state " Open" as "open"'),
        ({"level": "2"}, {"level": 2}, '/level "2" as 2'),
        ({"maybe": "null"}, {"maybe": None}, '/maybe "null" as null'),
        ({"either": "5"}, {"either": 5}, '/either "5" as 5'),
        ({"shape": {"kind": "line", "size": "true"}}, {"shape": {"kind": "line", "size": True}}, None),
        ({"node": {"n": "1", "next": {"n": "2"}}}, {"node": {"n": 1, "next": {"n": 2}}}, None),
        ({"all": {"n": "1", "b": "false"}}, {"all": {"n": 1, "b": False}}, None),
        ({"map": {"x": "1"}}, {"map": {"x": 1}}, '/map/x "1" as 1'),
    ],
    ids=lambda case: str(case)[:40],
)
def test_what_does_not_fit_is_read_as_the_schema_has_it_and_said(given: Json, meant: Json, said: str | None) -> None:
    reading = read(given)
    assert digest(reading.arguments.data) == digest(meant)
    assert reading.read_as == (said,) if said else len(reading.read_as) >= 1


@pytest.mark.parametrize(
    "given",
    [
        {"note": "5", "free": "5"},
        {"note": '{"to": "ana"}', "free": "null"},
        {"maybe": None, "free": None, "share": 5},
        {"count": "five"},
        {"count": "-5"},
        {"count": "5", "share": "much"},
        {"deep": "yes"},
        {"deep": 1},
        {"cases": "aA"},
        {"body": "{oops"},
        {"body": "[1]"},
        {"turn": "left"},
        {"node": deep("1", 70)},
        {"unknown": "5"},
        {"share": "1e999"},
        {"body": '{"to": ' + "[" * 80 + "]" * 80 + "}"},
    ],
    ids=lambda case: str(case)[:40],
)
def test_what_fits_or_what_no_one_way_makes_fit_stays_as_it_was_written(given: Json) -> None:
    assert read(given) == Reading(Arguments(given, PLAN))


def test_of_two_values_that_differ_in_case_only_none_is_chosen() -> None:
    assert read({"cases": " a"}).read_as == ()
    assert read({"cases": "B"}).arguments.data == {"cases": "b"}


def test_where_null_is_the_only_way_to_say_nothing_it_is_put_in() -> None:
    schema = {"type": "object", "properties": {"until": {"type": ["string", "null"]}}, "required": ["until"]}
    reading = read({}, schema)
    assert (reading.arguments.data, reading.read_as) == ({"until": None}, ("/until null",))


@pytest.mark.parametrize("value", [5.0, "5"])
def test_in_the_oldest_dialect_a_whole_number_has_no_point(value: Json) -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"n": {"type": "integer"}},
    }
    meant = read({"n": value}, schema).arguments.data["n"]
    assert (meant, type(meant)) == (5, int)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
        {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}, {"type": "integer"}]}}},
        {"type": "object", "properties": {"a": {"type": "strin"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
    ],
    ids=["missing", "circle", "no type", "no pattern"],
)
def test_a_schema_that_cannot_be_used_leaves_everything_as_it_was(schema: Json) -> None:
    assert read({"a": "x"}, schema) == Reading(Arguments({"a": "x"}, PLAN))


@pytest.mark.parametrize(("branches", "meant"), [(2, 5), (5, "5")], ids=["few", "many"])
def test_a_schema_with_too_many_ways_is_given_up(branches: int, meant: Json) -> None:
    part: Json = {"type": "integer"}
    for _ in range(4):
        part = {"anyOf": [{"allOf": [part]}, *[part | {"minimum": number} for number in range(branches)]]}
    assert read({"a": "5"}, {"type": "object", "properties": {"a": part}}).arguments.data == {"a": meant}


def test_an_argument_with_a_name_that_models_were_not_shown_gets_its_own_again_and_keeps_its_label() -> None:
    schema: Json = {
        "type": "object",
        "properties": {
            "filter[app]": {"type": "string"},
            "filter_app_": {"type": "string"},
            "2nd": {"type": "integer"},
        },
        "required": ["filter[app]"],
        "additionalProperties": False,
    }
    shown = parameters_of(schema).schema
    assert list(shown["properties"]) == ["filter_app__2", "filter_app_", "_2nd"]
    assert shown["required"] == ["filter_app__2"]
    assert shown["properties"]["_2nd"] == {"type": "integer", "description": "(named '2nd')"}
    assert original_names(schema) == {"filter_app__2": "filter[app]", "_2nd": "2nd"}
    mail = frozenset({"private:mail"})
    written = Arguments({"filter_app__2": "x", "_2nd": "2"}, PLAN, {"/filter_app__2": mail})
    reading = read_arguments(schema, written)
    assert reading.arguments == Arguments({"filter[app]": "x", "2nd": 2}, PLAN, {"/filter[app]": mail})
    assert reading.read_as == ("/filter_app__2 as filter[app]", "/_2nd as 2nd", '/2nd "2" as 2')


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=4)
    | st.sampled_from(["5", "true", "null", "[1]", '{"n": "1"}', "Open"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["n", "to", "kind"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(list(SCHEMA["properties"])), VALUES, max_size=4))
def test_what_is_read_anew_fits_and_reading_it_once_more_changes_nothing(arguments: Json) -> None:
    reading = read(arguments)
    if reading.read_as:
        assert argument_errors(SCHEMA, arguments) != []
        assert argument_errors(SCHEMA, reading.arguments.data) == []
        assert read(reading.arguments.data) == Reading(reading.arguments)
    else:
        assert reading.arguments.data == arguments


LIST = tool("notes.list", "read", input_schema=SCHEMA)
SEND = tool("mail.send", "destructive", input_schema=SCHEMA)


async def test_a_call_is_sent_as_it_was_read_and_its_event_says_so(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        written = worker_call("notes.list", {"count": "5", "to": "ana"}, label=PLAN)
        first = await there.door(LIST)(await runs.drive(), written)
        again = await there.door(LIST)(await runs.drive(), written)
        [started] = [each for each in await runs.store.events(runs.run_id) if each.type == "call.started"]
    assert isinstance(first, Called)
    assert first == again
    assert there.sent == [("notes.list", {"count": 5, "to": ["ana"]})]
    assert started.data == {
        "tool": "notes.list",
        "arguments": {"count": 5, "to": ["ana"]},
        "read_as": ['/count "5" as 5', '/to "ana" as ["ana"]'],
    }


async def test_a_person_approves_exactly_what_is_sent(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        written = worker_call("mail.send", {"body": '{"to": "ana"}'}, label=PLAN)
        waiting = await there.door(SEND)(await runs.drive(), written)
        assert isinstance(waiting, Waiting)
        shown = (await runs.store.action(waiting.action)).arguments
        await runs.decide(waiting.action, "approve")
        sent = await there.door(SEND)(await runs.drive(), written)
    assert isinstance(sent, Called)
    assert there.sent == [("mail.send", shown)] == [("mail.send", {"body": {"to": ["ana"]}})]


async def test_what_cannot_be_read_is_refused_with_what_the_model_wrote(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        refused = await there.door(LIST)(await runs.drive(), call("notes.list", {"count": "5", "share": "much"}))
    assert isinstance(refused, Refused)
    assert there.sent == []
    assert "'5' is not of type 'integer'" in refused.reason
    assert "'much' is not of type 'number'" in refused.reason
