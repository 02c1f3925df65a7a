"""Models through real litellm, against the scripted server on its three wires."""

import gc
import logging
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from model_gemini import SIGNATURE
from model_script import Usage
from model_server import ModelRequest as WireRequest
from model_server import ModelServer, Reply, Rule, answer, call, compose, on, planner, serve_model, worker
from pydantic import SecretStr

from downstream.model import open_models
from downstream.model_port import (
    FailureKind,
    Function,
    Message,
    ModelFailed,
    ModelReply,
    ModelRequest,
    Models,
    Place,
)
from downstream.settings import ModelOptions, ModelSettings, Price
from journal.ledger import Spent
from journal.outlet import Outlet

# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore")]

MODELS = {
    "openai": "openai/m",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "ollama": "ollama_chat/m",
}
WIRES = tuple(MODELS)
OBJECT = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
    "additionalProperties": False,
}
PLAN = {"type": "object", "properties": {"steps": {"type": "array", "items": OBJECT}}, "required": ["steps"]}
SECRET = "sk-a-very-secret-key"


@asynccontextmanager
async def models_at(server: ModelServer, wire: str, **options: Any) -> AsyncGenerator[Models]:
    base = f"{server.url}/v1" if wire == "openai" else server.url
    given: dict[str, Any] = {"api_base": base, "api_key": SecretStr(SECRET), "timeout": 20.0} | options
    settings = ModelSettings(model=MODELS[wire], options=ModelOptions(**given))
    async with open_models(settings, Outlet([("MY_KEY", SECRET)])) as models:
        yield models
    if wire in ("anthropic", "gemini"):
        # litellm leaves the connection of a stream to the garbage collector, which would warn of it at the very end.
        gc.collect()


def request(text: str, *, functions: Sequence[str] = (), **fields: Any) -> ModelRequest:
    offered = tuple(Function(name, f"Does {name}.", OBJECT) for name in functions)
    messages: tuple[Message, ...] = fields.pop("messages", (Message("system", "S"), Message("user", text)))
    return ModelRequest("compose", Place(), messages, 200, functions=offered, **fields)


async def ask(rules: list[Rule], wire: str, asked: ModelRequest, **options: Any) -> tuple[ModelReply, ModelServer]:
    with anyio.fail_after(60), serve_model(rules) as server:
        async with models_at(server, wire, **options) as models:
            return await models.complete(MODELS[wire], asked), server


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_text_arrives_with_what_it_took_and_a_model_on_this_machine_costs_nothing(
    wire: str, stream: bool
) -> None:
    rules = compose("draft", {"text": "Füll text.", "usage": {"prompt": 100, "completion": 9, "cached": 64}})
    reply, server = await ask(rules, wire, request("step: draft", stream=stream))
    cached = 0 if wire == "ollama" else 64
    assert (reply.text, reply.uses, reply.finish) == ("Füll text.", (), "stop")
    assert reply.spent == Spent(100, 9, cached, 0.0, cost_known=True)
    [asked] = server.requests
    limit = asked.body.get("max_tokens") or asked.body.get("options", {}).get("num_predict")
    # Gemini thinks unasked.
    limit = limit or asked.body["generationConfig"]["max_output_tokens"] - 4096
    assert (asked.stream, limit) == (stream, 200)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", WIRES)
async def test_calls_come_and_go_back_with_their_results(wire: str, stream: bool) -> None:
    turns = [[call("notes.search", query="a"), call("notes.search", query="b")]]
    rules = worker("study", turns, {"status": "done", "summary": "S", "findings": []})
    names = ["notes__search", "submit_report"]
    first = request("step: study", functions=names, stream=stream)
    with anyio.fail_after(60), serve_model(rules) as server:
        async with models_at(server, wire) as models:
            reply = await models.complete(MODELS[wire], first)
            results = [Message("tool", f"[c_{n}] ok", answers=use.id) for n, use in enumerate(reply.uses)]
            messages = (*first.messages, reply.message(), *results)
            end = await models.complete(MODELS[wire], request("", functions=names, messages=messages))
        assert [(use.name, use.arguments.replace(" ", "")) for use in reply.uses] == [
            ("notes__search", '{"query":"a"}'),
            ("notes__search", '{"query":"b"}'),
        ]
        assert [use.name for use in end.uses] == ["submit_report"]
        assert [each.turn for each in server.requests] == [0, 1]
        assert [message.text for message in server.requests[1].messages if message.speaker == "tool"] == [
            "[c_0] ok",
            "[c_1] ok",
        ]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_schema_gives_json_in_the_text(wire: str, stream: bool) -> None:
    rules = planner([{"query": "x"}])
    reply, _ = await ask(rules, wire, request("Plan.", name="submit_plan", schema=PLAN, stream=stream))
    assert reply.text.replace(" ", "") == '{"steps":[{"query":"x"}]}'


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_function_can_be_forced(wire: str) -> None:
    names = ["search_tools", "submit_answer"]
    reply, server = await ask(answer("Yes."), wire, request("Say.", functions=names, force="submit_answer"))
    assert [use.name for use in reply.uses] == ["submit_answer"]
    assert server.requests[0].must == "submit_answer"


async def test_a_model_gets_its_own_message_back_verbatim_and_another_one_plain_words() -> None:
    thinking: Reply = {"tool_calls": [call("notes.search", query="a")], "thinking": "Hm."}
    first = request("step: study", functions=["notes__search"])
    with anyio.fail_after(60), serve_model([*on(thinking, turn=0), *on({"text": "end"})]) as server:
        async with models_at(server, "anthropic") as models:
            reply = await models.complete(MODELS["anthropic"], first)
            messages = (*first.messages, reply.message(), Message("tool", "ok", answers=reply.uses[0].id))
            for name in (MODELS["anthropic"], "anthropic/claude-haiku-4-5"):
                await models.complete(name, request("", functions=["notes__search"], messages=messages))
    bodies = [[block["type"] for block in each.body["messages"][1]["content"]] for each in server.requests[1:]]
    assert bodies == [["thinking", "tool_use"], ["tool_use"]]


def thought_in(request: WireRequest) -> Any:
    """What went back of the thought before the call, as that wire writes it."""
    if request.wire == "gemini":
        parts = next(each["parts"] for each in request.body["contents"] if each["role"] == "model")
        return next(part["thoughtSignature"] for part in parts if "functionCall" in part or "function_call" in part)
    said = next(each for each in request.body["messages"] if each["role"] == "assistant")
    if request.wire == "anthropic":
        return [(block["type"], block.get("signature")) for block in said["content"]]
    return said["reasoning_content"]


@pytest.mark.parametrize(
    ("wire", "thought"),
    [
        ("openai", "Hm."),
        ("anthropic", [("thinking", "scripted"), ("tool_use", None)]),
        ("gemini", SIGNATURE),
    ],
)
async def test_a_models_thought_goes_back_to_it_with_the_results_of_its_calls(wire: str, thought: Any) -> None:
    usage: Usage = {"prompt": 90, "completion": 50, "reasoning": 30}
    thinking: Reply = {"tool_calls": [call("notes.search", query="a")], "thinking": "Hm.", "usage": usage}
    first = request("step: study", functions=["notes__search"])
    with anyio.fail_after(60), serve_model([*on(thinking, turn=0), *on({"text": "end"})]) as server:
        async with models_at(server, wire, reasoning_effort="low") as models:
            reply = await models.complete(MODELS[wire], first)
            messages = (*first.messages, reply.message(), Message("tool", "ok", answers=reply.uses[0].id))
            end = await models.complete(MODELS[wire], request("", functions=["notes__search"], messages=messages))
        assert (thought_in(server.requests[1]), end.left_out) == (thought, ())
    assert (reply.spent.input_tokens, reply.spent.output_tokens) == (90, 50)
    # Anthropic does not tell; what litellm says then is a guess.
    assert wire == "anthropic" or reply.spent.reasoning_tokens == 30


async def test_a_model_without_efforts_is_asked_without_and_the_reply_says_so() -> None:
    with anyio.fail_after(60), serve_model(on({"text": "fine"})) as server:
        async with models_at(server, "openai", reasoning_effort="high") as models:
            reply = await models.complete("lm_studio/m", request("step: draft"))
            assert (reply.left_out, await models.room_of("lm_studio/m", "compose")) == (("reasoning_effort",), 0)
            assert await models.room_of("anthropic/claude-sonnet-4-5", "compose") == 4096
        assert "reasoning_effort" not in server.requests[0].body


async def test_a_model_that_can_not_be_asked_by_schema_is_not_asked_without_it() -> None:
    with anyio.fail_after(60), serve_model(on({"text": "fine"})) as server:
        async with models_at(server, "openai") as models:
            with pytest.raises(ModelFailed, match="response_format") as failed:
                await models.complete("cohere_chat/command-r", request("x", name="submit_plan", schema=PLAN))
    assert (failed.value.kind, failed.value.spent, server.requests) == ("bad_request", Spent(), [])


FAULTS: dict[str, tuple[Reply, FailureKind]] = {
    "401": ({"status": 401, "error": f"bad key {SECRET}"}, "auth"),
    "403": ({"status": 403}, "auth"),
    "404": ({"status": 404, "error": "no model m"}, "bad_request"),
    "400": ({"status": 400, "error": "schemas are not taken"}, "bad_request"),
    "429": ({"status": 429, "retry_after": 7}, "rate"),
    "429 without credit": ({"status": 429, "code": "insufficient_quota", "error": "insufficient_quota"}, "quota"),
    "500": ({"status": 500, "error": f"broken by {SECRET} in /srv/app/model.py"}, "overload"),
    "503": ({"status": 503}, "overload"),
    "529": ({"status": 529}, "overload"),
    "reset": ({"fault": "reset"}, "transport"),
    "context": ({"status": 400, "error": "prompt is too long: 300000 tokens > 200000 maximum"}, "context"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_fault_is_one_request_and_one_kind_of_failure_in_our_words(wire: str, fault: str) -> None:
    said, kind = FAULTS[fault]
    with anyio.fail_after(60), serve_model(on(said)) as server:
        async with models_at(server, wire) as models:
            with pytest.raises(ModelFailed) as failed:
                await models.complete(MODELS[wire], request("step: draft"))
        assert (failed.value.kind, len(server.requests)) == (kind, 1)
        assert failed.value.retry_after == (7.0 if fault == "429" else None)
        assert "secret" not in str(failed.value).replace("[secret:", "")
        assert "/srv" not in str(failed.value)
        assert len(str(failed.value)) < 400


@pytest.mark.parametrize("fault", ["truncate", "html", "stream"])
@pytest.mark.parametrize("wire", WIRES)
async def test_what_is_no_reply_can_be_tried_again(wire: str, fault: str) -> None:
    said: Reply = {"fault": "html"} if fault == "html" else {"text": "x" * 500, "fault": "truncate"}
    with anyio.fail_after(60), serve_model(on(said)) as server:
        async with models_at(server, wire) as models:
            with pytest.raises(ModelFailed) as failed:
                await models.complete(MODELS[wire], request("step: draft", stream=fault == "stream"))
        assert (failed.value.kind in ("malformed", "transport", "overload"), len(server.requests)) == (True, 1)
        assert "<" not in str(failed.value)


@pytest.mark.parametrize("fault", ["empty", "null"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_reply_that_says_nothing_is_malformed_and_paid(wire: str, fault: Any) -> None:
    with anyio.fail_after(60), serve_model(on({"fault": fault, "usage": {"prompt": 11}})) as server:
        async with models_at(server, wire) as models:
            with pytest.raises(ModelFailed) as failed:
                await models.complete(MODELS[wire], request("step: draft"))
    assert failed.value.kind == "malformed"
    assert failed.value.spent is not None
    assert failed.value.spent.input_tokens == 11


@pytest.mark.parametrize(("finish", "ours"), [("length", "length"), ("content_filter", "refusal")], ids=str)
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_why_a_reply_ended_is_told(wire: str, finish: str, ours: str) -> None:
    reply, _ = await ask(on({"text": "half a", "finish": finish}), wire, request("step: draft"))
    assert (reply.text, reply.finish) == ("half a", ours)


async def test_broken_arguments_arrive_as_written() -> None:
    said: Reply = {"tool_calls": [call("notes.search", '{"query": ')]}
    reply, _ = await ask(on(said), "openai", request("x", functions=["notes__search"]))
    assert [use.arguments for use in reply.uses] == ['{"query": ']


@pytest.mark.parametrize("wire", WIRES)
async def test_a_model_that_hangs_is_given_up_in_time(wire: str) -> None:
    with anyio.fail_after(60), serve_model(on({"fault": "hang"})) as server:
        async with models_at(server, wire, timeout=0.5) as models:
            await models.rate_of("openai/gpt-4o")
            with pytest.raises(ModelFailed, match="no answer") as failed:
                await models.complete(MODELS[wire], request("step: draft"))
    assert failed.value.kind == "timeout"


def wait_for_one(server: ModelServer) -> None:
    # The first test of the process imports litellm on its way.
    server.wait_for(lambda request: True, timeout=50)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_request_that_found_no_connection_has_taken_nothing(wire: str) -> None:
    with serve_model([]) as server:
        pass
    async with models_at(server, wire) as models:
        with anyio.fail_after(60), pytest.raises(ModelFailed) as failed:
            await models.complete(MODELS[wire], request("x"))
    assert (failed.value.kind, failed.value.spent) == ("transport", Spent())


async def test_cancelling_the_caller_ends_the_request() -> None:
    with anyio.fail_after(60), serve_model(compose("draft", {"text": "x", "hold": "me"})) as server:
        async with models_at(server, "openai") as models, anyio.create_task_group() as group:
            group.start_soon(models.complete, MODELS["openai"], request("step: draft"))
            await anyio.to_thread.run_sync(wait_for_one, server)
            group.cancel_scope.cancel()


def wait_for_so_many(server: ModelServer, count: int) -> None:
    server.wait_for(lambda request: len(server.requests) >= count, timeout=50)


async def test_at_most_32_requests_are_open_at_once() -> None:
    with anyio.fail_after(60), serve_model(compose("draft", {"text": "x", "hold": "all"})) as server:
        async with models_at(server, "openai") as models, anyio.create_task_group() as group:
            for _ in range(40):
                group.start_soon(models.complete, MODELS["openai"], request("step: draft"))
            await anyio.to_thread.run_sync(wait_for_so_many, server, 32)
            server.release("all")
        assert (server.max_in_flight, len(server.requests)) == (32, 40)


async def test_a_price_that_the_user_wrote_is_what_a_call_costs() -> None:
    said: Reply = {"text": "x", "usage": {"prompt": 1000, "completion": 500}}
    price = Price(input_per_million=1.0, output_per_million=4.0)
    reply, _ = await ask(on(said), "openai", request("step: draft"), price=price)
    assert (reply.spent.usd, reply.spent.cost_known) == (0.003, True)


async def test_a_server_on_this_machine_gets_a_key_that_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    _, server = await ask(compose("draft", "x"), "openai", request("step: draft"), api_key=None)
    assert server.requests[0].headers["authorization"] == "Bearer none"


async def test_effort_is_passed_on_and_leaves_room_for_the_reply() -> None:
    _, server = await ask(compose("draft", "x"), "anthropic", request("step: draft"), reasoning_effort="low")
    body = server.requests[0].body
    assert (body["max_tokens"], "temperature" in body) == (1224, False)
    assert body["thinking"]["budget_tokens"] < body["max_tokens"]


async def test_ollama_is_told_a_context_that_holds_the_request() -> None:
    _, server = await ask(compose("draft", "x"), "ollama", request("step: draft\n" + "y" * 60_000))
    assert server.requests[0].body["options"]["num_ctx"] == 32_768


async def test_nothing_is_printed_whatever_the_logging_and_the_failure(capfd: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().setLevel(logging.INFO)
    try:
        with anyio.fail_after(60), serve_model(on({"status": 500})) as server:
            async with models_at(server, "openai") as models:
                for name in ("openai/m", "nobody/m"):
                    with pytest.raises(ModelFailed):
                        await models.complete(name, request("step: draft"))
    finally:
        logging.getLogger().setLevel(logging.WARNING)
    assert capfd.readouterr().out == ""


async def test_without_litellm_the_call_says_so_and_scripts_still_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    async with open_models(ModelSettings(model="openai/m"), Outlet()) as models:
        await models.warm_up()
        assert await models.rate_of("openai/m") is None
        assert await models.room_of("openai/m", "worker") == 0
        with pytest.raises(ModelFailed, match="litellm can't be imported here") as failed:
            await models.complete("openai/m", request("x"))
        with pytest.raises(ModelFailed, match=r"none\.yaml"):
            await models.complete("scripted:none.yaml", request("x"))
    assert failed.value.kind == "unavailable"
