"""What is written about settings is what they are."""

import json
from collections.abc import Iterator
from pathlib import Path

from jsonschema import validate

from journal.values import Json, JsonObject
from server.settings import find_settings, load_settings, settings_schema
from server.settings_file.document import read_document
from server.settings_file.located import is_map

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "steprelay.yaml"


def leaves(schema: JsonObject, node: JsonObject, path: str = "") -> Iterator[tuple[str, str]]:
    """Each key of the schema that holds no further keys, with its default as JSON, empty where it must be given."""
    found = next((each for each in node.get("anyOf", [node]) if each.get("type") != "null"), node)
    if "$ref" in found:
        found = schema["$defs"][found["$ref"].rpartition("/")[2]]
    below: Json = found.get("additionalProperties") or found.get("items")
    if "properties" in found:
        for key, item in found["properties"].items():
            if item != {"description": "Read by hosts only."}:
                yield from leaves(schema, item, f"{path}.{key}".removeprefix("."))
    elif is_map(below) and "$ref" in below:
        yield from leaves(schema, below, path + ("[]" if "items" in found else ".*"))
    else:
        yield path, json.dumps(node["default"]) if "default" in node else ""


def documented() -> list[tuple[str, str]]:
    rows = [line.split("|") for line in (ROOT / "docs" / "settings.md").read_text().splitlines() if line[:3] == "| `"]
    return [(row[1].strip(" `"), row[2].strip(" `")) for row in rows]


def test_the_table_lists_every_key_with_its_default() -> None:
    schema = settings_schema()
    del schema["properties"]["servers"]
    assert documented() == list(leaves(schema, schema))


def test_the_example_loads_without_a_word_and_fits_the_schema() -> None:
    settings = load_settings(find_settings(EXAMPLE, environ={}, cwd=None), environ={})
    validate(read_document(EXAMPLE).data, settings_schema())
    assert settings.warnings == ()
    assert [server.name for server in settings.servers] == ["notes", "outbox", "docs"]


def test_a_pasted_host_entry_fits_the_schema() -> None:
    pasted = {"servers": {"fs": {"type": "stdio", "command": "npx", "autoApprove": ["read_file"]}}}
    validate(pasted, settings_schema())
