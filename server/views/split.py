"""What it takes to split a goal: workers that begin anew besides the first, as far as the ledger tells."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from journal.accounts import Entry

_TURN = re.compile(r"(.+)/turn\.(\d+)")
_WORKERS = frozenset({"worker", "reviewer"})


@dataclass(frozen=True)
class Split:
    """Into how many steps a run was split, and how many workers (each attempt and review is one) began in them.

    A worker's first request holds what it alone needs: instructions, tools, task and what it was handed. `began_with`
    is the input tokens of these requests together, `further` of all but the first worker's. `estimated` says that
    some of them were lost, or sent more than once, so that their tokens are not only those of the request itself.
    """

    steps: int = 0
    workers: int = 0
    began_with: int = 0
    further: int = 0
    estimated: bool = False


def split_of(entries: Iterable[Entry], *, steps: int) -> Split:
    """The split of a run, from its accounts in the order in which the calls began."""
    first: dict[str, tuple[tuple[int, bool], Entry]] = {}
    for entry in entries:
        found = _TURN.fullmatch(entry.key) if entry.role in _WORKERS and entry.input_tokens else None
        if found is not None:
            rank = (int(found[2]), entry.lost)
            if found[1] not in first or rank < first[found[1]][0]:
                first[found[1]] = (rank, entry)
    began = [entry for _, entry in first.values()]
    tokens = [entry.input_tokens for entry in began]
    estimated = any(entry.lost or entry.model_calls > 1 for entry in began)
    return Split(steps, len(began), sum(tokens), sum(tokens[1:]), estimated)


def split_lines(split: Split, *, planning: int, executing: int) -> list[str]:
    """It in words, with what planning and executing took in tokens; nothing where the run never had a plan."""
    if not split.steps:
        return []
    steps = "one step" if split.steps == 1 else f"{split.steps} steps"
    return [
        f"{steps}: planning took {planning:,} tokens beside {executing:,} of executing",
        _beginnings(split, planning, planning + executing),
    ]


def _beginnings(split: Split, planning: int, whole: int) -> str:
    about = "≈ " if split.estimated else ""
    began = f"began, with {about}{split.began_with:,} input tokens (instructions, tools, task, what was handed over)"
    match split.workers:
        case 0:
            return "no worker began"
        case 1:
            return f"one worker {began}; a second would have had as many of its own, ≈ {split.began_with:,}"
        case workers:
            share = f"{about}{100 * (planning + split.further) / whole:.0f}%"
            return (
                f"{workers} workers {began}, those after the first with {about}{split.further:,}:"
                f" together with planning {share} of the tokens"
            )
