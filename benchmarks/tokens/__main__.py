"""`python -m benchmarks.tokens [--write]`: print the tables, and put them into the results."""

import sys
from pathlib import Path

from benchmarks.__main__ import RESULTS
from benchmarks.places import open_places
from benchmarks.sizes import FULL
from benchmarks.table import with_sections

from . import measure


def main(words: list[str]) -> None:
    """Measure; `--write` also writes."""
    with open_places(Path()) as places:
        text = "\n".join(table.markdown() for table in measure(places, FULL))
    sys.stdout.write(text)
    if "--write" in words:
        RESULTS.write_text(with_sections(RESULTS.read_text(), text))


if __name__ == "__main__":
    main(sys.argv[1:])
