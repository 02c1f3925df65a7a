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

from ..exit_codes import ExitCode

if TYPE_CHECKING:
    from ..settings import Settings

OWN_PROCESS = (sys.executable, "-P", "-c", "from server.app import main; main()")
"""Starts this steprelay again; `-P`, so that no folder of the place it is started in is taken for ours."""


def load(config: Path | None) -> "Settings":
    """The settings for this command, logging begun. Raises SettingsError."""
    from journal.outlet import Outlet

    from ..log_file import start_logging
    from ..settings import find_settings, load_settings

    settings = load_settings(find_settings(config, environ=os.environ, cwd=Path.cwd()), environ=os.environ)
    start_logging(Outlet(settings.secrets))
    return settings


def run_async(work: Callable[[], Awaitable[ExitCode]]) -> NoReturn:
    """Do the work and exit with its code. A SIGTERM ends it like Ctrl-C: everything is closed, exit code 130."""
    import anyio

    signal.signal(signal.SIGTERM, _interrupt)
    raise typer.Exit(anyio.run(work))


def typed(words: str, config: Path | None) -> str:
    """A command of ours as a person has to type it for these settings."""
    from ..installed import installed_command

    used = f" --config {shlex.quote(str(config))}" if config else ""
    return f"{installed_command()} {words}{used}"


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)
