"""Parts of JSON Schemas as servers write them, put into one form: whatever is no schema counts as not written."""

from collections.abc import Sequence
from urllib.parse import unquote

from downstream.json_shape import is_array, is_object
from journal.values import Json, JsonObject

from .schema_words import TELLING, described, fits

_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
IMPLYING: dict[str, tuple[str, ...]] = {
    "object": ("properties", "required", *TELLING["object"]),
    "array": ("items", "prefixItems", *TELLING["array"]),
    "string": TELLING["string"],
    "number": TELLING["number"],
}
"""The keywords that let a type be guessed where none is said."""
_SCALARS: tuple[JsonObject, ...] = ({"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "object"})


def any_value() -> JsonObject:
    """A schema that any value fits: providers want a type to be said, so all of them are."""
    return {"anyOf": [*_SCALARS, {"type": "array", "items": {"anyOf": list(_SCALARS)}}]}


def at_pointer(document: Json, reference: str) -> Json:
    """The part of the document that a reference names by its path; None for any other reference."""
    found: Json = document if reference == "#" or reference.startswith("#/") else None
    for part in reference[1:].split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if is_array(found):
            found = found[int(name)] if name.isdecimal() and len(name) < 10 and int(name) < len(found) else None
        else:
            found = found.get(name) if is_object(found) else None
    return found


def kind_of(schema: Json) -> Json:
    """The type that a part says it has."""
    return schema.get("type") if is_object(schema) else None


def merged(one: JsonObject, other: JsonObject) -> JsonObject:
    """A schema for what fits both; where they differ on a keyword, the first one's counts."""
    both = other | one
    if is_object(mine := one.get("properties")) and is_object(theirs := other.get("properties")):
        shared = {name: {"allOf": [mine[name], theirs[name]]} for name in mine if name in theirs}
        both["properties"] = mine | theirs | {name: part for name, part in shared.items() if mine[name] != theirs[name]}
    if is_array(mine := one.get("required")) and is_array(theirs := other.get("required")):
        both["required"] = [*mine, *(name for name in theirs if name not in mine)]
    if (extra := _alternatives(other)) and _alternatives(one):
        # Of two sets of alternatives one can be shown; the fields that only the other names are still allowed.
        shown = _fields_of(_alternatives(one))
        more: JsonObject = {name: {"anyOf": some} for name, some in _fields_of(extra).items() if name not in shown}
        known: Json = both.get("properties")
        both |= {"properties": more | (known if is_object(known) else {})} if more else {}
        both |= {key: one.get(key) for key in ("anyOf", "oneOf")}
    return both


def _fields_of(alternatives: list[Json]) -> dict[str, list[Json]]:
    """By name, what the alternatives say of a field."""
    named: dict[str, list[Json]] = {}
    for part in alternatives:
        fields: Json = part.get("properties") if is_object(part) else None
        for name, field in fields.items() if is_object(fields) else ():
            named.setdefault(name, []).append(field)
    return named


def _alternatives(schema: JsonObject) -> list[Json]:
    return [each for key in ("anyOf", "oneOf") if is_array(schema.get(key)) for each in schema[key]]


def tidy(schema: JsonObject) -> JsonObject:
    """The part with `type` as a list, `anyOf` for `oneOf`, `enum` for `const`, and without keywords that hold junk."""
    whole = {key: item for key, item in schema.items() if key not in ("oneOf", "anyOf", "const", "type", "nullable")}
    for key, is_right in (
        ("properties", is_object),
        ("required", is_array),
        ("enum", is_array),
        ("prefixItems", is_array),
    ):
        if not is_right(whole.get(key)):
            whole.pop(key, None)
    if not isinstance(whole.get("description", ""), str):
        del whole["description"]
    whole["required"] = [name for name in whole.get("required", ()) if isinstance(name, str)]
    if not whole["required"]:
        del whole["required"]
    if "const" in schema:
        whole["enum"] = [schema["const"]]
    if alternatives := _alternatives(schema):
        whole["anyOf"] = alternatives
    kinds = _kinds(schema.get("type")) or _kinds_of(whole.get("enum", ()))
    if schema.get("nullable") is True and kinds:
        kinds.append("null")
    return whole | ({"type": kinds} if kinds else {})


def _kinds(written: Json) -> list[str]:
    listed: list[Json] = written if is_array(written) else [written]
    return list(dict.fromkeys(kind for kind in listed if kind in _TYPES))


def _kinds_of(choices: Sequence[Json]) -> list[str]:
    """The types of the values of an `enum`; a whole number among others counts as a number."""
    kinds = [kind for kind in _TYPES[1:] if any(fits(item, kind) for item in choices)]
    if "integer" in kinds and any(fits(item, "number") and not fits(item, "integer") for item in choices):
        kinds.remove("integer")
    elif "integer" in kinds:
        kinds.remove("number")
    return ["null"] * (None in choices) + kinds


def widened(base: JsonObject, branches: Sequence[JsonObject]) -> JsonObject:
    """One object that each of the plain alternatives fits; which of them there are is told in words."""
    objects = [each for branch in branches for each in branch.get("anyOf", [branch]) if each.get("type") == "object"]
    fields: JsonObject = {}
    for branch in objects:
        for name, field in branch.get("properties", {}).items():
            fields[name] = _either(fields[name], field) if name in fields else field
    common = [set(branch.get("required", ())) for branch in objects]
    required = sorted(set(base.get("required", ())).union(set[str].intersection(*common) if common else ()))
    wide = base | {"properties": fields | base.get("properties", {})}
    if required:
        wide["required"] = required
    told = dict.fromkeys("{" + ", ".join(_named(each)) + "}" for each in objects)
    return described(wide, [f"alternatives: {'; '.join(told)}"] if len(told) > 1 else [])


def _either(one: JsonObject, other: JsonObject) -> JsonObject:
    """A field that both of these fit."""
    if one == other:
        return one
    if "enum" in one and "enum" in other:
        return one | {"enum": list(dict.fromkeys([*one["enum"], *other["enum"]]))}
    branches = [*one.get("anyOf", [one]), *other.get("anyOf", [other])]
    return {"anyOf": [each for number, each in enumerate(branches) if each not in branches[:number]]}


def _named(branch: JsonObject) -> list[str]:
    """What an alternative requires; with its value where there is but one."""
    fields: JsonObject = branch.get("properties", {})
    choices = {name: fields.get(name, {}).get("enum", []) for name in branch.get("required", ())}
    return [f"{name}: {only[0]}" if len(only) == 1 else name for name, only in choices.items()]
