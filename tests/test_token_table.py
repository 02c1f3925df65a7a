"""The token table: what the server counted is what the ledger says, and what is reckoned adds up."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest

from benchmarks.table import with_sections
from benchmarks.tokens.counting import Counted, Part, kept_by_itself, kept_by_marks, parts_of, tokens_of
from benchmarks.tokens.runs import ANTHROPIC, OPENAI, Ran, run
from benchmarks.tokens.scripts import looks_by_calls, tools_searched
from benchmarks.tokens.sums import priced


@pytest.mark.e2e
@pytest.mark.untraced
# What pydantic says of litellm.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
async def test_the_ledger_has_every_token_that_the_server_counted(model: str, tmp_path: Path) -> None:
    way = partial(run, model=model)
    called = await anyio.to_thread.run_sync(way, looks_by_calls(), tmp_path / "called")
    searched = await anyio.to_thread.run_sync(way, tools_searched(), tmp_path / "searched")
    for ran in (called, searched):
        assert ran.status == "succeeded"
        assert {role: amount.input_tokens for role, amount in ran.ledger.items()} == ran.by_role
        assert sum(amount.cached_tokens for amount in ran.ledger.values()) == ran.cached
        assert sum(amount.model_calls for amount in ran.ledger.values()) == len(ran.requests)
        assert ran.tokens == sum(tokens_of(parts_of(request.body)) for request in ran.requests)
    assert set(called.by_role) == {"planner", "answer"}
    assert set(searched.by_role) == {"planner", "worker", "answer"}
    assert searched.cached > 0
    assert (searched.written > 0) == (model == ANTHROPIC)


def test_tokens_are_counted_without_the_network_and_by_part() -> None:
    body = {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "tools": [{"function": {"name": "look"}}],
        "model": "left out",
    }
    parts = parts_of(body)
    assert parts == (Part('{"function":{"name":"look"}}'), Part("system\nBe brief."), Part("user\nHi"))
    assert tokens_of([Part("hello world")]) == 2
    assert tokens_of(parts) == sum(part.tokens for part in parts)


def test_marks_are_read_and_are_no_part_of_what_is_compared() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    body = {
        "system": [{"type": "text", "text": "Be brief."} | mark],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "tools": [{"name": "look"}, {"name": "see"} | mark],
    }
    tools = (Part('{"name":"look"}'), Part('{"name":"see"}', marked=True))
    assert parts_of(body) == (*tools, Part("Be brief.", marked=True), Part("user\nHi"))


LONG = Part("word " * 2_000)
END, A, B = replace(LONG, marked=True), Part("a"), Part("b")


def test_only_whole_equal_parts_at_the_beginning_are_kept_and_only_long_ones() -> None:
    assert kept_by_itself([LONG, A, B], [[LONG, A, Part("c")], [A]]) == (tokens_of([LONG, A]), 0)
    assert kept_by_itself([LONG, A], [[B, LONG, A]]) == (0, 0)
    assert kept_by_itself([A, LONG], [[A, Part(f"{LONG.text}.")]]) == (0, 0)
    assert kept_by_itself([LONG], []) == (0, 0)


def test_where_marks_are_needed_what_an_earlier_request_marked_is_read_and_the_rest_up_to_the_mark_written() -> None:
    one, two = tokens_of([LONG]), tokens_of([LONG, A])
    assert kept_by_marks([END, A], []) == (0, one)
    assert kept_by_marks([END, replace(A, marked=True), B], [[END, A]]) == (one, two - one)
    assert kept_by_marks([LONG, A], [[END, A]]) == (0, 0)
    assert kept_by_marks([END, A], [[LONG, A]]) == (0, one)
    assert kept_by_marks([replace(A, marked=True), LONG], []) == (0, 0)


def test_a_cache_is_priced_by_what_is_read_and_written() -> None:
    requests = [
        Counted("planner", None, (), 1000, 0, 0, {}),
        Counted("worker", "a", (), 2000, 0, 1500, {}),
        Counted("worker", "a", (), 3000, 1500, 1000, {}),
    ]
    ran = Ran("some", "succeeded", requests, {})
    assert (ran.tokens, ran.cached, ran.written) == (6000, 1500, 2500)
    assert priced(ran) == pytest.approx(2000 + 0.1 * 1500 + 1.25 * 2500)


def test_sections_of_the_results_are_replaced_by_title_and_others_stay() -> None:
    page = "# Results\n\nhead\n\n## One\n\n1\n\n## Two\n\n2\n"
    assert with_sections(page, page) == page
    assert with_sections(page, "## Two\n\nnew\n## Three\n\n3\n") == (
        "# Results\n\nhead\n\n## One\n\n1\n\n## Two\n\nnew\n\n## Three\n\n3\n"
    )
