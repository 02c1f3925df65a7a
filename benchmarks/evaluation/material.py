"""A goal's material on disk, the settings of the servers that serve it, and the state of all of it."""

import json
import sqlite3
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import third_party

from journal.values import Json, JsonObject
from server.commands.opening import OWN_PROCESS

from .goal import Goal, Material, Place, Server

_OWN = ("notes", "code", "outbox")
_READS = ("read_query", "list_tables", "describe_table")
_OPTIONS: Mapping[str, JsonObject] = {
    # It annotates nothing.
    "sqlite": {"effects": dict.fromkeys(_READS, "read") | {"write_query": "write"}}
}


class NotThere(Exception):
    """A server of the goal can't be had here; the text says why."""


@dataclass(frozen=True)
class State:
    """All that a goal may change: files by path, messages, tables, the memory's entities, subjects of commits."""

    files: Mapping[str, str]
    sent: tuple[JsonObject, ...]
    drafts: tuple[JsonObject, ...]
    tables: Mapping[str, list[list[Json]]]
    entities: tuple[JsonObject, ...]
    commits: tuple[str, ...]


def lay_out(goal: Goal, place: Place) -> JsonObject:
    """Write the material and return `mcpServers` with `server_options`. Raises NotThere."""
    material, folder = goal.material, place.folder
    _write_all(folder / "notes", material.notes)
    _write_all(place.files, material.files)
    if material.tables:
        with closing(sqlite3.connect(folder / "tables.db")) as database, database:
            for statement in material.tables:
                database.execute(statement)
    lines = [json.dumps({"type": "entity", **entity}) for entity in material.entities]
    (folder / "memory.jsonl").write_text("\n".join(lines), encoding="utf-8")
    if "git" in goal.servers:
        _make_repository(place.files, material)
    entries = {name: _entry(name, place) for name in goal.servers}
    # All of them are the user's own, so what one says may be given to another.
    options = {name: {"private": True, **_OPTIONS.get(name, {})} for name in goal.servers}
    return {"mcpServers": entries, "server_options": options}


def _write_all(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _make_repository(folder: Path, material: Material) -> None:
    _git(folder, "init", "--quiet", "--initial-branch=main")
    # Where the server commits, it does so as whom the repository names.
    _git(folder, "config", "user.name", "Harbour")
    _git(folder, "config", "user.email", "harbour@quay.example")
    for message, files in material.commits:
        _write_all(folder, files)
        _git(folder, "add", *files)
        _git(folder, "commit", "--quiet", "--message", message)
    _write_all(folder, material.staged)
    if material.staged:
        _git(folder, "add", *material.staged)


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NotThere("git is not installed") from error
    return done.stdout


def _entry(server: Server, place: Place) -> JsonObject:
    folder = place.folder
    if server in _OWN:
        where: Mapping[str, Sequence[str]] = {"notes": [str(folder / "notes")], "outbox": [str(folder / "outbox")]}
        words = [*OWN_PROCESS, "tool-server", server, *where.get(server, ())]
        return {"command": words[0], "args": words[1:]}
    command, env = _command(server), dict[str, str]()
    if server == "filesystem":
        command += [str(place.files)]
    elif server == "sqlite":
        command += ["--db-path", str(folder / "tables.db")]
    elif server == "memory":
        env = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    return {"command": command[0], "args": command[1:], "env": env}


def _command(server: Server) -> list[str]:
    programs: Mapping[str, third_party.Program] = {
        "filesystem": "mcp-server-filesystem",
        "memory": "mcp-server-memory",
        "everything": "mcp-server-everything",
        "time": "mcp-server-time",
        "git": "mcp-server-git",
        "sqlite": "mcp-server-sqlite",
    }
    found = third_party.install(programs[server])
    if isinstance(found, third_party.Missing):
        raise NotThere(f"tool server {server}: {found.reason}")
    return list(found.command)


def state_of(place: Place) -> State:
    """How things stand now."""
    folder = place.folder
    memory = folder / "memory.jsonl"
    lines = [json.loads(line) for line in memory.read_text(encoding="utf-8").splitlines() if line.strip()]
    entities: list[JsonObject] = [{key: item for key, item in line.items() if key != "type"} for line in lines]
    in_git = (place.files / ".git").is_dir()
    log = _git(place.files, "log", "--format=%s").splitlines() if in_git and _has_commits(place.files) else []
    return State(
        files=_files_in(place.files),
        sent=_messages(folder / "outbox" / "sent"),
        drafts=_messages(folder / "outbox" / "drafts"),
        tables=_tables_in(folder / "tables.db"),
        entities=tuple(entities),
        commits=tuple(log),
    )


def _has_commits(folder: Path) -> bool:
    return any((folder / ".git" / "refs" / "heads").iterdir())


def _files_in(folder: Path) -> dict[str, str]:
    found = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    texts = {name: path.read_text(encoding="utf-8", errors="replace") for name, path in found.items() if _kept(name)}
    return {name.as_posix(): text for name, text in texts.items()}


def _kept(name: Path) -> bool:
    return name.parts[0] != ".git"


def _messages(folder: Path) -> tuple[JsonObject, ...]:
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return tuple(json.loads(path.read_text(encoding="utf-8")) for path in paths)


def _tables_in(path: Path) -> dict[str, list[list[Json]]]:
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as database:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
        return {name: [list(row) for row in database.execute(f"SELECT * FROM {quoted[name]}")] for name in names}
