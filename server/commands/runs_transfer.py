"""`steprelay runs` as far as runs leave a store or enter it: export and import."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from journal.world import World
from server.terminal.exit_codes import ExitCode, UsageProblem

from .opening import load, run_async, typed
from .options import Config, Output, RunId

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

_LARGEST = 512 * 1024 * 1024
"""Bytes of a file that is read; a run's artifacts take 90 MB at most."""


def export(
    run_id: RunId,
    config: Config = None,
    output: Output = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Put x in place of every letter that was said: fit for a bug report.")
    ] = False,
) -> None:
    """Write all that is known of a run as JSON.

    Secrets that the settings name are taken out. `runs import` reads the file, in any store.
    """
    settings = load(config, "secrets")

    async def work() -> ExitCode:
        from journal.archive.transfer import collected, content_of, pieces
        from server.exported import about_run
        from server.opened_store import open_settings_store
        from server.redacted import Redacted

        async with open_settings_store(settings, world=World()) as store:
            document = await collected(store, run_id, about=await about_run(store, settings, run_id))
            content = content_of(store, run_id)
            if redact:
                kept = Redacted(document)
                document, content = kept.document, kept.artifacts(content)
            await _write(pieces(document, content), output)
        return ExitCode.OK

    run_async(work, settings)


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `runs export`.", show_default=False)],
    config: Config = None,
) -> None:
    """Take an exported run in, to look at and to replay.

    It is read-only: nothing drives, resumes or decides it.
    """
    settings = load(config, "nothing")

    async def work() -> ExitCode:
        from journal.archive.bundle import BadBundle, read_bundle
        from journal.archive.transfer import AlreadyHere, import_bundle
        from journal.artifacts import ArtifactNotKept
        from server.opened_store import open_settings_store

        try:
            bundle = read_bundle(_read(file))
            async with open_settings_store(settings, world=World()) as store:
                run_id = await import_bundle(store, bundle)
        except (BadBundle, AlreadyHere, ArtifactNotKept) as error:
            raise UsageProblem(f"{file}: {error}") from error
        typer.echo(f"Imported, read-only: {run_id}. See it with: {typed(f'runs show {run_id}', config)}")
        return ExitCode.OK

    run_async(work, settings)


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise UsageProblem(f"{path} has more than {_LARGEST // 1024**2} MiB, which no exported run has")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageProblem(f"{path} cannot be read: {error.strerror}; name a file of `runs export`") from error
    except UnicodeDecodeError as error:
        raise UsageProblem(f"{path} is no text in UTF-8; name a file of `runs export`") from error


async def _write(pieces: "AsyncIterable[str]", path: Path | None) -> None:
    if path is None:
        async for piece in pieces:
            typer.echo(piece, nl=False)
        return
    try:
        with path.open("w", encoding="utf-8") as file:
            async for piece in pieces:
                file.write(piece)
    except OSError as error:
        raise UsageProblem(f"{path} cannot be written: {error.strerror}; name another file") from error
