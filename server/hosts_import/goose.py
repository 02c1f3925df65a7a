"""goose: `extensions` in config.yaml."""

from collections.abc import Iterator

from journal.values import JsonObject
from server.settings_file.located import is_list, is_map

from .places import HostFile
from .written import Written, in_milliseconds, renamed

_NAMES = {"cmd": "command", "envs": "env", "uri": "url"}


def servers(data: JsonObject, file: HostFile) -> Iterator[Written]:
    """All extensions, with the keys that goose keeps in its keyring as references."""
    entries = data.get("extensions")
    for name, entry in entries.items() if is_map(entries) else ():
        yield Written(name, _common(entry) if is_map(entry) else entry, file)


def _common(entry: JsonObject) -> JsonObject:
    config = entry.get("config")
    # An older form has everything but `enabled` one level deeper.
    flat = {**config, **{key: item for key, item in entry.items() if key != "config"}} if is_map(config) else entry
    common = in_milliseconds(renamed(flat, _NAMES), "timeout")
    kept, env = common.pop("env_keys", None), common.get("env", {})
    if is_list(kept) and kept and is_map(env):
        common["env"] = {**env, **{str(name): f"${{{name}}}" for name in kept if str(name) not in env}}
    return common
