"""What models cost: by the user's word, by the place they run at, by litellm's list, or nobody knows what."""

import importlib
from typing import Any

import pytest

from downstream.model import open_models
from downstream.model_port import FREE
from downstream.models.prices import spent_on
from downstream.settings import ModelOptions, ModelSettings, Price
from journal.ledger import Spent
from journal.outlet import Outlet

# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
MOST = Spent(700, 70, at_most=True)
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore")]


async def test_prices_come_from_the_user_the_list_or_nowhere() -> None:
    options = ModelOptions(price=Price(input_per_million=1.0, output_per_million=4.0))
    async with (
        open_models(ModelSettings(), Outlet()) as listed,
        open_models(ModelSettings(options=options), Outlet()) as own,
    ):
        known = await listed.rate_of("anthropic/claude-sonnet-4-5")
        assert known is not None
        assert known.long is None
        assert (known.input, known.output) == pytest.approx((3.0, 15.0))
        assert await listed.rate_of("openai/nobody-knows-this") is None
        assert await listed.rate_of("scripted:x.yaml") == FREE
        assert await listed.room_of("scripted:x.yaml", "worker") == 0
        priced = await own.rate_of("openai/nobody-knows-this")
        assert priced is not None
        assert priced.cost(input_tokens=1_000_000, output_tokens=1_000_000) == 5.0


async def test_what_a_provider_asks_more_for_a_long_request_is_set_aside_for_one() -> None:
    async with open_models(ModelSettings(), Outlet()) as listed:
        rate = await listed.rate_of("gemini/gemini-2.5-pro")
        assert rate is not None
        short, long = (rate.cost(input_tokens=tokens, output_tokens=1_000) for tokens in (100_000, 250_000))
        assert (short, long) == pytest.approx((0.135, 0.64))


async def test_a_model_elsewhere_costs_what_the_list_says_or_nobody_knows_what() -> None:
    litellm: Any = importlib.import_module("litellm")
    usage = litellm.Usage(prompt_tokens=1_000_000, completion_tokens=0, total_tokens=1_000_000)
    response = litellm.ModelResponse(usage=usage)
    listed = spent_on(litellm, "anthropic/claude-haiku-4-5", response, rate=None, at_most=MOST)
    unknown = spent_on(litellm, "openai/nobody-knows-this", response, rate=None, at_most=MOST)
    assert (round(listed.usd, 6), listed.cost_known) == (1.0, True)
    assert unknown == Spent(1_000_000, cost_known=False)


async def test_a_model_of_ollama_costs_nothing_where_no_address_is_given() -> None:
    async with open_models(ModelSettings(), Outlet()) as models:
        assert await models.rate_of("ollama_chat/m") == FREE
        assert await models.rate_of("openai/gpt-4o") == await models.rate_of("openai/gpt-4o")


IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "cached below nothing": {"prompt_tokens_details": {"cached_tokens": -50_000_000}},
    "more cached than there was": {"prompt_tokens_details": {"cached_tokens": 50_000_000}},
    "written below nothing": {"cache_creation_input_tokens": -50_000_000},
    "thoughts below nothing": {"completion_tokens_details": {"reasoning_tokens": -50_000_000}},
}


@pytest.mark.parametrize("more", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
async def test_a_bill_whose_parts_cannot_be_so_is_priced_by_its_whole(more: dict[str, Any]) -> None:
    litellm: Any = importlib.import_module("litellm")
    usage = litellm.Usage(prompt_tokens=1_000, completion_tokens=500, total_tokens=1_500, **more)
    spent = spent_on(litellm, "openai/gpt-4o-mini", litellm.ModelResponse(usage=usage), rate=None, at_most=MOST)
    assert spent == Spent(1_000, 500, usd=spent.usd, at_most=True)
    assert spent.usd == pytest.approx(0.00045)


async def test_what_a_server_counts_below_nothing_it_did_not_tell() -> None:
    litellm: Any = importlib.import_module("litellm")
    usage = litellm.Usage(prompt_tokens=-5, completion_tokens=-1, total_tokens=-6)
    spent = spent_on(litellm, "openai/nobody", litellm.ModelResponse(usage=usage), rate=FREE, at_most=MOST)
    assert spent == MOST
