"""What becomes of single entries: references of each host, kinds, folders, and why one can't be taken."""

from pathlib import Path

import pytest

from journal.values import Json, JsonObject
from server.hosts_import.candidate import Candidate, LeftOut, candidate
from server.hosts_import.places import HostFile
from server.hosts_import.references import Inputs, variable_name
from server.hosts_import.written import Written

HOME = Path("/home/me")


def taken(entry: Json, *, host: str = "cursor", project: Path | None = None, name: str = "srv") -> Candidate:
    source = HostFile(host, Path("/files/of") / host, project)
    return candidate(Written(name, entry, source), home=HOME, inputs=Inputs())


@pytest.mark.parametrize(
    ("host", "text", "result"),
    [
        ("cursor", "${env:VAR}", "${VAR}"),
        ("cursor", "${env:VAR:-x}", "${VAR:-x}"),
        ("cursor", "${userHome}${/}x", "/home/me/x"),
        ("claude-code", "${VAR}-${VAR:-x}", "${VAR}-${VAR:-x}"),
        ("claude-code", "$VAR", "$VAR"),
        ("claude-code", "${CLAUDE_PROJECT_DIR}", "${CLAUDE_PROJECT_DIR}"),
        ("gemini-cli", "$VAR/$$NOT", "${VAR}/$$NOT"),
        ("goose", "Bearer $VAR", "Bearer ${VAR}"),
        ("vscode", "${input:api-key}", "${API_KEY}"),
        ("windsurf", "${file:/run/secrets/db pass.txt}", "${SRV_DB_PASS}"),
        ("claude-desktop", "${1} ${a b}", "${1} ${a b}"),
        ("claude-desktop", "${OWN}", "$${OWN}"),
        ("claude-desktop", "${SAME}", "${SAME}"),
    ],
)
def test_references_are_those_of_settings(host: str, text: str, result: str) -> None:
    entry: JsonObject = {"command": "x", "args": [text], "env": {"OWN": "1", "SAME": "${SAME}"}}
    assert taken(entry, host=host).entry["args"] == [result]


def test_a_projects_folder_stands_for_what_hosts_call_it(tmp_path: Path) -> None:
    args: list[Json] = ["${workspaceFolder}/a", "${workspaceFolderBasename}", "${CLAUDE_PROJECT_DIR:-.}", "${cwd}"]
    got = taken({"command": "x", "args": args}, project=tmp_path)
    assert got.entry == {
        "command": "x",
        "args": [f"{tmp_path}/a", tmp_path.name, str(tmp_path), str(tmp_path)],
        "cwd": str(tmp_path),
    }
    assert got.notes[2] == f"${{CLAUDE_PROJECT_DIR:-…}} is now {tmp_path}"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (5, "its entry is no map of keys"),
        ({}, "it has neither command nor url"),
        ({"command": " "}, "it has neither command nor url"),
        ({"command": ["a"]}, "it has neither command nor url"),
        ({"type": "stdio", "url": "http://x/"}, "it has no command"),
        ({"type": "http", "command": "x"}, "it has no url"),
        ({"type": "sdk", "command": "x"}, "its type 'sdk' is none that can be started: stdio, http and sse are"),
        ({"type": 5}, "its type '5' is none that can be started: stdio, http and sse are"),
        ({"url": "unix:///x"}, "its address is neither http:// nor https://"),
        ({"command": "${workspaceFolder}/x"}, "${workspaceFolder} has no folder here: this file is not of one project"),
        ({"command": "${config:x.y}"}, "${config:x.y} is known to its host only; write what it stands for"),
        (
            {"command": "${workspaceFolder:a}"},
            "${workspaceFolder:a} is known to its host only; write what it stands for",
        ),
    ],
)
def test_what_cannot_be_taken_says_why(entry: Json, why: str) -> None:
    with pytest.raises(LeftOut) as caught:
        taken(entry)
    assert str(caught.value) == why


def test_names_without_a_letter_cannot_be_taken() -> None:
    with pytest.raises(LeftOut, match="has no letter or digit"):
        taken({"command": "x"}, name="—")


def test_a_project_that_is_gone_takes_its_servers_along(tmp_path: Path) -> None:
    with pytest.raises(LeftOut, match="the folder of its project is gone: "):
        taken({"command": "x"}, project=tmp_path / "gone")


@pytest.mark.parametrize(
    ("entry", "result"),
    [
        ({"url": "http://x/mcp"}, {"type": "http", "url": "http://x/mcp"}),
        ({"url": "http://x/sse?a=b"}, {"type": "sse", "url": "http://x/sse?a=b"}),
        ({"url": "http://x/sse", "type": "http"}, {"type": "http", "url": "http://x/sse"}),
        ({"url": "http://x/", "type": "streamableHttp", "env": {"A": "b"}}, {"type": "http", "url": "http://x/"}),
        ({"command": "x", "enabled": False}, {"command": "x", "disabled": True}),
        ({"command": "x", "timeout": 1500.5}, {"command": "x", "timeout": 1500}),
        ({"command": "x", "timeout": 0}, {"command": "x"}),
        ({"command": "x", "timeout": True}, {"command": "x"}),
        ({"command": "x", "args": [1, True, "a"]}, {"command": "x", "args": ["1", "true", "a"]}),
        ({"command": "x", "args": "a", "env": {"A": 1, "B": None}}, {"command": "x", "env": {"A": "1"}}),
        ({"command": "x", "cwd": "~/a"}, {"command": "x", "cwd": str(Path.home() / "a")}),
    ],
)
def test_an_entry_has_the_form_of_settings(entry: JsonObject, result: JsonObject) -> None:
    if "cwd" in result:
        result = {**result, "cwd": str(Path("~/a").expanduser())}
    assert taken(entry).entry == result


def test_relative_folders_are_those_of_the_project(tmp_path: Path) -> None:
    (tmp_path / ".env").touch()
    entry: JsonObject = {"command": "x", "cwd": "sub/..", "envFile": ".env"}
    assert taken(entry, project=tmp_path).entry == {
        "command": "x",
        "cwd": str(tmp_path),
        "envFile": str(tmp_path / ".env"),
    }
    got = taken(entry)
    assert got.entry == {"command": "x"}
    assert got.notes == (
        "cwd is left out: it is relative, and this file is not of one project",
        "envFile is left out: there is no /home/me/.env",
    )


def test_an_input_of_another_file_is_another_variable() -> None:
    inputs = Inputs()
    names = [inputs.name_of("api-key", Path(path), server="srv") for path in ("/a", "/a", "/b", "/b")]
    assert names == ["API_KEY", "API_KEY", "SRV_API_KEY", "SRV_API_KEY"]


def test_variables_have_names_that_a_shell_takes() -> None:
    assert [variable_name(text) for text in ("myApiKey", "1st", "a.b c", "日本")] == [
        "MY_API_KEY",
        "VALUE_1ST",
        "A_B_C",
        "VALUE",
    ]
