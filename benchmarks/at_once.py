"""Many runs at once in one process."""

from .child import carried_out
from .loads import Kind, Load, Taken
from .places import Places
from .sizes import Sizes
from .table import Row, Table

_NAMES: dict[Kind, str] = {"memo": "floor: one memo row a step", "look": "call steps that read"}


def measure(places: Places, sizes: Sizes) -> list[Table]:
    """All runs are created first, then driven together."""
    found: dict[Kind, Taken] = {kind: _taken(kind, places, sizes) for kind in _NAMES}
    return [
        Table(
            f"{sizes.runs_at_once:,} runs at once",
            f"Runs of {sizes.steps} steps on disk, all driven at the same time by one process"
            f" (`engine.local.runs: {sizes.runs_at_once}`), held against the same number of bare memo rows.",
            tuple(row for kind in _NAMES for row in _rows(kind, found)),
        )
    ]


def _taken(kind: Kind, places: Places, sizes: Sizes) -> Taken:
    """In a process of its own, for the peak of its memory."""
    return carried_out([Load(kind, str(places.disk), sizes.runs_at_once, sizes.chain)])[0]


def _rows(kind: Kind, found: dict[Kind, Taken]) -> list[Row]:
    taken, floor = found[kind], found["memo"]
    said = (
        ("seconds in all", f"{taken.seconds:.1f} s", taken.seconds / floor.seconds),
        ("processor per step", f"{taken.cpu_ms:.3f} ms", taken.cpu_ms / floor.cpu_ms),
        ("peak memory", f"{taken.peak_mib:.0f} MiB", taken.peak_mib / floor.peak_mib),
        ("changes per commit", f"{taken.changes / taken.commits:.1f}", None),
    )
    rows = [Row(f"{_NAMES[kind]}: {what}", value) for what, value, _ in said]
    if kind == "memo":
        return rows
    return [Row(row.what, row.measured, "floor", ratio) for row, (_, _, ratio) in zip(rows, said, strict=True)]
