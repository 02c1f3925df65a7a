"""Codex: `[mcp_servers.NAME]` in config.toml."""

from collections.abc import Iterator

from journal.values import Json, JsonObject
from server.settings_file.located import is_list, is_map

from .places import HostFile
from .written import Written, in_milliseconds


def servers(data: JsonObject, file: HostFile) -> Iterator[Written]:
    """All servers, with what Codex takes from variables as references."""
    entries = data.get("mcp_servers")
    for name, entry in entries.items() if is_map(entries) else ():
        yield Written(name, _common(entry) if is_map(entry) else entry, file)


def _common(entry: JsonObject) -> JsonObject:
    common = in_milliseconds(dict(entry), "tool_timeout_sec")
    passed = common.pop("env_vars", None)
    names = [str(each.get("name") if is_map(each) else each) for each in passed] if is_list(passed) else []
    _add(common, "env", more={name: f"${{{name}}}" for name in names})
    _add(common, "headers", more=common.pop("http_headers", None))
    held = common.pop("env_http_headers", None)
    _add(common, "headers", more={header: f"${{{name}}}" for header, name in held.items()} if is_map(held) else None)
    if isinstance(common.get("bearer_token_env_var"), str):
        _add(common, "headers", more={"Authorization": f"Bearer ${{{common.pop('bearer_token_env_var')}}}"})
    if isinstance(common.get("bearer_token"), str):
        _add(common, "headers", more={"Authorization": f"Bearer {common.pop('bearer_token')}"})
    return common


def _add(common: JsonObject, key: str, *, more: Json) -> None:
    there = common.get(key, {})
    if is_map(more) and more and is_map(there):
        common[key] = {**there, **more}
