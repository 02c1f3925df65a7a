"""A tool's input schema as the parameters of a function, under names that every provider takes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from downstream.servers.names import clean_json, clean_text
from journal.values import Json, JsonObject

from .schema_words import described
from .schemas import for_function

_LONGEST_NAME = 64


@dataclass(frozen=True)
class Parameters:
    """`schema` has only the type, the properties and those required; `note` is what was said of the whole."""

    schema: JsonObject
    note: str


def parameters_of(schema: Json) -> Parameters:
    """The parameters of a function whose arguments a tool with this input schema takes."""
    plain = for_function(schema)
    fields: JsonObject = plain["properties"]
    names = {original: name for name, original in _names(fields).items()}
    renamed = {
        names[field]: part if names[field] == field else described(part, [f"named {field!r}"])
        for field, part in fields.items()
    }
    shown: JsonObject = {"type": "object", "properties": renamed}
    if "required" in plain:
        shown["required"] = [names[field] for field in plain["required"]]
    # Also in choices: what nobody sees, nobody could judge.
    return Parameters(clean_json(shown), clean_text(plain.get("description", "")))


def original_names(schema: Json) -> dict[str, str]:
    """By the name that models were shown, the argument's own, for those that differ."""
    names = _names(for_function(schema)["properties"])
    return {name: original for name, original in names.items() if name != original}


def _names(fields: Iterable[str]) -> dict[str, str]:
    """A name for each field, its own where that is fit. Gemini takes letters, digits and underscores only."""
    names = {
        field: field for field in fields if re.fullmatch(rf"[a-zA-Z_][a-zA-Z0-9_]{{0,{_LONGEST_NAME - 1}}}", field)
    }
    for field in fields:
        if field not in names.values():
            name = re.sub(r"[^a-zA-Z0-9_]", "_", field if re.match(r"[a-zA-Z_]", field) else f"_{field}")
            name = free = name[:_LONGEST_NAME]
            number = 1
            while free in names:
                number += 1
                free = f"{name[: _LONGEST_NAME - len(str(number)) - 1]}_{number}"
            names[free] = field
    return names
