"""Which project settings this user trusts, by their hash, and what such settings would run."""

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from journal.settings import is_secret_name, state_folder
from journal.values import Json, JsonObject

from .document import SettingsError, read_document
from .located import is_list, is_map
from .server_entries import env_file_path
from .variables import variables_in
from .worker_files import worker_paths


def trust_file(path: Path) -> None:
    """Record the settings as they are now, with their worker and env files. Raises SettingsError where unreadable."""
    trusted = _trusted() | {str(path.resolve()): _hash(path)}
    file = _record()
    new = file.with_suffix(f".{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as target:
        json.dump(trusted, target, indent=1)
    new.replace(file)


def is_trusted(path: Path) -> bool:
    """Whether nothing changed since `trust_file`."""
    return _trusted().get(str(path.resolve())) == _hash(path)


def what_it_runs(path: Path) -> list[str]:
    """One line for each command, address and variable that these settings would use; names of variables, not values."""
    data: JsonObject = read_document(path).data
    lines = [_server_line(name, entry, path.parent) for name, entry in _servers(data)]
    options = data.get("model_options")
    if is_map(options) and options.get("api_base"):
        lines.append(f"models: asks {options['api_base']}")
    lines += [f"worker file: {worker}" for worker in worker_paths(path)]
    used = sorted({name for text in _texts(data) for name in variables_in(text)})
    lines.append(f"variables: {', '.join(used) or 'none'}")
    return [_printable(line) for line in lines]


def _record() -> Path:
    return state_folder() / "trusted.json"


def _trusted() -> dict[str, str]:
    try:
        found: Json = json.loads(_record().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if is_map(found) else {}


def _hash(path: Path) -> str:
    """Over the file and what it draws in: worker files and env files, since both can decide what is run."""
    parts = [path, *worker_paths(path), *_env_files(path)]
    whole = hashlib.sha256()
    for part in parts:
        try:
            content = part.read_bytes()
        except OSError:
            content = b""
        whole.update(f"{part.name}\0{len(content)}\0".encode() + content)
    return whole.hexdigest()


def _env_files(path: Path) -> Iterator[Path]:
    try:
        data = read_document(path).data
    except SettingsError:
        return
    for _, entry in _servers(data):
        if isinstance(entry.get("envFile"), str):
            yield env_file_path(entry["envFile"], path.parent)


def _servers(data: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for key in ("mcpServers", "servers"):
        entries = data.get(key)
        if is_map(entries):
            yield from ((name, entry) for name, entry in entries.items() if is_map(entry))


def _server_line(name: str, entry: JsonObject, folder: Path) -> str:
    if entry.get("url"):
        line = f"server {name}: connects to {entry['url']}"
        headers = entry.get("headers")
        return f"{line} with headers {', '.join(headers)}" if is_map(headers) and headers else line
    args = entry.get("args")
    words = [entry.get("command"), *(args if is_list(args) else ())]
    line = f"server {name}: runs {shlex.join(map(str, words))} in {folder / str(entry.get('cwd') or '')}"
    env = entry.get("env")
    given = [f"{key}={_value(key, str(value))}" for key, value in env.items()] if is_map(env) else []
    given += [f"all of {entry['envFile']}"] if entry.get("envFile") else []
    return f"{line} with {', '.join(given)}" if given else line


def _value(key: str, value: str) -> str:
    return "…" if is_secret_name(key) and not variables_in(value) else value


def _texts(node: Json) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    items: Iterable[Json] = node.values() if is_map(node) else node if is_list(node) else ()
    for item in items:
        yield from _texts(item)


def _printable(line: str) -> str:
    """Without characters that could make a terminal show something else."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
