"""Prompt caches: where Claude's requests are marked, who else gets no mark, and what a kept prefix costs."""

import gc
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from model_script import Usage
from model_server import ModelServer, Reply, call, on, serve_model
from pydantic import SecretStr
from run_at_hand import RunAtHand, open_run

from downstream.model import open_models
from downstream.model_port import (
    Complete,
    Function,
    FunctionUse,
    Message,
    ModelReply,
    ModelRequest,
    Models,
    Place,
    Rate,
    Traits,
)
from downstream.models.caching import cached_from, with_marks
from downstream.models.door import ModelDoor
from downstream.models.estimate import worst_prompt
from downstream.models.prices import heard_of
from downstream.settings import ModelOptions, ModelSettings, Price
from journal.errors import BudgetReached
from journal.ledger import Limits, Spent
from journal.outlet import Outlet
from journal.run_journal import Meaning

pytestmark = pytest.mark.filterwarnings("ignore")

CLAUDE, OVER_ROUTER = "anthropic/claude-sonnet-4-5", "openrouter/anthropic/claude-sonnet-4.5"
MARK = {"type": "ephemeral"}
SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}}
LONG = "word " * 800
SYSTEM, TASK = Message("system", f"Work. {LONG}"), Message("user", "step: study")
USED = Message("assistant", "", (FunctionUse("u1", "notes__search", "{}"), FunctionUse("u2", "notes__read", "{}")))
RESULTS = (Message("tool", "one", answers="u1"), Message("tool", "two", answers="u2"))


def offered(*names: str, words: str = "Does it.") -> tuple[Function, ...]:
    return tuple(Function(name, words, SCHEMA) for name in names)


TOOLS = offered("notes__read", "notes__search", "submit_report")


def asked(*messages: Message, functions: tuple[Function, ...] = TOOLS, **fields: Any) -> ModelRequest:
    return ModelRequest("worker", Place(step="study"), messages or (SYSTEM, TASK), 50, functions=functions, **fields)


def marks(request: ModelRequest) -> tuple[list[str], list[int]]:
    """The functions and the messages that are marked in litellm's arguments."""
    given: dict[str, Any] = {
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        "tools": [{"type": "function", "function": {"name": each.name}} for each in request.functions],
    }
    made = with_marks(given, request)
    assert "cache_control" not in str(given)
    tools = [each["function"]["name"] for each in made["tools"] if "cache_control" in each]
    return tools, [index for index, each in enumerate(made["messages"]) if "cache_control" in each]


def test_the_first_turn_is_marked_after_what_siblings_share_and_at_its_end() -> None:
    assert marks(asked()) == ([], [0, 1])
    long = offered("notes__read", words=LONG)
    assert marks(asked(functions=(*long, *TOOLS[1:]))) == (["submit_report"], [0, 1])


def test_a_later_turn_is_marked_at_its_end_and_where_the_turn_before_ended() -> None:
    assert marks(asked(SYSTEM, TASK, USED, *RESULTS)) == ([], [0, 1, 4])
    later = asked(SYSTEM, TASK, USED, *RESULTS, USED, *RESULTS)
    assert marks(later) == ([], [0, 4, 7])
    long = asked(SYSTEM, *later.messages[1:], functions=offered("a", "submit_report", words=LONG))
    tools, messages = marks(long)
    assert len(tools) + len(messages) == 4


def test_a_request_that_nothing_follows_is_marked_after_its_system_message_only() -> None:
    assert marks(asked(functions=TOOLS[-1:])) == ([], [0])
    assert marks(asked(functions=())) == ([], [0])


def test_a_short_prefix_a_reply_and_an_empty_message_are_not_marked() -> None:
    assert marks(asked(Message("system", "Work."), TASK)) == ([], [])
    assert marks(asked(Message("system", "Work."), Message("user", LONG))) == ([], [1])
    assert marks(asked(SYSTEM, TASK, Message("assistant", "So:"))) == ([], [0, 1])
    assert marks(asked(SYSTEM, Message("user", ""))) == ([], [0])


@pytest.mark.parametrize(
    ("model", "provider", "listed", "elsewhere", "tokens"),
    [
        (CLAUDE, "anthropic", True, False, 1024),
        (CLAUDE, "anthropic", False, True, 1024),
        ("anthropic/claude-sonnet-4-6", "anthropic", True, False, 2048),
        ("anthropic/claude-opus-4-6", "anthropic", True, False, 4096),
        (OVER_ROUTER, "openrouter", True, False, 1024),
        ("bedrock/anthropic.claude-3-haiku-20240307-v1:0", "bedrock", False, False, None),
        ("openai/claude-sonnet-4-5", "openai", True, True, None),
        ("openai/gpt-5", "openai", True, False, 1024),
        ("azure/gpt-5", "azure", True, True, None),
        ("openai/gpt-5", "openai", True, True, None),
        ("openai/m", "openai", False, False, None),
        ("gemini/gemini-2.5-flash", "gemini", True, False, None),
        ("deepseek/deepseek-chat", "deepseek", True, False, 1024),
        ("azure_ai/claude-sonnet-4-5", "azure_ai", True, True, 1024),
        ("anthropic/other", "anthropic", True, False, None),
    ],
)
def test_a_prefix_is_kept_from_a_length_on_that_the_provider_sets(
    model: str, provider: str, listed: bool, elsewhere: bool, tokens: int | None
) -> None:
    assert cached_from(model, provider, listed=listed, elsewhere=elsewhere) == tokens


@asynccontextmanager
async def models_at(server: ModelServer, model: str, **options: Any) -> AsyncGenerator[Models]:
    base = server.url if model.startswith(("anthropic/", "azure_ai/")) else f"{server.url}/v1"
    given: dict[str, Any] = {"api_base": base, "api_key": SecretStr("sk-0123456789"), "timeout": 20.0} | options
    async with open_models(ModelSettings(model=model, options=ModelOptions(**given)), Outlet()) as models:
        yield models
    gc.collect()


def marked_in(body: Any) -> int:
    return json.dumps(body).count('"cache_control"')


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("model", "count"),
    [
        (CLAUDE, 3),
        (OVER_ROUTER, 3),
        ("azure_ai/claude-sonnet-4-5", 3),
        ("openai/claude-sonnet-4-5", 0),
        ("openai/gpt-4o", 0),
        ("anthropic/other", 0),
    ],
)
async def test_marks_go_out_to_claude_only_and_not_to_servers_that_speak_as_openai_does(model: str, count: int) -> None:
    request = asked(SYSTEM, TASK, USED, *RESULTS)
    with anyio.fail_after(60), serve_model(on({"text": "fine"})) as server:
        async with models_at(server, model) as models:
            await models.complete(model, request)
        [sent] = server.requests
        assert marked_in(sent.body) == count
        assert [each.text for each in sent.messages if each.speaker == "tool"] == ["one", "two"]


@pytest.mark.e2e
async def test_each_turn_is_the_one_before_with_more_behind_it_and_reads_on_from_its_mark() -> None:
    thinking: Reply = {"tool_calls": [call("notes.search", query="a")], "thinking": "Hm."}
    with (
        anyio.fail_after(60),
        serve_model([*on(thinking, turn=0), *on(thinking, turn=1), *on({"text": "end"})]) as server,
    ):
        async with models_at(server, CLAUDE, reasoning_effort="low") as models:
            messages = [SYSTEM, TASK]
            for _ in range(3):
                reply = await models.complete(CLAUDE, asked(*messages))
                messages += [reply.message(), *(Message("tool", "found", answers=use.id) for use in reply.uses)]
        first, second, third = (each.body for each in server.requests)
    assert first["tools"] == second["tools"] == third["tools"]
    assert first["system"] == second["system"] == [{"type": "text", "text": SYSTEM.content, "cache_control": MARK}]
    # The mark of the second turn's end is in the third as well, and what it stands on is the same.
    assert third["messages"][: len(second["messages"])][-1] == second["messages"][-1]
    assert second["messages"][-1]["content"][-1]["cache_control"] == MARK
    assert [marked_in(each) for each in (first, second, third)] == [2, 3, 3]
    assert [block["type"] for block in second["messages"][1]["content"]] == ["thinking", "tool_use"]


@pytest.mark.e2e
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_what_is_read_from_the_cache_and_written_to_it_is_billed_to_the_cent(
    monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    usage: Usage = {"prompt": 1110, "completion": 5, "cached": 1000, "written": 100}
    with anyio.fail_after(60), serve_model(on({"text": "fine", "usage": usage})) as server:
        monkeypatch.setenv("ANTHROPIC_API_BASE", server.url)
        async with models_at(server, CLAUDE, api_base=None) as models:
            reply = await models.complete(CLAUDE, asked(stream=stream))
            rate = await models.rate_of(CLAUDE)
        async with models_at(
            server, CLAUDE, api_base=None, price=Price(input_per_million=3.0, output_per_million=15.0)
        ) as models:
            own = await models.complete(CLAUDE, asked(stream=stream))
    assert round(reply.spent.usd, 9) == 0.00078
    assert reply.spent == Spent(1110, 5, 1000, reply.spent.usd)
    assert rate is not None
    assert (rate.dearest_input, rate.input) == pytest.approx((3.75, 3.0))
    # A price that the user wrote says nothing of what is read from a cache.
    assert round(own.spent.usd, 9) == round((1010 * 3.0 + 100 * 3.75 + 5 * 15.0) / 1e6, 9)


@pytest.mark.e2e
async def test_what_is_known_of_a_model_comes_from_the_list_or_is_what_most_can() -> None:
    async with open_models(ModelSettings(), Outlet()) as models:
        known = {name: await models.traits_of(name) for name in (CLAUDE, "openai/gpt-4o", "openai/nobody-knows-this")}
        assert known == {
            CLAUDE: Traits(200_000, 1024),
            "openai/gpt-4o": Traits(128_000, 1024),
            "openai/nobody-knows-this": Traits(32_768),
        }
        assert await models.traits_of(CLAUDE) is await models.traits_of(CLAUDE)
        assert await models.traits_of("ollama_chat/llama3") == Traits(32_768, by_grammar=True)
        assert await models.traits_of("nobody/m") == Traits(32_768)
        assert (await models.traits_of("scripted:x.yaml")).window > 1_000_000


async def test_without_litellm_what_most_models_can_is_taken_for_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    async with open_models(ModelSettings(model=CLAUDE), Outlet()) as models:
        assert await models.traits_of(CLAUDE) == Traits()


@pytest.mark.parametrize(("tokens", "price"), [(1_024, 3.75), (1_000, 3.0)], ids=["long", "too short for a cache"])
async def test_of_what_nobody_told_all_may_have_been_written(tmp_path: Path, tokens: int, price: float) -> None:
    request = ModelRequest("worker", Place(), (Message("user", "x" * 4 * tokens),), 50)
    rate, started = Rate(3.0, 15.0, 3.75), anyio.Event()
    told = heard_of([], rate, at_most=Spent(tokens, at_most=True))
    assert told == Spent(tokens, usd=tokens * price / 1e6, at_most=True)

    async def hang(model: str, request: ModelRequest) -> ModelReply:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with open_run(tmp_path) as run:
        door, journal = door_to(hang, rate, run), await run.take()
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(door.ask, journal, "k", Meaning("worker", {}), request)
                await started.wait()
                group.cancel_scope.cancel()
        most = worst_prompt(request)
        assert (await run.usage()).cost_usd == pytest.approx((most * 3.75 + 50 * 15.0) / 1e6)


def door_to(complete: Complete, rate: Rate, run: RunAtHand) -> ModelDoor:
    async def rate_of(model: str) -> Rate | None:
        return rate

    async def warm_up() -> None:
        """There is nothing to warm."""

    return ModelDoor(Models(complete, rate_of, warm_up), ModelSettings(model="m"), run.store.remembered)


async def test_the_reservation_holds_also_where_the_whole_prompt_is_written_to_the_cache(tmp_path: Path) -> None:
    rate = Rate(100.0, 0.0, 125.0)
    request = ModelRequest("worker", Place(step="s"), (Message("user", "x" * 4000),), 50)
    paid = rate.cost(input_tokens=1000, output_tokens=0, written=1000)

    async def complete(model: str, request: ModelRequest) -> ModelReply:
        return ModelReply(model, "fine", spent=Spent(1000, 0, usd=paid))

    limits = Limits(model_calls=50, tool_calls=50, tokens=100_000, usd=0.13, usd_day=20.0, seconds=600.0)
    async with open_run(tmp_path, limits=limits) as run:
        door = door_to(complete, rate, run)
        # A tenth is kept for the answer: 0.1 would go into what is left, 0.125 does not.
        with pytest.raises(BudgetReached, match="usd"):
            await door.ask(await run.take(), "k", Meaning("worker", {}), request)
        assert (await run.usage()).cost_usd == 0.0
