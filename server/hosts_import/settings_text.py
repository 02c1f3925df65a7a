"""The text of a settings file with servers added, and writing it so that only its user can read it."""

import json
import os
import tempfile
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from journal.values import Json, JsonObject
from server.settings_file.document import Problem, SettingsError, read_document
from server.settings_file.located import is_map
from server.settings_file.server_entries import KEY

_HEAD = """\
# Settings of steprelay; what may stand here: docs/settings.md, or `steprelay config schema`.
# Tool servers as `steprelay init` took them from MCP hosts. Secrets are variables, which have to be set.
"""


def servers_there(path: Path) -> dict[str, JsonObject]:
    """The servers of a settings file by name, none where there is no file. Raises SettingsError."""
    if not path.exists():
        return {}
    data: JsonObject = read_document(path).data
    entries = data.get(KEY, data.get("servers"))
    if entries is not None and not is_map(entries):
        raise SettingsError([Problem(f"{KEY} must be a map of names to servers", path)])
    return {name: entry if is_map(entry) else {} for name, entry in (entries or {}).items()}


def with_servers(path: Path, servers: Mapping[str, JsonObject]) -> str:
    """The text of the file with these servers before those it has; comments and order stay.

    Raises SettingsError for JSON with comments, which can't be kept.
    """
    text = path.read_text(encoding="utf-8-sig") if path.exists() else ""
    if path.suffix in (".json", ".jsonc") or text.lstrip().startswith(("{", "//", "/*")):
        return _as_json(text, servers, path=path)
    if not text.strip():
        return _HEAD + _dumped({KEY: dict(servers)})
    return _merged_yaml(text, servers)


def write_private(path: Path, text: str) -> None:
    """Put the text in place of the file, which only its user can read from then on. Raises SettingsError."""
    # A link, as people who keep their settings in a repository have, stays one.
    target = path.resolve()
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, new = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(new).replace(target)
    except OSError as error:
        raise SettingsError(
            [Problem(f"cannot be written: {error.strerror}; name another file with -o", path)]
        ) from error


def _as_json(text: str, servers: Mapping[str, JsonObject], *, path: Path) -> str:
    try:
        data: Json = json.loads(text) if text.strip() else {}
    except ValueError as error:
        problem = "holds comments, which would be lost; write to another file with -o and copy the entries"
        raise SettingsError([Problem(problem, path)]) from error
    whole: JsonObject = dict(data) if is_map(data) else {}
    key = "servers" if "servers" in whole else KEY
    whole[key] = {**servers, **(whole.get(key) or {})}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _merged_yaml(text: str, servers: Mapping[str, JsonObject]) -> str:
    # The library has no types of its own.
    from ruamel.yaml import comments, util

    library: Any = util
    data, indent, offset = library.load_yaml_guess_indent(text, yaml=_yaml())
    new_map: Any = comments.CommentedMap
    if data is None:
        return f"{text.rstrip()}\n{_dumped({KEY: dict(servers)})}"
    key = "servers" if "servers" in data else KEY
    if not data.get(key):
        data[key] = new_map()
    for place, (name, entry) in enumerate(servers.items()):
        data[key].insert(place, name, entry)
    return _dumped(data, indent=indent or 2, offset=offset or 0)


def _dumped(data: Any, *, indent: int = 2, offset: int = 0) -> str:
    yaml = _yaml()
    yaml.indent(mapping=2, sequence=max(indent, offset + 2), offset=offset)
    text = StringIO()
    yaml.dump(data, text)
    return text.getvalue()


def _yaml() -> Any:
    from ruamel.yaml import YAML

    yaml: Any = YAML(typ="rt")
    yaml.width, yaml.preserve_quotes = 1 << 20, True
    return yaml
