"""How a command begins: its settings, its log, and the event loop that a signal ends cleanly."""

import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import typer

from journal.errors import SteprelayError
from server.terminal.exit_codes import ExitCode, code_of_error

if TYPE_CHECKING:
    from server.settings import Settings

OWN_PROCESS = (sys.executable, "-P", "-c", "from server.app import main; main()")
"""Starts this steprelay again; `-P`, so that no folder of the place it is started in is taken for ours."""


def load(config: Path | None) -> "Settings":
    """The settings for this command, logging begun. Raises SettingsError."""
    from server.settings import find_settings, load_settings
    from server.terminal.log_file import start_logging

    settings = load_settings(find_settings(config, environ=os.environ, cwd=Path.cwd()), environ=os.environ)
    start_logging(settings.outlet)
    return settings


def run_async(work: Callable[[], Awaitable[ExitCode]], settings: "Settings | None" = None) -> NoReturn:
    """Do the work and exit with its code; what it raises is told without the secrets of these settings.

    A SIGTERM ends it like Ctrl-C: everything is closed, exit code 130.
    """
    import anyio

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = anyio.run(work)
    except SteprelayError as error:
        code = _tell(error, settings)
    except BaseExceptionGroup as group:
        named, rest = group.split(SteprelayError)
        if named is None or rest is not None:
            raise
        code = _tell(_first(named), settings)
    raise typer.Exit(code)


def _tell(error: SteprelayError, settings: "Settings | None") -> ExitCode:
    from journal.outlet import Outlet

    outlet = settings.outlet if settings else Outlet()
    sys.stderr.write(f"steprelay: {outlet.text(str(error))}\n")
    return code_of_error(error)


def typed(words: str, config: Path | None) -> str:
    """A command of ours as a person has to type it for these settings."""
    from server.installed import installed_command

    return f"{installed_command()} {words}" + (f" --config {short_path(config)}" if config else "")


def short_path(path: Path) -> str:
    """A path for a shell, from the home folder where it lies there."""
    home = Path.home()
    if path.is_relative_to(home) and path != home:
        return f"~/{shlex.quote(str(path.relative_to(home)))}"
    return shlex.quote(str(path))


def _first(group: BaseExceptionGroup[SteprelayError]) -> SteprelayError:
    """What a task group wrapped."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)
