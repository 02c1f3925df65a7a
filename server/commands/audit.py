"""`steprelay audit`: whether the audit is as it was written, and its lines for whoever keeps them elsewhere."""

import dataclasses
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from journal.world import World
from server.terminal.exit_codes import ExitCode, UsageProblem

from .opening import load, run_async
from .options import AsJson, Config, Output

if TYPE_CHECKING:
    from journal.audit_check import AuditCheck
    from journal.checkpoints import Checkpoint
    from journal.store import Store
    from journal.values import JsonObject
    from server.settings import Settings


def verify(
    config: Config = None,
    anchor: Annotated[
        Path | None,
        typer.Option("--anchor", metavar="FILE", help="Checkpoints, in place of the file of audit.checkpoints."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the whole audit, and name the first line that is not as it was written.

    That lines are missing at its end only checkpoints can tell. Exit code 4 where something is wrong.
    """
    settings = load(config, "nothing")

    async def work() -> ExitCode:
        from journal.audit_check import check_audit
        from server.opened_store import open_settings_store

        known, note = _checkpoints(settings, anchor)
        async with open_settings_store(settings, world=World()) as store:
            checked = await check_audit(store.database, known)
        if as_json:
            ok = {"ok": checked.broken is None}
            typer.echo(json.dumps(ok | dataclasses.asdict(checked) | {"note": note}, ensure_ascii=False))
        else:
            for line in _lines(checked, note):
                typer.echo(settings.outlet.text(line))
        return ExitCode.OK if checked.broken is None else ExitCode.FAILED

    run_async(work, settings)


def export(
    config: Config = None,
    output: Output = None,
    run_id: Annotated[str | None, typer.Option("--run", metavar="ID", help="Only the lines of this run.")] = None,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
) -> None:
    """Write the audit as JSON, one line each, oldest first.

    Of arguments and results it holds keyed hashes only; secrets that the settings name are taken out.
    """
    settings = load(config, "nothing")

    async def work() -> ExitCode:
        from server.opened_store import open_settings_store

        async with open_settings_store(settings, world=World()) as store:
            await _write(_exported(store, run_id), output)
        return ExitCode.OK

    run_async(work, settings)


def _checkpoints(settings: "Settings", anchor: Path | None) -> "tuple[list[Checkpoint], str | None]":
    """What checkpoints know, or why there are none. Raises UsageProblem for a named file without any."""
    from journal.checkpoints import NoCheckpoints, read_checkpoints

    path = anchor or (Path(settings.audit.checkpoints) if settings.audit.checkpoints else None)
    if path is None:
        return [], "without checkpoints nobody can tell whether lines are missing at its end: set audit.checkpoints"
    try:
        return read_checkpoints(path), None
    except NoCheckpoints as error:
        if anchor is not None:
            raise UsageProblem(str(error)) from error
        return [], f"no checkpoint was used: {error}"


def _lines(checked: "AuditCheck", note: str | None) -> list[str]:
    from downstream.gate.prompt_text import escaped

    notes = [] if note is None else [f"Note: {note}."]
    if checked.broken is not None:
        found = f"Line {checked.broken.seq} of the audit ({checked.broken.fault}): {escaped(checked.broken.text)}."
        return [found, f"The {checked.lines:,} before it hold.", *notes]
    fitting = f", and {checked.checkpoints:,} checkpoints fit" if checked.checkpoints else ""
    return [f"The audit holds: {checked.lines:,} lines{fitting}.", f"Its head: {checked.head}", *notes]


async def _exported(store: "Store", run_id: str | None) -> AsyncIterator[str]:
    from functools import partial

    from journal.audit_lines import audit_page
    from server.views.action_view import time_text

    after = 0
    while page := await store.database.read(partial(audit_page, after=after, run_id=run_id)):
        for line in page:
            whole: JsonObject = {"seq": line["seq"], "time": time_text(line["at"])} | line
            yield json.dumps(store.outlet.json(whole), ensure_ascii=False)
        after = page[-1]["seq"]


async def _write(lines: AsyncIterator[str], path: Path | None) -> None:
    try:
        with ExitStack() as stack:
            file = None if path is None else stack.enter_context(path.open("w", encoding="utf-8"))
            async for line in lines:
                typer.echo(line, file=file)
    except OSError as error:
        raise UsageProblem(f"{path} cannot be written: {error.strerror}; name another file") from error
