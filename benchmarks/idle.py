"""What a `serve` that has nothing to do takes from the processor, with many runs that wait and with none."""

import time

from .places import Places, open_folder
from .serving import open_served
from .sizes import Sizes
from .stored import fill, settings_in
from .table import Row, Table

_SETTLE_SECONDS = 3.0
"""What a start still has to do, such as reading bytecode, is over by then."""


def measure(places: Places, sizes: Sizes) -> list[Table]:
    """One after the other, each in a process of its own."""
    waiting, none = (_share(places, runs, sizes) for runs in (sizes.parked, 0))
    if waiting is None or none is None:
        rows = (Row("not measured", "this system does not tell what a process uses"),)
    else:
        ratio = waiting / none if none else None
        rows = (Row(f"{sizes.parked:,} runs that wait", f"{waiting:.2f} %", f"none: {none:.2f} %", ratio),)
    return [
        Table(
            "Idle processor time of `serve`",
            f"Processor time over {sizes.idle_seconds:g} s in which nothing happens, in percent of one core.",
            rows,
        )
    ]


def _share(places: Places, runs: int, sizes: Sizes) -> float | None:
    with open_folder(places.disk) as folder:
        standing = settings_in(folder)
        fill(standing, "send", runs)
        with open_served(standing) as served:
            time.sleep(min(_SETTLE_SECONDS, sizes.idle_seconds))
            began, before = time.perf_counter(), served.processor_seconds()
            time.sleep(sizes.idle_seconds)
            after, seconds = served.processor_seconds(), time.perf_counter() - began
    return None if before is None or after is None else 100 * (after - before) / seconds
