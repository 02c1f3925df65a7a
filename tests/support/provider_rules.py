"""What providers document about the tools that a request offers, as checks; each returns what breaks a rule.

The tools are looked at as they stand in the body of a request.
"""

import re
from collections.abc import Callable, Iterator

from downstream.json_shape import is_array
from journal.values import Json

_TYPES = {"string", "number", "integer", "boolean", "array", "object"}
_REFERENCES = {"$ref", "$defs", "definitions", "$dynamicRef", "$recursiveRef"}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def openai(tools: list[Json]) -> Iterator[str]:
    """Chat completions, tools that are not strict.

    Function calling guide: names of letters, digits, `_`, `-`, at most 64; parameters an object without `oneOf`,
    `anyOf`, `allOf`, `enum`, `const`, `not` at the top; descriptions of functions at most 1,024 characters (the API's
    own error texts); an array says its items.
    """
    for tool in tools:
        function = tool["function"]
        name, schema = function["name"], function["parameters"]
        yield from _name(name, _NAME)
        yield from _top(name, schema)
        if len(function["description"]) > 1_024:
            yield f"{name}: its description has {len(function['description'])} characters"
        if "strict" in function:
            yield f"{name}: strict was not asked for"
        yield from (f"{name}{place}: no items" for place, part in parts(schema) if _lacks_items(part))


def openai_strict(schemas: dict[str, Json]) -> Iterator[str]:
    """Structured outputs guide, supported schemas: objects closed and every field required, `anyOf` not at the top,
    no `allOf`, `not`, `if`; at most 5,000 properties, ten levels, 1,000 enum values, 120,000 characters of names."""
    for name, schema in schemas.items():
        yield from _top(name, schema)
        fields, choices, letters = 0, 0, 0
        for place, part in parts(schema):
            properties, enum = part.get("properties", {}), part.get("enum", [])
            fields, choices = fields + len(properties), choices + len(enum)
            letters += len("".join(map(str, (*properties, *enum))))
            is_closed = part.get("additionalProperties") is False and sorted(part.get("required", ())) == sorted(
                properties
            )
            if part.get("type") == "object" and not is_closed:
                yield f"{name}{place}: not closed, or a field is not required"
            if unknown := part.keys() - {
                *("type", "description", "properties", "required", "additionalProperties", "items", "anyOf", "enum"),
                "format",
            }:
                yield f"{name}{place}: {unknown}"
            if place.count("/properties/") > 10:
                yield f"{name}{place}: too deep"
        if fields > 5_000 or choices > 1_000 or letters > 120_000:
            yield f"{name}: {fields} properties, {choices} enum values, {letters} characters"


def anthropic(tools: list[Json]) -> Iterator[str]:
    """Messages API, tools: names `^[a-zA-Z0-9_-]{1,64}$`; `input_schema` of type object, without `$ref` and without
    `oneOf`, `anyOf`, `allOf` at the top; names of properties `^[a-zA-Z0-9_.-]{1,64}$`."""
    for tool in tools:
        name, schema = tool["name"], tool["input_schema"]
        yield from _name(name, _NAME)
        yield from _top(name, schema)
        yield from (f"{name}: property {key!r}" for key in schema["properties"] if not _key(key, "a-zA-Z0-9_.-"))
        yield from (
            f"{name}{place}: {part.keys() & _REFERENCES}" for place, part in parts(schema) if part.keys() & _REFERENCES
        )


def gemini(tools: list[Json]) -> Iterator[str]:
    """FunctionDeclaration and Schema: a name begins with a letter or `_`; a select subset of OpenAPI 3.0, where each
    part says its type or is an `anyOf` alone, arrays say their items, `enum` is of texts that are not empty, a format
    of a text is `enum` or `date-time`; parameters are named by letters, digits and `_`."""
    known = {
        *("type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties"),
        *("required", "propertyOrdering", "items", "anyOf", "minimum", "maximum", "minLength", "maxLength", "pattern"),
        *("minProperties", "maxProperties", "default", "example"),
    }
    for tool in tools:
        name, schema = tool["name"], tool.get("parameters", {"type": "OBJECT"})
        yield from _name(name, re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}"))
        yield from _top(name, schema)
        yield from (f"{name}: parameter {key!r}" for key in schema.get("properties", {}) if not _key(key, "a-zA-Z0-9_"))
        for place, part in parts(schema):
            kind = str(part.get("type", "")).lower()
            if part.keys() - known:
                yield f"{name}{place}: {sorted(part.keys() - known)}"
            if kind not in _TYPES if "anyOf" not in part else part.keys() - {"anyOf"}:
                yield f"{name}{place}: type {kind!r}, {sorted(part)}"
            if _lacks_items(part | {"type": kind}):
                yield f"{name}{place}: no items"
            if "enum" in part and not (part["enum"] and all(isinstance(each, str) and each for each in part["enum"])):
                yield f"{name}{place}: enum {part['enum']}"
            if "format" in part and kind == "string" and part["format"] not in ("enum", "date-time"):
                yield f"{name}{place}: format {part['format']}"
            if kind == "object" and part.get("properties") == {}:
                yield f"{name}{place}: properties should be non-empty"
            if unknown := set(part.get("required", ())) - part.get("properties", {}).keys():
                yield f"{name}{place}: requires {unknown}"


def bedrock(tools: list[Json]) -> Iterator[str]:
    """Converse, ToolSpecification: name `[a-zA-Z0-9_-]+` of 1 to 64, description of at least one character, the top of
    the schema of type object; Amazon Nova takes type, properties and required there and nothing else; models of
    Anthropic refuse what Anthropic refuses."""
    for tool in (each["toolSpec"] for each in tools):
        name, schema = tool["name"], tool["inputSchema"]["json"]
        if not tool["description"]:
            yield f"{name}: no description"
        if extra := schema.keys() - {"type", "properties", "required"}:
            yield f"{name}: {sorted(extra)} at the top"
        yield from anthropic([{"name": name, "input_schema": schema}])


def ollama(tools: list[Json]) -> Iterator[str]:
    """Chat, as the server's own types read it: parameters with a type and properties; each property has a type (one
    text or a list) or `anyOf`, and an `enum` is a list."""
    for tool in tools:
        function = tool["function"]
        name, schema = function["name"], function["parameters"]
        yield from _name(name, _NAME)
        yield from _top(name, schema)
        for place, part in parts(schema):
            kinds = part["type"] if is_array(part.get("type")) else [part.get("type")]
            if not _TYPES.issuperset(kinds) and "anyOf" not in part:
                yield f"{name}{place}: type {part.get('type')!r}"
            if part.keys() & _REFERENCES or not isinstance(part.get("enum", []), list):
                yield f"{name}{place}: {sorted(part)}"


RULES: dict[str, Callable[[list[Json]], Iterator[str]]] = {
    "openai": openai,
    "anthropic": anthropic,
    "gemini": gemini,
    "bedrock": bedrock,
    "ollama": ollama,
}


def parts(schema: Json, place: str = "") -> Iterator[tuple[str, dict[str, Json]]]:
    """Every part of a schema, with its place."""
    yield place, schema
    for name, part in schema.get("properties", {}).items():
        yield from parts(part, f"{place}/properties/{name}")
    if "items" in schema:
        yield from parts(schema["items"], f"{place}/items")
    for number, part in enumerate(schema.get("anyOf", ())):
        yield from parts(part, f"{place}/anyOf/{number}")


def _name(name: str, form: re.Pattern[str]) -> Iterator[str]:
    if not form.fullmatch(name):
        yield f"{name!r} is no name"


def _key(key: str, letters: str) -> bool:
    first = "" if "." in letters else "(?![0-9])"
    return re.fullmatch(rf"{first}[{letters}]{{1,64}}", key) is not None


def _top(name: str, schema: Json) -> Iterator[str]:
    refused = {"oneOf", "anyOf", "allOf", "enum", "const", "not"} & schema.keys()
    if str(schema.get("type")).lower() != "object" or refused:
        yield f"{name}: {schema.get('type')} with {refused} at the top"


def _lacks_items(part: Json) -> bool:
    return part.get("type") == "array" and not part.get("items")
