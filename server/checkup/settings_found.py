"""The settings: which file, whether it is valid, and the variables that it names."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from journal.values import Json
from server.settings import Found, Settings, SettingsError, UntrustedSettings, find_settings, load_settings
from server.settings_file.document import read_document
from server.settings_file.located import is_list, is_map
from server.settings_file.model_choice import KEY_VARIABLES
from server.settings_file.variables import variables_in

from .finding import Finding, Say

_SOURCES = {
    "option": "named by --config",
    "variable": "named by $STEPRELAY_CONFIG",
    "user": "the user's own",
    "project": "found in the working folder, and trusted",
}


@dataclass(frozen=True)
class Surroundings:
    """Where a checkup happens."""

    environ: Mapping[str, str]
    folder: Path
    config: Path | None = None


def look_at_settings(around: Surroundings, say: Say) -> Settings | None:
    """The settings as far as they can be used, having said what is wrong; None where nothing can be."""
    try:
        found = find_settings(around.config, environ=around.environ, cwd=around.folder)
    except SettingsError as error:
        is_untrusted = isinstance(error, UntrustedSettings)
        _problem(error, "look at them, then trust them" if is_untrusted else "name a file that exists", say)
        return None
    settings = _loaded(found, around.environ, say)
    if settings is not None:
        for text in settings.warnings:
            say(Finding("settings", "warning", text, None if found.path else "steprelay init writes one"))
        told = {name for gap in settings.gaps for name in gap.names}
        for finding in _variables(found.path, around.environ, told):
            say(finding)
    return settings


def _loaded(found: Found, environ: Mapping[str, str], say: Say) -> Settings | None:
    try:
        settings = load_settings(found, environ=environ)
    except SettingsError as error:
        _problem(error, "correct these lines; steprelay config schema says what may stand there", say)
    else:
        if found.path is not None:
            say(Finding("settings", "ok", f"{found.path} ({_SOURCES[found.source]}) is valid"))
        return settings
    try:
        # A broken entry of a server costs that server only, also in a run; a variable that is not set, what needs it.
        return load_settings(found, environ=environ, lenient=True, with_gaps=True)
    except SettingsError:
        return None


def _problem(error: SettingsError, way_out: str, say: Say) -> None:
    for problem in error.problems:
        say(Finding("settings", "problem", str(problem), way_out))


def _variables(path: Path | None, environ: Mapping[str, str], told: Collection[str]) -> Iterator[Finding]:
    """The variables by name; one that is not set and has no default was told of as a problem, by its name in `told`."""
    data: Json = read_document(path).data if path else {}
    listed: Json = data.get("secrets")
    secrets = [str(name) for name in listed] if is_list(listed) else []
    names = sorted({name for text in _texts(data) for name in variables_in(text)} | set(secrets))
    have = [name for name in (*names, *KEY_VARIABLES) if environ.get(name)]
    lack = [name for name in names if not environ.get(name) and name not in told]
    if have:
        yield Finding("variables", "ok", f"set: {', '.join(dict.fromkeys(have))}")
    if lack:
        yield Finding("variables", "warning", f"not set: {', '.join(lack)}", "set them where their defaults do not do")


def _texts(node: Json) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    for item in node.values() if is_map(node) else node if is_list(node) else ():
        yield from _texts(item)
