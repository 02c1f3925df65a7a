"""Replies that never end, through real litellm: what goes round in circles is cut, what goes on for ever given up."""

import gc
from pathlib import Path

import anyio
import pytest
from bad_input import ANSWER, LOOK, kinds, open_asked_product
from model_server import ModelServer, Reply, answer, on, planner, serve_model
from pydantic import SecretStr

from downstream.model import open_models
from downstream.model_port import Message, ModelFailed, ModelReply, ModelRequest, Place
from downstream.settings import ModelOptions, ModelSettings, Price
from journal.outlet import Outlet

# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore")]

MODELS = {
    "openai": "openai/m",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "ollama": "ollama_chat/m",
}
PRICE = Price(input_per_million=1.0, output_per_million=4.0)
MANY = 40_000
SLOWLY = 0.02
"""Seconds between pieces of sixteen characters: to its end such a reply takes a minute."""
ROUND: dict[str, Reply] = {
    "a number": {"text": '{"version": "' + "1." * (MANY // 2)},
    "white space": {"text": '{"steps": [' + "  \n \t " * (MANY // 6)},
    "arguments": {"tool_calls": [{"name": "submit_plan", "arguments": '{"steps": "' + "ab " * (MANY // 3)}]},
    "thoughts": {"thinking": "Wait. " * (MANY // 6), "text": "Done."},
}
NUMBERS = " ".join(map(str, range(9_000)))


def request(listen: float | None, tokens: int) -> ModelRequest:
    messages = (Message("user", "Plan."),)
    return ModelRequest("planner", Place(), messages, tokens, name="submit_plan", stream=True, listen=listen)


async def ask(
    server: ModelServer, wire: str, patience: float, listen: float | None = None, *, tokens: int = 200
) -> ModelReply:
    base = f"{server.url}/v1" if wire == "openai" else server.url
    options = ModelOptions(api_base=base, api_key=SecretStr("sk-none"), timeout=patience, price=PRICE)
    async with open_models(ModelSettings(options=options), Outlet()) as models:
        await models.warm_up()
        try:
            with anyio.fail_after(20):
                return await models.complete(MODELS[wire], request(listen, tokens))
        finally:
            # litellm leaves the connection of a stream to the garbage collector.
            gc.collect()


@pytest.mark.parametrize(
    ("wire", "said"),
    [(wire, said) for wire in MODELS for said in ("a number", "white space")]
    + [("openai", "arguments"), ("anthropic", "arguments")],
)
async def test_a_reply_that_goes_round_in_circles_is_cut_as_too_long_and_paid_in_full(wire: str, said: str) -> None:
    rule: Reply = {**ROUND[said], "chunk_delay": SLOWLY}
    with serve_model(on(rule)) as server:
        reply = await ask(server, wire, 20)
    heard = reply.text + "".join(use.arguments for use in reply.uses)
    assert (reply.finish, len(server.requests)) == ("length", 1)
    assert 1_200 <= len(heard) <= 2_400
    assert reply.spent.cost_known
    room = 4096 if wire == "gemini" else 0
    # Far more has come than was asked for, if the model did not think.
    assert reply.spent.output_tokens >= max(200 + room, 0 if room else len(heard))
    assert reply.spent.usd >= reply.spent.output_tokens * 4 / 1_000_000


async def test_thoughts_that_go_round_in_circles_are_cut_too() -> None:
    with serve_model(on({**ROUND["thoughts"], "chunk_delay": SLOWLY})) as server:
        reply = await ask(server, "openai", 20)
    assert (reply.text, reply.finish) == ("", "length")


async def test_a_reply_that_only_goes_on_and_on_is_given_up_for_good_and_paid_in_full() -> None:
    words = r"its reply had no end: it went on for 2\.5 s, 5 times model_options\.timeout"
    with (
        serve_model(on({"text": NUMBERS, "chunk_delay": SLOWLY})) as server,
        pytest.raises(ModelFailed, match=words) as failed,
    ):
        await ask(server, "openai", 0.5, tokens=2_000)
    assert failed.value.kind == "endless"
    assert failed.value.spent is not None
    assert failed.value.spent.output_tokens == 2_000


async def test_a_reply_that_was_listened_to_for_long_enough_is_cut_as_too_long_and_paid_in_full() -> None:
    with serve_model(on({"text": NUMBERS, "chunk_delay": SLOWLY})) as server:
        reply = await ask(server, "openai", 20, listen=0.5)
    assert (reply.finish, len(server.requests)) == ("length", 1)
    assert 0 < len(reply.text) < len(NUMBERS)
    assert (reply.spent.output_tokens, reply.spent.at_most) == (200, True)


async def test_that_time_begins_with_the_first_piece() -> None:
    with serve_model(on({"text": "Done.", "latency": 0.6})) as server:
        reply = await ask(server, "openai", 20, listen=0.3)
    assert (reply.text, reply.finish) == ("Done.", "stop")


async def test_a_run_goes_on_after_a_plan_that_went_round_in_circles(tmp_path: Path) -> None:
    bad: Reply = {**ROUND["a number"], "chunk_delay": SLOWLY}
    rules = on(bad, role="planner", times=1) + planner([LOOK]) + answer(ANSWER)
    async with open_asked_product(tmp_path, rules) as asked:
        view = await asked.run(within=30)
    gc.collect()
    first, second = asked.asked("planner")
    assert (view["status"], kinds(view)) == ("succeeded", {"look": "succeeded"})
    assert "cut off for its length; say it shorter" in second.text()
    assert "cut off" not in first.text()


async def test_a_plan_that_never_ends_is_asked_for_once(tmp_path: Path) -> None:
    rules = on({"text": NUMBERS, "chunk_delay": SLOWLY}, role="planner")
    async with open_asked_product(tmp_path, rules, options={"timeout": 0.5}) as asked:
        view = await asked.run(within=30)
    gc.collect()
    assert len(asked.asked("planner")) == 1
    assert "its reply had no end" in " ".join(view["warnings"])
