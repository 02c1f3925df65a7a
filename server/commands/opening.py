"""How a command begins: its settings, its log, and the event loop that a signal ends cleanly."""

import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

import typer

from journal.errors import SteprelayError, UnknownId
from server.terminal.exit_codes import ExitCode, code_of_error

if TYPE_CHECKING:
    from server.settings import Settings

OWN_PROCESS = (sys.executable, "-P", "-c", "from server.app import main; main()")
"""Starts this steprelay again; `-P`, so that no folder of the place it is started in is taken for ours."""
_WAKES = 0.5

Uses: TypeAlias = Literal["all", "secrets", "nothing"]
"""What of the values of variables a command uses: it opens servers or asks models; it shows what runs carried, in which
the secrets of servers have to be hidden; or neither."""


def load(config: Path | None, uses: Uses = "all") -> "Settings":
    """The settings for this command, logging begun. Raises SettingsError.

    A variable that is not set is said, and is an error only where its value would be used.
    """
    from server.settings import find_settings, load_settings
    from server.terminal.log_file import start_logging

    found = find_settings(config, environ=os.environ, cwd=Path.cwd())
    settings = load_settings(found, environ=os.environ, with_gaps=uses != "all")
    _refuse_unhidden(settings, uses)
    start_logging(settings.outlet)
    if settings.gaps:
        names = ", ".join(sorted({name for gap in settings.gaps for name in gap.names}))
        sys.stderr.write(f"steprelay: {settings.path}: not set: {names}; this command does without, others may not\n")
    return settings


def _refuse_unhidden(settings: "Settings", uses: Uses) -> None:
    """Raises SettingsError where secrets could be shown because nobody knows what they are."""
    from server.settings_file.document import SettingsError

    hidden = [gap.problem for gap in settings.gaps if gap.hides]
    if hidden and uses == "secrets":
        why = "its value is a secret, which could not be told and hidden in what is shown"
        raise SettingsError([replace(problem, text=f"{problem.text}; {why}") for problem in hidden])


def run_async(work: Callable[[], Awaitable[ExitCode]], settings: "Settings | None" = None) -> NoReturn:
    """Do the work and exit with its code; what it raises is told without the secrets of these settings.

    A SIGTERM ends it like Ctrl-C: everything is closed, exit code 130.
    """
    import anyio

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = anyio.run(_interruptible, work)
    except SteprelayError as error:
        code = _tell(error, settings)
    except BaseExceptionGroup as group:
        named, rest = group.split(SteprelayError)
        if named is None or rest is not None:
            raise
        code = _tell(_first(named), settings)
    raise typer.Exit(code)


async def _interruptible(work: Callable[[], Awaitable[ExitCode]]) -> ExitCode:
    """Do the work. A signal that comes as the loop falls asleep is only seen once it wakes, so it does now and then."""
    import asyncio

    async def wake() -> None:
        while True:  # noqa: ASYNC110 - nothing else tells of the signal
            await asyncio.sleep(_WAKES)

    waking = asyncio.ensure_future(wake())
    try:
        return await work()
    finally:
        waking.cancel()


def _tell(error: SteprelayError, settings: "Settings | None") -> ExitCode:
    from journal.outlet import Outlet

    outlet = settings.outlet if settings else Outlet()
    sys.stderr.write(f"steprelay: {outlet.text(str(error))}\n")
    if settings and isinstance(error, UnknownId):
        sys.stderr.write(f"{outlet.text(_where_looked(settings))}\n")
    return code_of_error(error)


def _where_looked(settings: "Settings") -> str:
    """Which store an id was not found in, and how to look into another."""
    from journal.settings import sqlite_path

    named = settings.store.url is not None
    by = f"`store` in {settings.path}" if named else "the state folder, since no settings name a `store`"
    other = "--config FILE looks into the store of other settings"
    moved = "" if named else "; XDG_STATE_HOME moves the state folder"
    return f"Looked in {sqlite_path(settings.store)} ({by}). {other}{moved}."


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
