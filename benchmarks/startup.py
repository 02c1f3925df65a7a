"""How long `serve` and `runs list` take to begin, on a store with many old runs and on an empty one."""

from statistics import median

from .places import Places, open_folder
from .serving import open_served, seconds_of
from .sizes import Sizes
from .stored import Standing, fill, settings_in
from .table import Row, Table


def measure(places: Places, sizes: Sizes) -> list[Table]:
    """Both stores by turns, so that the machine's mood strikes both alike."""
    with open_folder(places.disk) as old, open_folder(places.disk) as empty:
        stores = [settings_in(old), settings_in(empty)]
        fill(stores[0], "look", sizes.old_runs)
        samples = [[_sample(store) for store in stores] for _ in range(sizes.starts)]
    names = ("`serve`: start to reply to initialize", "`serve`: start to first list of runs", "`runs list`")
    return [
        Table(
            f"Start-up with {sizes.old_runs:,} old runs",
            f"From the start of the process, median of {sizes.starts}; held against the same on an empty store.",
            tuple(
                _row(name, [[store[place] for store in pair] for pair in samples]) for place, name in enumerate(names)
            ),
        )
    ]


def _sample(standing: Standing) -> tuple[float, float, float]:
    with open_served(standing) as served:
        times = served.initialized, served.listed
    return *times, seconds_of(standing, "runs", "list")


def _row(name: str, pairs: list[list[float]]) -> Row:
    old, empty = (median(pair[side] for pair in pairs) for side in (0, 1))
    return Row(name, f"{old:.2f} s", f"empty store: {empty:.2f} s", old / empty)
