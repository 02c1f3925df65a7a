"""Eight workers against tokens and dollars where the bill is far from a quarter of the characters."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from eight_workers import MODEL, SPARE, WORKERS, Eight, honest, open_eight
from gate_case import text_result
from mcp.types import CallToolResult

from downstream.gate.sending import Outgoing
from downstream.model_port import ModelFailed, ModelReply, ModelRequest, Rate
from journal.ledger import Spent

Json = Any
RARE = "\U00020000\U0002a6d0\ue000" * 500
"""Signs of which the tokenizers of four families make up to one token of each byte: sixteen times the estimate."""
ENOUGH: dict[str, Json] = {"steps": WORKERS, "revisions": 3, "retries": 1, "parallel": WORKERS}
PRICES = {MODEL: Rate(100.0, 500.0), SPARE: Rate(1_000.0, 5_000.0)}
TOKENS = [20_000, 60_000, 120_000, 160_000, 240_000]
USD = [1.0, 4.0, 8.0, 20.0]


def size(request: ModelRequest) -> int:
    said = [message.content + "".join(use.arguments for use in message.uses) for message in request.messages]
    offered = [each.name + each.description + str(each.parameters) for each in request.functions]
    return len("".join([*said, *offered, str(request.schema or "")]).encode())


def by_bytes(request: ModelRequest, reply: ModelReply) -> Spent:
    return Spent(size(request), honest(request, reply).output_tokens)


def to_the_brim(request: ModelRequest, reply: ModelReply) -> Spent:
    return Spent(size(request), request.max_tokens)


async def rare(out: Outgoing) -> CallToolResult:
    return text_result(f"{out.arguments} {RARE}")


def unseen(eight: Eight) -> Callable[[str, ModelRequest], None]:
    """The first try of every request of a worker is billed in full, and its end is never seen."""

    def before(model: str, request: ModelRequest) -> None:
        if request.role == "worker" and not request.place.retry:
            eight.meter.tokens += request.prompt_characters() // 4 + request.max_tokens
            raise ModelFailed(model, "timeout", "it gave no answer in time")

    return before


def only_the_spare(model: str, request: ModelRequest) -> None:
    """The first model does not work for workers; the next costs ten times as much."""
    if model == MODEL and request.role == "worker":
        raise ModelFailed(model, "quota", "its account is used up")


@pytest.mark.parametrize("limit", TOKENS)
@pytest.mark.parametrize("bill", [by_bytes, to_the_brim], ids=["dense prompts", "full replies"])
async def test_the_densest_bill_stays_within_the_tokens(tmp_path: Path, limit: int, bill: Any) -> None:
    async with open_eight(tmp_path, answer=rare, bill=bill) as eight:
        ended = await eight.run(tokens=limit, **ENOUGH)
        sys.stdout.write(f"tokens {limit:8} took {eight.meter.tokens:8} {ended.end}\n")
        assert ended.took("tokens") == eight.meter.tokens <= limit
        assert ended.run.answer


@pytest.mark.parametrize("limit", TOKENS)
async def test_requests_whose_end_nobody_saw_stay_within_the_tokens(tmp_path: Path, limit: int) -> None:
    async with open_eight(tmp_path) as eight:
        eight.before = unseen(eight)
        ended = await eight.run(tokens=limit, **ENOUGH)
        assert eight.meter.tokens <= ended.took("tokens") <= limit
        assert ended.run.answer


@pytest.mark.parametrize("limit", USD)
async def test_a_fallback_that_costs_ten_times_as_much_stays_within_the_dollars(tmp_path: Path, limit: float) -> None:
    async with open_eight(tmp_path, rates=PRICES, bill=to_the_brim, fallbacks=(SPARE,), before=only_the_spare) as eight:
        ended = await eight.run(usd=limit, **ENOUGH)
        assert ended.took("usd") == pytest.approx(eight.meter.usd)
        assert eight.meter.usd <= limit
        assert ended.run.answer


async def test_a_server_that_heeds_no_max_tokens_overshoots_once_by_what_was_on_its_way(tmp_path: Path) -> None:
    def thrice(request: ModelRequest, reply: ModelReply) -> Spent:
        return Spent(honest(request, reply).input_tokens, 3 * request.max_tokens)

    async with open_eight(tmp_path, bill=thrice) as eight:
        for limit in TOKENS:
            ended = await eight.run(f"goal {limit}", tokens=limit, **ENOUGH)
            # The planner's reply is the first, and alone on its way.
            assert eight.meter.tokens <= max(limit, 3 * 6_000 + 3_000)
            assert ended.run.answer


async def test_a_call_waits_for_what_its_siblings_give_back_instead_of_being_refused(tmp_path: Path) -> None:
    async with open_eight(tmp_path) as eight:
        ended = await eight.run(tokens=45_000, **ENOUGH)
        assert (ended.end, ended.refused) == (("succeeded", "done"), [])
        assert eight.meter.tokens <= 45_000
