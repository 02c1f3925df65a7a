"""What a run has cost: by step, worker and model, and how much of it went into planning instead of doing."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from downstream.gate.prompt_text import escaped
from journal.accounts import Entry, entries_of
from journal.events import Event
from journal.store import Store

from .split import Split, split_lines, split_of
from .words import MARKS, counted, one_line

_PLANNING = {"planner": "plan", "reviser": "revisions", "answer": "answer"}
"""The roles of the planner floor, and where their cost stands in the list; all others carry out steps."""
_HEADS = ("step", "by", "model", "asked", "in", "cached", "out", "thought", "tools", "usd")
_LEFT = 3


@dataclass(frozen=True)
class Amount:
    """Model calls and tool calls, tokens and US dollars; of the input some was cached, of the output some thought.

    `lost_calls` are those of which nobody knows the end: they count with all that they might have taken.
    """

    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float = 0.0
    cost_known: bool = True
    lost_calls: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True)
class CostLine:
    """What one model took for one worker or role in a step; `step` is `plan`, `revisions` or `answer` for planning."""

    step: str
    role: str
    worker: str | None
    model: str | None
    took: Amount


@dataclass(frozen=True)
class Cost:
    """`planning` and `executing` make up `total`; `split` tells what it took that there was more than one worker."""

    run_id: str
    total: Amount
    planning: Amount
    executing: Amount
    split: Split
    lines: tuple[CostLine, ...]


async def cost_of(store: Store, run_id: str) -> Cost:
    """Raises UnknownId."""
    events = await store.events(run_id)
    entries = _by_model(await store.database.read(lambda tx: entries_of(tx, run_id)), events)
    split = split_of(entries, steps=len(await store.steps(run_id)))
    sums: dict[tuple[str, str, str | None, str | None], Amount] = defaultdict(Amount)
    for entry in entries:
        role = entry.role or "tools"
        step = _PLANNING.get(role) or entry.step or "?"
        name = (step, role, entry.worker, entry.model)
        sums[name] = _sum([sums[name], _amount(entry)])
    lines = tuple(CostLine(*name, took) for name, took in sums.items())
    planning = _sum(line.took for line in lines if line.role in _PLANNING)
    executing = _sum(line.took for line in lines if line.role not in _PLANNING)
    return Cost(run_id, _sum([planning, executing]), planning, executing, split, lines)


def cost_lines(cost: Cost) -> list[str]:
    """The table as a person reads it, and below it planning's share and what splitting the goal took."""
    rows: list[tuple[str, ...]] = [_HEADS]
    rows += [_row(line.step, line.worker or line.role, line.model or "", line.took) for line in cost.lines]
    rows.append(_row("total", "", "", cost.total))
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEADS))]
    shown = [
        "  ".join(
            cell.ljust(width) if place < _LEFT else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return [*shown, "", *_shares(cost)]


def _shares(cost: Cost) -> list[str]:
    lines = [
        f"planning   {_share(cost.planning, cost.total)}   (plan, revisions, answer)",
        f"executing  {_share(cost.executing, cost.total)}   (workers, reviews, texts)",
        *split_lines(cost.split, planning=cost.planning.tokens, executing=cost.executing.tokens),
    ]
    if cost.total.lost_calls:
        lost = counted(cost.total.lost_calls, "call")
        lines.append(
            f"{MARKS['partial']} the end of {lost} was not seen: counted with the most that may have been taken"
        )
    if not cost.total.cost_known:
        lines.append(
            f"{MARKS['partial']} the price of a model is not known: the cost is a lower bound; set model_options.price"
        )
    return lines


def _share(part: Amount, whole: Amount) -> str:
    tokens = f"{_percent(part.tokens, whole.tokens):>4} of the tokens"
    if not whole.cost_usd or not whole.cost_known:
        return tokens
    return f"{tokens}, {_percent(part.cost_usd, whole.cost_usd):>4} of the cost"


def _percent(part: float, whole: float) -> str:
    if not whole:
        return "–"
    share = f"{100 * part / whole:.0f}%"
    # No part that there is reads as none, or as all.
    return {"0%": "<1%", "100%": ">99%"}.get(share, share) if 0 < part < whole else share


def _row(step: str, by: str, model: str, took: Amount) -> tuple[str, ...]:
    counts = (took.input_tokens, took.cached_tokens, took.output_tokens, took.reasoning_tokens, took.tool_calls)
    usd = f"{'' if took.cost_known else '≥ '}{took.cost_usd:.6f}"
    names = (escaped(one_line(name)) for name in (step, by, model))
    return (*names, *(f"{count:,}" for count in (took.model_calls, *counts)), usd)


def _by_model(entries: Iterable[Entry], events: Iterable[Event]) -> list[Entry]:
    """The entries, those of calls that fell back to another model split by the events that tell of each."""
    told: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.type == "model.called":
            told[event.data["key"]].append(event)
    split: list[Entry] = []
    for entry in entries:
        rest = entry
        for event in told.pop(entry.key, ()):
            if event.data["model"] != entry.model and event.data["requests"]:
                part = _part(entry, event)
                split.append(part)
                rest = _without(rest, part)
        split.append(rest)
    return split


def _part(entry: Entry, event: Event) -> Entry:
    data = event.data
    return replace(
        entry,
        model=data["model"],
        model_calls=data["requests"],
        tool_calls=0,
        input_tokens=data["input_tokens"],
        output_tokens=data["output_tokens"],
        cached_tokens=data["cached_tokens"],
        reasoning_tokens=data["reasoning_tokens"],
        usd=data["cost_usd"],
        lost=False,
    )


def _without(entry: Entry, part: Entry) -> Entry:
    counts = ("model_calls", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
    left = {name: getattr(entry, name) - getattr(part, name) for name in counts}
    return replace(entry, **left, usd=round(entry.usd - part.usd, 9))


def _amount(entry: Entry) -> Amount:
    return Amount(
        *(entry.model_calls, entry.tool_calls, entry.input_tokens, entry.output_tokens),
        *(entry.cached_tokens, entry.reasoning_tokens),
        cost_usd=entry.usd,
        cost_known=entry.cost_known,
        lost_calls=int(entry.lost),
    )


def _sum(amounts: Iterable[Amount]) -> Amount:
    listed = list(amounts)
    names = [each.name for each in fields(Amount)]
    whole: dict[str, Any] = {name: sum(getattr(amount, name) for amount in listed) for name in names}
    known = all(amount.cost_known for amount in listed)
    return Amount(**whole | {"cost_known": known, "cost_usd": round(whole["cost_usd"], 9)})
