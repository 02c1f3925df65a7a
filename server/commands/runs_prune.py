"""`steprelay runs prune`: what ended long ago is removed."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from journal.world import World
from server.terminal.exit_codes import ExitCode, UsageProblem

from .opening import load, run_async
from .options import AsJson, Config

if TYPE_CHECKING:
    from journal.archive.retention import Pruned, Swept
    from journal.store import Store
    from server.settings import Settings


def prune(
    config: Config = None,
    older_than: Annotated[
        int | None,
        typer.Option("--older-than", metavar="DAYS", min=0, help="Days since their end, in place of retention.days."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove runs that ended long ago, with their results.

    Kept are the audit, unfinished runs, and runs with a call of which nobody has said whether it was done. Results that
    belong to no run are removed too, and the database is made smaller where no other process is at work.
    """
    settings = load(config, "nothing")
    days = _days(settings, older_than)

    async def work() -> ExitCode:
        from journal.archive.retention import prune, sweep
        from server.opened_store import open_settings_store

        async with open_settings_store(settings, world=World()) as store:
            pruned = await prune(store, days=days, dry_run=dry_run)
            swept = None if dry_run else await sweep(store)
            freed, told = (None, None) if dry_run else await shrunk(store)
        if as_json:
            typer.echo(json.dumps(_as_data(pruned, swept, days=days, freed=freed)))
        else:
            for line in (*_lines(pruned, swept, days=days), *([told] if told else [])):
                typer.echo(line)
        return ExitCode.OK

    run_async(work, settings)


def _days(settings: "Settings", older_than: int | None) -> int:
    days = settings.retention.days if older_than is None else older_than
    if days is None:
        raise UsageProblem("retention.days is null, so runs are kept for ever; name an age with --older-than DAYS")
    return days


async def shrunk(store: "Store") -> tuple[int | None, str | None]:
    """How many bytes smaller the database is, and what to tell about that."""
    from journal.archive.retention import shrink
    from journal.errors import StoreError

    try:
        freed = await shrink(store)
    except StoreError as error:
        return None, str(error)
    if freed is None:
        return None, "The database keeps its size, with room for what comes next: another process is at work on it."
    return freed, f"The database is {_size(freed)} smaller." if freed else None


def _as_data(pruned: "Pruned", swept: "Swept | None", *, days: int, freed: int | None) -> dict[str, object]:
    return {
        "dry_run": swept is None,
        "older_than_days": days,
        "runs": len(pruned.runs),
        "bytes": pruned.size,
        "run_ids": list(pruned.runs),
        "kept_unanswered": pruned.unanswered,
        "orphan_files": swept.files if swept else None,
        "orphan_bytes": swept.size if swept else None,
        "database_bytes": freed,
    }


def _lines(pruned: "Pruned", swept: "Swept | None", *, days: int) -> list[str]:
    did = "Removed" if swept else "Would remove"
    lines = [f"{did} {_counted(len(pruned.runs), 'run')} that ended {days} days ago or earlier: {_size(pruned.size)}."]
    if pruned.unanswered:
        unknown = f"{_counted(pruned.unanswered, 'run')} as old with a call that may have run"
        lines.append(f"Kept {unknown}: nobody has said yet whether it was done (`steprelay approvals`).")
    if swept and swept.files:
        lines.append(f"Removed {_counted(swept.files, 'file')} that belonged to no run: {_size(swept.size)}.")
    return lines


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _size(size: int) -> str:
    return f"{size:,} bytes" if size < 1 << 20 else f"{size / (1 << 20):,.1f} MiB"
