"""A full-text index over the notes below a folder, in memory and brought up to date at each search."""

import os
import re
import sqlite3
import stat
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath

from pydantic import BaseModel, ConfigDict

SIZE_MAX = 1024 * 1024
WORDS_MAX = 32
SNIPPET_MAX = 500
TITLE_MAX = 200
_MARKDOWN = {".md", ".markdown", ".mdx"}
_SUFFIXES = _MARKDOWN | {
    ".txt", ".text", ".rst", ".org", ".adoc", ".tex", ".csv", ".tsv", ".json", ".yaml", ".yml", ".toml", ".html", ".log"
}  # fmt: skip
_HEADING = re.compile(r"^#+[ \t]+(.*\S)", re.MULTILINE)
# Words of the title weigh more than those of the path, and both much more than the text's.
_SELECT = """
SELECT path, title, snippet(notes, 2, '', '', '…', 64), -bm25(notes, 4.0, 5.0, 1.0)
FROM notes WHERE notes MATCH ? ORDER BY bm25(notes, 4.0, 5.0, 1.0), path LIMIT ?
"""


@dataclass(frozen=True)
class _Signature:
    changed: int
    size: int


@dataclass(frozen=True)
class _Seen:
    signature: _Signature
    row: int | None


class Hit(BaseModel):
    """One note found; a higher score fits better."""

    model_config = ConfigDict(frozen=True)

    path: str
    title: str
    snippet: str
    score: float


class NoteIndex:
    """Search over the notes below a root. Safe to use from several threads."""

    def __init__(self, root: Path, store: sqlite3.Connection) -> None:
        self._root, self._store = root, store
        self._lock = threading.Lock()
        self._seen: dict[str, _Seen] = {}

    def search(self, query: str, limit: int) -> list[Hit]:
        """Notes with all words of the query, else with any; a word also finds longer ones that begin with it."""
        words = [f'"{word}"*' for word in _words(query)]
        with self._lock:
            self._refresh()
            rows = self._match(" AND ".join(words), limit) or self._match(" OR ".join(words), limit)
        return [
            Hit(path=path, title=title, snippet=" ".join(snippet.split())[:SNIPPET_MAX], score=float(f"{score:.3g}"))
            for path, title, snippet, score in rows
        ]

    def _match(self, expression: str, limit: int) -> list[tuple[str, str, str, float]]:
        return self._store.execute(_SELECT, (expression, limit)).fetchall()

    def _refresh(self) -> None:
        now = dict(_notes_below(self._root))
        for path in [path for path, seen in self._seen.items() if seen.signature != now.get(path)]:
            self._store.execute("DELETE FROM notes WHERE rowid = ?", (self._seen.pop(path).row,))
        for path in now.keys() - self._seen.keys():
            self._seen[path] = _Seen(now[path], self._added(path))

    def _added(self, path: str) -> int | None:
        text = None
        with suppress(OSError):
            text = text_of(self._root / path)
        if text is None:
            return None
        values = (path, _title(path, text), text)
        return self._store.execute("INSERT INTO notes VALUES (?, ?, ?)", values).lastrowid


@contextmanager
def open_note_index(root: Path) -> Generator[NoteIndex]:
    """An empty index, filled at its first search."""
    with closing(sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)) as store:
        store.execute(
            "CREATE VIRTUAL TABLE notes USING fts5(path, title, body, tokenize='unicode61 remove_diacritics 2')"
        )
        yield NoteIndex(root, store)


def note_paths(root: Path) -> list[str]:
    """All notes there are now, as paths relative to the root."""
    return sorted(path for path, _ in _notes_below(root))


def is_note(path: PurePath) -> bool:
    """Whether a path relative to the root is served: a text file, not hidden and in no hidden folder."""
    has_valid_name = path.as_posix().encode(errors="replace").decode() == path.as_posix()
    is_hidden = any(part.startswith(".") for part in path.parts)
    return has_valid_name and not is_hidden and path.suffix.lower() in _SUFFIXES


def text_of(file: Path) -> str | None:
    """The text of a file, what is not UTF-8 replaced; None for a binary one. Raises OSError."""
    data = file.read_bytes()
    return None if b"\0" in data else data.decode("utf-8-sig", errors="replace")


def _words(query: str) -> list[str]:
    """Words that FTS5 takes literally: no quote or control character is left, the rest is quoted by the caller."""
    text = "".join(character if character.isprintable() and character != '"' else " " for character in query)
    return [word for word in text.split() if any(character.isalnum() for character in word)][:WORDS_MAX]


def _notes_below(root: Path) -> Iterator[tuple[str, _Signature]]:
    """Each note's path and signature. Links are left out: what they lead to below the root is listed under its own
    path, and nothing else is served."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for file in (Path(folder, name) for name in files):
            relative = file.relative_to(root)
            if is_note(relative) and (signature := _signature(file)):
                yield relative.as_posix(), signature


def _signature(file: Path) -> _Signature | None:
    with suppress(OSError):
        found = file.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_size <= SIZE_MAX:
            return _Signature(found.st_mtime_ns, found.st_size)
    return None


def _title(path: str, text: str) -> str:
    """The first heading of a Markdown file, else the file's name without its suffix."""
    heading = _HEADING.search(text) if PurePath(path).suffix.lower() in _MARKDOWN else None
    return heading[1][:TITLE_MAX] if heading else PurePath(path).stem
