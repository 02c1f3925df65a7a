"""Server entries: from what a file holds under `mcpServers` to settings of servers that can be started."""

import os
import re
from pathlib import Path

from downstream.settings import ServerOptions, ServerSettings
from downstream.tool_names import ToolNameError, normalise_server_name
from journal.settings import is_secret_name
from journal.values import Json, JsonObject

from .document import SettingsError, meant, read_text
from .located import Place, is_list, is_map
from .reading import Reading
from .shape import HOST_KEYS, ServerEntry

KEY = "mcpServers"

_OURSELVES = re.compile(
    r"(?:^|[\s/\\'\"])steprelay(?:\.exe)?(?:[@=\[]\S*)?\s(?!(?:.*\s)?tool-server\s)(?:.*\s)?serve(?:[\s'\"]|$)"
)
_BARE_LAUNCH = re.compile(
    r"(?:\S*[/\\])?(?:(?:uvx|pipx run|uv tool run)(?:\.exe)?\s+steprelay(?:[@=\[]\S*)?|steprelay(?:\.exe)?)"
)
"""The command alone, which a host would give its arguments later."""
_VARIABLE_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")


def prepare_servers(data: JsonObject, reading: Reading) -> dict[str, str]:
    """Put the entries that count in place of those written, with variables and env files read in.

    Left out are disabled ones and steprelay itself; keys that only hosts read are dropped with a warning.
    Returns all names in normal form, with the name as written.
    """
    _use_one_name(data, reading)
    entries, options = data.get(KEY, {}), data.get("server_options")
    if not is_map(entries):
        return {}
    names = _check_names(entries, (KEY,), reading)
    if is_map(options):
        for name, given in _check_names(options, ("server_options",), reading).items():
            if name not in names:
                text = f"server_options names {given!r}, which is not in {KEY}{meant(given, names.values())}"
                reading.problem(("server_options", given), text)
        data["server_options"] = {given: _with_auth(given, each, reading) for given, each in options.items()}
    data[KEY] = {
        name: _prepare(entry, (KEY, name), reading) if is_map(entry) else entry
        for name, entry in entries.items()
        if not _is_left_out(name, entry, reading)
    }
    return names


def build_server(name: str, entry: ServerEntry, *, options: ServerOptions, folder: Path) -> ServerSettings:
    """The server of a checked entry, with every path absolute."""
    command = entry.command
    if command and os.path.dirname(command):
        command = os.path.normpath(folder / Path(command).expanduser())
    is_local = entry.transport == "stdio"
    return ServerSettings(
        name=normalise_server_name(name),
        transport=entry.transport,
        command=command if is_local else None,
        args=entry.args if is_local else (),
        env=entry.env if is_local else {},
        cwd=Path(os.path.normpath(folder / Path(entry.cwd or "").expanduser())) if is_local else None,
        url=None if is_local else entry.url,
        headers={} if is_local else entry.headers,
        timeout=entry.timeout,
        options=options,
    )


def is_steprelay(entry: JsonObject) -> bool:
    """Whether this entry would start steprelay itself, whatever it is called; its bundled tool servers are not that."""
    args = entry.get("args")
    words = [str(word) for word in (entry.get("command"), *(args if is_list(args) else ()))]
    return bool(_OURSELVES.search(" ".join(words)) or _BARE_LAUNCH.fullmatch(" ".join(words)))


def env_file_path(text: str, folder: Path) -> Path:
    """Where an `envFile` lies."""
    return folder / Path(text).expanduser()


def _with_auth(name: str, options: Json, reading: Reading) -> Json:
    """The options of a server with variables expanded where it is logged in at; elsewhere they are no variables."""
    if not is_map(options) or "auth" not in options:
        return options
    return {**options, "auth": reading.expanded(options["auth"], ("server_options", name, "auth"))}


def _use_one_name(data: JsonObject, reading: Reading) -> None:
    if "servers" not in data:
        return
    entries = data.pop("servers")
    if KEY in data:
        reading.problem(("servers",), f"{KEY} and servers mean the same; move all entries into one of them")
        return
    data[KEY] = entries
    lines = reading.located.lines
    lines |= {(KEY, *place[1:]): line for place, line in lines.items() if place[0] == "servers"}


def _check_names(entries: JsonObject, place: Place, reading: Reading) -> dict[str, str]:
    """The names as written by their normal form; two of one form are a problem."""
    names: dict[str, str] = {}
    for given in entries:
        try:
            name = normalise_server_name(given)
        except ToolNameError as error:
            reading.problem((*place, given), str(error))
            continue
        if name in names:
            # Not of one server alone: which of the two a rule means can't be told.
            text = f"servers {names[name]!r} and {given!r} are both {name!r} in tool names; rename one"
            reading.settings_problem((*place, given), text)
        names.setdefault(name, given)
    return names


def _is_left_out(name: str, entry: Json, reading: Reading) -> bool:
    if not is_map(entry) or entry.get("disabled") is True:
        return is_map(entry)
    is_ourselves = is_steprelay(entry)
    if is_ourselves:
        reading.warnings.append(f"server {name!r} is steprelay itself and is left out; it never calls itself")
    return is_ourselves


def _prepare(entry: JsonObject, place: Place, reading: Reading) -> JsonObject:
    ignored = sorted(HOST_KEYS & entry.keys())
    if ignored:
        reading.warnings.append(f"server {place[1]!r}: {', '.join(ignored)} is for hosts and has no effect here")
    kept = {key: item for key, item in entry.items() if key not in HOST_KEYS}
    prepared: JsonObject = reading.expanded(kept, place)
    env_file, env = prepared.get("envFile"), prepared.get("env", {})
    if isinstance(env_file, str) and is_map(env) and (*place, "envFile") not in reading.unset:
        prepared["env"] = {**_read_env_file(env_file, (*place, "envFile"), reading), **env}
    return prepared


def _read_env_file(text: str, place: Place, reading: Reading) -> dict[str, str]:
    path = env_file_path(text, reading.folder)
    try:
        lines = read_text(path).splitlines()
    except SettingsError as error:
        reading.problem(place, f"envFile {error}")
        return {}
    values: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith("#"):
            continue
        found = _VARIABLE_LINE.fullmatch(line)
        if found is None:
            # The line itself may be a secret.
            reading.problem(place, f"envFile {path}:{number}: write NAME=value")
            continue
        values[found[1]] = _unquoted(found[2])
        if is_secret_name(found[1]):
            reading.secret(found[1], values[found[1]], place)
    return values


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] in "\"'" and text[0] == text[-1]:
        return text[1:-1]
    return re.split(r"\s#", text, maxsplit=1)[0].rstrip()
