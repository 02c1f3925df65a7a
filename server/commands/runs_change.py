"""`steprelay runs` as far as it changes something: resume, cancel, and the hidden `drive` of detached runs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from journal.world import World
from server.terminal.exit_codes import ExitCode, UsageProblem

from .opening import load, run_async
from .options import Approve, Config, RunId

if TYPE_CHECKING:
    from journal.runs import Run
    from journal.store import Store
    from journal.values import Json, JsonObject
    from server.settings import Settings

_CANCEL_SECONDS = 5.0
"""A living process has so long to end a cancelled run; then it is ended here."""


_Budget: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--budget", metavar="K=V", help="A limit to change, such as usd=5 or tokens=900000; repeatable."),
]
_From: TypeAlias = Annotated[
    str | None, typer.Option("--from", metavar="STEP", help="Continue in a new run, in which this step is done anew.")
]


def resume(
    run_id: RunId,
    config: Config = None,
    budget: _Budget = None,
    step: _From = None,
    approve: Approve = "ask",
    as_json: Annotated[bool, typer.Option("--json", help="Print one event a line, and nothing else.")] = False,
) -> None:
    """Go on with a run, also with one that has ended.

    What was done is kept, and only what is new is shown. The run is bound to the present settings, and approvals given
    under others are dropped. One that succeeded has nothing left to do but to ask for its answer again.

    With --from, the run stays as it is, and a new one keeps what was paid for before that step: the step, what needs it
    and what was decided after it are done anew, and nothing is approved.
    """
    settings = load(config)

    async def work() -> ExitCode:
        from server.assembly import open_product
        from server.opened_store import open_settings_store

        from .driving import Manner, drive_here

        async with open_settings_store(settings, world=World()) as store:
            run = await store.run(run_id)
            if step is None:
                driven, told = run_id, run.last_seq
                await _reopen(store, run, settings, budget or [])
            else:
                driven, told = await _fork(store, run, settings, step=step, changes=budget or []), 0
        async with open_product(settings, world=World(), adopts=False) as product:
            return await drive_here(product, driven, Manner(approve, as_json, config, told=told))

    run_async(work, settings)


def cancel(
    run_id: RunId,
    config: Config = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the run's record.")] = "cancelled in a terminal",
) -> None:
    """End a run.

    What was done so far is kept, and its answer says what was not.
    """
    settings = load(config, "nothing")

    async def work() -> ExitCode:
        from server.assembly import open_product
        from server.opened_store import open_settings_store
        from server.terminal.follow import follow

        async with open_settings_store(settings, world=World()) as store:
            if not await store.request_cancel(await store.run(run_id), reason):
                typer.echo(f"Run {run_id} has ended, or is being cancelled, already.")
                return ExitCode.OK
            if await _ends_elsewhere(store, run_id):
                return _say_cancelled(run_id)
        async with open_product(settings, world=World(), adopts=False) as product:
            await product.engine.wake(run_id)
            await follow(product.store, run_id, show=lambda now: None)
        return _say_cancelled(run_id)

    run_async(work, settings)


def drive(run_id: RunId, config: Config = None) -> None:
    """Drive a detached run until it ends or waits."""
    settings = load(config)

    async def work() -> ExitCode:
        from server.assembly import open_product
        from server.terminal.exit_codes import code_of_run
        from server.terminal.follow import follow

        async with open_product(settings, world=World(), adopts=False) as product:
            await product.engine.wake(run_id)
            return code_of_run(await follow(product.store, run_id, show=lambda now: None))

    run_async(work, settings)


def changed_budget(options: "JsonObject", changes: list[str]) -> "JsonObject":
    """A run's options with limits changed as typed, `usd=5`. Raises UsageProblem."""
    from pydantic import ValidationError

    from planner.settings import BudgetSettings

    limits: JsonObject = dict(options.get("budget") or BudgetSettings().model_dump())
    for change in changes:
        name, equals, value = change.partition("=")
        if name not in BudgetSettings.model_fields or not equals:
            known = ", ".join(BudgetSettings.model_fields)
            raise UsageProblem(f"--budget {change!r} is no K=V with one of: {known}")
        limits[name] = _number(change, value)
    try:
        return options | {"budget": BudgetSettings.model_validate(limits).model_dump(mode="json")}
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise UsageProblem(f"--budget {problem['loc'][0]}={problem['input']}: {problem['msg']}") from error


def _number(change: str, value: str) -> "Json":
    try:
        number = json.loads(value)
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise UsageProblem(f"--budget {change!r}: the value is no number")
    return number


async def _reopen(store: "Store", run: "Run", settings: "Settings", changes: list[str]) -> None:
    """Let the run go on under these settings and limits. Raises UsageProblem while a living process drives it."""
    from journal.lease import living_now

    is_ours = run.fingerprint == settings.fingerprint
    driver = next((lease for lease in await living_now(store) if lease.id == run.driver), None)
    if driver is not None and not run.ended and (changes or not is_ours):
        raise UsageProblem(
            f"process {driver.pid} with {run.settings_path} drives run {run.id} just now; watch it with "
            f"`runs watch {run.id}`, or end it first with `runs cancel {run.id}`"
        )
    # Before anything is changed: a limit that was mistyped must not cost what the run stands on.
    options = changed_budget(run.options, changes)
    if not is_ours:
        await store.rebind(run, fingerprint=settings.fingerprint, settings_path=_path_text(settings.path))
    if run.ended or changes:
        await store.reopen(run, options=options | {"reopened": int(run.options.get("reopened", 0)) + 1})
    if run.status == "succeeded":
        typer.echo(f"Run {run.id} had ended with success: only its answer is asked for again.", err=True)


async def _fork(store: "Store", run: "Run", settings: "Settings", *, step: str, changes: list[str]) -> str:
    """The id of a new run that goes on from a step of this one. Raises UsageProblem."""
    from journal.archive.fork import NotForked, create_fork, memo_of
    from planner.forking import fork_of

    await store.check_writable(run.id)
    steps, intents = await store.steps(run.id), await store.intents(run.id)
    bound = {"fingerprint": settings.fingerprint, "settings_path": _path_text(settings.path)}
    try:
        fork = fork_of(run, step, await memo_of(store, run.id), steps=steps, intents=intents)
        changed = replace(fork, options=changed_budget(fork.options, changes))
        return await create_fork(store, changed, **bound)
    except NotForked as error:
        raise UsageProblem(str(error)) from error


def _path_text(path: Path | None) -> str:
    return str(path or "the built-in defaults")


async def _ends_elsewhere(store: "Store", run_id: str) -> bool:
    import anyio

    from journal.lease import living_now
    from server.terminal.follow import follow

    if not await living_now(store):
        return False
    with anyio.move_on_after(_CANCEL_SECONDS):
        await follow(store, run_id, show=lambda now: None)
    return (await store.run(run_id)).ended


def _say_cancelled(run_id: str) -> ExitCode:
    typer.echo(f"Run {run_id} is cancelled.")
    return ExitCode.OK
