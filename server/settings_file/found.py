"""Where the settings are: the option, the variable, the user's folder, and for some commands the working folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .document import Problem, SettingsError, UntrustedSettings
from .trust import is_trusted

PROJECT_FILE = "steprelay.yaml"
VARIABLE = "STEPRELAY_CONFIG"


@dataclass(frozen=True)
class Found:
    """The settings file to use, None for the defaults, and what told us."""

    path: Path | None
    source: Literal["option", "variable", "user", "project", "defaults"]
    warnings: tuple[str, ...] = ()


def user_settings_path() -> Path:
    """The user's own settings file, whether it exists or not."""
    from platformdirs import user_config_path

    return user_config_path("steprelay", appauthor=False) / "config.yaml"


def find_settings(explicit: Path | None, *, environ: Mapping[str, str], cwd: Path | None) -> Found:
    """The first of `--config`, $STEPRELAY_CONFIG, the user's file and, where `cwd` is given, a trusted file there.

    Raises SettingsError where a named file does not exist, UntrustedSettings for a project file that is not trusted.
    """
    project = cwd / PROJECT_FILE if cwd else None
    has_project = project is not None and project.is_file()
    if explicit is not None:
        return Found(_existing(explicit, "--config"), "option")
    if environ.get(VARIABLE):
        return Found(_existing(Path(environ[VARIABLE]), f"${VARIABLE}"), "variable")
    user = user_settings_path()
    if user.is_file():
        note = f"{project} is not used, because {user} is there; to use it, give --config {project}"
        return Found(user, "user", (note,) if has_project else ())
    if project is None or not has_project:
        return Found(
            None, "defaults", (f"no settings file, so there are no tool servers; write {user}, or give --config",)
        )
    if not is_trusted(project):
        raise UntrustedSettings(project)
    return Found(project, "project")


def _existing(path: Path, origin: str) -> Path:
    path = path.expanduser().absolute()
    if not path.is_file():
        raise SettingsError(
            [Problem(f"no such file, though {origin} names it; correct the path or leave it out", path)]
        )
    return path
