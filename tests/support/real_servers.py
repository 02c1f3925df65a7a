"""Tool servers that others wrote: how each is started in a folder, and what of it a test can call."""

import json
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import third_party

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


@dataclass(frozen=True)
class Real:
    """A server: how it is started, values that its schemas cannot tell, one write of it, and what shows that it ran."""

    program: third_party.Program
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    hints: Mapping[str, Any] = field(default_factory=dict[str, Any])
    hints_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    write: tuple[str, dict[str, Any]] | None = None
    written: Callable[[], int] = lambda: 0
    """How often the write left its trace; 1 where that is not seen from outside."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    asks: bool = False
    """Whether its reads are asked about."""
    needs: str = "nothing"


def files(folder: Path, url: str) -> Real:
    (folder / "pixel.png").write_bytes(PIXEL)
    hours = folder / "hours.txt"
    about_files = {"path": str(hours)}
    hints = {"path": str(folder), "paths": [str(hours)], "pattern": "*.txt"}
    edit = {"path": str(hours), "edits": [{"oldText": "five", "newText": "six"}]}
    return Real(
        "mcp-server-filesystem",
        args=[str(folder)],
        hints=hints,
        hints_of={
            "read_file": about_files,
            "read_text_file": about_files,
            "read_media_file": {"path": str(folder / "pixel.png")},
        },
        write=("edit_file", edit),
        written=lambda: hours.read_text().count("six"),
        needs="the folder as an argument",
    )


def memory(folder: Path, url: str) -> Real:
    kept = folder / "memory.jsonl"
    hours = {"type": "entity", "name": "hours", "entityType": "fact", "observations": ["nine to five"]}
    kept.write_text(json.dumps(hours))
    desk = {"name": "desk", "entityType": "place", "observations": ["by the door"]}
    return Real(
        "mcp-server-memory",
        env={"MEMORY_FILE_PATH": str(kept)},
        write=("create_entities", {"entities": [desk]}),
        written=lambda: kept.read_text().count("by the door"),
        needs="MEMORY_FILE_PATH, or it keeps its file in its own package",
    )


def everything(folder: Path, url: str) -> Real:
    hints = {"message": "hello", "includeImage": True, "duration": 0.2, "steps": 2}
    toggle = ("toggle-simulated-logging", dict[str, Any]())
    return Real("mcp-server-everything", hints=hints, write=toggle, written=lambda: 1)


def thinking(folder: Path, url: str) -> Real:
    return Real("mcp-server-sequential-thinking")


def repository(folder: Path, url: str) -> Real:
    def git(*words: str) -> str:
        command = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet", "--initial-branch=main")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    git("add", "hours.txt")
    git("commit", "--quiet", "--message", "Say the hours")
    (folder / "desk.txt").write_text("By the door.\n")
    git("add", "desk.txt")
    return Real(
        "mcp-server-git",
        hints={"repo_path": str(folder), "branch_type": "local", "target": "HEAD", "revision": "HEAD"},
        write=("git_commit", {"repo_path": str(folder), "message": "Say where the desk is"}),
        written=lambda: git("log", "--format=%s").count("Say where the desk is"),
        needs="git; for a commit, the name and address of its author",
    )


def clock(folder: Path, url: str) -> Real:
    zones = {"timezone": "Europe/Oslo", "source_timezone": "Europe/Oslo", "target_timezone": "Asia/Tokyo"}
    return Real("mcp-server-time", hints={**zones, "time": "09:00"})


def page(folder: Path, url: str) -> Real:
    return Real(
        "mcp-server-fetch",
        args=["--allow-private-ips"],
        hints={"url": f"{url}/hours.txt"},
        asks=True,
        needs="for an address on this machine: --allow-private-ips, and a yes",
    )


def database(folder: Path, url: str) -> Real:
    path = folder / "hours.db"

    def rows(sql: str) -> list[Any]:
        with sqlite3.connect(path) as opened:
            return opened.execute(sql).fetchall()

    rows("CREATE TABLE hours (day TEXT, opens INTEGER)")
    rows("INSERT INTO hours VALUES ('monday', 9)")
    reads = dict.fromkeys(("read_query", "list_tables", "describe_table"), "read")
    return Real(
        "mcp-server-sqlite",
        args=["--db-path", str(path)],
        hints={"query": "SELECT * FROM hours", "table_name": "hours"},
        write=("write_query", {"query": "INSERT INTO hours VALUES ('sunday', 11)"}),
        written=lambda: len(rows("SELECT * FROM hours WHERE day = 'sunday'")),
        options={"effects": {**reads, "write_query": "write"}},
        needs="the file as an argument; classes in `effects`, since it annotates nothing",
    )


def browser(folder: Path, url: str) -> Real:
    return Real("playwright-mcp", needs="a browser, once it is called")


Make: TypeAlias = Callable[[Path, str], Real]
LONG: tuple[Make, ...] = (memory, everything, thinking, repository, clock, page, database)


@contextmanager
def open_pages(folder: Path) -> Generator[str]:
    """The address at which the files of a folder can be fetched."""

    class Silent(SimpleHTTPRequestHandler):
        def log_message(self, *words: object, **more: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
