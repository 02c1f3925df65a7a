"""The outbox server: what it writes, under which names, and what it refuses."""

import json
import os
import re
import shutil
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from tool_calls import ERAS, hints_of, refusal_of, tools_of, value_of

from server.tool_servers import FolderError, build_outbox_server

MAIL = {"to": "ann@example.org", "subject": "Grüße", "body": "Line one\nline two\n"}


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("tool", "status", "kind"), [("send", "sent", "sent"), ("draft", "draft", "drafts")])
async def test_a_message_becomes_one_file_named_by_its_id(
    tmp_path: Path, tool: str, status: str, kind: str, mode: str
) -> None:
    receipt = await value_of(build_outbox_server(tmp_path), tool, MAIL, mode=mode)
    id_ = receipt["id"]
    assert re.fullmatch("[0-9a-f]{32}", id_)
    assert receipt == {
        "id": id_, "to": MAIL["to"], "subject": MAIL["subject"], "status": status, "path": f"{kind}/{id_}.json"
    }  # fmt: skip
    assert files_in(tmp_path) == [receipt["path"]]
    message = json.loads((tmp_path / receipt["path"]).read_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", message.pop("created_at"))
    assert message == {"id": id_, "status": status, **MAIL}


@pytest.mark.parametrize("mode", ERAS)
async def test_both_tools_are_writes_that_destroy_nothing_and_only_send_reaches_out(tmp_path: Path, mode: str) -> None:
    tools = await tools_of(build_outbox_server(tmp_path), mode=mode)
    assert {name: hints_of(tool) for name, tool in tools.items()} == {
        "draft": (False, False, False, False),
        "send": (False, False, False, True),
    }


async def test_the_schema_says_what_is_taken_before_anybody_is_asked(tmp_path: Path) -> None:
    send = (await tools_of(build_outbox_server(tmp_path)))["send"]
    properties = send.input_schema["properties"]
    assert {name: (at["type"], at["minLength"], at["maxLength"]) for name, at in properties.items()} == {
        "to": ("string", 1, 1000),
        "subject": ("string", 1, 1000),
        "body": ("string", 1, 200_000),
    }
    assert send.input_schema["required"] == ["to", "subject", "body"]


@pytest.mark.parametrize("text", ["../../evil", "/etc/passwd", "a/b", "..", "CON", "x" * 999], ids=ascii)
async def test_no_text_of_a_message_gets_into_a_file_name(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "outbox"
    receipt = await value_of(build_outbox_server(folder), "send", {"to": text, "subject": text, "body": text})
    assert files_in(tmp_path) == [f"outbox/sent/{receipt['id']}.json"]


@pytest.mark.parametrize("tool", ["send", "draft"])
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        pytest.param({"to": ""}, "'to' is empty; give it a text", id="no recipient"),
        pytest.param({"to": " \n"}, "'to' is empty; give it a text", id="blank recipient"),
        pytest.param({"subject": ""}, "'subject' is empty; give it a text", id="no subject"),
        pytest.param({"body": " "}, "'body' is empty; give it a text", id="no body"),
        pytest.param({"to": "x" * 1001}, "'to' has 1,001 characters; at most 1,000 are taken", id="long recipient"),
        pytest.param({"subject": "x" * 1001}, "'subject' has 1,001 characters; at most", id="long subject"),
        pytest.param({"body": "x" * 200_001}, "'body' has 200,001 characters; at most 200,000", id="long body"),
        pytest.param({"to": "a@b.c\nBcc: d@e.f"}, "'to' must be one line without control", id="recipient of two lines"),
        pytest.param({"subject": "a\rb"}, "'subject' must be one line without control", id="subject of two lines"),
        pytest.param({"body": "half \ud83d"}, "'body' holds half a character", id="half a character"),
    ],
)
async def test_a_bad_message_is_refused_and_nothing_is_written(
    tmp_path: Path, tool: str, changed: dict[str, Any], told: str
) -> None:
    text = await refusal_of(build_outbox_server(tmp_path), tool, MAIL | changed)
    assert text.startswith(f"nothing was written: {told}")
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("arguments", [{"to": "a", "subject": "b"}, MAIL | {"to": ["a"]}], ids=["missing", "list"])
async def test_arguments_of_another_shape_are_refused(tmp_path: Path, arguments: dict[str, Any]) -> None:
    await refusal_of(build_outbox_server(tmp_path), "send", arguments)
    assert files_in(tmp_path) == []


async def test_twenty_sends_at_once_make_twenty_whole_files(tmp_path: Path) -> None:
    with anyio.fail_after(20):
        async with Client(build_outbox_server(tmp_path)) as client, anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(client.call_tool, "send", MAIL | {"subject": f"{number}"})
    subjects = [json.loads((tmp_path / name).read_text())["subject"] for name in files_in(tmp_path)]
    assert sorted(subjects, key=int) == [str(number) for number in range(20)]


async def test_messages_and_new_folders_are_readable_by_this_user_only(tmp_path: Path) -> None:
    folder = tmp_path / "outbox"
    receipt = await value_of(build_outbox_server(folder), "send", MAIL)
    modes = [stat.S_IMODE((folder / name).stat().st_mode) for name in (".", "sent", "drafts", receipt["path"])]
    assert modes == [0o700, 0o700, 0o700, 0o600]


async def test_a_message_that_cannot_be_written_is_refused_with_the_folder(tmp_path: Path) -> None:
    server = build_outbox_server(tmp_path)
    shutil.rmtree(tmp_path / "sent")
    text = await refusal_of(server, "send", MAIL)
    assert text == f"nothing was written: {tmp_path / 'sent'} cannot be written to (No such file or directory)"


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_is_an_error_before_the_start(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(FolderError) as caught:
        build_outbox_server(tmp_path / name)
    assert str(caught.value).startswith(f"tool-server outbox cannot serve {tmp_path / name}: it cannot be created (")


def test_an_outbox_may_be_opened_again(tmp_path: Path) -> None:
    build_outbox_server(tmp_path)
    build_outbox_server(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["drafts", "sent"]
