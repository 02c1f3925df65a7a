"""A run may be killed at any point of its journal, and again as it recovers: it ends as if nothing had happened."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from crash_run import ANSWER, EFFECTS, PARTS
from crash_scenario import DIED
from quick_jobs import made

pytestmark = pytest.mark.untraced

SUPPORT = Path(__file__).parent / "support"


@dataclass(frozen=True)
class History:
    """What a run came to whose processes were killed: its end as the store has it, and the calls that were sent.

    `deaths` holds, for each process, the code that it ended with and the intents that were open then.
    """

    deaths: list[tuple[int, list[str]]]
    end: Any
    sent: Counter[tuple[str, str]]

    @classmethod
    def read(cls, folder: Path) -> "History":
        file = folder / "deaths.json"
        deaths: list[tuple[int, list[str]]] = []
        if file.exists():
            deaths = [(code, keys) for code, keys in json.loads(file.read_text())]
        return cls(deaths, json.loads((folder / "end.json").read_text()), Counter(made(folder)))

    def of(self, type_: str) -> list[tuple[str, Any]]:
        """The call and the data of each event of this type."""
        return [(call, data) for type_now, call, data in self.end["events"] if type_now == type_]

    @property
    def calls(self) -> dict[str, tuple[str, str]]:
        """Each call that was begun, by its id."""
        begun = self.of("call.started")
        return {call: (data["tool"].removeprefix("quick."), *data["arguments"].values()) for call, data in begun}

    @property
    def finished(self) -> Counter[tuple[str, str]]:
        """How often each call came to an end that counts."""
        return Counter(self.calls[call] for call, _ in self.of("call.ended"))

    @property
    def asked(self) -> dict[str, str]:
        """What a person said of calls of which nobody knew, by the key of the call."""
        actions = self.end["actions"]
        return {key.removesuffix("/unknown"): choice for kind, key, choice, _ in actions if kind == "unknown"}

    @property
    def open_at_death(self) -> set[str]:
        return {key for _, keys in self.deaths for key in keys}

    @property
    def effects(self) -> Counter[tuple[str, str]]:
        return Counter({call: times for call, times in self.sent.items() if call[0] in ("add", "drop")})


def check(history: History, whole: History) -> None:
    """Only waits, and reads whose answer nobody had seen, may tell a killed run from one that was not."""
    end = history.end
    dropped = "- Steps that did not succeed and that a revision dropped: bad: failed."
    answer = f"{ANSWER}\n\n**Please note**\n\n{dropped}"
    assert (end["status"], end["answer"], end["steps"]) == ("succeeded", answer, whole.end["steps"])
    assert [text for text in end["warnings"] if not text.startswith("scripted model")] == []
    assert history.effects == Counter(EFFECTS)
    assert history.finished == whole.finished
    begun = Counter(history.calls[call] for call, _ in history.of("call.started"))
    assert history.sent <= begun
    assert set(history.asked) == history.open_at_death
    models = [data["key"] for _, data in history.of("model.called")]
    assert sorted(models) == sorted(data["key"] for _, data in whole.of("model.called"))
    assert len(history.of("revision.made")) == len(history.of("run.ended")) == 1
    assert all(handled for *_, handled in end["actions"])


def passed_points(folder: Path) -> int:
    """How many points an undisturbed run has; each change that the writer committed passed its three."""
    passed = json.loads((folder / "passed.json").read_text())
    reached = Counter(tuple(name.rsplit(".", 1)) for name in passed["names"])
    writes = {name: times for (name, point), times in reached.items() if point == "committed"}
    for name, times in writes.items():
        assert (reached[name, "before"], reached[name, "written"]) == (times, times)
    assert sum(writes.values()) == passed["changes"]
    return len(passed["names"])


@pytest.mark.parametrize(
    ("which", "number"),
    [
        pytest.param("some", 1, marks=pytest.mark.e2e),
        *(pytest.param("part", part, marks=pytest.mark.slow) for part in range(1, PARTS + 1)),
    ],
)
def test_a_killed_run_ends_with_the_same_answer_and_each_effect_once(tmp_path: Path, which: str, number: int) -> None:
    command = [sys.executable, str(SUPPORT / "crash_run.py"), str(tmp_path), which, str(number)]
    paths = os.environ | {"PYTHONPATH": f"{SUPPORT.parent.parent}:{SUPPORT}"}
    subprocess.run(command, env=paths, check=True, timeout=280)
    points, whole = passed_points(tmp_path / "whole"), History.read(tmp_path / "whole")
    assert (whole.effects, whole.asked, whole.sent["fail", "no"]) == (Counter(EFFECTS), {}, 2)
    histories = [History.read(path.parent) for path in tmp_path.glob("*/deaths.json")]
    assert [history.deaths for history in histories if history.deaths[-1] != (0, [])] == []
    for history in histories:
        check(history, whole)
    codes = [code for history in histories for code, _ in history.deaths]
    asked = Counter(choice for history in histories for choice in history.asked.values())
    again = sum((history.sent - whole.sent).total() for history in histories)
    sys.stdout.write(
        f"points {points}, histories {len(histories)}, deaths {codes.count(DIED)}, effects twice 0, silently lost 0, "
        f"asked {dict(asked)}, unanswered reads made again {again}\n"
    )
    # At the very end a process may come through with a point less.
    assert sum(history.deaths[0][0] == DIED for history in histories) >= len(histories) - 3
