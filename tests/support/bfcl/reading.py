"""BFCL's function definitions and ground truths as JSON Schemas and plain arguments.

A definition names types in its own words: `dict` is an object, `float` a number, `tuple` a list, `any` anything at all.
Only these words are translated. What does not fit besides (an `enum` of a list that means its items, a default of
null for a text) stays as it was written, so some of BFCL's own answers do not fit their definitions: `misfits` says so.

A ground truth lists for each argument the values that count as right, and so it does within objects; `""` among them,
or an empty list, says that the argument may be left out. Of these we take the first one that fits the argument's own
schema; where none does, an argument that may be left out is left out, and of any other the first value stands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from jsonschema import Draft202012Validator

from downstream.json_shape import is_array, is_object

Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Json]

_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
_ABSENT = object()


@dataclass(frozen=True)
class Call:
    """A call that a ground truth asks for."""

    tool: str
    arguments: JsonObject


@dataclass(frozen=True)
class Item:
    """A question of BFCL without its words: its tools by name, as a server lists them, and the calls that are right."""

    id: str
    tools: Mapping[str, JsonObject]
    calls: tuple[Call, ...]

    def misfits(self, call: Call) -> list[str]:
        """What of a call does not fit the tool's own schema."""
        validator: Any = Draft202012Validator(self.tools[call.tool]["inputSchema"])
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(call.arguments)]

    @property
    def fits(self) -> bool:
        return not any(map(self.misfits, self.calls))


def item_of(raw: Json) -> Item:
    """An item as the package has it: `id`, `function` and, from the file of answers, `ground_truth`."""
    tools = {function["name"]: _tool(function) for function in raw["function"]}
    calls = [_call(name, answer, tools) for each in raw["ground_truth"] for name, answer in each.items()]
    return Item(raw["id"], tools, tuple(calls))


def _tool(function: Json) -> JsonObject:
    return {
        "name": function["name"],
        "description": function["description"],
        "inputSchema": schema_of(function["parameters"]),
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


def schema_of(definition: JsonObject) -> JsonObject:
    """The definition of an argument, or of all of them, as a JSON Schema."""
    schema = {key: part for key, part in definition.items() if (key, part) != ("type", "any")}
    if (kind := schema.get("type")) in _TYPES:
        schema["type"] = _TYPES[kind]
    if is_object(fields := schema.get("properties")):
        schema["properties"] = {name: schema_of(field) for name, field in fields.items()}
    if is_object(items := schema.get("items")):
        schema["items"] = schema_of(items)
    return schema


def _call(name: str, answer: JsonObject, tools: Mapping[str, JsonObject]) -> Call:
    return Call(name, _fields(answer, tools[name]["inputSchema"]))


def _fields(answer: JsonObject, schema: JsonObject) -> JsonObject:
    known, required = schema.get("properties", {}), schema.get("required", ())
    taken = {name: _taken(values, known.get(name, {}), name in required) for name, values in answer.items()}
    return {name: value for name, value in taken.items() if value is not _ABSENT}


def _taken(values: Json, schema: JsonObject, required: bool) -> Json:
    """The value that is taken for an argument; some fields of objects have just the one, not in a list."""
    listed = values if is_array(values) else [values]
    optional = not required and "" in listed
    ways = [_plain(value, schema) for value in listed if not (optional and value == "")]
    validator: Any = Draft202012Validator(schema)
    fitting = [way for way in ways if validator.is_valid(way)]
    if not fitting and (optional or not ways):
        return _ABSENT
    return (fitting or ways)[0]


def _plain(value: Json, schema: JsonObject) -> Json:
    if is_object(value):
        return _fields(value, schema)
    if is_array(value):
        return [_plain(item, schema.get("items", {})) if is_object(item) else item for item in value]
    return value
