"""What a checkup finds: one line for each thing that it looked at."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

State: TypeAlias = Literal["ok", "warning", "problem"]
STATES: tuple[State, ...] = ("ok", "warning", "problem")
"""From the best to the worst. A run works, or works with less, unless there is a problem."""


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is, and, where it could be better, what a person can do."""

    check: str
    state: State
    text: str
    way_out: str | None = None


Say: TypeAlias = Callable[[Finding], None]


def worst_of(findings: Iterable[Finding]) -> State:
    """The state of the whole."""
    return STATES[max((STATES.index(finding.state) for finding in findings), default=0)]
