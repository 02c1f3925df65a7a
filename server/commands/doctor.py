"""`steprelay doctor`: whether everything that a run needs is there and works, and what to do where it is not."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.terminal.exit_codes import ExitCode

from .opening import run_async
from .options import AsJson, Config

if TYPE_CHECKING:
    from server.checkup.finding import Finding

NoModel = Annotated[bool, typer.Option("--no-model", help="Do not ask the models; that can cost a little.")]


def doctor(config: Config = None, as_json: AsJson = False, no_model: NoModel = False) -> None:
    """Check programs, settings, store, models and tool servers.

    Each model of the settings is asked one small question, and each tool server is started. Exit code 3 if something
    is broken.
    """

    from server.checkup.course import check_up, first_look
    from server.checkup.finding import worst_of
    from server.checkup.settings_found import Surroundings
    from server.terminal.log_file import start_logging

    found: list[Finding] = []

    def say(finding: "Finding") -> None:
        found.append(finding)
        if not as_json:
            _write(finding)

    around = Surroundings(os.environ, Path.cwd(), config)
    settings = first_look(around, say)
    if settings is not None:
        start_logging(settings.outlet)

    async def work() -> ExitCode:
        if settings is not None:
            await check_up(settings, around, say, asks_model=not no_model)
        state = worst_of(found)
        if as_json:
            whole = {"state": state, "checks": [asdict(finding) for finding in found]}
            typer.echo(json.dumps(whole, ensure_ascii=False))
        else:
            typer.echo(_summary(found))
        return ExitCode.SETTINGS if state == "problem" else ExitCode.OK

    run_async(work, settings)


def _write(finding: "Finding") -> None:
    from downstream.gate.prompt_text import escaped
    from server.views.words import one_line

    typer.echo(f"{finding.state:<8} {escaped(finding.check)}: {escaped(one_line(finding.text))}")
    if finding.way_out is not None:
        typer.echo(f"{'':<8} → {escaped(one_line(finding.way_out))}")


def _summary(found: "list[Finding]") -> str:
    from server.views.words import counted

    problems, warnings = (sum(finding.state == state for finding in found) for state in ("problem", "warning"))
    if not problems and not warnings:
        return "All is well."
    return f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}."
