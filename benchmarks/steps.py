"""What the journal adds to a step, and how often a run commits: the same run on disk and in memory, beside a floor."""

from .child import carried_out
from .loads import Kind, Load, Taken
from .places import Places
from .sizes import Sizes
from .table import Row, Table

_NAMES: dict[Kind, str] = {
    "memo": "floor: one memo row a step",
    "look": "call steps that read",
    "note": "call steps that write (intent and audit with each)",
}


def measure(places: Places, sizes: Sizes) -> list[Table]:
    """One run at a time, all sorts by turns; of each the one with the median time."""
    sides = [places.disk] if places.memory is None else [places.disk, places.memory]
    loads = [Load(kind, str(side), length=sizes.chain) for kind in _NAMES for side in sides]
    taken = carried_out(loads * sizes.repeats)
    middle = {load: _middle(taken[place :: len(loads)]) for place, load in enumerate(loads)}
    disk, memory = (_on(str(side), middle) for side in (sides[0], sides[-1]))
    overhead = Table(
        "Journal overhead per step",
        f"One run of {sizes.steps} steps (8 chains beside each other), tools that answer at once, no model but the"
        " answer's script. Wall clock and processor time per step; held against the same run with its store in memory"
        " (tmpfs: all is the same but for the disk), and against a run that only writes one memo row a step.",
        tuple(row for kind in _NAMES for row in _rows(kind, disk, memory)),
    )
    commits = Table(
        "Commits per run",
        f"The same runs of {sizes.steps} steps on disk: changes of the journal, and the commits that they shared.",
        tuple(_commits(kind, disk) for kind in _NAMES),
    )
    return [overhead, commits]


def _on(side: str, middle: dict[Load, Taken]) -> dict[Kind, Taken]:
    return {load.kind: taken for load, taken in middle.items() if load.within == side}


def _middle(several: list[Taken]) -> Taken:
    return sorted(several, key=lambda taken: taken.seconds)[len(several) // 2]


def _rows(kind: Kind, disk: dict[Kind, Taken], memory: dict[Kind, Taken]) -> list[Row]:
    here, floor, peer = disk[kind], disk["memo"], memory[kind]
    rows = [Row(f"{_NAMES[kind]}, against the floor", _per_step(here), *_peer("floor", here, floor))]
    if peer is not here:
        rows.append(Row(f"{_NAMES[kind]}, against memory", _per_step(here), *_peer("in memory", here, peer)))
    return rows[kind == "memo" :]


def _peer(name: str, taken: Taken, peer: Taken) -> tuple[str, float]:
    return f"{name}: {_per_step(peer)}", taken.seconds / peer.seconds


def _per_step(taken: Taken) -> str:
    return f"{taken.ms:.2f} ms, {taken.cpu_ms:.2f} ms CPU"


def _commits(kind: Kind, disk: dict[Kind, Taken]) -> Row:
    taken, floor = disk[kind], disk["memo"]
    said = f"{taken.changes} changes in {taken.commits} commits"
    against = f"floor: {floor.changes} changes in {floor.commits} commits"
    return Row(_NAMES[kind], said, against, taken.changes / floor.changes)
