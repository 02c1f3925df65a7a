"""A tool server that searches and reads the text files below one folder, and nothing outside it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from .folders import existing_folder
from .note_index import SIZE_MAX, Hit, NoteIndex, is_note, note_paths, open_note_index, text_of

QUERY_MAX = 1_000
_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

Query = Annotated[
    str,
    Field(
        description="Words to look for: notes that have them all, or if there are none, that have any",
        json_schema_extra={"minLength": 1, "maxLength": QUERY_MAX},
    ),
]
Limit = Annotated[int, Field(description="At most so many results", ge=1, le=100)]
NotePath = Annotated[str, Field(description="A path as search returns it")]


class SearchResults(BaseModel):
    """The notes that fit, best first."""

    model_config = ConfigDict(frozen=True)

    results: list[Hit]


class Note(BaseModel):
    """One whole note; `path` is relative to the folder."""

    model_config = ConfigDict(frozen=True)

    path: str
    text: str


def build_notes_server(folder: Path) -> MCPServer:
    """A server over the text files below the folder; raises FolderError where there is none."""
    root = existing_folder("notes", folder)

    @asynccontextmanager
    async def open_index(_server: MCPServer[NoteIndex]) -> AsyncGenerator[NoteIndex]:
        with open_note_index(root) as index:
            yield index

    server = MCPServer(
        "notes",
        instructions="A folder of text notes: search finds them, read returns one whole.",
        lifespan=open_index,
        log_level="WARNING",
    )

    @server.tool(annotations=_READS)
    def search(context: Context[NoteIndex, Any], query: Query, limit: Limit = 10) -> SearchResults:
        """Full-text search over the notes. Returns path, title, snippet and score, best first."""
        if not root.is_dir():
            raise ToolError(f"the notes folder {root} is gone; put it back or start this server with another one")
        return SearchResults(results=context.request_context.lifespan_context.search(_checked(query), limit))

    @server.tool(annotations=_READS)
    def read(path: NotePath) -> Note:
        """Read one note as text, whole."""
        return _read(root, path)

    return server


def _checked(query: str) -> str:
    if not any(character.isalnum() for character in query):
        raise ToolError("'query' has no word to look for; give one or more words")
    if len(query) > QUERY_MAX:
        raise ToolError(f"'query' has {len(query):,} characters; give a few words, at most {QUERY_MAX:,} characters")
    return query


def _read(root: Path, path: str) -> Note:
    try:
        file = (root / path).resolve()
        if not file.is_relative_to(root):
            raise ToolError(f"{path!r} lies outside the notes folder; give a path as search returns it")
        if file.is_dir():
            raise ToolError(f"{path!r} is a folder, not a note; search finds the notes in it")
        if not file.is_file() or not is_note(file.relative_to(root)):
            raise ToolError(f"there is no note {path!r} (text files are served, hidden ones not); {_near(root, path)}")
        if (size := file.stat().st_size) > SIZE_MAX:
            raise ToolError(f"{path!r} has {size:,} bytes, and notes of at most {SIZE_MAX:,} are served; split it")
        text = text_of(file)
    except (OSError, ValueError, RuntimeError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "not a usable path"
        raise ToolError(f"{path!r} can't be read: {reason}; give a path as search returns it") from error
    if text is None:
        raise ToolError(f"{path!r} is a binary file, not a note; only text is served")
    return Note(path=file.relative_to(root).as_posix(), text=text)


def _near(root: Path, path: str) -> str:
    known = note_paths(root)
    by_name = {Path(one).name: one for one in known}
    alike = [by_name[name] for name in get_close_matches(Path(path).name, by_name)]
    near = list(dict.fromkeys([*get_close_matches(path, known), *alike]))[:3]
    return f"did you mean {' or '.join(map(repr, near))}?" if near else "search finds the notes that there are"
