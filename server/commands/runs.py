"""`steprelay runs` as far as it only looks: list, show, watch."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from journal.world import World
from server.terminal.exit_codes import ExitCode, UsageProblem, code_of_run

from .opening import load, run_async, typed
from .options import AsJson, Config, RunId

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable

    from journal.store import Store
    from server.settings import Settings
    from server.views.run_view import RunLine

_PATIENCE = 6.0
"""Seconds in which a process that was just started for a run must show itself."""


def list_(
    config: Config = None,
    status: Annotated[str | None, typer.Option("--status", help="Only runs of this status.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    settings = load(config, "nothing")

    async def work() -> ExitCode:
        from journal.runs import RUN_STATUSES
        from server.opened_store import open_settings_store
        from server.views.view import run_lines

        if status is not None and status not in RUN_STATUSES:
            raise UsageProblem(f"--status {status!r} is none; there are: {', '.join(RUN_STATUSES)}")
        async with open_settings_store(settings, world=World()) as store:
            runs = await store.runs(status=status, limit=limit)
            lines = await run_lines(store, runs)
        imported = {run.id for run in runs if run.imported}
        if as_json:
            shown = [line.model_dump(mode="json") | {"imported": line.run_id in imported} for line in lines]
            typer.echo(json.dumps({"runs": shown}, ensure_ascii=False))
        else:
            _write_list(lines, imported)
        return ExitCode.OK

    run_async(work, settings)


def show(
    run_id: RunId,
    config: Config = None,
    as_json: AsJson = False,
    actions: Annotated[
        bool, typer.Option("--actions", help="Show what was asked, who decided it and how, and what was done.")
    ] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Show what each step, worker and model took, and what planning did.")
    ] = False,
) -> None:
    """Show where a run stands, its steps and its cost.

    Also who drives it, and what it waits for or works on since when.
    """
    settings = load(config, "secrets")
    if actions and cost:
        raise UsageProblem("--actions and --cost are two views; ask for one of them at a time")
    if actions:
        from server.views.deeds import deed_lines, deeds_of

        _show_part(settings, lambda store: deeds_of(store, run_id), deed_lines, as_json=as_json)
    if cost:
        from server.views.cost import cost_lines, cost_of

        _show_part(settings, lambda store: cost_of(store, run_id), cost_lines, as_json=as_json)
    _show_standing(settings, run_id, config=config, as_json=as_json)


def _show_standing(settings: "Settings", run_id: str, *, config: Path | None, as_json: bool) -> NoReturn:
    async def work() -> ExitCode:
        from server.installed import Spoken, installed_command
        from server.opened_store import open_settings_store
        from server.views.standing import standing_lines, standing_of
        from server.views.view import run_view

        async with open_settings_store(settings, world=World()) as store:
            spoken, vouched = Spoken(installed_command(), config), settings.approvals.approve_action == "host"
            view = await run_view(store, run_id, spoken=spoken, vouched=vouched, detail=True)
            standing = await standing_of(store, run_id)
            if as_json:
                whole = view.model_dump(mode="json") | dataclasses.asdict(standing)
                typer.echo(json.dumps(whole, ensure_ascii=False))
            else:
                for line in standing_lines(view, standing, how=lambda words: typed(words, config)):
                    typer.echo(line)
        return ExitCode.OK

    run_async(work, settings)


def _show_part(
    settings: "Settings",
    read: "Callable[[Store], Awaitable[Any]]",
    lines: "Callable[[Any], Iterable[str]]",
    *,
    as_json: bool,
) -> NoReturn:
    async def work() -> ExitCode:
        from server.opened_store import open_settings_store

        async with open_settings_store(settings, world=World()) as store:
            part = await read(store)
        for line in [json.dumps(dataclasses.asdict(part), ensure_ascii=False)] if as_json else lines(part):
            typer.echo(line)
        return ExitCode.OK

    run_async(work, settings)


def watch(
    run_id: RunId,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one event a line, and nothing else.")] = False,
) -> None:
    """Watch a run until it ends or waits for a person.

    The exit code is the run's, as of `steprelay run`.
    """
    settings = load(config, "secrets")

    async def work() -> ExitCode:
        from server.opened_store import open_settings_store

        async with open_settings_store(settings, world=World()) as store:
            return await _watch(store, run_id, config=config, as_json=as_json)

    run_async(work, settings)


async def _watch(store: "Store", run_id: str, *, config: Path | None, as_json: bool) -> ExitCode:
    import anyio

    from server.terminal.follow import follow, look

    from .driving import Manner, open_display
    from .ending import tell_end

    manner = Manner(as_json=as_json, config=config)
    await store.run(run_id)
    stuck: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_end_where_nobody_drives, store, run_id, stuck, group.cancel_scope)
        with open_display(manner) as display:
            await follow(store, run_id, show=display.show)
        group.cancel_scope.cancel()
    if stuck:
        way = manner.typed(f"runs resume {run_id}")
        raise UsageProblem(
            f"run {run_id} stands still: no living process has its settings, {stuck[0]}; go on with: {way}"
        )
    end = await look(store, run_id)
    if not as_json:
        tell_end(end, how=manner.typed)
    return code_of_run(end.run)


async def _end_where_nobody_drives(store: "Store", run_id: str, stuck: list[str], scope: Any) -> None:
    import anyio

    from server.views.view import needed_settings

    while True:
        await anyio.sleep(_PATIENCE)
        run = await store.run(run_id)
        needed = None if run.ended else await needed_settings(store, run)
        if needed is not None:
            stuck.append(needed)
            scope.cancel()


def _write_list(lines: "list[RunLine]", imported: "Collection[str]") -> None:
    from downstream.gate.prompt_text import escaped
    from server.views.words import ended_as

    if not lines:
        typer.echo('No runs yet. `steprelay run "…"` begins one, `steprelay demo` shows one.')
    room = shutil.get_terminal_size((160, 24)).columns
    for line in lines:
        status = ended_as(line.status, line.stop_reason)
        needs = f"needs {line.needs}: " if line.needs else "imported: " if line.run_id in imported else ""
        goal = escaped(" ".join(line.goal.split()))
        when = line.created_at[:16].replace("T", " ")
        whole = f"{line.run_id}  {when}  {status:<22}  ${line.cost_usd:<7.4f}  {needs}{goal}"
        typer.echo(whole if len(whole) <= room else f"{whole[: room - 1]}…")
