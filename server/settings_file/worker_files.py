"""Worker files, `workers/*.md` beside the settings file, in the format of Claude Code's subagents."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from downstream.tool_names import ToolNameError, read_tool_name
from executors.settings import WorkerSettings
from journal.values import Json, JsonObject

from .document import Problem, SettingsError, meant, read_text
from .located import Located, TextError, is_list, is_map
from .shape import in_our_words
from .yaml_text import read_yaml

_FIELDS = {
    "name": "name",
    "description": "description",
    "tools": "tools",
    "disallowedTools": "disallowed_tools",
    "model": "model",
}
_READ = frozenset({*_FIELDS, "maxTurns"})
_HOST_ONLY = frozenset(
    {"permissionMode", "skills", "mcpServers", "hooks", "memory", "effort", "background", "isolation", "initialPrompt"}
)
_HOST_MODELS = frozenset({"sonnet", "opus", "haiku", "fable", "inherit"})
_FRONT = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PLAIN_TEXT = re.compile(
    r"^(name|description|model):[ \t]+(?![\"'|>\[{&*!%@`])(.*?)[ \t]*\r?$(?!\n[ \t]+\S)", re.MULTILINE
)


@dataclass(frozen=True)
class WorkerFile:
    """What one file gave: a worker, or what is wrong with it."""

    path: Path
    worker: WorkerSettings | None
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def worker_paths(settings_path: Path) -> list[Path]:
    """The worker files that belong to a settings file."""
    return sorted((settings_path.parent / "workers").glob("*.md"))


def read_worker_file(path: Path) -> WorkerFile:
    """One worker; its body is the instructions. A file that can't be read is a problem, never skipped."""
    try:
        text = read_text(path)
    except SettingsError as error:
        return WorkerFile(path, None, problems=error.problems)
    front = _FRONT.match(text)
    if front is None:
        return _broken(path, 1, "a worker file begins with --- and its keys, then ---, then the instructions")
    try:
        located = read_yaml(_texts_quoted(front[1]))
    except TextError as error:
        return _broken(path, error.line + 1, error.text)
    if not is_map(located.data):
        return _broken(path, 1, "between the --- lines stand keys, as in `name: helper`")
    return _worker(path, located, text[front.end() :].strip())


def _broken(path: Path, line: int, text: str) -> WorkerFile:
    return WorkerFile(path, None, problems=(Problem(text, path, line),))


def _texts_quoted(front: str) -> str:
    """Put quotes around one-line texts: hosts take `name: 12` as a text, and a description with colons and # whole."""
    return _PLAIN_TEXT.sub(lambda found: f"{found[1]}: {json.dumps(_without_comment(found[1], found[2]))}", front)


def _without_comment(key: str, text: str) -> str:
    return text if key == "description" else re.split(r"\s#", text, maxsplit=1)[0].rstrip()


def _worker(path: Path, located: Located, instructions: str) -> WorkerFile:
    keys = {key: item for key, item in located.data.items() if item is not None}
    warnings = [f"{path.name}: {text}" for text in _unread(keys)]
    problems = [Problem(f"key {str(place[-1])!r} stands twice", path, line + 1) for place, line in located.repeated]
    data: JsonObject = {_FIELDS[key]: item for key, item in keys.items() if key in _FIELDS}
    if "maxTurns" in keys:
        data["limits"] = {"turns": keys["maxTurns"]}
    if keys.get("model") in _HOST_MODELS:
        del data["model"]
    for key in ("tools", "disallowedTools"):
        if key in keys:
            data[_FIELDS[key]], strange = _tools(keys[key])
            if strange:
                tools = ", ".join(strange)
                warnings.append(f"{path.name}: {key} {tools}: tools of a host, which workers here do not have")
    try:
        text = json.dumps({**data, "instructions": instructions})
        worker = WorkerSettings.model_validate_json(text, context={"folder": path.parent.parent})
    except ValidationError as error:
        problems += [_problem(path, located, each) for each in error.errors(include_url=False, include_input=False)]
        worker = None
    return WorkerFile(path, None if problems else worker, tuple(warnings), tuple(problems))


def _problem(path: Path, located: Located, error: ErrorDetails) -> Problem:
    field = str(error["loc"][0])
    key = "maxTurns" if field == "limits" else next(each for each, ours in _FIELDS.items() if ours == field)
    text = f"{key} is missing" if error["type"] == "missing" else f"{key}: {in_our_words(error['msg'])}"
    return Problem(text, path, located.line_of((key,)) + (key in located.data))


def _unread(keys: JsonObject) -> Iterator[str]:
    for key in sorted(keys.keys() - _READ):
        if key == "color" or key.startswith("x-"):
            continue
        known = "is for hosts and has no effect here" if key in _HOST_ONLY else f"is not known{meant(key, _READ)}"
        yield f"key {key!r} {known}"
    if keys.get("model") in _HOST_MODELS - {"inherit"}:
        yield f"model {keys['model']!r} is a host's short name; the settings' own model is used"


def _tools(written: Json) -> tuple[list[Json], list[str]]:
    """Names in our form, and those that name no server's tool."""
    # Not the commas in `Bash(git diff, git log)`.
    items: Json = re.split(r",\s*(?![^()]*\))", written) if isinstance(written, str) else written
    names: list[Json] = []
    strange: list[str] = []
    for item in items if is_list(items) else [items]:
        try:
            names.append(read_tool_name(item) if isinstance(item, str) else item)
        except ToolNameError:
            if item.strip():
                strange.append(item.strip())
    return names, strange
