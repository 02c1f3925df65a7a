"""JSON Schemas in the part of the language that every provider takes; the original stays the judge of what comes back.

Out go references, `oneOf`, `allOf`, `const`, type lists and keywords that providers refuse; what they said moves into
descriptions.
"""

import json
from collections.abc import Iterable
from functools import reduce

from downstream.json_shape import is_array, is_object
from journal.values import Json, JsonObject

_DEEPEST = 12
_BOUNDS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"}
)
_NOTED = _BOUNDS | {"minLength", "maxLength", "pattern", "format", "default"}
_FORMATS = frozenset({"date-time", "date", "time", "email", "uuid", "uri"})
_KEPT = frozenset({"type", "required", "description", "anyOf", "enum"})
_SCALARS = (("boolean", bool), ("integer", int), ("number", int | float), ("string", str))


def for_function(schema: Json) -> JsonObject:
    """The schema of a function's arguments: an object, closed where the original does not say that it is open."""
    return _Plain(schema, strict=False).root(schema)


def for_reply(schema: JsonObject) -> JsonObject:
    """The schema of a reply: closed all the way down, every field required and left empty where it does not apply.

    An open object `x` is asked for as a text `x_json`; `replies.tidied` reads it back.
    """
    return _Plain(schema, strict=True).root(schema)


class _Plain:
    def __init__(self, document: Json, *, strict: bool) -> None:
        self.document = document
        self.strict = strict

    def root(self, schema: Json) -> JsonObject:
        plain = self.at(schema, 0, ())
        union = plain.pop("anyOf", None)
        if union:
            plain = self.at(_widened(plain, union), 0, ())
        plain.setdefault("properties", {})
        return plain | {"type": "object"}

    def at(self, schema: Json, depth: int, through: tuple[str, ...]) -> JsonObject:
        """The plain form of a part; `through` are the references followed to it."""
        if not is_object(schema) or not schema:
            return {}
        if depth > _DEEPEST:
            return {"type": "object"}
        if "$ref" in schema:
            return self._referred(schema, depth, through)
        if is_array(parts := schema.get("allOf")):
            rest = {key: item for key, item in schema.items() if key != "allOf"}
            schema = reduce(_merged, (self.at(part, depth + 1, through) for part in parts), rest)
        schema = _flat(schema)
        if is_array(branches := schema.pop("anyOf", None)):
            schema = _joined(
                schema, [self.at(branch, depth + 1, through) for branch in branches if not _is_null(branch)]
            )
        plain, notes = _keywords(schema)
        self._inside(plain, schema, depth, through)
        return _described(plain, notes)

    def _referred(self, schema: JsonObject, depth: int, through: tuple[str, ...]) -> JsonObject:
        name = str(schema["$ref"])
        target = _at_pointer(self.document, name)
        rest = {key: item for key, item in schema.items() if key != "$ref"}
        if target is None or name in through:
            return {"type": "object", "description": rest.get("description") or "nested, of the same shape"}
        return self.at({**target, **rest}, depth + 1, (*through, name))

    def _inside(self, plain: JsonObject, schema: JsonObject, depth: int, through: tuple[str, ...]) -> None:
        """Add what stands below: properties, items, and a type where none is said."""
        if is_object(properties := schema.get("properties")):
            plain["properties"] = {name: self.at(item, depth + 1, through) for name, item in properties.items()}
        if "items" in schema or plain.get("type") == "array":
            plain["items"] = self.at(schema.get("items"), depth + 1, through) or {"type": "string"}
        if "type" not in plain and "anyOf" not in plain:
            plain["type"] = _implied(plain, depth)
        if plain.get("type") != "object":
            plain.pop("required", None)
            return
        known: JsonObject = plain.get("properties", {})
        required = [name for name in plain.pop("required", ()) if name in known]
        if required:
            plain["required"] = required
        if known and not schema.get("additionalProperties"):
            plain["additionalProperties"] = False
            if self.strict:
                _close(plain)


def _close(plain: JsonObject) -> None:
    """Have every field required, under the name that it is asked for by."""
    required: list[str] = plain.get("required", [])
    fields: JsonObject = {}
    for name, field in plain["properties"].items():
        asked = name
        if _is_open(field):
            asked = f"{name}_json"
            field = _described(
                {"type": "string", "description": field.get("description", "")}, ["a JSON object as text"]
            )
        if name not in required and field.get("type") in ("string", "array") and "enum" not in field:
            field = _described(field, ["empty where it does not apply"])
        fields[asked] = field
    plain["properties"], plain["required"] = fields, list(fields)


def _is_open(field: JsonObject) -> bool:
    return not field or (field.get("type") == "object" and not field.get("properties"))


def _flat(schema: JsonObject) -> JsonObject:
    """Without `oneOf`, `const` and type lists."""
    flat = dict(schema)
    if "oneOf" in flat:
        flat["anyOf"] = [*flat.get("anyOf", []), *flat.pop("oneOf")]
    if "const" in flat:
        flat["enum"] = [flat.pop("const")]
    kinds: Json = flat.get("type")
    if is_array(kinds):
        named = [kind for kind in kinds if kind != "null"] or ["string"]
        if len(named) == 1:
            flat["type"] = named[0]
        else:
            del flat["type"]
            shape = {key: flat.pop(key) for key in ("items", "properties", "required") if key in flat}
            kinds = [shape | {"type": kind} if kind in ("array", "object") else {"type": kind} for kind in named]
            flat.setdefault("anyOf", kinds)
    return flat


def _joined(schema: JsonObject, branches: Iterable[JsonObject]) -> JsonObject:
    """A schema with its alternatives put back: one alone is no alternative, and beside properties they are widened."""
    distinct: list[JsonObject] = []
    for branch in branches:
        if branch not in distinct:
            distinct.append(branch)
    if not distinct:
        return schema
    if len(distinct) == 1:
        return {**distinct[0], **{key: item for key, item in schema.items() if key != "type"}}
    if "properties" in schema:
        return _widened(schema, distinct)
    return {key: item for key, item in schema.items() if key != "type"} | {"anyOf": distinct}


def _widened(schema: JsonObject, branches: list[JsonObject]) -> JsonObject:
    """One object that any of the alternatives fits; which of them there are is told in words."""
    properties: JsonObject = {}
    for branch in branches:
        properties.update(branch.get("properties", {}))
    common = set[str].intersection(*(set(branch.get("required", ())) for branch in branches))
    wide = schema | {"type": "object", "properties": properties | schema.get("properties", {})}
    wide["required"] = sorted(common | set(schema.get("required", ())))
    told = "; ".join("{" + ", ".join(branch.get("required", ())) + "}" for branch in branches)
    return _described(wide, [f"alternatives: {told}"])


def _keywords(schema: JsonObject) -> tuple[JsonObject, list[str]]:
    """What may stay as it is, and in words what may not."""
    plain: JsonObject = {}
    notes: list[str] = []
    for key, item in schema.items():
        if key == "format" and item in _FORMATS:
            plain[key] = item
        elif key in _NOTED and item is not None:
            notes.append(f"{key} {json.dumps(item, ensure_ascii=False)}")
        elif key in _KEPT:
            plain[key] = item
    choices: list[Json] = [item for item in plain.pop("enum", ()) if item is not None]
    if choices and all(isinstance(item, str) for item in choices):
        plain |= {"enum": choices, "type": "string"}
    elif choices:
        notes.append(f"one of {json.dumps(choices, ensure_ascii=False)}")
        plain.setdefault("type", _common_type(choices))
    return plain, notes


def _common_type(items: list[Json]) -> str:
    fitting = (name for name, kind in _SCALARS if all(isinstance(item, kind) for item in items))
    return next(fitting, "string")


def _implied(plain: JsonObject, depth: int) -> str:
    if "properties" in plain or depth == 0:
        return "object"
    return "array" if "items" in plain else "string"


def _described(schema: JsonObject, notes: list[str]) -> JsonObject:
    if not notes:
        return schema
    words: str = schema.get("description") or ""
    return schema | {"description": f"{words} ({', '.join(notes)})".strip()}


def _merged(one: JsonObject, other: JsonObject) -> JsonObject:
    both = {**other, **one}
    if "properties" in one and "properties" in other:
        both["properties"] = one["properties"] | other["properties"]
    if "required" in one and "required" in other:
        both["required"] = sorted({*one["required"], *other["required"]})
    return both


def _is_null(schema: Json) -> bool:
    return is_object(schema) and schema.get("type") == "null"


def _at_pointer(document: Json, reference: str) -> JsonObject | None:
    """The schema within the document that a local reference names."""
    if not reference.startswith("#"):
        return None
    found = document
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if is_object(found) else None
    return found if is_object(found) else None
