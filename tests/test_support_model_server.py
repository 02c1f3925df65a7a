"""The scripted model server, asked through real litellm on its three wires."""

import importlib
import json
import subprocess
import sys
import urllib.request
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from model_script import ScriptError, check_script, fits
from model_server import (
    ModelRequest,
    ModelServer,
    Reply,
    Rule,
    answer,
    call,
    compose,
    markers_in,
    on,
    planner,
    report,
    reviser,
    serve_model,
    worker,
)
from model_wire import read_request

SUPPORT = Path(__file__).parent / "support"
MODELS = {"openai": "openai/m", "anthropic": "anthropic/claude-sonnet-4-5", "ollama": "ollama_chat/m"}
WIRES = tuple(MODELS)
STEPS = [{"id": "look", "kind": "call", "title": "Look", "tool": "notes.search", "arguments": {"query": "x"}}]

# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("LITELLM_OFFLINE_MODE", "LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"):
        monkeypatch.setenv(name, "True")
    monkeypatch.setenv("LITELLM_MODE", "PRODUCTION")
    with warnings.catch_warnings(action="ignore"):
        module: Any = importlib.import_module("litellm")
    module.suppress_debug_info = True
    local = {"litellm_provider": "ollama_chat", "mode": "chat", "max_tokens": 8192}
    module.register_model({"ollama_chat/m": local, "ollama/m": local})
    return module


def offer(*names: str) -> list[Any]:
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}}
    return [
        {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}
        for name in names
    ]


def schema(name: str, **properties: Any) -> Any:
    body = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": name, "schema": body, "strict": True}}


async def ask(litellm: Any, server: ModelServer, wire: str, messages: Any, **options: Any) -> Any:
    """One reply's message and usage, put together from its chunks if it streams."""
    said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    base = f"{server.url}/v1" if wire == "openai" else server.url
    options = {"timeout": 5, "max_tokens": 500, "api_key": "k", "max_retries": 0} | options
    with anyio.fail_after(20):
        reply = await litellm.acompletion(model=MODELS[wire], messages=said, api_base=base, **options)
        if options.get("stream"):
            reply = litellm.stream_chunk_builder([chunk async for chunk in reply])
    return reply


def asks_for(step: str) -> Callable[[ModelRequest], bool]:
    return lambda request: request.step == step


def calls_of(reply: Any) -> list[tuple[str, Any]]:
    made: list[Any] = reply.choices[0].message.tool_calls or []
    return [(each.function.name, json.loads(each.function.arguments)) for each in made]


@pytest.mark.e2e
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_text_arrives_as_written_with_its_usage(litellm: Any, wire: str, stream: bool) -> None:
    text = "First line.\nSecond — with ünïcode, long enough for several chunks."
    rules = compose("draft", {"text": text, "usage": {"prompt": 100, "completion": 9, "cached": 64}})
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    with serve_model(rules) as server:
        reply = await ask(litellm, server, wire, "step: draft\nWrite it.", **options)
    assert reply.choices[0].message.content == text
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (100, 9)
    assert wire == "ollama" or reply.usage.prompt_tokens_details.cached_tokens == 64
    assert [(each.role, each.step, each.turn, each.stream) for each in server.requests] == [
        ("compose", "draft", 0, stream)
    ]


@pytest.mark.e2e
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_worker_calls_by_server_and_tool_and_cites_the_ids_it_was_shown(
    litellm: Any, wire: str, stream: bool
) -> None:
    turns = [[call("notes.search", query="a"), call("notes.search", query="b")]]
    rules = worker("study", turns, report("Found.", {"a holds": [0], "b holds": [1]}, data={"seen": "{{last_tool}}"}))
    messages: list[Any] = [{"role": "system", "content": "S"}, {"role": "user", "content": "Do.\nstep: study\n"}]
    tools = offer("notes__search", "submit_report")
    with serve_model(rules) as server:
        first = await ask(litellm, server, wire, messages, tools=tools, stream=stream)
        assert calls_of(first) == [("notes__search", {"query": "a"}), ("notes__search", {"query": "b"})]
        said = first.choices[0].message.model_dump(exclude_none=True)
        results = [
            {"role": "tool", "tool_call_id": each["id"], "content": f"[c_{letter * 26}] <data>ok</data>"}
            for each, letter in zip(said["tool_calls"], "ab", strict=True)
        ]
        second = await ask(litellm, server, wire, [*messages, said, *results], tools=tools, stream=stream)
    [(name, made)] = calls_of(second)
    assert name == "submit_report"
    assert [each["evidence"] for each in made["findings"]] == [["c_" + "a" * 26], ["c_" + "b" * 26]]
    assert made["data"] == {"seen": f"[c_{'b' * 26}] <data>ok</data>"}
    assert [(each.role, each.step, each.turn) for each in server.requests] == [
        ("worker", "study", 0),
        ("worker", "study", 1),
    ]


@pytest.mark.e2e
@pytest.mark.parametrize("wire", WIRES)
async def test_each_role_is_told_by_its_schema_and_answers_in_json(litellm: Any, wire: str) -> None:
    rules = planner(STEPS) + reviser([{"decision": "continue"}]) + answer("All good.")
    with serve_model(rules) as server:
        plan = await ask(litellm, server, wire, "Plan", response_format=schema("submit_plan", steps={"type": "array"}))
        kind = schema("revise_plan", decision={"type": "string"}, add={"type": "array"})
        decided = await ask(litellm, server, wire, "Revise", response_format=kind)
        final = await ask(litellm, server, wire, "reply with JSON: submit_answer")
    texts = [json.loads(each.choices[0].message.content) for each in (plan, decided, final)]
    assert texts == [
        {"steps": STEPS},
        {"reason": "scripted", "drop": [], "add": [], "decision": "continue"},
        {"answer": "All good.", "caveats": []},
    ]
    assert [each.role for each in server.requests] == ["planner", "reviser", "answer"]


@pytest.mark.e2e
@pytest.mark.parametrize("wire", WIRES)
async def test_a_worker_without_functions_gets_its_calls_as_next_actions(litellm: Any, wire: str) -> None:
    # An open object makes litellm use a function of its own on the Anthropic wire.
    kind = schema("next_action", tool={"type": "string"}, arguments={"type": "object"})
    rules = worker("study", [[call("notes.search", query="a")]], report("Done."))
    first: Any = {"role": "user", "content": "step: study"}
    with serve_model(rules) as server:
        action = (await ask(litellm, server, wire, [first], response_format=kind)).choices[0].message.content
        later = [first, {"role": "assistant", "content": action}, {"role": "user", "content": "[c_abc] ok"}]
        end = (await ask(litellm, server, wire, later, response_format=kind)).choices[0].message.content
    assert json.loads(action) == {"tool": "notes__search", "arguments": {"query": "a"}}
    assert json.loads(end)["tool"] == "submit_report"
    assert [(each.role, each.name, each.call_ids) for each in server.requests] == [
        ("worker", "next_action", []),
        ("worker", "next_action", ["c_abc"]),
    ]


FAULTS: Mapping[str, tuple[Reply, int | None]] = {
    "401": ({"status": 401}, 401),
    "429": ({"status": 429, "retry_after": 2}, 429),
    "500": ({"status": 500, "error": "broken"}, 500),
    "529": ({"status": 529}, None),
    "reset": ({"fault": "reset"}, None),
    "truncate": ({"text": "x" * 500, "fault": "truncate"}, None),
    "html": ({"fault": "html"}, None),
}


@pytest.mark.e2e
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_fault_fails_the_call_once_and_the_next_one_works(litellm: Any, wire: str, fault: str) -> None:
    reply, status = FAULTS[fault]
    with serve_model(on(reply, times=1, role="compose") + compose("draft", "finally")) as server:
        with pytest.raises(litellm.exceptions.openai.OpenAIError) as failed:
            await ask(litellm, server, wire, "step: draft")
        assert status in (None, failed.value.status_code)
        if "retry_after" in reply:
            assert failed.value.litellm_response_headers["retry-after"] == "2"
        again = await ask(litellm, server, wire, "step: draft")
    assert (again.choices[0].message.content, len(server.requests)) == ("finally", 2)


@pytest.mark.e2e
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_stream_that_breaks_off_is_an_error(litellm: Any, wire: str) -> None:
    with serve_model(compose("draft", {"text": "x" * 500, "drop_after": 5})) as server:
        with pytest.raises(litellm.exceptions.openai.OpenAIError):
            await ask(litellm, server, wire, "step: draft", stream=True)
        assert len(server.requests) == 1


@pytest.mark.e2e
async def test_a_reply_may_be_empty_null_cut_or_no_json(litellm: Any) -> None:
    rules = [
        *on({"fault": "empty"}, user="empty"),
        *on({"fault": "null"}, user="null"),
        *on({"text": "half a", "finish": "length"}, user="length"),
        *on({"tool_calls": [call("notes.search", '{"query": ')]}, user="broken"),
    ]
    with serve_model(rules) as server:
        empty = await ask(litellm, server, "openai", "empty")
        null = await ask(litellm, server, "openai", "null")
        cut = [await ask(litellm, server, wire, "length") for wire in WIRES]
        broken = await ask(litellm, server, "openai", "broken", tools=offer("notes__search"))
    assert (empty.choices, null.choices[0].message.content) == ([], None)
    assert [each.choices[0].finish_reason for each in cut] == ["length"] * 3
    assert broken.choices[0].message.tool_calls[0].function.arguments == '{"query": '


@pytest.mark.e2e
async def test_a_hanging_reply_ends_with_the_callers_timeout_or_the_server(litellm: Any) -> None:
    with serve_model(on({"fault": "hang"})) as server:
        with pytest.raises(litellm.Timeout):
            await ask(litellm, server, "openai", "anything", timeout=0.3)
        assert server.max_in_flight == 1


@pytest.mark.e2e
async def test_held_replies_show_how_many_requests_are_open_at_once(litellm: Any) -> None:
    rules = [*compose("a", {"text": "A", "hold": "both"}), *compose("b", {"text": "B", "hold": "both"})]
    texts: dict[str, str] = {}

    with serve_model(rules) as server:

        async def one(step: str) -> None:
            texts[step] = (await ask(litellm, server, "openai", f"step: {step}")).choices[0].message.content

        async with anyio.create_task_group() as group:
            group.start_soon(one, "a")
            group.start_soon(one, "b")
            for step in ("a", "b"):
                await anyio.to_thread.run_sync(server.wait_for, asks_for(step))
            server.release("both")
    assert (texts, server.max_in_flight) == ({"a": "A", "b": "B"}, 2)


@pytest.mark.e2e
async def test_what_no_rule_answers_is_refused_with_what_was_asked(litellm: Any) -> None:
    with serve_model(compose("other", "text")) as server:
        with pytest.raises(litellm.BadRequestError, match="role=compose name=None step=draft turn=0"):
            await ask(litellm, server, "openai", "step: draft\nWrite about zebras.")
        assert [each.step for each in server.unmatched] == ["draft"]
        assert markers_in(server.requests, "zebras") == {("compose", "draft")}


@pytest.mark.e2e
def test_it_also_runs_as_a_process(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(compose("draft", "from a process")))
    command = [sys.executable, str(SUPPORT / "model_server.py"), "0", str(script)]
    body = {"model": "m", "messages": [{"role": "user", "content": "step: draft"}]}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            reply = post(f"{url}/v1/chat/completions", body)
            asked = json.load(urllib.request.urlopen(f"{url}/requests", timeout=5))
            counted = post(f"{url}/v1/messages/count_tokens?beta=true", body)
        finally:
            process.terminate()
    assert reply["choices"][0]["message"]["content"] == "from a process"
    assert [(each["role"], each["step"]) for each in asked] == [("compose", "draft")]
    assert counted["input_tokens"] > 0


def post(url: str, body: Any) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=5))


@pytest.mark.e2e
def test_anthropic_streams_send_named_events_in_order() -> None:
    tools = [{"name": "notes__search", "input_schema": {"type": "object"}}]
    body = {"model": "m", "stream": True, "tools": tools, "messages": [{"role": "user", "content": "go"}]}
    request = urllib.request.Request("http://unset", json.dumps(body).encode())
    turn: Reply = {"text": "Now.", "tool_calls": [call("notes.search", query="q")]}
    with serve_model(on(turn, role="host")) as server:
        request.full_url = f"{server.url}/v1/messages?beta=true"
        lines = urllib.request.urlopen(request, timeout=5).read().decode().splitlines()
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    events = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert events == ["message_start", "ping", *block, *block, "message_delta", "message_stop"]


def test_decisions_of_a_reviser_are_told_apart_by_the_steps_already_added() -> None:
    rules = reviser([{"decision": "revise", "add": [{"id": "again"}]}, {"decision": "finish"}])
    decisions = [decided_by(rules, "the plan"), decided_by(rules, "the plan with step again (failed)")]
    assert decisions == ["revise", "finish"]
    with pytest.raises(ScriptError, match="needs a cue"):
        reviser([{"decision": "continue"}, {"decision": "finish"}])


def decided_by(rules: list[Rule], prompt: str) -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": f"{prompt}\nreply with JSON: revise_plan"}]}
    request = read_request("openai", body, headers={})
    chosen: Any = next(rule["reply"].get("json") for rule in rules if fits(rule.get("when", {}), request))
    return str(chosen["decision"])


@pytest.mark.parametrize(
    "rule", [{"when": {"rol": "x"}, "reply": {}}, {"reply": {"txt": "x"}}, {"when": {}}], ids=["when", "reply", "none"]
)
def test_a_script_with_an_unknown_key_is_refused(rule: Any) -> None:
    with pytest.raises(ScriptError, match="rule 0"):
        check_script([rule])
