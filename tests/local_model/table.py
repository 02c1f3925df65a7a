"""What the runs of a model came to, as a table."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .tap import Asked
from .verdict import Ran, faults

_RUNGS = ("schema", "function", "text")


@dataclass(frozen=True)
class Row:
    """A run, what its model was asked for it, and what was wrong."""

    ran: Ran
    asked: Sequence[Asked]

    @property
    def wrong(self) -> list[str]:
        return list(faults(self.ran))

    def line(self) -> str:
        """The run in one line."""
        took: dict[str, Any] = self.ran.view.get("usage") or {}
        tokens = took.get("input_tokens", 0) + took.get("output_tokens", 0)
        plan = next((data["by"] for data in self.ran.data("plan.accepted")), "none")
        told = "true" if self.ran.is_true else "–"
        return (
            f"{self.ran.goal.number:>3} {self.ran.status:<10} {self.ran.view.get('stop_reason') or '':<11} {plan:<8} "
            f"{told:<5} {took.get('model_calls', 0):>6} {took.get('tool_calls', 0):>6} {tokens:>7} "
            f"{self.ran.seconds:>6.0f}  {self.ran.goal.text}{''.join(f'  !! {each}' for each in self.wrong)}"
        )


HEAD = (
    f"{'':>3} {'status':<10} {'reason':<11} {'plan by':<8} {'facts':<5} {'models':>6} {'tools':>6} {'tokens':>7} "
    f"{'s':>6}  goal"
)


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """What all runs came to."""
    number = len(rows)
    statuses = Counter(row.ran.status for row in rows)
    yield f"{number} goals: " + ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    yield f"the facts stand in {sum(row.ran.is_true for row in rows)} answers"
    yield f"a turn of a worker or more in {sum(row.ran.worker_turns > 0 for row in rows)} runs"
    seconds = [row.ran.seconds for row in rows]
    yield f"seconds: {sum(seconds):.0f} in all, {max(seconds, default=0.0):.0f} at most"
    yield "plans, by the way in which they were asked for:"
    asked, formed, valid = _plans(rows)
    for rung in _RUNGS:
        yield f"  {rung:<9} asked {asked[rung]:>4}, of the form {formed[rung]:>4}, valid {valid[rung]:>4}"
    turns = Counter(each.way for row in rows for each in row.asked if each.role == "worker")
    yield "turns of workers: " + (", ".join(f"{count} by {way}" for way, count in sorted(turns.items())) or "none")
    wrong = [f"  {row.ran.goal.number}: {each}" for row in rows for each in row.wrong]
    yield f"what no run may do was done {len(wrong)} times"
    yield from wrong


def _plans(rows: Sequence[Row]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """By rung: requests, those that gave something of the form of a plan, and those that gave a plan that can run."""
    asked, formed, valid = Counter[str](), Counter[str](), Counter[str]()
    for row in rows:
        ways = [each.way for each in row.asked if each.role == "planner" and each.status == 200]
        asked.update(ways)
        number = -1
        for event in row.ran.events:
            data = event["data"]
            if event["type"] == "model.called" and data["role"] == "planner":
                number += data["requests"] if data["finish"] != "failed" else 0
            elif event["type"] in ("plan.rejected", "plan.accepted") and data.get("by", "planner") == "planner":
                rung = ways[min(number, len(ways) - 1)]
                formed[rung] += 1
                valid[rung] += event["type"] == "plan.accepted"
    return asked, formed, valid
