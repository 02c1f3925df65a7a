"""JSON Schemas in the part of the language that every provider takes; the original stays the judge of what comes back.

Out go references, `oneOf`, `allOf`, `const`, type lists and keywords that providers refuse; what they said moves into
descriptions. No argument is lost, and whatever fits the original, its nulls aside, fits this too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from downstream.json_shape import is_array, is_object
from journal.values import Json, JsonObject

from .schema_parts import IMPLYING, any_value, at_pointer, kind_of, merged, tidy, widened
from .schema_words import described, keywords

_DEEPEST, _DEEPEST_REPLY = 12, 8
"""OpenAI takes ten levels of a reply."""
_MOST_REFERENCES = 40
_ENDS = ("maxItems",)
_MOST_PARTS, _LEAST_SHARE = 2_000, 100
"""So many parts are looked at, and each argument has its share; what is beyond keeps its type only, if required."""


def for_function(schema: Json) -> JsonObject:
    """The schema of a function's arguments, an object. Takes whatever a server gave for one."""
    return _Plain(schema, strict=False).root(schema)


def for_reply(schema: JsonObject, *, by_grammar: bool = False) -> JsonObject:
    """The schema of a reply: closed all the way down, every field required and left empty where it does not apply.

    An open object `x` is asked for as a text `x_json`; `replies.tidied` reads it back. A server that writes
    `by_grammar` takes more: there optional fields may be left out, objects may be open, and lists have an end.
    """
    return _Plain(schema, strict=not by_grammar, by_grammar=by_grammar).root(schema)


@dataclass(frozen=True)
class _Place:
    """Where in a schema a part stands, and the references followed to it."""

    depth: int = 0
    through: tuple[str, ...] = ()

    def below(self) -> "_Place":
        return replace(self, depth=self.depth + 1)


class _Plain:
    def __init__(self, document: Json, *, strict: bool, by_grammar: bool = False) -> None:
        self.document = document
        self.strict = strict
        self.by_grammar = by_grammar
        self.is_reply = strict or by_grammar
        self.deepest = _DEEPEST_REPLY if self.is_reply else _DEEPEST
        self.left = _MOST_PARTS

    def root(self, schema: Json) -> JsonObject:
        whole, through = self._whole({"type": "object"} if isinstance(schema, bool) else schema, ())
        whole = tidy(whole)
        objects = [kind for kind in whole.pop("type", ()) if kind == "object"]
        if objects or "anyOf" in whole or "properties" in whole:
            # Where a grammar holds the model to one of several shapes, they need not be one.
            plain = self._plain(whole | {"type": ["object"]}, _Place(0, through), wide=not self.by_grammar)
        else:
            plain = {"type": "object"} | {key: item for key, item in whole.items() if key == "description"}
        if self.by_grammar and "anyOf" in plain:
            return plain
        plain.setdefault("properties", {})
        return self._closed(plain) if self.is_reply else plain

    def _at(self, schema: Json, place: _Place) -> JsonObject:
        """The plain form of a part; in a reply, an open one is asked for as text by whoever holds it."""
        plain = self._unclosed(schema, place)
        return self._closed(plain) if self.is_reply and plain.get("properties") else plain

    def _unclosed(self, schema: Json, place: _Place) -> JsonObject:
        whole, through = self._whole(schema, place.through)
        whole = tidy(whole)
        if place.depth >= self.deepest or self.left <= 0:
            kinds = whole.get("type", [])
            return self._plain({"type": kinds} if len(kinds) == 1 else {}, _Place())
        return self._plain(whole, replace(place, through=through))

    def _held(self, schema: Json, place: _Place) -> JsonObject:
        """A part that has no name of its own: an item or an alternative."""
        plain = self._at(schema, place)
        return _as_text(plain) if self.strict and _is_open(plain) else plain

    def _whole(self, schema: Json, through: tuple[str, ...]) -> tuple[JsonObject, tuple[str, ...]]:
        """The part with what it refers to, and its `allOf`, put into it; and the references followed."""
        self.left -= 1
        whole = dict(schema) if is_object(schema) else {}
        reference, parts = whole.pop("$ref", None), whole.pop("allOf", None)
        follow: list[tuple[Json, tuple[str, ...]]] = []
        if isinstance(reference, str):
            target = at_pointer(self.document, reference)
            if reference in through or len(through) >= _MOST_REFERENCES:
                follow.append(({"type": kind_of(target), "description": "nested, of the same shape"}, through))
            else:
                follow.append((target, (*through, reference)))
        follow += [(part, through) for part in parts] if is_array(parts) else []
        for part, so_far in follow if self.left > 0 else ():
            inner, followed = self._whole(part, so_far)
            whole, through = merged(whole, inner), tuple(dict.fromkeys((*through, *followed)))
        return whole, through

    def _plain(self, whole: JsonObject, place: _Place, *, wide: bool = False) -> JsonObject:
        kinds: list[str] = [kind for kind in whole.get("type", ()) if kind != "null"]
        branches: list[Json] = [each for each in whole.get("anyOf", ()) if each is not False]
        if len(kinds) > 1 and not branches:
            branches = [{"type": kind} for kind in kinds]
        others = [each for each in branches if not _is_null(each)]
        notes = [] if self.is_reply else _null_notes(whole, len(others) < len(branches))
        if others:
            own = {"anyOf", "description", "default", *(("type",) if len(kinds) > 1 else ())}
            inherited = {key: item for key, item in whole.items() if key not in own}
            if wide or ("properties" in whole and kinds in ([], ["object"])):
                plain = self._wide(whole, others, place)
            else:
                plain = self._union(whole, [{"allOf": [each, inherited]} for each in others], place)
        else:
            plain = self._one(whole, kinds[0] if kinds else None, place)
        return described(plain, notes)

    def _wide(self, whole: JsonObject, branches: Sequence[Json], place: _Place) -> JsonObject:
        """One object that any of the alternatives fits."""
        base = self._one({key: item for key, item in whole.items() if key != "anyOf"}, "object", place)
        inner: list[JsonObject] = []
        for branch in branches:
            self._share(place, len(branches))
            inner.append(self._unclosed({"allOf": [branch, {"type": "object"}]}, place.below()))
        return widened(base, inner)

    def _share(self, place: _Place, among: int) -> None:
        if place.depth == 0:
            self.left = max(_LEAST_SHARE, _MOST_PARTS // among)

    def _union(self, whole: JsonObject, branches: Sequence[Json], place: _Place) -> JsonObject:
        """The alternatives that differ; one alone is none."""
        distinct: list[JsonObject] = []
        for branch in branches:
            plain = self._held(branch, place.below())
            if plain not in distinct:
                distinct.append(plain)
        said, notes = keywords({key: whole[key] for key in ("description", "default") if key in whole}, None)
        if len(distinct) > 1:
            return described(said | {"anyOf": distinct}, notes)
        inner = distinct[0].get("description", "")
        both = [inner] if said and inner and inner != said["description"] else []
        return described(distinct[0] | said, both + notes)

    def _one(self, whole: JsonObject, kind: str | None, place: _Place) -> JsonObject:
        """A part of one type, or of none that is said."""
        kind = kind or _implied(whole)
        plain, notes = keywords(whole, kind, kept=_ENDS if self.by_grammar else ())
        if kind is None:
            return described(plain if self.strict else plain | any_value(), notes)
        plain["type"] = kind
        if kind == "array":
            plain["items"], order = self._items(whole, place)
            notes += order
        if kind == "object":
            notes += self._fields(plain, whole, place)
            if self.by_grammar and whole.get("additionalProperties") is False and "properties" not in plain:
                plain |= {"properties": {}, "additionalProperties": False}
        return described(plain, notes)

    def _items(self, whole: JsonObject, place: _Place) -> tuple[JsonObject, list[str]]:
        items: Json = whole.get("items")
        listed: list[Json] = []
        for each in (items, whole.get("prefixItems")):
            listed += each if is_array(each) else []
        rest = whole.get("additionalItems") if is_array(items) else items
        if not listed:
            return self._held(rest, place.below()), []
        known = [each for each in (*listed, rest) if is_object(each)]
        return self._held({"anyOf": known}, place.below()), ["one of each, in this order"]

    def _fields(self, plain: JsonObject, whole: JsonObject, place: _Place) -> list[str]:
        """Put the fields of an object into `plain`; returns what else is to be said about them."""
        fields = _named_fields(whole)
        required: list[str] = [name for name in whole.get("required", ()) if name in fields]
        shown: JsonObject = {}
        for name, field in fields.items():
            self._share(place, len(fields))
            if self.left > 0 or name in required:
                shown[name] = self._at(field, place.below())
                if not self.is_reply and name in required and self._takes_null(field, place):
                    required.remove(name)
                    shown[name] = described(shown[name], ["leave out for null"])
        if shown:
            plain["properties"] = shown
        if required:
            plain["required"] = required
        more = len(fields) - len(shown)
        return [f"{more} more optional fields, not listed"] if more else []

    def _takes_null(self, field: Json, place: _Place) -> bool:
        whole, _ = self._whole(field, place.through)
        whole = tidy(whole)
        return "null" in whole.get("type", ()) or any(map(_is_null, whole.get("anyOf", ())))

    def _closed(self, plain: JsonObject) -> JsonObject:
        """No other fields; every field required, under the name that it is asked for by."""
        required: list[str] = plain.get("required", [])
        if self.by_grammar:
            return plain | {"required": required, "additionalProperties": False}
        fields: JsonObject = {}
        for name, field in plain["properties"].items():
            asked = name
            if _is_open(field):
                asked, field = f"{name}_json", _as_text(field)
            if name not in required and field.get("type") in ("string", "array") and "enum" not in field:
                field = described(field, ["empty where it does not apply"])
            fields[asked] = field
        return plain | {"properties": fields, "required": list(fields), "additionalProperties": False}


def _as_text(plain: JsonObject) -> JsonObject:
    what = "a JSON object as text" if plain.get("type") == "object" else "JSON as text"
    return described({"type": "string", "description": plain.get("description", "")}, [what])


def _is_open(plain: JsonObject) -> bool:
    return "anyOf" not in plain and (plain.get("type", "object") == "object" and not plain.get("properties"))


def _is_null(schema: Json) -> bool:
    return is_object(schema) and (schema.get("type") == "null" or schema.get("enum") == [None] or _const_null(schema))


def _const_null(schema: JsonObject) -> bool:
    return "const" in schema and schema["const"] is None


def _null_notes(whole: JsonObject, has_null: bool) -> list[str]:
    """Null is not sent in schemas; where leaving the field out may mean something else, it is said."""
    takes_null = has_null or "null" in whole.get("type", ())
    return ["or null"] if takes_null and not ("default" in whole and whole["default"] is None) else []


def _named_fields(whole: JsonObject) -> JsonObject:
    """All fields that an object may have, also those that only some condition names."""
    fields: JsonObject = whole.get("properties", {})
    optional: list[Json] = [whole.get(key) for key in ("then", "else")]
    for key in ("dependentSchemas", "dependencies"):
        optional += whole[key].values() if is_object(whole.get(key)) else []
    for part in optional:
        more: Json = part.get("properties") if is_object(part) else None
        fields = (more if is_object(more) else {}) | fields
    return {name: field for name, field in fields.items() if field is not False}


def _implied(whole: JsonObject) -> str | None:
    """The type that keywords speak of where none is said."""
    return next((kind for kind, words in IMPLYING.items() if any(word in whole for word in words)), None)
