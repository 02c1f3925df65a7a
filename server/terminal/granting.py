"""Asking the person at the terminal for grants, one call at a time, with every argument."""

import json
from collections.abc import Sequence
from dataclasses import replace

import typer
from pydantic import ValidationError

from downstream.gate.grants import CONDITIONS, covers, exactly
from downstream.gate.prompt_text import argument_lines, escaped
from downstream.policy_settings import Matcher
from downstream.servers.catalogue import remembered_tools
from journal.actions import Action, Decision
from journal.grants import Grant
from journal.store import Store
from journal.values import Json, JsonObject
from server.granting import Granter, Life, NotOffered, Offer, grant_of, plan_digest
from server.settings import Settings
from server.settings_file.located import TextError, is_map
from server.settings_file.yaml_text import read_yaml
from server.views.words import counted, one_line

from .asking import GRANT, confirm
from .lines import read_line

_WAY = f"a condition, one of {', '.join(CONDITIONS)}, such as `prefix: Report` or `one_of: [a, b]`"


async def ask_grants_of(settings: Settings, store: Store, steps: Json, *, goal: str, life: Life) -> list[Grant]:
    """Show each call of a plan that would be asked about, and take the person's word on it."""
    tools = await remembered_tools(store.remembered, settings.servers)
    grants: list[Grant] = []
    for offer in Granter.of(settings, tools, store.outlet).offers(steps, goal=goal):
        if isinstance(offer, NotOffered):
            typer.echo(f"\nStep {offer.step}: {escaped(offer.tool)} can't be granted: {offer.why}. It will be asked.")
        elif (conditions := await _ask(offer, life)) is not None:
            grants.append(grant_of(offer, conditions, plan=plan_digest(steps), life=life, world=store.world))
    typer.echo(f"\n{counted(len(grants), 'call')} granted.")
    return grants


async def with_grants(
    settings: Settings, store: Store, action: Action, decision: Decision
) -> tuple[Decision, Sequence[Grant]]:
    """The decision; where it was to grant, the yes to a plan with what the person then grants of it.

    The two are to be recorded together: a grant without its yes must not stand.
    """
    if decision.choice != GRANT:
        return decision, ()
    run = await store.run(action.run)
    steps: Json = action.arguments["steps"]
    grants = await ask_grants_of(settings, store, steps, goal=run.goal, life=Life())
    return replace(decision, choice="approve"), grants


async def _ask(offer: Offer, life: Life) -> JsonObject | None:
    """The conditions that the person grants it under; None without a grant."""
    typer.echo(
        f"\nStep {offer.step}: {escaped(one_line(offer.title))}\n{escaped(offer.tool.full_name)} ({offer.tool.class_})"
    )
    for line in argument_lines(offer.arguments, offer.first):
        typer.echo(f"  {line}")
    for name in offer.filled:
        typer.echo(f"  {escaped(json.dumps(name, ensure_ascii=False))}: comes from another step, and is not known yet")
    often = f"{'once' if life.uses == 1 else f'in {life.uses} runs'}, within {counted(life.days, 'day')}"
    if offer.filled:
        if not await confirm(f"Grant it, {often}, if what is not known meets conditions that you write?"):
            return None
        return await _edited(offer)
    while True:
        typer.echo(f"Grant it, {often}, with exactly these arguments? yes, no or edit? ", nl=False)
        word = ((await read_line()) or "no").strip().lower()
        if word and "yes".startswith(word):
            return exactly(offer.arguments)
        if word and "edit".startswith(word):
            return await _edited(offer)
        if word and "no".startswith(word):
            return None


async def _edited(offer: Offer) -> JsonObject | None:
    typer.echo(f"For each argument write {_WAY}; nothing: exactly what stands there.")
    conditions: JsonObject = {}
    for name in (*offer.arguments, *offer.filled):
        if (condition := await _condition(offer, name)) is None:
            return None
        conditions[name] = condition
    for name, condition in conditions.items():
        (kind, wanted), *_ = condition.items()
        typer.echo(escaped(f"  {name} {kind} {json.dumps(wanted, ensure_ascii=False)}"))
    return conditions if await confirm("Grant it for any arguments that are like this?") else None


async def _condition(offer: Offer, name: str) -> JsonObject | None:
    """The condition for one argument; None at the end of input."""
    known = name in offer.arguments
    while True:
        typer.echo(f"{escaped(name)}: ", nl=False)
        if (line := await read_line()) is None:
            return None
        if not line.strip() and known:
            return {"equals": offer.arguments[name]}
        condition = _read(line)
        if condition is None:
            typer.echo(f"That is not {_WAY}.")
        elif known and not covers({name: condition}, {name: offer.arguments[name]}):
            typer.echo("What stands in the plan does not meet this.")
        else:
            return condition


def _read(line: str) -> JsonObject | None:
    try:
        data = read_yaml(line).data
        if not is_map(data) or len(data) != 1 or not set(data) <= set(CONDITIONS):
            return None
        Matcher.model_validate_json(json.dumps(data))
    except (TextError, ValidationError):
        return None
    return data
