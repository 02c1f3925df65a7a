"""`audit verify` names the first line of a real store that is not as it was written; `audit export` writes all."""

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import quick_jobs
from command_line import called
from products import call_step, script

from journal.audit import chained
from journal.canonical import digest
from journal.settings import state_folder
from server.settings import hash_of, is_trusted

NOTED = ("seq", "owner", "at", "run", "type", "data")


@dataclass(frozen=True)
class Recorded:
    """Settings and store of a run with three calls: 7 lines, and a checkpoint at the last."""

    folder: Path

    @property
    def settings(self) -> str:
        return str(self.folder / "steprelay.json")

    @property
    def store(self) -> Path:
        return self.folder / "store" / "steprelay.db"

    @property
    def anchor(self) -> Path:
        return self.folder / "anchor.jsonl"


@pytest.fixture
def recorded(empty_home: None, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded_once(tmp_path_factory.getbasetemp() / "recorded_audit")


@cache
def recorded_once(folder: Path) -> Recorded:
    steps = [call_step("one", "quick.add", key="1"), call_step("two", "quick.add", "one", key="2")]
    plan = script(*steps, call_step("three", "quick.add", "two", key="3"))
    quick_jobs.settings(folder, plan, audit={"checkpoints": "anchor.jsonl"})
    assert called("run", "Add three", "--config", str(folder / "steprelay.json")) == 0
    return Recorded(folder)


def opened(recorded: Recorded, folder: Path) -> "closing[sqlite3.Connection]":
    """A copy of the store, opened as anybody can who may write the file."""
    connection = sqlite3.connect(copied(recorded, folder), isolation_level=None)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    return closing(connection)


def copied(recorded: Recorded, folder: Path) -> Path:
    with closing(sqlite3.connect(recorded.store)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (folder / "store").mkdir(parents=True)
    shutil.copy(recorded.store, folder / "store")
    quick_jobs.settings(folder, {}, audit={})
    return folder / "store" / "steprelay.db"


def verified(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    """The exit code of `audit verify --json`, and what it says."""
    code = called("audit", "verify", "--json", "--config", str(folder / "steprelay.json"), *words)
    out, err = capsys.readouterr()
    assert err == ""
    return code, json.loads(out)


def flipped(column: str) -> str:
    value = (
        "at + 1e-3" if column == "at" else f"CASE WHEN {column} LIKE 'a%' THEN 'b' ELSE 'a' END || substr({column}, 2)"
    )
    return f"UPDATE audit SET {column} = {value} WHERE seq = 4"


def renumbered(first: int, by: int) -> list[str]:
    return [
        f"UPDATE audit SET seq = seq + 1000 WHERE seq >= {first}",
        f"UPDATE audit SET seq = seq - 1000 + {by} WHERE seq >= 1000",
    ]


COPY = "INSERT INTO audit SELECT {}, owner, at, run, type, data, prev, hash FROM audit WHERE seq = {}"
SWAP = [f"UPDATE audit SET seq = {new} WHERE seq = {old}" for old, new in ((4, 99), (5, 4), (99, 5))]
BROKEN: dict[str, tuple[list[str], int, str]] = {
    **{f"flipped byte in {column}": ([flipped(column)], 4, "changed") for column in (*NOTED[1:], "prev", "hash")},
    "flipped bit of the number": (["UPDATE audit SET seq = 12 WHERE seq = 4"], 4, "missing"),
    "no run": (["UPDATE audit SET run = NULL WHERE seq = 4"], 4, "changed"),
    "a blob": (["UPDATE audit SET data = CAST(data AS BLOB) WHERE seq = 4"], 4, "changed"),
    "no text": (["UPDATE audit SET data = CAST(x'7bff7d' AS TEXT) WHERE seq = 4"], 4, "changed"),
    "no time": (["UPDATE audit SET at = 9e999 WHERE seq = 4"], 4, "changed"),
    "the first line": (["UPDATE audit SET type = 'else' WHERE seq = 1"], 1, "changed"),
    "dropped": (["DELETE FROM audit WHERE seq = 4"], 4, "missing"),
    "dropped first": (["DELETE FROM audit WHERE seq = 1"], 1, "missing"),
    "dropped and renumbered": (["DELETE FROM audit WHERE seq = 4", *renumbered(5, -1)], 4, "missing"),
    "reordered": (SWAP, 4, "moved"),
    "doubled": ([*renumbered(5, 1), COPY.format(5, 4)], 5, "doubled"),
    "doubled at the end": ([COPY.format(8, 4)], 8, "doubled"),
    "put in the place of another": (["DELETE FROM audit WHERE seq = 5", COPY.format(5, 4)], 5, "doubled"),
    "put before the first": ([COPY.format(-3, 4)], -3, "moved"),
}


@pytest.mark.e2e
def test_verify_names_the_first_line_that_was_changed_dropped_moved_or_doubled(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found: dict[str, tuple[int, int, str]] = {}
    for number, (what, (statements, _, _)) in enumerate(BROKEN.items()):
        folder = tmp_path / str(number)
        with opened(recorded, folder) as connection:
            for statement in statements:
                assert connection.execute(statement).rowcount > 0, what
        code, said = verified(folder, capsys)
        found[what] = (code, said["broken"]["seq"], said["broken"]["fault"])
        assert said["lines"] == max(0, said["broken"]["seq"] - 1), what
    assert found == {what: (4, seq, fault) for what, (_, seq, fault) in BROKEN.items()}


@pytest.mark.e2e
def test_lines_missing_at_the_end_are_told_by_a_checkpoint_only(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    anchor = ("--anchor", str(recorded.anchor))
    with opened(recorded, tmp_path) as connection:
        connection.execute("DELETE FROM audit WHERE seq > 5")
    code, said = verified(tmp_path, capsys)
    assert (code, said["ok"], said["lines"]) == (0, True, 5)
    assert "without checkpoints nobody can tell" in said["note"]
    code, said = verified(tmp_path, capsys, *anchor)
    assert (code, said["broken"]["seq"], said["broken"]["fault"]) == (4, 6, "truncated")
    assert "knows line 7, and the audit ends with line 5" in said["broken"]["text"]


@pytest.mark.e2e
def test_a_chain_made_anew_from_a_changed_line_on_is_told_by_a_checkpoint_only(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(recorded, tmp_path) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("UPDATE audit SET data = replace(data, '\"one\"', '\"two\"')")
        prev = connection.execute("SELECT prev FROM audit WHERE seq = 1").fetchone()["prev"]
        for row in connection.execute("SELECT * FROM audit ORDER BY seq").fetchall():
            hash_ = chained(prev, [row[name] for name in NOTED])
            connection.execute("UPDATE audit SET prev = ?, hash = ? WHERE seq = ?", (prev, hash_, row["seq"]))
            prev = hash_
    assert verified(tmp_path, capsys)[0] == 0
    code, said = verified(tmp_path, capsys, "--anchor", str(recorded.anchor))
    assert (code, said["broken"]["seq"], said["broken"]["fault"]) == (4, 7, "replaced")


@pytest.mark.e2e
def test_a_byte_flipped_in_the_file_itself_is_found(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = copied(recorded, tmp_path)
    whole = path.read_bytes()
    # Only lines of the audit are in canonical JSON, without a space.
    places = [at for at in range(len(whole)) if whole.startswith(b'"class":"write"', at)]
    assert len(places) == 3
    for at, bit in ((places[0], 1), (places[1], 0x80)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        code, said = verified(tmp_path, capsys)
        assert (code, said["broken"]["fault"]) == (4, "changed")
        assert said["broken"]["seq"] in (1, 3, 5)
        for beside in path.parent.glob("*.db-*"):
            beside.unlink()


@pytest.mark.e2e
def test_verify_says_in_words_that_all_holds_or_what_does_not(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("audit", "verify", "--config", recorded.settings) == 0
    head = json.loads(recorded.anchor.read_text())["head"]
    assert capsys.readouterr().out == f"The audit holds: 7 lines, and 1 checkpoints fit.\nIts head: {head}\n"
    with opened(recorded, tmp_path) as connection:
        connection.execute("UPDATE audit SET type = 'intent.\x1b[2J' WHERE seq = 3")
    assert called("audit", "verify", "--config", str(tmp_path / "steprelay.json")) == 4
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith("Line 3 of the audit (changed): intent.\\u001b[2J, run r_")
    assert first.endswith(": it is not as it was written.")
    assert (second, third[:26]) == ("The 2 before it hold.", "Note: without checkpoints ")


@pytest.mark.e2e
def test_a_file_without_checkpoints_is_refused_where_it_was_named_and_told_where_only_the_settings_name_it(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.write_text('{"seq": "x"}\n[1]\n')
    for path, why in ((empty, "holds no checkpoint"), (tmp_path / "none", "cannot be read")):
        assert called("audit", "verify", "--config", recorded.settings, "--anchor", str(path)) == 2
        assert f"{path}: {why}" in capsys.readouterr().err
    copied(recorded, tmp_path / "copy")
    quick_jobs.settings(tmp_path / "copy", {}, audit={"checkpoints": "none"})
    code, said = verified(tmp_path / "copy", capsys)
    assert (code, said["checkpoints"]) == (0, 0)
    assert said["note"].startswith("no checkpoint was used: ")


@pytest.mark.e2e
def test_an_export_holds_every_line_so_that_others_can_check_it_and_nothing_to_guess_at(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("audit", "export", "--config", recorded.settings, "--json") == 0
    out = capsys.readouterr().out
    assert called("audit", "export", "--config", recorded.settings, "-o", str(tmp_path / "lines")) == 0
    assert (tmp_path / "lines").read_text() == out
    lines = [json.loads(line) for line in out.splitlines()]
    prev = lines[0]["prev"]
    for line in lines:
        text = json.dumps(line["data"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        prev = chained(prev, [*(line[name] for name in NOTED[:5]), text])
        assert prev == line["hash"]
    assert [line["type"] for line in lines] == [*(["intent.begun", "intent.done"] * 3), "run.ended"]
    assert [digest({"key": str(number)}) in out for number in range(10)] == [False] * 10
    assert "@" not in out
    [run_id] = {line["run"] for line in lines}
    assert called("audit", "export", "--config", recorded.settings, "--run", run_id) == 0
    assert capsys.readouterr().out == out
    assert called("audit", "export", "--config", recorded.settings, "--run", "r_none") == 0
    assert capsys.readouterr().out == ""
    assert called("audit", "export", "--config", recorded.settings, "-o", str(tmp_path)) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_project_file_is_trusted_only_once_the_audit_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "steprelay.yaml"
    project.write_text("{}")
    key = state_folder() / "audit.key"
    key.mkdir()
    words = ("config", "trust", str(project), "--sha256", hash_of(project))
    assert called(*words) == 3
    assert "nothing is done without an audit" in capsys.readouterr().err
    assert not is_trusted(project)
    key.rmdir()
    assert called(*words) == 0
    assert is_trusted(project)
    capsys.readouterr()
    assert called("audit", "export") == 0
    line = json.loads(capsys.readouterr().out)
    data = {"path": str(project), "sha256": hash_of(project), "via": "flag"}
    assert (line["type"], line["data"]) == ("settings.trusted", data)


@pytest.mark.e2e
def test_an_export_of_a_broken_audit_shows_what_stands_there(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(recorded, tmp_path) as connection:
        connection.execute("UPDATE audit SET data = '{' WHERE seq = 2")
    assert called("audit", "export", "--config", str(tmp_path / "steprelay.json")) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[1])["data"] == "{"
