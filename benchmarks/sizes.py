"""How much each benchmark does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """`repeats` and `starts` are how often a short measurement is made; its median counts."""

    repeats: int = 7
    runs_at_once: int = 1_000
    chain: int = 6
    old_runs: int = 10_000
    starts: int = 7
    parked: int = 1_000
    idle_seconds: float = 20.0
    approvals: int = 100
    calls: int = 1_280
    callers: tuple[int, ...] = (1, 8, 64)

    @property
    def steps(self) -> int:
        """In each run of a load."""
        return 2 + 8 * self.chain


FULL = Sizes()
QUICK = Sizes(
    repeats=3, runs_at_once=50, old_runs=1_000, starts=3, parked=1_000, idle_seconds=10.0, approvals=20, calls=256
)
