"""Arguments made from a tool's input schema: the same ones each time, with hints where a schema cannot say it all."""

from collections.abc import Mapping
from dataclasses import dataclass

from downstream.json_shape import is_object
from journal.values import Json, JsonObject

_DEEPEST = 8
_FORMATS = {
    "date": "2026-01-02",
    "date-time": "2026-01-02T03:04:05Z",
    "email": "ada@example.org",
    "time": "03:04:05Z",
    "uri": "http://127.0.0.1/",
    "url": "http://127.0.0.1/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def made_arguments(schema: JsonObject, hints: Mapping[str, Json] | None = None) -> JsonObject:
    """Every required argument and every hinted one; `hints` are values by name, which count at any depth."""
    return _Making(schema, hints or {}).object(schema, 0)


@dataclass(frozen=True)
class _Making:
    root: JsonObject
    hints: Mapping[str, Json]

    def object(self, schema: JsonObject, depth: int) -> JsonObject:
        properties: JsonObject = schema.get("properties") or {}
        wanted = [name for name in properties if name in schema.get("required", ()) or name in self.hints]
        return {
            name: self.hints[name] if name in self.hints else self._value(properties[name], depth + 1)
            for name in wanted
        }

    def _value(self, schema: Json, depth: int) -> Json:
        if not is_object(schema):
            return "hours"
        if schema.get("default") is not None:
            return schema["default"]
        schema = self._resolved(schema)
        if "const" in schema:
            return schema["const"]
        choices = schema.get("enum") or schema.get("examples")
        return choices[0] if choices else self._of_type(schema, depth)

    def _of_type(self, schema: JsonObject, depth: int) -> Json:
        match _type(schema):
            case "object":
                return self.object(schema, depth) if depth < _DEEPEST else {}
            case "array":
                count = schema.get("minItems", 1) if depth < _DEEPEST else 0
                return [self._value(schema.get("items"), depth + 1) for _ in range(count)]
            case "integer" | "number":
                return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
            case "boolean":
                return False
            case _:
                return _FORMATS.get(schema.get("format", ""), "hours").ljust(schema.get("minLength", 0), "s")

    def _resolved(self, schema: JsonObject) -> JsonObject:
        """The schema behind a local reference, and the first branch of a union that is not null."""
        if "$ref" in schema:
            found: Json = self.root
            for part in str(schema["$ref"]).removeprefix("#/").split("/"):
                found = found[part]
            return self._resolved(found)
        unions: list[JsonObject] = schema.get("anyOf") or schema.get("oneOf") or []
        branch = next((branch for branch in unions if branch.get("type") != "null"), None)
        return schema if branch is None else self._resolved(branch)


def _type(schema: JsonObject) -> str:
    named: Json = schema.get("type", "object" if "properties" in schema else "string")
    return named if isinstance(named, str) else next(each for each in named if each != "null")
