"""Each benchmark runs, with sizes at which its numbers mean nothing, and the table says what it was taken on."""

from pathlib import Path

import pytest

from benchmarks.__main__ import MEASURES, main, report
from benchmarks.places import open_places
from benchmarks.sizes import Sizes

pytestmark = pytest.mark.untraced

TINY = Sizes(
    repeats=1,
    runs_at_once=2,
    chain=1,
    old_runs=3,
    starts=1,
    parked=2,
    idle_seconds=0.1,
    approvals=2,
    calls=4,
    callers=(1, 2),
)


MARKS = (pytest.mark.e2e, pytest.mark.slow)
# These start processes or many runs; the others go through the same ones.
LONG = {"startup", "at-once", "idle", "wake"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS[name in LONG]) for name in MEASURES])
def test_a_benchmark_fills_its_tables(name: str, tmp_path: Path) -> None:
    with open_places(tmp_path) as places:
        tables = MEASURES[name](places, TINY)
    for table in tables:
        lines = table.markdown().splitlines()
        assert lines[0] == f"## {table.title}"
        assert len(table.rows) > 0
        assert lines[-len(table.rows) :] == [line for line in lines if line.startswith("| ")][1:]
    assert list(tmp_path.iterdir()) == []


def test_a_report_says_what_it_was_taken_on_and_names_no_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = report([], TINY, disk=tmp_path)
    assert [line.partition(" ")[0] for line in text.splitlines() if line] == ["#", "-", "-", "-", "-", "Taken"]
    assert str(tmp_path) not in text
    assert capsys.readouterr().out == f"{text}\n"


def test_a_benchmark_that_is_not_there_is_a_usage_error_that_names_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["speed"])
    assert end.value.code == 2
    assert (
        "no benchmark is called speed; there are steps, at-once, startup, idle, wake, calls" in capsys.readouterr().err
    )
