"""Results as they are kept while a trial goes on: one line of JSON for each run of a goal, once it has ended."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .measured import Result

FOLDER = Path("build") / "evaluation"
"""Below the present folder."""


@dataclass(frozen=True)
class Results:
    """A file of results; what stands in it is kept, whatever becomes of the process."""

    path: Path

    def begin(self, *, resume: bool) -> list[Result]:
        """What was measured before, where the trial goes on; else an older file gets another name."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            return []
        if resume:
            self._end_line()
            return list(self._lines())
        at = time.strftime("%Y%m%d-%H%M%S", time.gmtime(self.path.stat().st_mtime))
        self.path.rename(self.path.with_suffix(f".{at}{self.path.suffix}"))
        return []

    def add(self, result: Result) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result.to_json(), ensure_ascii=False) + "\n")

    def _end_line(self) -> None:
        """So that the next result is not joined to a line at which an earlier process ended."""
        with self.path.open("ab") as file:
            file.write(b"" if self.path.read_bytes().endswith(b"\n") else b"\n")

    def _lines(self) -> Iterable[Result]:
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                data = json.loads(line)
            except ValueError:
                # An earlier process ended in it.
                continue
            yield Result.from_json(data)


def results_file(model: str) -> Path:
    """Where the results of a model are kept unless told otherwise."""
    plain = "".join(character if character.isalnum() or character in ".-" else "-" for character in model)
    return FOLDER / f"{plain}.ndjson"
