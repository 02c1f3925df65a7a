"""Answers of tools in our own form, and what is kept of them."""

import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from downstream.servers.results import Blob, Kept, Normalised, keep, normalise
from journal.ledger import Limits
from journal.outlet import Outlet
from journal.run_journal import RunJournal
from journal.runs import NewRun
from journal.store import open_store
from journal.world import World

DEEP = "[" * 200_000
LABEL = frozenset({"private:box"})


def said(*texts: str, data: Any = None, is_error: bool = False) -> CallToolResult:
    content: list[ContentBlock] = [TextContent(type="text", text=text) for text in texts]
    return CallToolResult(content=content, structured_content=data, is_error=is_error)


@asynccontextmanager
async def open_journal(folder: Path) -> AsyncGenerator[RunJournal]:
    world = World()
    async with open_store(folder / "store.db", world, Outlet(), owner="me") as store:
        new = NewRun("me", "print", "settings.yaml", "goal", "host", "", {})
        run_id, _ = await store.create_or_attach(new, driver="test")
        limits = Limits(10, 10, 1000, 1.0, 1.0, 60.0)
        journal = await store.take(await store.run(run_id), driver="test", limits=lambda run: limits)
        assert journal is not None
        yield journal


@pytest.mark.parametrize(
    ("result", "value", "text"),
    [
        (said("one", "two"), "one\ntwo", "one\ntwo"),
        (said("hid\u200bden"), "hid\u200bden", "hidden"),
        (said(data={"n": 1}), {"n": 1}, '{"n": 1}'),
        (said('{"n": 1}', data={"n": 1}), {"n": 1}, '{"n": 1}'),
        (said("one", data={"result": "one"}), {"result": "one"}, "one"),
        (
            said("one", '{"n": 1}', data={"result": [["one"], [{"n": 1}]]}),
            {"result": [["one"], [{"n": 1}]]},
            'one\n{"n": 1}',
        ),
        (said("one\n", data={"content": "one\n"}), {"content": "one\n"}, "one\n"),
        (said("1 row", data={"result": [1]}), {"result": [1]}, '1 row\n\nAs data: {"result": [1]}'),
        (said("Found one.", data={"n": 1}), {"n": 1}, 'Found one.\n\nAs data: {"n": 1}'),
        (said(data={"n": "\u202e1"}), {"n": "\u202e1"}, '{"n": "1"}'),
        (said(DEEP, data={"n": 1}), {"n": 1}, f'{DEEP}\n\nAs data: {{"n": 1}}'),
    ],
    ids=[
        *("text", "hidden", "data", "data as text", "wrapped", "wrapped one by one", "wrapped under another name"),
        *("wrapped with other words", "both", "hidden in data", "deep"),
    ],
)
def test_data_is_the_value_and_else_the_text_is(result: CallToolResult, value: Any, text: str) -> None:
    normalised = normalise(result)
    assert (normalised.ok, normalised.value_data, normalised.text, normalised.empty) == (True, value, text, False)


@pytest.mark.parametrize(
    "result",
    [
        said(),
        said(" \n"),
        said("[]"),
        said(data={"result": []}),
        said(data={"hits": [{}], "note": ""}),
        said("x", data={}),
    ],
)
def test_a_result_with_nothing_in_it_is_marked(result: CallToolResult) -> None:
    assert normalise(result).empty


@pytest.mark.parametrize("result", [said("0"), said(data={"count": 0}), said(data={"result": [False]})])
def test_zero_and_false_are_something(result: CallToolResult) -> None:
    assert not normalise(result).empty


def test_an_error_is_not_ok_and_keeps_its_text() -> None:
    assert normalise(said("no such file", is_error=True)) == Normalised(False, "no such file", "no such file", False)


def test_pictures_and_sounds_become_blobs_and_links_and_resources_text() -> None:
    encoded = base64.b64encode(b"\x89PNG").decode()
    text = TextResourceContents(uri="note://1", text="inside")
    blob = BlobResourceContents(uri="note://2", blob=encoded)
    result = CallToolResult(
        content=[
            ImageContent(type="image", data=encoded, mime_type="image/png"),
            AudioContent(type="audio", data="not base64!", mime_type="audio/wav"),
            ResourceLink(type="resource_link", uri="file:///a.txt", name="a", mime_type="text/plain"),
            EmbeddedResource(type="resource", resource=text),
            EmbeddedResource(type="resource", resource=blob),
        ]
    )
    lines = [
        "[audio that is not valid base64]",
        "[link to file:///a.txt, not read: a, text/plain]",
        "[resource note://1]",
        "inside",
    ]
    blobs = (Blob("image", "image/png", b"\x89PNG"), Blob("resource note://2", "application/octet-stream", b"\x89PNG"))
    said = "\n".join(lines)
    assert normalise(result) == Normalised(True, said, said, False, blobs, links=("file:///a.txt",))


async def test_a_large_text_is_kept_whole_and_shown_as_head_tail_and_handle(tmp_path: Path) -> None:
    text = "".join(f"line {number:06d}\n" for number in range(1000))
    async with open_journal(tmp_path) as journal:
        kept = await keep(journal, normalise(said(text)), step="read", call="c_1", label=LABEL)
        artifact = await journal.artifacts.get(kept.artifacts[0], run_id=journal.run.id)
        content = await journal.artifacts.content(artifact)
    assert (content.decode(), artifact.media_type, artifact.label) == (text, "text/plain", LABEL)
    assert (artifact.step, artifact.call) == ("read", "c_1")
    head, middle, tail = kept.text.partition("\n[… 6,000 characters left out …]\n")
    assert head.startswith(f"[12,000 characters, kept whole as {artifact.id}; ")
    assert kept.value_data == text
    assert (bool(middle), head.endswith(text[:4000]), tail) == (True, True, text[-2000:])


async def test_large_data_is_kept_as_json_and_blobs_are_named_with_their_handles(tmp_path: Path) -> None:
    data = {"rows": ["x" * 100] * 100}
    picture = ImageContent(type="image", data=base64.b64encode(b"1234").decode(), mime_type="image/png")
    result = CallToolResult(content=[picture], structured_content=data)
    async with open_journal(tmp_path) as journal:
        kept = await keep(journal, normalise(result), step="read", call="c_1", label=LABEL)
        kinds = [(await journal.artifacts.get(each, run_id=journal.run.id)).media_type for each in kept.artifacts]
    assert (kinds, kept.value_data) == (["application/json", "image/png"], data)
    assert kept.text.splitlines()[-1] == f"[image, image/png, 4 bytes, kept as {kept.artifacts[1]}]"


async def test_what_cannot_be_kept_is_shown_in_part_or_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("in the way")
    reason = f"the call ran, but its whole result could not be kept: {tmp_path / 'artifacts'}: Not a directory; free"
    picture = ImageContent(type="image", data=base64.b64encode(b"1234").decode(), mime_type="image/png")
    result = CallToolResult(content=[TextContent(type="text", text="x" * 9000), picture])
    async with open_journal(tmp_path) as journal:
        kept = await keep(journal, normalise(result), step="read", call="c_1", label=LABEL)
    first, text, last = kept.text.partition(f"\n{'x' * 4000}\n[… 3,000 characters left out …]\n{'x' * 2000}\n")
    assert first.startswith(f"[9,000 characters, of which this is a part: {reason}")
    assert (bool(text), last.startswith(f"[image, image/png, 4 bytes: {reason}"), kept.artifacts) == (True, True, ())


async def test_a_small_text_needs_no_artifact_and_a_picture_is_its_handle_below_the_words(tmp_path: Path) -> None:
    picture = ImageContent(type="image", data=base64.b64encode(b"1234").decode(), mime_type="image/png")
    async with open_journal(tmp_path) as journal:
        small = await keep(journal, normalise(said("short")), step="s", call="c_1", label=LABEL)
        alone = normalise(CallToolResult(content=[picture]))
        kept = await keep(journal, alone, step="s", call="c_2", label=LABEL)
        words = TextContent(type="text", text="a pic\u200bture")
        both = await keep(
            journal, normalise(CallToolResult(content=[words, picture])), step="s", call="c_3", label=LABEL
        )
    assert (small, alone.empty) == (Kept("short", "short", ()), False)
    handle = f"[image, image/png, 4 bytes, kept as {kept.artifacts[0]}]"
    assert (kept.text, kept.value_data) == (handle, handle)
    handle = f"[image, image/png, 4 bytes, kept as {both.artifacts[0]}]"
    assert (both.text, both.value_data) == (f"a picture\n{handle}", f"a pic\u200bture\n{handle}")


def test_bytes_that_a_server_repeats_in_its_data_are_not_shown_to_models_and_stay_in_the_value() -> None:
    encoded = base64.b64encode(b"\x89PNG").decode()
    data = {"content": [{"type": "image", "data": encoded, "mimeType": "image/png"}], "note": "", "size": 4}
    picture = ImageContent(type="image", data=encoded, mime_type="image/png")
    normalised = normalise(CallToolResult(content=[picture], structured_content=data))
    shown = {
        "content": [{"type": "image", "data": "[image, kept aside]", "mimeType": "image/png"}],
        "note": "",
        "size": 4,
    }
    assert (json.loads(normalised.text), normalised.value_data) == (shown, data)
