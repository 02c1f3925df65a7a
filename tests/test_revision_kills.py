"""A run whose plan is revised while steps run in parallel may be killed anywhere: it ends as if it had not been."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from crash_scenario import DIED
from quick_jobs import made
from revision_kills import ANSWER, EFFECTS, PARTS

SUPPORT = Path(__file__).parent / "support"


@dataclass(frozen=True)
class History:
    """What a run came to whose processes were killed: its end as the store has it, and the calls that were sent."""

    codes: list[int]
    end: Any
    sent: Counter[tuple[str, str]]

    @classmethod
    def read(cls, folder: Path, codes: list[int]) -> "History":
        return cls(codes, json.loads((folder / "end.json").read_text()), Counter(made(folder)))

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
    def asked(self) -> list[str]:
        return [choice for kind, choice, _ in self.end["actions"] if kind == "unknown"]

    @property
    def effects(self) -> Counter[tuple[str, str]]:
        return Counter({call: times for call, times in self.sent.items() if call[0] in ("add", "drop")})


def check(history: History, whole: History) -> None:
    """Only waits, and reads whose answer nobody had seen, may tell a killed run from one that was not."""
    end = history.end
    assert (end["status"], end["answer"], end["steps"]) == ("succeeded", ANSWER, whole.end["steps"])
    assert [text for text in end["warnings"] if not text.startswith("scripted model")] == []
    assert history.effects == Counter(EFFECTS)
    assert history.finished == whole.finished
    begun = Counter(history.calls[call] for call, _ in history.of("call.started"))
    assert history.sent <= begun
    models = [data["key"] for _, data in history.of("model.called")]
    assert sorted(models) == sorted(data["key"] for _, data in whole.of("model.called"))
    assert len(history.of("revision.made")) == len(history.of("run.ended")) == 1
    assert all(handled for _, _, handled in end["actions"])


@pytest.mark.parametrize(
    ("which", "number"),
    [
        pytest.param("some", 1, marks=pytest.mark.e2e),
        *(pytest.param("part", part, marks=pytest.mark.slow) for part in range(1, PARTS + 1)),
    ],
)
def test_a_killed_run_ends_with_the_same_answer_and_each_effect_once(tmp_path: Path, which: str, number: int) -> None:
    command = [sys.executable, str(SUPPORT / "revision_kills.py"), str(tmp_path), which, str(number)]
    paths = os.environ | {"PYTHONPATH": f"{SUPPORT.parent.parent}:{SUPPORT}"}
    said = subprocess.run(command, env=paths, stdout=subprocess.PIPE, check=True, timeout=280)
    whole = History.read(tmp_path / "whole", [0])
    assert (whole.effects, whole.asked) == (Counter(EFFECTS), [])
    codes = {path.parent: json.loads(path.read_text()) for path in tmp_path.glob("*/codes")}
    assert [folder for folder, ended in codes.items() if ended[-1] != 0] == []
    histories = [History.read(folder, ended) for folder, ended in codes.items()]
    for history in histories:
        check(history, whole)
    died = sum(code == DIED for history in histories for code in history.codes)
    asked = Counter(choice for history in histories for choice in history.asked)
    again = sum((history.sent - whole.sent).total() for history in histories)
    sys.stdout.write(
        f"points {int(said.stdout)}, histories {len(histories)}, deaths {died}, effects twice 0, silently lost 0, "
        f"asked {dict(asked)}, unanswered reads made again {again}\n"
    )
    # At the very end a process may come through with a point less.
    assert died >= len(histories) - 3
