"""What a model costs and what a response took, by the user's price, by the place it runs at, or by litellm's list."""

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from downstream.model_port import ModelRequest, Rate
from journal.ledger import Spent

FOREIGN = (ValueError, LookupError, TypeError, AttributeError, OSError)
"""What litellm lets through of its own mistakes, beside the errors that it means to raise."""


def spent_on(litellm: Any, model: str, response: Any, *, rate: Rate | None) -> Spent:
    """What a response took; without a rate of our own, by litellm's list."""
    spent = _tokens(response.usage)
    if rate is not None:
        return _at(rate, spent)
    try:
        usd = float(litellm.completion_cost(completion_response=response, model=model) or 0)
    except (litellm.exceptions.ModelNotMappedError, litellm.exceptions.openai.OpenAIError, *FOREIGN):
        usd = 0.0
    # Some models are listed at 0 because nobody has looked their price up.
    return _with_cost(spent, usd, known=usd > 0)


def heard_of(request: ModelRequest, pieces: Iterable[Any], rate: Rate | None) -> Spent:
    """What a stream that broke off took, as far as it said so; else a quarter of the characters that went and came."""
    told, characters = Spent(), 0
    for piece in pieces:
        if (usage := getattr(piece, "usage", None)) is not None:
            told = _tokens(usage)
        for choice in getattr(piece, "choices", None) or ():
            characters += len(choice.delta.content or "") + len(getattr(choice.delta, "reasoning_content", None) or "")
            characters += sum(len(each.function.arguments or "") for each in choice.delta.tool_calls or ())
    prompt = told.input_tokens or request.prompt_characters() // 4
    spent = Spent(prompt, max(told.output_tokens, characters // 4), told.cached_tokens)
    return _with_cost(spent, 0.0, known=False) if rate is None else _at(rate, spent)


def listed_rate(litellm: Any, model: str) -> Rate | None:
    """What litellm's list says; None where it does not know the model, or has no price for it."""
    thousand = {"prompt_tokens": 1000, "completion_tokens": 1000}
    try:
        paid, earned = litellm.cost_per_token(model=model, **thousand)
    except (litellm.exceptions.ModelNotMappedError, litellm.exceptions.openai.OpenAIError, *FOREIGN):
        return None
    return Rate(paid * 1000, earned * 1000) if paid or earned else None


def is_loopback(url: str) -> bool:
    """Whether the address is on this machine, by what is written."""
    host = urlsplit(url if "//" in url else f"//{url}").hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _tokens(usage: Any) -> Spent:
    before: Any = getattr(usage, "prompt_tokens_details", None)
    after: Any = getattr(usage, "completion_tokens_details", None)
    return Spent(
        usage.prompt_tokens or 0,
        usage.completion_tokens or 0,
        getattr(before, "cached_tokens", None) or 0,
        reasoning_tokens=getattr(after, "reasoning_tokens", None) or 0,
    )


def _at(rate: Rate, spent: Spent) -> Spent:
    usd = rate.cost(input_tokens=spent.input_tokens, output_tokens=spent.output_tokens)
    return _with_cost(spent, usd, known=True)


def _with_cost(spent: Spent, usd: float, *, known: bool) -> Spent:
    return replace(spent, usd=usd, cost_known=known)
