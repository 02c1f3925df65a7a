"""Stores that were spoiled in many ways, what is to be said of each, and what hosts are told."""

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
from mcp_hosts import Host, text_of
from quick_jobs import settings

from journal.world import World
from server.opened_store import open_settings_store
from server.product import Request, new_run
from server.settings import Found, load_settings

READ: dict[str, Any] = {
    "id": "look",
    "kind": "call",
    "title": "Look",
    "tool": "quick.read",
    "needs": [],
    "arguments": {"key": "one"},
}
ONE_STEP: dict[str, Any] = {"plan": [READ], "answer": "Seen."}
GOAL = "Look at it."


def store_of(folder: Path) -> Path:
    return folder / "store" / "steprelay.db"


async def _make_store(config: Path) -> None:
    loaded = load_settings(Found(config, "option"), environ=os.environ)
    async with open_settings_store(loaded, world=World()) as store:
        for number in range(40):
            request = Request(f"begun before {number}", context="x" * 2000)
            await store.create_or_attach(new_run(loaded, request, owner=store.owner), driver="l_dead")


def with_store(folder: Path) -> Path:
    """Settings, with a store of 40 runs that nobody drives."""
    config = settings(folder, ONE_STEP)
    anyio.run(_make_store, config)
    return config


def cut(length: float) -> Callable[[Path], None]:
    """Only so many bytes, or such a part, are left of the file."""

    def do(path: Path) -> None:
        size = path.stat().st_size
        os.truncate(path, int(size * length) if length < 1 else int(length))

    return do


def scribble(find: Callable[[Path], int], size: int) -> Callable[[Path], None]:
    """Random bytes from there on."""

    def do(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(find(path))
            file.write(random.Random(1).randbytes(size))

    return do


def page_of_runs(path: Path) -> int:
    """Where the table of runs begins in the file."""
    with closing(sqlite3.connect(path)) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").fetchone()[0]
        return int((root - 1) * connection.execute("PRAGMA page_size").fetchone()[0])


def by_sql(*statements: str) -> Callable[[Path], None]:
    def do(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    return do


def as_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def file_for_folder(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.write_bytes(b"")


def no_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def left_over_wal(path: Path) -> None:
    path.with_name(f"{path.name}-wal").write_bytes(b"frames of what was committed")
    path.unlink()


def emptied_with_wal(path: Path) -> None:
    path.with_name(f"{path.name}-wal").write_bytes(b"frames of what was committed")
    os.truncate(path, 0)


def diary(path: Path) -> None:
    path.write_bytes(b"dear diary, " * 1000)


def no_artifacts(path: Path) -> None:
    (path.parent / "artifacts").write_bytes(b"")


def no_leases(path: Path) -> None:
    shutil.rmtree(path.parent / "leases")
    (path.parent / "leases").write_bytes(b"")


DAMAGED = "the file is damaged, and nothing more is read or written here; close all that use it, then move it away"
WELL = ""
ROWS: dict[str, tuple[Callable[[Path], None], str]] = {
    "folder missing": (no_folder, WELL),
    "file missing": (Path.unlink, WELL),
    "file empty": (cut(0), WELL),
    "file empty, its WAL left over": (emptied_with_wal, "is missing or empty, but steprelay.db-wal beside it holds"),
    "WAL left over without its file": (left_over_wal, "or move steprelay.db-wal away to begin with an empty store"),
    "path is a folder": (as_a_folder, "make sure that it is a file in a folder you own"),
    "folder is a file": (file_for_folder, "set `store` to a folder you own"),
    "leases is a file": (no_leases, "set `store` to a file in a folder you own"),
    "cut to 1 byte": (cut(1), DAMAGED),
    "cut to 100 bytes": (cut(100), DAMAGED),
    "cut to one page": (cut(4096), DAMAGED),
    "cut to a half": (cut(0.5), DAMAGED),
    "cut by a little": (cut(0.99), DAMAGED),
    "random bytes in the header": (scribble(lambda path: 0, 100), DAMAGED),
    "random bytes in a page of runs": (scribble(page_of_runs, 4096), DAMAGED),
    "half the file is random": (scribble(lambda path: path.stat().st_size // 2, 100_000), DAMAGED),
    "a value that is no JSON": (by_sql("UPDATE runs SET warnings = '{'"), DAMAGED),
    "a value that is no text": (by_sql("UPDATE runs SET goal = CAST(x'ff41' AS TEXT)"), DAMAGED),
    "no database": (diary, DAMAGED),
    "newer schema": (by_sql("PRAGMA user_version = 99"), "upgrade steprelay, or set `store` to another file"),
    "artifacts is a file": (no_artifacts, WELL),
}


OTHERS_WORK = ("a value that is no JSON", "a value that is no text")
"""Only who reads the row can see that."""


async def refusals(host: Host) -> dict[str, str]:
    """What each tool that is refused says, in time for a host."""
    calls: dict[str, dict[str, Any]] = {
        "list_runs": {},
        "plan_and_execute": {"goal": GOAL, "wait_seconds": 5},
        "get_run": {"run_id": "r_1"},
        "approve_action": {"action_id": "a_1", "decision": "deny"},
        "cancel_run": {"run_id": "r_1"},
    }
    answers = {tool: await host.call(tool, arguments, within=20) for tool, arguments in calls.items()}
    return {tool: text_of(answer) for tool, answer in answers.items() if answer.is_error}
