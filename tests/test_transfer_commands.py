"""`runs export` and `runs import` as a person types them."""

import json
from pathlib import Path

import pytest
import quick_jobs
from command_line import called

from journal.archive.transfer import AlreadyHere
from journal.read_only import ReadOnlyRun

LONG = "y" * 9_000
PLAN = [
    {"id": "tell", "kind": "call", "title": "Tell", "tool": "quick.tell", "arguments": {"key": LONG}},
    {"id": "drop", "kind": "call", "title": "Drop", "tool": "quick.drop", "arguments": {"key": "k"}, "needs": ["tell"]},
]


def ended(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code of a command of this process, and what it said: to stderr if it was called wrongly."""
    capsys.readouterr()
    code = called(*words)
    said = capsys.readouterr()
    return code, said.err if code == 2 else said.out


@pytest.mark.e2e
def test_on_the_command_line_an_imported_run_is_marked_shown_and_exported_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = (
        ("--config", str(quick_jobs.settings(tmp_path / name, {"plan": PLAN}))) for name in ("here", "there")
    )
    file, again = str(tmp_path / "run.json"), str(tmp_path / "again.json")
    code, said = ended(capsys, "run", "do it", "--json", *here)
    run_id = json.loads(said.splitlines()[0])["run"]
    assert (code, ended(capsys, "runs", "export", run_id, "-o", file, *here)) == (5, (0, ""))
    code, said = ended(capsys, "runs", "import", file, *there)
    assert (code, said.partition(". ")[0]) == (0, f"Imported, read-only: {run_id}")
    document = json.loads(Path(file).read_text())
    assert [tool["name"] for tool in document["tools"]] == ["add", "drop", "fail", "read", "stuck", "tell", "wait"]
    assert (document["settings"]["revise"], len(document["artifacts"])) == ("on_trigger", 1)
    action_id = document["actions"][0]["id"]
    resume = ("runs", "resume", run_id)
    for words in (resume, (*resume, "--from", "tell"), ("runs", "cancel", run_id), ("deny", action_id)):
        assert ended(capsys, *words, *there) == (2, f"steprelay: {ReadOnlyRun(run_id)}\n"), words
    assert ended(capsys, "approvals", *there) == (0, "Nothing waits for a decision.\n")
    listed = json.loads(ended(capsys, "runs", "list", "--json", *there)[1])["runs"]
    assert [(line["status"], line["needs"], line["imported"]) for line in listed] == [("awaiting_approval", None, True)]
    monkeypatch.setenv("COLUMNS", "160")
    assert "imported: do it" in ended(capsys, "runs", "list", *there)[1]
    code, said = ended(capsys, "runs", "show", run_id, *there)
    assert (code, "read-only" in said, "as it was exported" in said, action_id in said) == (0, True, True, False)
    shown = json.loads(ended(capsys, "runs", "show", run_id, "--json", *there)[1])
    assert (shown["actions"], list(shown["origin"]), shown["message"]) == (
        [],
        ["import"],
        f"Run {run_id} is shown as it stood when it was exported.",
    )
    assert [step["status"] for step in shown["step_list"]] == ["succeeded", "waiting"]
    assert ended(capsys, "runs", "watch", run_id, *there)[0] == 5
    assert ended(capsys, "runs", "export", run_id, "-o", again, *there) == (0, "")
    assert Path(again).read_text() == Path(file).read_text()
    assert ended(capsys, "runs", "import", file, *here) == (2, f"steprelay: {file}: {AlreadyHere(f'run {run_id}')}\n")


def test_a_file_that_cannot_be_read_is_a_mistake_in_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("--config", str(quick_jobs.settings(tmp_path, {})))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(513 << 20)
    for name, told in {
        "nowhere": "cannot be read: No such file",
        "bytes": "is no text in UTF-8",
        "large": "has more than 512 MiB",
        "script.json": "not an exported run: the file holds something else",
    }.items():
        code, said = ended(capsys, "runs", "import", str(tmp_path / name), *settings)
        assert (code, told in said) == (2, True), said
