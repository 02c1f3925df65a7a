"""Tools of public servers, and any schema at all, as every provider is sent them."""

import json
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from provider_rules import RULES, openai_strict
from pydantic import SecretStr
from record_tools import FOLDER, SERVERS, install, listed

from downstream.json_shape import is_object
from downstream.model import open_models
from downstream.model_port import Function, Message, ModelFailed, ModelRequest, Place
from downstream.models.parameters import original_names, parameters_of
from downstream.models.schemas import for_function, for_reply
from downstream.servers.names import wire_names
from downstream.settings import ModelOptions, ModelSettings
from downstream.tools import Tool
from executors.worker.conversation import function_of
from journal.outlet import Outlet

Json: TypeAlias = Any
MODELS = {
    "openai": "openai/m",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "bedrock": "bedrock/converse/amazon.nova-pro-v1:0",
    "ollama": "ollama_chat/m",
}
OFFERED: dict[str, tuple[str | int, ...]] = {
    "openai": ("tools",),
    "anthropic": ("tools",),
    "gemini": ("tools", 0, "function_declarations"),
    "bedrock": ("toolConfig", "tools"),
    "ollama": ("tools",),
}
# Names and shapes that no recorded server has and that others were refused for.
HARD: dict[str, Json] = {
    "filter[app] in brackets": {"type": "object", "properties": {"filter[app]": {"type": "string"}, "$top": {}}},
    "1st": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {"const": None}}},
    "integers": {"type": "object", "properties": {"n": {"type": "integer", "enum": [1, 2]}, "s": {"enum": ["", "x"]}}},
    "tuple": {"type": "object", "properties": {"t": {"type": "array", "prefixItems": [{"type": "string"}, {}]}}},
    "text": {"type": "string"},
    "any": True,
    "node": {
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}},
    },
    "long words": {"type": "object", "description": "x" * 3_000, "properties": {"a": {"type": ["string", "null"]}}},
}


@cache
def recorded() -> dict[str, Json]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}


@cache
def catalogue() -> dict[str, list[Tool]]:
    """The tools of all recorded servers and the hard ones, named as in one catalogue."""
    schemas = {name: {tool["name"]: tool for tool in server["tools"]} for name, server in recorded().items()}
    schemas["hard"] = {name: {"inputSchema": schema} for name, schema in HARD.items()}
    wires = wire_names(f"{short(server)}.{tool}" for server, tools in schemas.items() for tool in tools)
    return {
        server: [
            Tool(
                short(server), name, wires[f"{short(server)}.{name}"], "", tool.get("description", ""),
                tool["inputSchema"], None, {}, "unknown",
            )
            for name, tool in tools.items()
        ]
        for server, tools in schemas.items()
    }  # fmt: skip


def short(server: str) -> str:
    return server.rpartition("__")[2].removeprefix("server-").removesuffix("-mcp")


def functions(server: str) -> list[Function]:
    return [function_of(tool) for tool in catalogue()[server]]


@contextmanager
def refusing() -> Generator[tuple[str, list[Json]]]:
    """A server on loopback that keeps the bodies of requests and takes none of them."""
    bodies: list[Json] = []

    class Refuse(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(400)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", bodies
        finally:
            server.shutdown()
            thread.join()


async def on_the_wire(provider: str, offered: list[Function]) -> list[Json]:
    """The tools as they stand in the body that litellm sends to this provider."""
    with anyio.fail_after(60), refusing() as (url, bodies):
        base = f"{url}/v1" if provider == "openai" else url
        options = ModelOptions(api_base=base, api_key=SecretStr("no-such-key"), timeout=30)
        model = MODELS[provider]
        request = ModelRequest("worker", Place(), (Message("user", "Go."),), 100, functions=tuple(offered))
        async with open_models(ModelSettings(model=model, options=options), Outlet([])) as models:
            with pytest.raises(ModelFailed):
                await models.complete(model, request)
    tools: Json = bodies[0]
    for step in OFFERED[provider]:
        tools = tools[step]
    return list(tools)


@pytest.mark.slow
# What litellm and its parts warn of is not this project's.
@pytest.mark.filterwarnings("ignore")
async def test_every_tool_of_every_recorded_server_keeps_the_rules_of_every_provider() -> None:
    offered = {server: functions(server) for server in catalogue()}
    broken: dict[str, dict[str, list[str]]] = {}
    for provider in MODELS:
        tools = iter(await on_the_wire(provider, [each for some in offered.values() for each in some]))
        of_server = {server: list(islice(tools, len(some))) for server, some in offered.items()}
        broken[provider] = {server: list(RULES[provider](some)) for server, some in of_server.items()}
        assert [len(some) for some in of_server.values()] == [len(some) for some in offered.values()]
    sys.stdout.write("".join(f"{line}\n" for line in table(broken)))
    assert {line for by_server in broken.values() for lines in by_server.values() for line in lines} == set()


def table(broken: dict[str, dict[str, list[str]]]) -> Iterator[str]:
    """By server: version, tools, how many renamed, how large the schemas were and are, how many tools break a rule."""
    yield f"{'server':42} {'version':10} tools renamed {'before':>7} {'after':>7} {' '.join(broken)}"
    for server, tools in catalogue().items():
        renamed = sum(tool.wire != f"{tool.server}__{tool.name}" for tool in tools)
        before = len(json.dumps([tool.input_schema for tool in tools]))
        after = len(json.dumps([function.parameters for function in functions(server)]))
        marks = " ".join(f"{len(some[server]) or 'ok':>{len(provider)}}" for provider, some in broken.items())
        version = recorded().get(server, {}).get("version", "")
        yield f"{server:42} {version:10} {len(tools):5} {renamed:7} {before:7} {after:7} {marks}"


def test_the_rules_find_what_is_wrong_with_schemas_that_are_sent_as_servers_write_them() -> None:
    named: dict[str, Json] = {
        name: {"type": "object", "properties": {}} | schema for name, schema in HARD.items() if is_object(schema)
    }
    asked: dict[str, list[Json]] = {provider: [] for provider in RULES}
    for name, schema in named.items():
        flat = {"name": name, "input_schema": schema, "parameters": schema}
        asked["anthropic"].append(flat)
        asked["gemini"].append(flat)
        asked["openai"].append({"function": flat | {"description": "x" * 1_025}})
        asked["ollama"].append({"function": flat})
        asked["bedrock"].append({"toolSpec": {"name": name, "description": "", "inputSchema": {"json": schema}}})
    found = {provider: len(list(RULES[provider](tools))) for provider, tools in asked.items()}
    found["strict"] = len(list(openai_strict(named)))
    assert [provider for provider, breaks in found.items() if breaks < 4] == []


def test_as_replies_the_same_schemas_keep_the_rules_of_strict_ones() -> None:
    schemas = {tool.full_name: for_reply(tool.input_schema) for tools in catalogue().values() for tool in tools}
    assert list(openai_strict(schemas)) == []


def test_at_least_fifteen_servers_are_recorded_with_their_version_and_the_licence_that_they_name() -> None:
    about = [(server["package"], server["version"], server["licence"]) for server in recorded().values()]
    assert len(about) >= 15
    assert {licence for _, _, licence in about} <= {"MIT", "Apache-2.0", "SEE LICENSE IN LICENSE"}
    assert {package for package, _, _ in about} <= {server.package for server in SERVERS}


def test_no_argument_is_lost_and_each_name_leads_back_to_its_tool_and_argument() -> None:
    tools = [tool for server in catalogue().values() for tool in server]
    assert len({tool.wire for tool in tools}) == len(tools)
    for tool in tools:
        shown, back = parameters_of(tool.input_schema).schema["properties"], original_names(tool.input_schema)
        if is_object(tool.input_schema) and "properties" in tool.input_schema:
            assert [back.get(name, name) for name in shown] == list(tool.input_schema["properties"])


KEYWORDS = st.sampled_from(
    [
        *("type", "properties", "required", "items", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum"),
        *("const", "$ref", "$defs", "format", "pattern", "minimum", "additionalProperties", "description", "default"),
        *("prefixItems", "dependentSchemas", "patternProperties", "nullable", "title"),
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(
        ["object", "array", "string", "null", "#", "#/$defs/a", "#/properties/a", "#/items/0", "#bad", "date-time"]
    )
)
JUNK = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS | st.sampled_from(["a", "b"]), inner, max_size=6)
    ),
    max_leaves=30,
)


@settings(max_examples=300, deadline=None)
@given(JUNK)
def test_any_json_at_all_becomes_a_schema_that_is_not_changed_again(schema: Json) -> None:
    for plain in (for_function(schema), parameters_of(schema).schema, for_reply(schema)):
        Draft202012Validator.check_schema(plain)
        assert plain["type"] == "object"
    assert for_function(for_function(schema)) == for_function(schema)
    shown = [{"type": "function", "function": {"name": "f", "description": "F", "parameters": for_function(schema)}}]
    assert list(RULES["openai"](shown)) == list(RULES["ollama"](shown)) == []
    assert list(openai_strict({"f": for_reply(schema)})) == []


def misfits(schema: Json, data: Json) -> list[str]:
    validator: Any = Draft202012Validator(schema)
    return [error.message for error in validator.iter_errors(data)]


Pair: TypeAlias = tuple[Json, Json]
NESTED: Json = {"value": 1, "below": [{"value": 2}, {"value": 3, "below": [{"value": 4}]}]}
SCALARS: st.SearchStrategy[Pair] = st.one_of(
    st.tuples(st.just({"type": "string", "minLength": 1}), st.text(min_size=1, max_size=4)),
    st.tuples(st.just({"type": ["integer", "null"], "maximum": 99}), st.integers(max_value=99)),
    st.tuples(st.just({"type": ["string", "number"]}), st.text(max_size=3) | st.integers()),
    st.tuples(st.just({"enum": ["a", 1, True, {"b": 2}]}), st.sampled_from(["a", 1, True, {"b": 2}])),
    st.tuples(st.just({"const": "c"}), st.just("c")),
    st.tuples(st.sampled_from([{}, True]), st.integers() | st.text(max_size=3) | st.lists(st.booleans(), max_size=2)),
    st.tuples(st.just({"$ref": "#/$defs/Tree"}), st.just(NESTED)),
)
TREE: Json = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    "required": ["value"],
}


def lists(pair: Pair) -> Pair:
    return {"type": "array", "items": pair[0], "maxItems": 9}, [pair[1], pair[1]]


def unions(pairs: list[Pair]) -> Pair:
    return {"anyOf": [schema for schema, _ in pairs]}, pairs[0][1]


def objects(pairs: list[Pair]) -> Pair:
    fields = {f"f{number}": schema for number, (schema, _) in enumerate(pairs)}
    data = {f"f{number}": item for number, (_, item) in enumerate(pairs)}
    return {"type": "object", "properties": fields, "required": sorted(fields)[:1]}, data


def both(pairs: list[Pair]) -> Pair:
    one, other = objects(pairs[:1]), {"type": "object", "properties": {"g": pairs[-1][0]}}
    return {"allOf": [one[0], other]}, one[1] | {"g": pairs[-1][1]}


def several(pairs: list[Pair]) -> Pair:
    kinds = [
        {"properties": {"k": {"const": f"k{number}"}, "v": schema}, "required": ["k"]}
        for number, (schema, _) in enumerate(pairs)
    ]
    return {"type": "object", "oneOf": kinds}, {"k": "k0", "v": pairs[0][1]}


PAIRS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(lists),
        *(st.lists(inner, min_size=1, max_size=3).map(make) for make in (unions, objects, both, several)),
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PAIRS, min_size=1, max_size=3).map(objects) | st.lists(PAIRS, min_size=1, max_size=3).map(several))
def test_arguments_that_fit_the_original_fit_what_is_shown(pair: Pair) -> None:
    schema, data = pair[0] | {"$defs": {"Tree": TREE}}, pair[1]
    assume(misfits(schema, data) == [])
    assert misfits(for_function(schema), data) == []


def test_a_schema_that_grows_without_end_is_cut_and_all_arguments_stay() -> None:
    fan = {
        f"D{n}": {"type": "object", "properties": {f"p{i}": {"$ref": f"#/$defs/D{n + 1}"} for i in range(9)}}
        for n in range(9)
    }
    doubled = {f"E{n}": {"allOf": [{"$ref": f"#/$defs/E{n + 1}"}] * 2} for n in range(60)}
    many = {f"a{n}": {"type": "string"} for n in range(50)}
    schema: Json = {"type": "object", "$defs": fan | doubled}
    schema["properties"] = {"fan": {"$ref": "#/$defs/D0"}, "doubled": {"$ref": "#/$defs/E0"}} | many
    plain = for_function(schema)
    assert list(plain["properties"]) == list(schema["properties"])
    assert len(json.dumps(plain["properties"]["fan"])) < 60_000
    assert "more optional fields" in json.dumps(plain["properties"]["fan"])


@pytest.mark.slow
@pytest.mark.parametrize("package", ["@modelcontextprotocol/server-memory", "mcp-server-time"])
async def test_what_was_recorded_is_what_that_version_lists(package: str, tmp_path: Path) -> None:
    [server] = [each for each in SERVERS if each.package == package]
    was = json.loads(server.file.read_text(encoding="utf-8"))
    program, version = install(server, tmp_path, was["version"])
    assert (version, await listed(server, program, tmp_path)) == (was["version"], was["tools"])
