"""Bills that are wrong, missing or too large, and replies that are none, through real litellm."""

import gc
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from bad_input import ANSWER, FOUND, LOOK, READ, STUDIED, STUDY, kinds, open_asked_product
from model_script import Usage
from model_server import ModelServer, Reply, Rule, answer, on, planner, report, serve_model, worker
from pydantic import SecretStr

from downstream.model import open_models
from downstream.model_port import Message, ModelFailed, ModelReply, ModelRequest, Place
from downstream.settings import ModelOptions, ModelSettings, Price
from journal.ledger import Spent
from journal.outlet import Outlet

# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore")]

Json = Any
MODELS = {"openai": "openai/m", "anthropic": "anthropic/claude-sonnet-4-5", "gemini": "gemini/gemini-2.5-flash"}
ROOM = {"openai": 0, "anthropic": 0, "gemini": 4096}
PRICE = Price(input_per_million=3.0, output_per_million=15.0)
PROMPT = 85
"""The bytes of the request below, and what providers wrap it in."""
TEXT = "half a te"
KEY = "sk-a-very-secret-key"
EVENTS = "text/event-stream"


def chat(usage: Json = ..., *, finish: str | None = "stop", content: Json = TEXT) -> str:
    message = {"role": "assistant", "content": content}
    body: Json = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    body["choices"] = [{"index": 0, "message": message, "finish_reason": finish}]
    return json.dumps(body if usage is ... else body | {"usage": usage})


def chunks(usage: Json = ..., *, finish: str = "stop") -> str:
    base: Json = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas: list[tuple[Json, str | None]] = [
        ({"role": "assistant", "content": "half a "}, None),
        ({"content": "te"}, None),
        ({}, finish),
    ]
    events = [base | {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in deltas]
    if usage is not ...:
        events.append(base | {"choices": [], "usage": usage})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


def claude(usage: Json) -> str:
    content = [{"type": "text", "text": TEXT}]
    body: Json = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": content}
    return json.dumps(body | {"stop_reason": "end_turn", "usage": usage})


def gemini(usage: Json, finish: str = "STOP") -> str:
    candidate = {"content": {"role": "model", "parts": [{"text": TEXT}]}, "finishReason": finish}
    return json.dumps({"candidates": [candidate]} | ({} if usage is None else {"usageMetadata": usage}))


def openai_usage(prompt: Json, completion: Json) -> Json:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": 15}


def gemini_usage(prompt: Json, completion: Json) -> Json:
    return {"promptTokenCount": prompt, "candidatesTokenCount": completion, "totalTokenCount": 15}


async def ask_all(
    server: ModelServer,
    wire: str,
    *,
    times: int = 1,
    tokens: int = 100,
    stream: bool = False,
    price: Price | None = PRICE,
) -> list[ModelReply | ModelFailed]:
    base = f"{server.url}/v1" if wire == "openai" else server.url
    options = ModelOptions(api_base=base, api_key=SecretStr(KEY), timeout=20, price=price)
    request = ModelRequest("worker", Place(), (Message("user", "hello"),), tokens, stream=stream)
    said: list[ModelReply | ModelFailed] = []
    async with open_models(ModelSettings(options=options), Outlet()) as models:
        with anyio.fail_after(60):
            for _ in range(times):
                try:
                    said.append(await models.complete(MODELS[wire], request))
                except ModelFailed as error:
                    said.append(error)
    # litellm leaves connections of streams to the garbage collector.
    gc.collect()
    return said


async def reply_to(reply: Reply, wire: str, **asked: Any) -> ModelReply | ModelFailed:
    with serve_model(on(reply)) as server:
        [said] = await ask_all(server, wire, **asked)
    return said


UNTOLD: dict[str, Json] = {
    "absent": ...,
    "null": None,
    "empty": {},
    "below nothing": openai_usage(-5, -5),
    "of another wire": {"input_tokens": 5000, "output_tokens": 1000},
    "nothing": openai_usage(0, 0),
    "beyond all": openai_usage(2**62, 10**30),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("usage", UNTOLD.values(), ids=UNTOLD)
async def test_a_reply_without_a_bill_is_paid_with_the_most_that_it_may_have_taken(usage: Json, stream: bool) -> None:
    raw: Reply = {"raw": chunks(usage), "kind": EVENTS} if stream else {"raw": chat(usage)}
    said = await reply_to(raw, "openai", stream=stream)
    assert isinstance(said, ModelReply)
    assert (said.text, said.finish) == (TEXT, "stop")
    assert said.spent == Spent(PROMPT, len(TEXT), usd=said.spent.usd, at_most=True)
    assert said.spent.usd == pytest.approx((PROMPT * 3 + len(TEXT) * 15) / 1e6)


@pytest.mark.parametrize(
    ("wire", "raw"),
    [
        ("anthropic", claude({"input_tokens": -5, "output_tokens": -5})),
        ("anthropic", claude({"input_tokens": "5000", "output_tokens": "1000"})),
        ("gemini", gemini(gemini_usage(-10, -5))),
    ],
    ids=["anthropic, below nothing", "anthropic, texts", "gemini, below nothing"],
)
async def test_so_is_one_of_another_wire(wire: str, raw: str) -> None:
    said = await reply_to({"raw": raw}, wire)
    assert isinstance(said, ModelReply)
    spent = said.spent
    assert (spent.input_tokens, spent.output_tokens, spent.at_most) == (PROMPT, len(TEXT) + ROOM[wire], True)
    assert spent.usd == pytest.approx((PROMPT * 3 + spent.output_tokens * 15) / 1e6)


@pytest.mark.parametrize("price", [PRICE, None], ids=["own price", "listed price"])
async def test_no_bill_gives_dollars_back(price: Price | None) -> None:
    usage = {"input_tokens": 1000, "output_tokens": 500, "cache_creation_input_tokens": -50_000_000}
    said = await reply_to({"raw": claude(usage)}, "anthropic", price=price)
    assert isinstance(said, ModelReply)
    assert (said.spent.input_tokens, said.spent.output_tokens, said.spent.cost_known) == (PROMPT, 500, True)
    assert said.spent.usd == pytest.approx(0.0 if price is None else (PROMPT * 3 + 500 * 15) / 1e6)


ENDS = {
    "error": ("openai", {"raw": chat(openai_usage(10, 5), finish="error")}, False),
    "no room": ("openai", {"raw": chat(openai_usage(10, 5), finish="insufficient_system_resource")}, False),
    "abort": ("openai", {"raw": chat(openai_usage(10, 5), finish="abort")}, False),
    "network": ("openai", {"raw": chunks(openai_usage(10, 5), finish="network_error"), "kind": EVENTS}, True),
    "call": ("gemini", {"raw": gemini(gemini_usage(10, 5), "MALFORMED_FUNCTION_CALL")}, False),
}


@pytest.mark.parametrize(("wire", "reply", "stream"), ENDS.values(), ids=ENDS)
async def test_a_reply_that_its_server_broke_off_is_none(wire: str, reply: Reply, stream: bool) -> None:
    said = await reply_to(reply, wire, stream=stream)
    assert isinstance(said, ModelFailed)
    assert said.kind == "malformed"
    assert "its server broke its reply off (" in said.reason
    assert said.spent is not None
    assert (said.spent.input_tokens, said.spent.output_tokens) == (10, 5)


async def test_an_end_in_a_word_that_nobody_knows_is_one() -> None:
    said = await reply_to({"raw": chat(openai_usage(10, 5), finish="eos_found")}, "openai")
    assert isinstance(said, ModelReply)
    assert (said.text, said.finish) == (TEXT, "stop")


UNREADABLE = {
    "a list": ("openai", chat(openai_usage(10, 5), content=[{"type": "text", "text": "hi"}])),
    "a fraction": ("openai", chat(openai_usage(5000.5, 1000.0))),
    "no JSON": ("openai", "{broken"),
    "no bill of Claude": ("anthropic", claude(None)),
    "no bill of Gemini": ("gemini", gemini(None)),
}


@pytest.mark.parametrize(("wire", "raw"), UNREADABLE.values(), ids=UNREADABLE)
async def test_a_reply_that_cannot_be_read_is_told_without_what_litellm_made_of_it(wire: str, raw: str) -> None:
    said = await reply_to({"raw": raw}, wire)
    assert isinstance(said, ModelFailed)
    assert (said.kind, said.reason, said.spent) == ("malformed", "its reply can't be read", None)


async def test_a_server_that_does_not_stream_is_asked_without() -> None:
    with serve_model(on({"raw": chat(openai_usage(1000, 500))})) as server:
        first, second = await ask_all(server, "openai", times=2, stream=True)
    assert isinstance(first, ModelFailed)
    assert (first.kind, first.spent) == ("malformed", None)
    assert "its server sent no stream" in first.reason
    assert isinstance(second, ModelReply)
    assert (second.text, second.spent.tokens) == (TEXT, 1500)
    assert [each.stream for each in server.requests] == [True, False]


async def test_a_stream_that_says_far_more_than_was_asked_for_is_cut_as_too_long() -> None:
    words = " ".join(map(str, range(20_000)))
    with serve_model(on({"text": words})) as server:
        [said] = await ask_all(server, "openai", tokens=1000, stream=True)
    assert isinstance(said, ModelReply)
    assert said.finish == "length"
    assert 7_984 <= len(said.text) <= 8_016
    # More than its server was asked for: it may be anything.
    assert (said.spent.output_tokens, said.spent.at_most) == (len(said.text), True)


@pytest.mark.parametrize("wire", MODELS)
async def test_a_redirect_takes_no_key_and_no_words_away(wire: str) -> None:
    with serve_model(on({"text": "stolen"})) as other:
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        path = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages", "gemini": "/x:generateContent"}[wire]
        with serve_model(on({"raw": "{}", "status": 307, "headers": {"location": elsewhere + path}})) as server:
            whole, streamed = await ask_all(server, wire) + await ask_all(server, wire, stream=True)
    assert other.requests == []
    for said in (whole, streamed):
        assert isinstance(said, ModelFailed)
        assert said.kind == "unavailable"
        assert said.reason.startswith("its server sends to localhost, where nothing is sent to")


GOAL = worker("goal", [[READ]], report("On Friday.", {FOUND: [0]}))
REST = planner([LOOK, STUDY]) + STUDIED + GOAL + answer(ANSWER)


async def run(folder: Path, rules: list[Rule], **budget: Json) -> tuple[Json, Json]:
    options = {"price": {"input_per_million": 3.0, "output_per_million": 15.0}}
    async with open_asked_product(folder, rules + REST, options=options) as asked:
        view = await asked.host.structured("plan_and_execute", {"goal": "When?", "budget": budget}, within=40)
    gc.collect()
    return view, asked


async def test_bills_beyond_all_do_not_hold_a_run_up(tmp_path: Path) -> None:
    huge: Usage = {"prompt": 2**62, "completion": 10**30}
    rules = on({"tool_calls": [READ], "usage": huge}, role="worker", turn=0)
    view, _ = await run(tmp_path, rules)
    assert (view["status"], kinds(view)) == ("succeeded", {"look": "succeeded", "study": "succeeded"})
    assert view["usage"]["input_tokens"] < 100_000


async def test_a_plan_of_a_server_that_does_not_stream_counts_and_is_paid(tmp_path: Path) -> None:
    plan = chat(openai_usage(1000, 500), content=json.dumps({"steps": [LOOK, STUDY]}))
    view, asked = await run(tmp_path, on({"raw": plan}, role="planner"))
    assert (view["status"], kinds(view)) == ("succeeded", {"look": "succeeded", "study": "succeeded"})
    rest = sum(each.prompt + each.completion for each in asked.model.billed)
    # The first request was answered too, and nobody heard what it took.
    assert view["usage"]["input_tokens"] + view["usage"]["output_tokens"] > rest + 2 * 1500
    assert [each.stream for each in asked.asked("planner")] == [True, False]


async def test_replies_that_cannot_be_read_are_paid_and_told_in_our_words(tmp_path: Path) -> None:
    unreadable = chat(openai_usage(5000, 1000), content=[{"type": "text", "text": "hi"}])
    rules = on({"raw": unreadable}, role="worker", step="study") + on({"text": "{}"}, role="reviser")
    view, _ = await run(tmp_path, rules, tokens=30_000)
    told = json.dumps(view)
    assert "Traceback" not in told
    assert "HTTP 500" not in told
    assert view["usage"]["output_tokens"] >= 4_000


def slow_down(pause: str) -> list[Rule]:
    return on({"raw": "{}", "status": 429, "headers": {"retry-after": pause}}, role="worker", step="study", times=1)


@pytest.mark.parametrize("pause", ["inf", "Wed, 21 Oct 2015 07:28:00 GMT"], ids=["for ever", "a date gone by"])
async def test_a_pause_that_is_no_number_does_not_close_the_model(tmp_path: Path, pause: str) -> None:
    view, asked = await run(tmp_path, slow_down(pause))
    assert (view["status"], kinds(view)) == ("succeeded", {"look": "succeeded", "study": "succeeded"})
    assert len(asked.asked("worker")) == 3
