"""Input tokens of three fixed pieces of work, by role, with and without what is there to save them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.places import Places, open_folder
from benchmarks.sizes import Sizes
from benchmarks.table import Row, Table

from . import many_tools, scripts
from .counting import ENCODING, LEAST_CACHED
from .runs import ANTHROPIC, OPENAI, Ran, run
from .scripts import Way
from .sums import READ, WRITE, priced, with_all_tools, with_whole_results

__all__ = ["measure"]

_HOW = (
    "Input tokens by role, counted at a model server on this machine from the bodies of all requests: tools, schema and"
    f" messages, by tiktoken's {ENCODING}, from the file that litellm brings along. What is measured was sent by the"
    " product, through litellm, and stands in its ledger to the token; what is reckoned says so. A ratio is what was"
    " taken in parts of what it is held against."
)
_CACHE_HOW = (
    "The same work over a model server that keeps what a provider keeps: whole tools, schemas and messages at the"
    f" beginning of a request, byte for byte as in an earlier one, {LEAST_CACHED:,} tokens or more. OpenAI keeps them"
    " unasked; Anthropic where the product marked their end, and what is written costs more. What was read and"
    f" written is measured; the price is reckoned with {READ:g} for a token read, {WRITE:g} for one written, and held"
    " against all of them at the plain price. Planner and answer are asked once in a run."
)


def measure(places: Places, sizes: Sizes) -> list[Table]:
    """Each piece of work once on each wire; its sizes are fixed."""
    ran = {name: _run(make(), places.disk) for name, make in _WAYS.items()}
    marked = {name: _run(make(), places.disk, model=ANTHROPIC) for name, make in _WAYS.items()}
    halves = [_run(scripts.tools_of_half(first), places.disk) for first in (0, 60)]
    cached = [_cached(name, each, "OpenAI") for name, each in ran.items()]
    cached += [_cached(name, each, "Anthropic") for name, each in marked.items()]
    tokens = Table("Tokens of three pieces of work", _HOW, _rows(ran, halves))
    return [tokens, Table("The same with a provider's cache", _CACHE_HOW, tuple(cached))]


_WAYS: Mapping[str, Callable[[], Way]] = {
    "documents": scripts.documents_by_worker,
    "documents called": scripts.documents_by_calls,
    "documents composed": scripts.documents_composed,
    "tools listed": scripts.tools_listed,
    "tools searched": scripts.tools_searched,
    "looks called": scripts.looks_by_calls,
    "looks": scripts.looks_by_worker,
    "looks apart": scripts.looks_by_workers,
}


def _run(way: Way, within: Path, *, model: str = OPENAI) -> Ran:
    with open_folder(within) as folder:
        return run(way, folder, model=model)


def _rows(ran: Mapping[str, Ran], halves: list[Ran]) -> tuple[Row, ...]:
    notes = scripts.documents_by_worker().notes
    whole = with_whole_results(ran["documents"], [_as_result(path, notes[path]) for path in scripts.DOCUMENTS])
    every = with_all_tools(ran["tools listed"], halves)
    documents = f"five documents of {len(notes[scripts.DOCUMENTS[0]]):,} characters"
    catalogue = f"two of {len(many_tools.NAMES)} tools"
    return (
        _row(documents, ran["documents"], "reckoned, no artifacts: results whole, none read on", whole),
        _row(documents, ran["documents called"], "reckoned, no artifacts: as above", whole),
        _row(documents, ran["documents composed"], "the worker above", ran["documents"].by_role),
        _row(catalogue, ran["tools listed"], "reckoned, no tool search: all shown to both", every),
        _row(catalogue, ran["tools searched"], "reckoned, no tool search: as above", every),
        _row("six look-ups", ran["looks called"], ran["looks"].way, ran["looks"].by_role),
        _row("six look-ups", ran["looks called"], ran["looks apart"].way, ran["looks apart"].by_role),
    )


def _as_result(path: str, text: str) -> str:
    return json.dumps({"path": path, "text": text}, indent=2)


def _row(what: str, ran: Ran, against: str, without: Mapping[str, int]) -> Row:
    peer = sum(without.values())
    return Row(f"{what}: {ran.way}", _by_role(ran.by_role), f"{against}: {_by_role(without)}", ran.tokens / peer)


def _by_role(tokens: Mapping[str, int]) -> str:
    return f"{sum(tokens.values()):,} = " + " + ".join(f"{role} {count:,}" for role, count in tokens.items())


def _cached(name: str, ran: Ran, whose: str) -> Row:
    plain = ran.tokens - ran.cached - ran.written
    return Row(
        f"{whose}'s cache, {_piece(name)}: {ran.way}",
        f"{ran.cached:,} read + {ran.written:,} written + {plain:,} plain, priced as {priced(ran):,.0f}",
        f"without a cache: {ran.tokens:,}",
        priced(ran) / ran.tokens,
    )


def _piece(name: str) -> str:
    return {"documents": "five documents", "tools": "two of 120 tools", "looks": "six look-ups"}[name.split()[0]]
