"""What a model costs and what a response took, by the user's price, by the place it runs at, or by litellm's list."""

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from downstream.model_port import Rate, Traits
from downstream.settings import Price
from journal.ledger import Spent

from .caching import is_claude, written_at_most

OLLAMA = ("ollama/", "ollama_chat/")
_CLAUDE_WRITES = 1.25
_LONGEST_PROMPT = 2_000_000
"""Tokens; where a provider asks more for long requests, it does so for this one."""
_NO_MORE = 1.001
_MOST = 1_000_000_000
"""A bill of more tokens than these is a mistake, and its sums would not fit the store."""
FOREIGN = (ValueError, LookupError, TypeError, AttributeError, OSError)
"""What litellm lets through of its own mistakes, beside the errors that it means to raise."""


def spent_on(litellm: Any, model: str, response: Any, *, rate: Rate | None, at_most: Spent) -> Spent:
    """What a response took; without a rate of our own, by litellm's list.

    What its usage does not tell, or can't be so, is as in `at_most`.
    """
    spent, written = _told(response.usage, at_most, silent=not said_in(response))
    if rate is None and not spent.at_most:
        try:
            usd = max(0.0, float(litellm.completion_cost(completion_response=response, model=model) or 0))
        except (litellm.exceptions.ModelNotMappedError, litellm.exceptions.openai.OpenAIError, *FOREIGN):
            usd = 0.0
        # Some models are listed at 0 because nobody has looked their price up.
        return _with_cost(spent, usd, known=usd > 0)
    return _priced(spent, rate or listed_rate(litellm, model), written=written)


def heard_of(pieces: Iterable[Any], rate: Rate | None, *, at_most: Spent) -> Spent:
    """What a stream took that was not heard to its end: `at_most`, but for what it said of its prompt."""
    usages = [usage for piece in pieces if (usage := getattr(piece, "usage", None)) is not None]
    told, written = (
        _told(usages[-1], at_most, silent=False) if usages else (at_most, written_at_most(at_most.input_tokens))
    )
    output = max(told.output_tokens, at_most.output_tokens)
    return _priced(replace(told, output_tokens=output, at_most=True), rate, written=written)


def bytes_said(piece: Any) -> int:
    """The UTF-8 bytes of what a reply, or a piece of one, says."""
    return len(said_in(piece).encode("utf-8", "surrogatepass"))


def said_in(piece: Any) -> str:
    """What a reply, or a piece of a stream, says: text, thoughts, and the names and arguments of calls."""
    said: list[str | None] = []
    for choice in getattr(piece, "choices", None) or ():
        part: Any = getattr(choice, "delta", None) or choice.message
        said += [part.content, getattr(part, "reasoning_content", None)]
        for each in part.tool_calls or ():
            said += [each.function.name, each.function.arguments]
    return "".join(filter(None, said))


def listed_rate(litellm: Any, model: str) -> Rate | None:
    """What litellm's list says; None where it does not know the model, or has no price for it."""
    try:
        usual, most = (_for_a_million(litellm, model, prompt) for prompt in (1_000, _LONGEST_PROMPT))
    except (litellm.exceptions.ModelNotMappedError, litellm.exceptions.openai.OpenAIError, *FOREIGN):
        return None
    if not any(usual):
        return None
    written = _listed(litellm, model, "cache_creation_input_token_cost", 0.0) * 1_000_000
    dearer = max(most[0] / usual[0], most[1] / usual[1]) if all(usual) else 1.0
    long = Rate(most[0], most[1], written * dearer or None) if dearer > _NO_MORE else None
    return Rate(*usual, written or None, long)


def _for_a_million(litellm: Any, model: str, prompt: int) -> tuple[float, float]:
    """US dollars for a million tokens of input and of output, where a request has so many of input."""
    paid, earned = litellm.cost_per_token(model=model, prompt_tokens=prompt, completion_tokens=1_000)
    return paid / prompt * 1_000_000, earned * 1_000


def listed_window(litellm: Any, model: str) -> int:
    """The tokens that a model takes by litellm's list, which does not know those of a server's own."""
    default = Traits().window
    # litellm would ask the server, with a call that blocks.
    return default if model.startswith(OLLAMA) else int(_listed(litellm, model, "max_input_tokens", default))


def own_rate(model: str, price: Price) -> Rate:
    """The price that the user wrote; what Claude keeps in its cache costs a quarter more than that."""
    written = price.input_per_million * _CLAUDE_WRITES if is_claude(model) else None
    return Rate(price.input_per_million, price.output_per_million, written)


def _listed(litellm: Any, model: str, name: str, default: float) -> float:
    try:
        known: float | None = litellm.get_model_info(model).get(name)
    except (litellm.exceptions.ModelNotMappedError, litellm.exceptions.openai.OpenAIError, *FOREIGN):
        return default
    return known or default


def is_loopback(url: str) -> bool:
    """Whether the address is on this machine, by what is written."""
    host = urlsplit(url if "//" in url else f"//{url}").hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _told(usage: Any, at_most: Spent, *, silent: bool) -> tuple[Spent, int]:
    """What a usage tells, and how much of it went into a cache; in the place of what can't be so, the most it was.

    Every prompt has tokens, and where something was said so has the reply; nothing is below nothing, nor are parts more
    than the whole.
    """
    before: Any = getattr(usage, "prompt_tokens_details", None)
    after: Any = getattr(usage, "completion_tokens_details", None)
    counted, said = (usage.prompt_tokens or 0, usage.completion_tokens or 0)
    cached = getattr(before, "cached_tokens", None) or 0
    reasoned = getattr(after, "reasoning_tokens", None) or 0
    written = getattr(usage, "cache_creation_input_tokens", None) or 0
    knows_input = 0 < counted <= _MOST
    knows_output = 0 < said <= _MOST or (silent and said == 0)
    input_tokens = counted if knows_input else at_most.input_tokens
    output_tokens = said if knows_output else at_most.output_tokens
    parts = (cached <= input_tokens, written <= input_tokens, min(cached, written, reasoned) >= 0)
    fits = knows_input and all(parts)
    spent = Spent(
        input_tokens,
        output_tokens,
        cached if fits else 0,
        reasoning_tokens=min(max(0, reasoned), output_tokens),
        at_most=not (fits and knows_output),
    )
    return spent, written if fits else written_at_most(input_tokens)


def _priced(spent: Spent, rate: Rate | None, *, written: int) -> Spent:
    if rate is None:
        return _with_cost(spent, 0.0, known=False)
    usd = rate.cost(input_tokens=spent.input_tokens, output_tokens=spent.output_tokens, written=written)
    return _with_cost(spent, usd, known=True)


def _with_cost(spent: Spent, usd: float, *, known: bool) -> Spent:
    return replace(spent, usd=usd, cost_known=known)
