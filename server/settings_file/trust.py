"""Which project settings this user trusts, by their hash, and what such settings would run."""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from downstream.settings import SCRIPTED
from journal.settings import is_secret_name, state_folder
from journal.values import Json, JsonObject

from .document import SettingsError, named, read_document, read_text
from .located import Place, is_list, is_map
from .server_entries import env_file_path
from .variables import VariableError, expand, variables_in
from .worker_files import worker_paths

_LOOSER = {
    "server_options.*.private": "its data goes to other private servers without asking",
    "server_options.*.tools.*.idempotent": "a call without an answer is sent again without asking",
    "policy.sinks.*": "no other arguments count as recipients, addresses, paths or accounts",
    "approvals.trusted_hosts": "a press in the panel of such a host counts as a person's",
    "approvals.min_answer_seconds": "a faster answer counts for nothing",
    "budget.*": "spent without asking",
    "audit.checkpoints": "lines are appended to this file",
    "retention.*": "what is above is removed without asking",
}
"""Keys by which settings do more on their own, each with what its value means."""
_MODEL = re.compile(r"^model:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)


def trust_file(path: Path, *, seen: str | None = None) -> None:
    """Record the settings as `seen` by `hash_of`, or as they are now, with their worker, env and script files."""
    trusted = _trusted() | {str(as_used(path)): seen or hash_of(path)}
    file = _record()
    new = file.with_suffix(f".{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as target:
        json.dump(trusted, target, indent=1)
    new.replace(file)


def is_trusted(path: Path) -> bool:
    """Whether nothing changed since `trust_file`."""
    return _trusted().get(str(as_used(path))) == hash_of(path)


def as_used(path: Path) -> Path:
    """The one name of a file in its folder; where it is a link, what it says counts here, and not where that leads."""
    return path.parent.resolve() / path.name


def hash_of(path: Path) -> str:
    """Over the file and what it draws in: worker, env and script files, since each can decide what is run."""
    parts = [path, *worker_paths(path), *_drawn_in(path)]
    whole = hashlib.sha256()
    for part in parts:
        try:
            content = part.read_bytes()
        except OSError:
            content = b""
        name = os.path.relpath(part, path.parent)
        whole.update(f"{name}\0{len(content)}\0".encode(errors="surrogateescape") + content)
    return whole.hexdigest()


def what_it_runs(path: Path) -> list[str]:
    """One line for each command, address and variable that these settings would use; names of variables, not values.

    Then what they do without asking. Raises SettingsError where the file cannot be read.
    """
    data: JsonObject = read_document(path).data
    lines = [line for name, entry in _servers(data) for line in _server_lines(name, entry, path.parent)]
    lines += _model_lines(path, data)
    lines += [f"{place}: {_without_password(text)}" for place, text in _addresses(data)]
    lines += [f"worker file: {worker}" for worker in worker_paths(path)]
    lines += _without_asking(data)
    names = {name for text in _texts(data) for name in variables_in(text)}
    secrets = data.get("secrets")
    used = sorted(names | set(map(str, secrets if is_list(secrets) else ())))
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


def _drawn_in(path: Path) -> Iterator[Path]:
    """Files that the settings name and that decide what is run."""
    try:
        data = read_document(path).data
    except SettingsError:
        return
    for _, entry in _servers(data):
        if isinstance(entry.get("envFile"), str):
            yield env_file_path(_expanded(entry["envFile"]), path.parent)
    yield from (path.parent / Path(script).expanduser() for script in _scripts(path, data))


def _scripts(path: Path, data: JsonObject) -> list[str]:
    """The files of scripted models that the settings or their worker files name."""
    models = [_expanded(text) for text in _texts(data)]
    for worker in worker_paths(path):
        with suppress(SettingsError):
            models += _MODEL.findall(read_text(worker))
    return sorted({model.removeprefix(SCRIPTED) for model in models if model.startswith(SCRIPTED)})


def _expanded(text: str) -> str:
    try:
        return expand(text, os.environ).text
    except VariableError:
        return text


def _servers(data: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for key in ("mcpServers", "servers"):
        entries = data.get(key)
        if is_map(entries):
            yield from ((name, entry) for name, entry in entries.items() if is_map(entry))


def _server_lines(name: str, entry: JsonObject, folder: Path) -> Iterator[str]:
    """Of an entry that has both a command and an address, both: which one counts is a matter of its type."""
    if entry.get("url"):
        line, headers = f"server {name}: connects to {_without_password(str(entry['url']))}", entry.get("headers")
        given = ", ".join(_header(key, str(value)) for key, value in headers.items()) if is_map(headers) else ""
        yield f"{line} with headers {given}" if given else line
    if entry.get("command") or not entry.get("url"):
        args = entry.get("args")
        words = [entry.get("command"), *(args if is_list(args) else ())]
        line = f"server {name}: runs {shlex.join(map(str, words))} in {folder / str(entry.get('cwd') or '')}"
        env = entry.get("env")
        given = ", ".join(f"{key}={_value(key, str(value))}" for key, value in env.items()) if is_map(env) else ""
        given = ", ".join(filter(None, [given, f"all of {entry['envFile']}" if entry.get("envFile") else ""]))
        yield f"{line} with {given}" if given else line


def _model_lines(path: Path, data: JsonObject) -> Iterator[str]:
    options = data.get("model_options")
    base = options.get("api_base") if is_map(options) else None
    if is_map(options) and base:
        key = "" if options.get("api_key") else "; it is sent the key that the environment has for such a model"
        yield f"models: asks {_without_password(str(base))}{key}"
    yield from (f"models: the script {script} decides which tools are called" for script in _scripts(path, data))


def _addresses(node: Json, place: Place = ()) -> Iterator[tuple[str, str]]:
    """What looks like an address, besides those of servers and models."""
    if place[:1] in (("mcpServers",), ("servers",)) or place == ("model_options", "api_base"):
        return
    if isinstance(node, str) and "://" in node:
        yield named(place), node
    items = node.items() if is_map(node) else enumerate(node) if is_list(node) else ()
    for key, item in items:
        yield from _addresses(item, (*place, key))


def _without_asking(data: JsonObject) -> Iterator[str]:
    """Where these settings have calls made that a person would be asked about otherwise."""
    policy, options = data.get("policy"), data.get("server_options")
    rules = policy.get("rules") if is_map(policy) else None
    allowed = [_allowed(rule) for rule in (rules if is_list(rules) else ()) if is_map(rule) and "allow" in rule]
    if allowed:
        yield f"calls without asking: {', '.join(allowed)}"
    defaults = policy.get("defaults") if is_map(policy) else None
    free = [str(key) for key, verb in defaults.items() if verb == "allow"] if is_map(defaults) else []
    if free:
        yield f"calls without asking, by class: {', '.join(free)}"
    for name, server in options.items() if is_map(options) else ():
        effects = server.get("effects") if is_map(server) else None
        if is_map(effects) and effects:
            yield f"server {name}: takes {', '.join(f'{tool} for {effect}' for tool, effect in effects.items())}"
    for places, meaning in _LOOSER.items():
        for place, value in _at(data, places.split(".")):
            if value is not None and value is not False:
                yield f"{named(place)}: {json.dumps(value, ensure_ascii=False)} ({meaning})"


def _allowed(rule: JsonObject) -> str:
    return f"{rule['allow']} (also with what others wrote)" if rule.get("tainted") else str(rule["allow"])


def _at(node: Json, places: list[str], place: Place = ()) -> Iterator[tuple[Place, Json]]:
    """What stands at these names, where `*` is any."""
    if not places:
        yield place, node
    elif is_map(node):
        for key, item in node.items():
            if places[0] in ("*", key):
                yield from _at(item, places[1:], (*place, key))


def _header(key: str, value: str) -> str:
    used = variables_in(value)
    return f"{key} ({', '.join(used)})" if used else key


def _without_password(address: str) -> str:
    return re.sub(r"://[^/@\s]*@", "://…@", address)


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
