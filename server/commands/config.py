"""`steprelay config`: what settings there are, which are used, and trusting those of a project."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.terminal.exit_codes import ExitCode, UsageProblem

from .opening import load, short_path, typed
from .options import AsJson, Config, NoConfig

if TYPE_CHECKING:
    from server.settings import Settings


def schema(config: NoConfig = None) -> None:
    """Print the JSON Schema of a settings file."""
    from server.settings import settings_schema

    typer.echo(json.dumps(settings_schema(), indent=2, ensure_ascii=False))


def path(config: Config = None) -> None:
    """Print which settings file is used."""
    from server.settings import find_settings
    from server.settings_file.found import user_settings_path

    found = find_settings(config, environ=os.environ, cwd=Path.cwd())
    if found.path is None:
        typer.echo(f"no settings file; the defaults are used, and {user_settings_path()} would be read", err=True)
    else:
        typer.echo(found.path)


def show(config: Config = None, as_json: AsJson = False) -> None:
    """Print the settings in force, secrets left out."""
    from .plan import as_yaml

    data = shown_settings(load(config, "nothing"))
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False) if as_json else as_yaml(data).rstrip())


def trust(
    settings_file: Annotated[
        Path, typer.Argument(metavar="PATH", help="A project's settings file.", show_default=False)
    ] = Path("steprelay.yaml"),
    sha256: Annotated[
        str | None,
        typer.Option("--sha256", metavar="HASH", help="Trust what has this hash, as it was shown, without asking."),
    ] = None,
    config: NoConfig = None,
) -> None:
    """Trust a project's settings, having shown what they run.

    Asks at a terminal. Elsewhere it only shows them, with their hash; given that hash, it trusts just what was shown.
    """
    import anyio

    from server.settings import hash_of, is_trusted, trust_file, what_it_runs
    from server.settings_file.trust import as_used

    if not settings_file.is_file():
        raise UsageProblem(f"{settings_file}: no such file; name the settings file to trust")
    # What changes from here on, while it is read, is not trusted.
    seen = hash_of(settings_file)
    used = as_used(settings_file)
    typer.echo(f"{used} would use:")
    for line in (*what_it_runs(used), f"sha256: {seen}"):
        typer.echo(f"  {line}")
    if sha256 is not None and sha256.lower() != seen:
        raise UsageProblem(f"{used} has another hash than {sha256}: it is not what you saw; look at it again")
    if is_trusted(settings_file):
        typer.echo("It is trusted already, as it is now.")
        return
    refuse_agents()
    if sha256 is None and not _person_trusts(used, seen):
        typer.echo("Not trusted.")
        raise typer.Exit(ExitCode.REFUSED)
    anyio.run(_note_trust, used, seen, "terminal" if sha256 is None else "flag")
    trust_file(settings_file, seen=seen)
    typer.echo("Trusted, until it is changed.")


def _person_trusts(path: Path, seen: str) -> bool:
    """Whether the person at this terminal does. Raises UsageProblem where there is none."""
    import anyio

    from server.terminal.asking import confirm, nobody_here

    if (why := nobody_here(os.environ)) is not None:
        words = typed(f"config trust {short_path(path)} --sha256 {seen}", None)
        raise UsageProblem(
            f"{path} is not trusted: that takes a person's yes, and {why}; type this in one, or, once somebody has "
            f"read what stands above, say yes to just that with: {words}"
        )
    return anyio.run(confirm, "Trust it?")


def refuse_agents() -> None:
    """Raises UsageProblem in the shell of an agent, where trust is not given."""
    from server.terminal.asking import AGENT_MARKERS

    if marker := next((name for name in AGENT_MARKERS if os.environ.get(name)), None):
        raise UsageProblem(
            f"that takes a person, and this shell belongs to an agent ({marker} is set); have yours look at it, and "
            "type this in a terminal of their own"
        )


async def _note_trust(path: Path, seen: str, via: str) -> None:
    """In the audit of the user's own settings, before it counts."""
    from journal.audit import AuditLine
    from journal.world import World
    from server.opened_store import open_settings_store
    from server.settings import find_settings, load_settings

    found = find_settings(None, environ=os.environ, cwd=None)
    own = load_settings(found, environ=os.environ, lenient=True, with_gaps=True)
    async with open_settings_store(own, world=World()) as store:
        await store.note(AuditLine("settings.trusted", {"path": str(path), "sha256": seen, "via": via}))


def shown_settings(settings: "Settings") -> Any:
    """The settings as plain data; values of secret variables, and of what is named like one, are left out."""
    data = {
        "path": None if settings.path is None else str(settings.path),
        "model": settings.model.model_dump(mode="json", exclude_none=True),
        "servers": [_shown_server(server.model_dump(mode="json", exclude_none=True)) for server in settings.servers],
        "off": list(settings.off),
        "workers": [
            worker.model_dump(mode="json", exclude_none=True, exclude={"instructions"}) for worker in settings.workers
        ],
        "policy": settings.policy.model_dump(mode="json", exclude_none=True),
        "approvals": settings.approvals.model_dump(mode="json"),
        "budget": settings.budget.model_dump(mode="json"),
        "store": settings.store.model_dump(mode="json"),
        "retention": settings.retention.model_dump(mode="json"),
        "audit": settings.audit.model_dump(mode="json"),
        "revise": settings.revise,
        "engine": settings.engine.model_dump(mode="json", exclude_none=True),
        "warnings": list(settings.warnings),
        "gaps": [str(gap.problem) for gap in settings.gaps],
    }
    return settings.outlet.json(data)


def _shown_server(server: dict[str, Any]) -> dict[str, Any]:
    from journal.settings import is_secret_name

    for part in ("env", "headers"):
        if part in server:
            server[part] = {name: "…" if is_secret_name(name) else value for name, value in server[part].items()}
    return server
