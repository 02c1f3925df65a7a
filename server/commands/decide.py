"""`approvals`, `approve` and `deny`: what waits, and a person's word on it."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from journal.world import World
from server.terminal.exit_codes import ExitCode, UsageProblem

from .opening import load, run_async, typed
from .options import ActionId, AsJson, Config

if TYPE_CHECKING:
    from journal.actions import Action, Decision
    from journal.store import Store
    from journal.values import JsonObject
    from server.settings import Settings


def approvals(config: Config = None, as_json: AsJson = False) -> None:
    """List what waits for a decision."""
    settings = load(config, "secrets")

    async def work() -> ExitCode:
        from server.opened_store import open_settings_store
        from server.views.action_view import without_secrets

        async with open_settings_store(settings, world=World()) as store:
            waiting = [without_secrets(action, store.outlet) for action in await store.waiting_actions()]
            if as_json:
                typer.echo(
                    json.dumps({"actions": await _as_json(store, waiting, settings, config)}, ensure_ascii=False)
                )
            else:
                _list(waiting, config, store.world.now())
        return ExitCode.OK

    run_async(work, settings)


def approve(
    action_id: ActionId,
    choice: Annotated[
        str | None, typer.Option("--choice", metavar="X", help="Which of the action's choices; asked for if left out.")
    ] = None,
    content: Annotated[
        str | None,
        typer.Option("--content", metavar="JSON", help="For a form, with --choice submit: its fields as an object."),
    ] = None,
    config: Config = None,
) -> None:
    """Decide an action, as a person at a terminal.

    Shows exactly what will happen, then asks. A decision of this command is a person's, so it refuses where nobody is.
    """
    _decide(_Word(action_id, choice, config, asks=True, content=content))


def deny(action_id: ActionId, config: Config = None) -> None:
    """Say no to an action.

    Nothing happens by it, and its run goes on without.
    """
    _decide(_Word(action_id, None, config, asks=False))


@dataclass(frozen=True)
class _Word:
    """What was typed; `asks` shows the action and asks, else the answer is no."""

    action_id: str
    choice: str | None
    config: Path | None
    asks: bool
    content: str | None = None


def _decide(word: _Word) -> None:
    settings = load(word.config, "secrets" if word.asks else "nothing")

    async def work() -> ExitCode:
        from server.opened_store import open_settings_store
        from server.terminal.granting import with_grants
        from server.views.action_view import without_secrets

        _refuse_unseen(word)
        async with open_settings_store(settings, world=World()) as store:
            action = await store.action(word.action_id)
            await store.check_writable(action.run)
            # Grants hold under the settings that they were given under.
            is_bound = (await store.run(action.run)).fingerprint == settings.fingerprint
            grantable = is_bound and not settings.gaps
            decision = await _decision(without_secrets(action, store.outlet), word, store.world.now(), grants=grantable)
            if decision is None:
                return ExitCode.WAITING
            is_ours = await _takes_over(store, action.run, settings)
            decision, grants = await with_grants(settings, store, action, decision)
            await store.decide(action, decision, grants=grants)
            if not is_ours:
                await _say_who_goes_on(store, action.run, word.config)
                return ExitCode.OK
        return await _drive(settings, action.run, word.config)

    run_async(work, settings)


async def _decision(action: "Action", word: _Word, now: float, *, grants: bool) -> "Decision | None":
    from journal.actions import Decision
    from server.terminal.asking import ask_decision, no_of, nobody_here
    from server.terminal.filling_in import given_content

    _refuse_early(action, word)
    content = given_content(action, word.choice, word.content)
    if not word.asks:
        return Decision(no_of(action), "person", "flag" if nobody_here(os.environ) else "terminal")
    return await ask_decision(action, now=now, choice=word.choice, content=content, grants=grants)


def _refuse_unseen(word: _Word) -> None:
    """Raises UsageProblem where a person is to be asked and none is here."""
    from server.terminal.asking import nobody_here

    if word.asks and (why := nobody_here(os.environ)) is not None:
        raise UsageProblem(
            f"approve needs a person at a terminal, and {why}; saying no works everywhere: deny {word.action_id}"
        )


def _refuse_early(action: "Action", word: _Word) -> None:
    """Raises UsageProblem before a person is asked for nothing."""
    from journal.actions import SAYS_NO

    choice = word.choice
    if action.state != "waiting":
        state = "decided" if action.state == "consumed" else action.state
        past = f"{state} ({action.choice})" if action.choice else state
        raise UsageProblem(f"action {action.id} is {past} already; runs show {action.run} tells how it went on")
    if choice is not None and choice not in action.choices:
        raise UsageProblem(f"action {action.id} has no choice {choice!r}; it has: {', '.join(action.choices)}")
    if word.asks and action.level == "passkey" and choice not in SAYS_NO:
        from server.installed import Spoken, installed_command
        from server.views.action_view import how_to_decide

        how = how_to_decide(action, Spoken(installed_command(), word.config))
        raise UsageProblem(f"a terminal cannot take a yes to action {action.id}. {how}")


async def _takes_over(store: "Store", run_id: str, settings: "Settings") -> bool:
    """Whether this process is to drive the run because no living one can, as the person at the terminal wants.

    Binds the run to the present settings: before the decision, since that drops decisions made until then.
    """
    from server.terminal.asking import confirm, nobody_here
    from server.views.view import needed_settings

    run = await store.run(run_id)
    if settings.gaps:
        return False
    if run.ended or await needed_settings(store, run) is None or nobody_here(os.environ) is not None:
        return False
    is_other = run.fingerprint != settings.fingerprint
    bound = f", bound to the present settings instead of {run.settings_path}" if is_other else ""
    if not await confirm(f"No living process can go on with the run. Drive it here{bound}?", default=not is_other):
        return False
    if is_other:
        path = str(settings.path or "the built-in defaults")
        await store.rebind(run, fingerprint=settings.fingerprint, settings_path=path)
    return True


async def _say_who_goes_on(store: "Store", run_id: str, config: Path | None) -> None:
    from server.views.view import needed_settings

    run = await store.run(run_id)
    if run.ended:
        typer.echo(f"Recorded. Run {run_id} has ended, so nothing is sent.")
    elif (needed := await needed_settings(store, run)) is None:
        typer.echo(f"Recorded. A living process goes on with run {run_id}.")
    else:
        typer.echo(f"Recorded. Run {run_id} goes on once a process with {needed} is alive, or by:")
        typer.echo(f"  {typed(f'runs resume {run_id}', config)}")


async def _drive(settings: "Settings", run_id: str, config: Path | None) -> ExitCode:
    from server.assembly import open_product

    from .driving import Manner, drive_here

    async with open_product(settings, world=World(), adopts=False) as product:
        return await drive_here(product, run_id, Manner(config=config))


async def _as_json(
    store: "Store", waiting: "list[Action]", settings: "Settings", config: Path | None
) -> "list[JsonObject]":
    from server.installed import Spoken, installed_command
    from server.views.view import run_view

    shown: list[JsonObject] = []
    for run_id in dict.fromkeys(action.run for action in waiting):
        vouched = settings.approvals.approve_action == "host"
        view = await run_view(store, run_id, spoken=Spoken(installed_command(), config), vouched=vouched)
        shown += [{"run_id": run_id, **action.model_dump(mode="json")} for action in view.actions]
    return shown


def _list(waiting: "list[Action]", config: Path | None, now: float) -> None:
    from server.terminal.asking import question_lines
    from server.views.words import go_ahead

    for action in waiting:
        for line in question_lines(action, now=now):
            typer.echo(line)
        yes = typed(go_ahead(action, action.id), config)
        typer.echo(f"  run {action.run}\n  {yes}")
    if not waiting:
        typer.echo("Nothing waits for a decision.")
