"""The notes server: what it finds, what it reads, and that nothing outside its folder comes out."""

import os
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client
from tool_calls import ERAS, hints_of, refusal_of, tools_of, value_of

from server.tool_servers import FolderError, build_notes_server
from server.tool_servers.note_index import open_note_index

SECRET = "the-secret-outside"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "plans").mkdir(parents=True)
    (folder / "plans" / "budget.md").write_text("intro\n\n# Budget 2026\n\nTravel costs 400 euro, the café 20.\n")
    (folder / "trip.txt").write_text("Travel to Köln by train. Ask bob-smith@example.org\n")
    (tmp_path / "outside.md").write_text(SECRET)
    return folder


async def paths_found(folder: Path, query: str) -> list[str]:
    found = await value_of(build_notes_server(folder), "search", {"query": query})
    return [hit["path"] for hit in found["results"]]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_search_finds_notes_with_path_title_snippet_and_score(notes: Path, mode: str) -> None:
    found = await value_of(build_notes_server(notes), "search", {"query": "budget"}, mode=mode)
    [hit] = found["results"]
    assert hit.pop("score") > 0
    assert hit == {
        "path": "plans/budget.md",
        "title": "Budget 2026",
        "snippet": "intro # Budget 2026 Travel costs 400 euro, the café 20.",
    }


@pytest.mark.parametrize("mode", ERAS)
async def test_a_note_that_was_found_is_read_whole(notes: Path, mode: str) -> None:
    note = await value_of(build_notes_server(notes), "read", {"path": "trip.txt"}, mode=mode)
    assert note == {"path": "trip.txt", "text": "Travel to Köln by train. Ask bob-smith@example.org\n"}


@pytest.mark.parametrize("mode", ERAS)
async def test_both_tools_say_that_they_only_read_in_a_closed_world(notes: Path, mode: str) -> None:
    tools = await tools_of(build_notes_server(notes), mode=mode)
    expected = (True, False, True, False)
    assert {name: hints_of(tool) for name, tool in tools.items()} == {"search": expected, "read": expected}


async def test_the_schema_names_only_the_arguments_of_the_contract(notes: Path) -> None:
    tools = await tools_of(build_notes_server(notes))
    assert {name: list(tool.input_schema["properties"]) for name, tool in tools.items()} == {
        "search": ["query", "limit"],
        "read": ["path"],
    }


async def test_notes_with_all_words_come_alone_and_without_any_those_with_some(notes: Path) -> None:
    assert await paths_found(notes, "travel train") == ["trip.txt"]
    assert sorted(await paths_found(notes, "euro zeppelin train")) == ["plans/budget.md", "trip.txt"]
    assert await paths_found(notes, "zeppelin") == []


@pytest.mark.parametrize(
    ("query", "path"),
    [
        pytest.param("KÖLN", "trip.txt", id="capital letters"),
        pytest.param("koln", "trip.txt", id="without its accent"),
        pytest.param("cafe\u0301", "plans/budget.md", id="accent as a character of its own"),
        pytest.param("trav* trai", "trip.txt", id="beginning of a word"),
        pytest.param("bob-smith@example.org", "trip.txt", id="punctuation inside a word"),
        pytest.param("plans", "plans/budget.md", id="folder"),
    ],
)
async def test_a_word_is_found_in_another_spelling(notes: Path, query: str, path: str) -> None:
    assert await paths_found(notes, query) == [path]


@pytest.mark.parametrize(
    "query",
    ['"', '"travel', 'travel" OR "x', "travel*", "*travel", "NEAR(travel train, 2)", "-travel", "travel -train", "a:b",
     "title : travel", "^travel", "travel AND", "AND", "NOT travel", "(travel", "{path title}: x", "travel\0train",
     "'; DROP TABLE notes", "travel + train", "東京 travel", "²", "\ud800travel", "\u200dtravel", "x " * 500],
    ids=ascii,
)  # fmt: skip
async def test_no_query_is_taken_as_search_syntax(notes: Path, query: str) -> None:
    server = build_notes_server(notes)
    if any(character.isalnum() for character in query):
        found = await value_of(server, "search", {"query": query})
        assert bool(found["results"]) == ("travel" in query)
    else:
        assert "has no word" in await refusal_of(server, "search", {"query": query})


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(st.characters(), min_size=1, max_size=60))
def test_any_text_can_be_searched_for(notes: Path, query: str) -> None:
    with open_note_index(notes) as index:
        index.search(query + " x", 10)


@pytest.mark.parametrize("query", ["", "   ", "?!", "\n"], ids=ascii)
async def test_a_query_without_a_word_is_refused(notes: Path, query: str) -> None:
    text = await refusal_of(build_notes_server(notes), "search", {"query": query})
    assert text == "'query' has no word to look for; give one or more words"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param({"query": "x" * 1001}, "'query' has 1,001 characters", id="long query"),
        pytest.param({"query": "x", "limit": 0}, "limit", id="limit 0"),
        pytest.param({"query": "x", "limit": 101}, "limit", id="limit 101"),
    ],
)
async def test_a_search_out_of_range_is_refused(notes: Path, arguments: dict[str, Any], told: str) -> None:
    assert told in await refusal_of(build_notes_server(notes), "search", arguments)


async def test_a_search_returns_at_most_limit_notes_best_first(notes: Path) -> None:
    for number in range(12):
        (notes / f"{number}.md").write_text("weather " * (number + 1) + "filler " * 30)
    server = build_notes_server(notes)
    ten = (await value_of(server, "search", {"query": "weather"}))["results"]
    three = (await value_of(server, "search", {"query": "weather", "limit": 3}))["results"]
    assert (len(ten), three) == (10, ten[:3])
    assert [hit["score"] for hit in ten] == sorted((hit["score"] for hit in ten), reverse=True)


async def test_new_changed_and_deleted_notes_are_seen_by_the_next_search(notes: Path) -> None:
    with anyio.fail_after(10):
        async with Client(build_notes_server(notes)) as client:

            async def found(query: str) -> list[str]:
                content = (await client.call_tool("search", {"query": query})).structured_content
                assert content is not None
                return [hit["path"] for hit in content["results"]]

            assert await found("zeppelin") == []
            (notes / "new.md").write_text("a zeppelin")
            assert await found("zeppelin") == ["new.md"]
            (notes / "new.md").write_text("an airship")
            assert (await found("zeppelin"), await found("airship")) == ([], ["new.md"])
            (notes / "new.md").unlink()
            assert await found("airship") == []


async def test_many_searches_and_reads_at_once_all_answer(notes: Path) -> None:
    answers: list[str] = []
    with anyio.fail_after(20):
        async with Client(build_notes_server(notes)) as client, anyio.create_task_group() as group:

            async def one(tool: str, arguments: dict[str, Any]) -> None:
                result = await client.call_tool(tool, arguments)
                answers.append(f"{tool} {result.is_error}")

            for number in range(20):
                (notes / f"n{number}.md").write_text(f"number {number}")
                group.start_soon(one, "search", {"query": f"number {number}"})
                group.start_soon(one, "read", {"path": "trip.txt"})
    assert sorted(answers) == ["read False"] * 20 + ["search False"] * 20


@pytest.mark.parametrize(
    "path",
    ["../outside.md", "plans/../../outside.md", "{folder}/../outside.md", "{outside}", "/etc/passwd", "link.md",
     "linked/outside.md", "chain.md"],
)  # fmt: skip
async def test_no_path_and_no_link_leads_outside_the_folder(notes: Path, path: str) -> None:
    outside = notes.parent / "outside.md"
    (notes / "link.md").symlink_to(outside)
    (notes / "linked").symlink_to(notes.parent)
    (notes / "chain.md").symlink_to(notes / "link.md")
    asked = path.format(folder=notes, outside=outside)
    text = await refusal_of(build_notes_server(notes), "read", {"path": asked})
    assert text == f"{asked!r} lies outside the notes folder; give a path as search returns it"


async def test_a_search_never_looks_behind_links_and_into_hidden_files(notes: Path) -> None:
    (notes / "link.md").symlink_to(notes.parent / "outside.md")
    (notes / "linked").symlink_to(notes.parent)
    (notes / ".git").mkdir()
    (notes / ".git" / "config.txt").write_text(SECRET)
    (notes / ".env.txt").write_text(SECRET)
    assert await paths_found(notes, SECRET) == []


async def test_a_link_to_a_note_in_the_folder_is_read_under_its_own_path(notes: Path) -> None:
    (notes / "alias.md").symlink_to("plans/budget.md")
    note = await value_of(build_notes_server(notes), "read", {"path": "alias.md"})
    assert note["path"] == "plans/budget.md"


async def test_a_path_may_be_absolute_and_go_up_as_long_as_it_stays_inside(notes: Path) -> None:
    server = build_notes_server(notes)
    for path in (str(notes / "trip.txt"), "plans/../trip.txt", "./trip.txt"):
        assert (await value_of(server, "read", {"path": path}))["path"] == "trip.txt"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        pytest.param("plans", "'plans' is a folder, not a note; search finds the notes in it", id="folder"),
        pytest.param("", "'' is a folder, not a note; search finds the notes in it", id="empty"),
        pytest.param("budjet.md", "did you mean 'plans/budget.md'?", id="misspelt"),
        pytest.param("qqqqqq", "there is no note 'qqqqqq' (text files are served, hidden ones not); search", id="none"),
        pytest.param("image.png", "there is no note 'image.png'", id="no text file"),
        pytest.param(".env.txt", "there is no note '.env.txt'", id="hidden"),
        pytest.param("big.txt", "'big.txt' has 1,048,577 bytes, and notes of at most 1,048,576 are", id="too large"),
        pytest.param("binary.txt", "'binary.txt' is a binary file, not a note", id="binary"),
        pytest.param("a\0b", "can't be read: not a usable path; give a path as search returns it", id="null"),
        pytest.param("x" * 300 + ".md", "can't be read: File name too long", id="too long"),
        pytest.param("pipe.txt", "there is no note 'pipe.txt'", id="pipe"),
    ],
)
async def test_what_is_no_note_is_refused_with_the_way_out(notes: Path, path: str, told: str) -> None:
    (notes / "image.png").write_bytes(b"\x89PNG")
    (notes / ".env.txt").write_text(SECRET)
    (notes / "big.txt").write_text("x" * (1024 * 1024 + 1))
    (notes / "binary.txt").write_bytes(b"ab\0cd")
    os.mkfifo(notes / "pipe.txt")
    assert told in await refusal_of(build_notes_server(notes), "read", {"path": path})


async def test_binary_and_too_large_files_are_not_searched(notes: Path) -> None:
    (notes / "binary.txt").write_bytes(b"zeppelin\0")
    (notes / "big.txt").write_text("zeppelin " * 200_000)
    assert await paths_found(notes, "zeppelin") == []
    assert await paths_found(notes, "binary") == []


async def test_bytes_that_are_not_utf8_are_replaced(notes: Path) -> None:
    (notes / "old.txt").write_bytes(b"\xef\xbb\xbfgr\xfc\xdfe zeppelin")
    server = build_notes_server(notes)
    assert await value_of(server, "read", {"path": "old.txt"}) == {
        "path": "old.txt",
        "text": "gr\ufffd\ufffde zeppelin",
    }
    assert await paths_found(notes, "zeppelin") == ["old.txt"]


async def test_a_file_name_that_is_not_unicode_is_left_out(notes: Path) -> None:
    (notes / os.fsdecode(b"\xff.txt")).write_text("zeppelin")
    assert await paths_found(notes, "zeppelin") == []


async def test_a_very_long_word_makes_a_short_snippet(notes: Path) -> None:
    (notes / "long.txt").write_text("zeppelin " + "x" * 100_000)
    found = await value_of(build_notes_server(notes), "search", {"query": "zeppelin"})
    assert [len(hit["snippet"]) for hit in found["results"]] == [500]


async def test_a_folder_that_disappears_is_named(notes: Path) -> None:
    server = build_notes_server(notes)
    shutil.rmtree(notes)
    assert f"the notes folder {notes} is gone" in await refusal_of(server, "search", {"query": "x"})


@pytest.mark.parametrize(
    ("name", "told"),
    [
        pytest.param("missing", "it does not exist; create it or name another folder", id="missing"),
        pytest.param("file.md", "it is not a folder; name the folder that holds the files", id="file"),
        pytest.param("x" * 300, "it cannot be listed (File name too long)", id="cannot be listed"),
    ],
)
def test_a_folder_that_cannot_be_served_is_an_error_before_the_start(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "file.md").write_text("x")
    with pytest.raises(FolderError) as caught:
        build_notes_server(tmp_path / name)
    assert str(caught.value).startswith(f"tool-server notes cannot serve {tmp_path / name}: {told}")
