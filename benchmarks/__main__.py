"""`python -m benchmarks [NAME …] [--quick] [--disk FOLDER] [--write]`: measure and print a Markdown table for each."""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from . import at_once, calls, idle, startup, steps, wake
from .machine import described
from .places import Places, open_places
from .sizes import FULL, QUICK, Sizes
from .table import Table, with_sections

MEASURES: Mapping[str, Callable[[Places, Sizes], list[Table]]] = {
    "steps": steps.measure,
    "at-once": at_once.measure,
    "startup": startup.measure,
    "idle": idle.measure,
    "wake": wake.measure,
    "calls": calls.measure,
}
RESULTS = Path(__file__).parent / "results.md"
_SMALL = "\nTaken with `--quick`: small sizes, to be read as a rough guide only.\n"


def main(words: list[str]) -> None:
    """Measure what is named, or everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}; all if none is given")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--disk", type=Path, default=Path(), metavar="FOLDER", help="on the disk to be measured")
    parser.add_argument("--write", action="store_true", help=f"also write benchmarks/{RESULTS.name}")
    asked = parser.parse_args(words)
    if unknown := sorted(set(asked.names) - set(MEASURES)):
        parser.error(f"no benchmark is called {unknown[0]}; there are {', '.join(MEASURES)}")
    text = report(asked.names or list(MEASURES), QUICK if asked.quick else FULL, disk=asked.disk)
    if asked.write:
        # What was not measured now stays, such as the tokens, which have a command of their own.
        kept = with_sections(RESULTS.read_text(), text) if RESULTS.exists() else text
        RESULTS.write_text(kept if asked.names else with_sections(text, kept))


def report(names: list[str], sizes: Sizes, *, disk: Path) -> str:
    """All that was measured as Markdown; each part is on stdout as soon as it is known."""
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    with open_places(disk) as places:
        say(f"# Benchmark results\n\n{described(places, now=time.time())}{'' if sizes == FULL else _SMALL}")
        for name in names:
            for table in MEASURES[name](places, sizes):
                say(table.markdown())
    return "\n".join(said)


if __name__ == "__main__":
    main(sys.argv[1:])
