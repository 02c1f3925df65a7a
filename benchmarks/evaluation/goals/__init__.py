"""All goals of the kit, by name; each is made anew with numbers of its own."""

import random
from pathlib import Path

from benchmarks.evaluation.goal import Goal, Make, Place

from . import crossing, guarded, long, looking, public, sums, writing

_EVERY: tuple[Make, ...] = (
    *looking.GOALS,
    *sums.GOALS,
    *writing.GOALS,
    *long.GOALS,
    *guarded.GOALS,
    *crossing.GOALS,
    *public.GOALS,
)


def made(make: Make, folder: Path, *, seed: str) -> Goal:
    """A goal whose material lies in the folder; the same seed gives the same numbers."""
    return make(Place(folder, random.Random(seed)))


GOALS: dict[str, Make] = {made(make, Path(), seed="").name: make for make in _EVERY}

__all__ = ["GOALS", "made"]
