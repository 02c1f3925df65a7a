"""Reading one file of a host: which kind it is, and the servers that it holds."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from journal.values import Json, JsonObject
from server.settings_file.document import Problem, SettingsError
from server.settings_file.json_text import read_json
from server.settings_file.located import TextError, is_map
from server.settings_file.yaml_text import read_yaml

from . import codex, goose, mcp_json, vscode
from .places import HostFile, named_host
from .written import Written

_LARGEST = 64 << 20
"""Claude Code keeps its history in the same file."""

_READERS: dict[str, Callable[[JsonObject, HostFile], Iterator[Written]]] = {
    "vscode": vscode.servers,
    "codex": codex.servers,
    "goose": goose.servers,
}


def read_host_file(file: HostFile) -> list[Written]:
    """Its servers. Raises SettingsError, with the line, for a file that can't be read."""
    data = read_data(file.path)
    return list(_READERS.get(file.host, mcp_json.servers)(data, file))


def recognised(path: Path) -> HostFile:
    """A file as that of the host which writes such. Raises SettingsError where no host does."""
    by_name, data = named_host(path), read_data(path)
    if is_map(data.get("mcp_servers")):
        return HostFile("codex", path, by_name.project if by_name else None)
    if is_map(data.get("extensions")) and path.suffix in (".yaml", ".yml"):
        return HostFile("goose", path)
    if vscode.section(data):
        project = path.parent.parent if path.parent.name == ".vscode" else None
        return HostFile("vscode", path, project)
    if is_map(data.get("mcpServers")) or is_map(data.get("projects")):
        return by_name or HostFile(mcp_json.host_by_keys(data), path)
    raise _problem(
        path, "holds no tool servers; mcpServers, servers, mcp_servers (TOML) and extensions (YAML) are read"
    )


def read_data(path: Path) -> JsonObject:
    """The keys of a file, none where it is empty. Raises SettingsError."""
    text = _text(path)
    data: Json = _parsed(text, path) if text.strip() else {}
    if not is_map(data):
        raise _problem(path, "holds no map of keys, as files of hosts do", line=1)
    return data


def _parsed(text: str, path: Path) -> Json:
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text)
        if path.suffix in (".yaml", ".yml"):
            return read_yaml(text).data
    except TextError as error:
        raise _problem(path, error.text, line=error.line) from error
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise _problem(path, f"not TOML: {re.sub(r' ?[(]at .*', '', str(error))}", line=line) from error
    try:
        # Fast, and right for nearly all; the reader that knows comments and lines is for the rest.
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return read_json(text).data
    except TextError as error:
        raise _problem(path, error.text, line=error.line) from error


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise _problem(path, "larger than 64 MiB")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise _problem(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise _problem(path, "not UTF-8; save it as UTF-8", line=line) from error


def _problem(path: Path, text: str, *, line: int | None = None) -> SettingsError:
    # What a parser quotes may be a secret.
    return SettingsError([Problem(re.sub(r"'.*'", "'…'", text), path, line)])
