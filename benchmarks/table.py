"""What a benchmark says: rows of a Markdown table, each with what it is held against."""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measurement; `against` is the floor or peer of the same run, `ratio` how many times that it took."""

    what: str
    measured: str
    against: str = ""
    ratio: float | None = None


@dataclass(frozen=True)
class Table:
    """A title, a sentence on how it was measured, and the rows."""

    title: str
    how: str
    rows: tuple[Row, ...]

    def markdown(self) -> str:
        head = ["| what | measured | held against | ratio |", "|---|---|---|---|"]
        return "\n".join([f"## {self.title}", "", self.how, "", *head, *_lines(self.rows)]) + "\n"


def with_sections(page: str, new: str) -> str:
    """The page with the sections of another in place of its own of the same titles, the others at its end."""
    head, sections = _sections(page)
    _, others = _sections(new)
    return (head + "".join((sections | others).values())).rstrip() + "\n"


def _sections(page: str) -> tuple[str, dict[str, str]]:
    head, *rest = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    return head, {section.partition("\n")[0]: f"{section.rstrip()}\n\n" for section in rest}


def _lines(rows: Iterable[Row]) -> list[str]:
    return [f"| {row.what} | {row.measured} | {row.against} | {_times(row.ratio)} |" for row in rows]


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f} x" if ratio < 10 else f"{ratio:.0f} x"
