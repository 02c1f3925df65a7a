"""Where a run stands, for a person: who drives it, what it waits for or works on, and since when."""

from collections.abc import Callable
from dataclasses import dataclass

from downstream.gate.prompt_text import escaped
from journal.actions import Action
from journal.lease import living_now
from journal.runs import Run
from journal.steps import StepRow
from journal.store import Store
from journal.values import JsonObject

from .action_view import time_text
from .run_view import ActionView, RunView
from .view import needed_settings
from .words import MARKS, duration, ended_as, go_ahead, one_line, steps_done


@dataclass(frozen=True)
class Standing:
    """`driver` is the process that drives it, null where none does; `lease_age` the seconds since its last sign."""

    goal: str
    driver: str | None
    lease_age: float | None
    stands_on: str
    since: str
    for_seconds: float
    origin: JsonObject | None
    """Where the run came from, if it did not begin here: as in `Run`."""
    steps_done: str
    dropped: tuple[str, ...]
    """Steps that a revision took out of the plan."""
    decided: tuple[JsonObject, ...]
    """Decisions that the run has not acted on yet."""
    needs: str | None
    """The settings without which it does not go on; null where a living process has them."""


async def standing_of(store: Store, run_id: str) -> Standing:
    """Raises UnknownId."""
    run, now = await store.run(run_id), store.world.now()
    lease = next((lease for lease in await living_now(store) if lease.id == run.driver), None)
    actions, steps = await store.actions(run_id), await store.steps(run_id)
    text, since = _stands_on(run, steps, actions)
    return Standing(
        goal=store.outlet.text(run.goal),
        driver=None if lease is None or run.ended else f"process {lease.pid} on {lease.host}",
        lease_age=None if lease is None or run.ended else round(now - lease.heartbeat_at, 1),
        stands_on=text,
        since=time_text(since),
        for_seconds=round(now - since, 1),
        origin=run.origin,
        steps_done=steps_done(steps),
        dropped=tuple(step.id for step in steps if step.dropped),
        decided=tuple(_decided(action) for action in actions if _is_new(action) and not run.ended),
        needs=None if run.ended else await needed_settings(store, run),
    )


def standing_lines(view: RunView, standing: Standing, *, how: Callable[[str], str]) -> list[str]:
    """The run as a person reads it; `how` gives a command as it has to be typed."""
    driver = f"{standing.driver}, last sign {standing.lease_age:g} s ago" if standing.driver else "nobody"
    usage = view.usage
    known = "" if usage.cost_known else "at least "
    lines = [
        f"run      {view.run_id}",
        f"goal     {escaped(one_line(standing.goal))}",
        f"status   {ended_as(view.status, view.stop_reason)}",
        *_origin_lines(standing.origin),
        *([] if view.stop_reason else [f"driver   {driver}"]),
        f"stands   {escaped(standing.stands_on)}, since {standing.since} ({duration(standing.for_seconds)})",
        f"taken    {usage.model_calls} model calls, {usage.tool_calls} tool calls, {known}${usage.cost_usd:.4f}, "
        f"{usage.input_tokens + usage.output_tokens} tokens, {usage.seconds:.1f} s at work",
    ]
    lines += _decided_lines(view, standing, how)
    lines += ["", f"steps    {standing.steps_done}"] if view.step_list else []
    for step in view.step_list or []:
        dropped = "(dropped) " if step.id in standing.dropped and step.status != "skipped" else ""
        told = dropped + escaped(one_line(step.summary or step.title))
        lines.append(
            f"  {MARKS[step.status]} {step.id:<16} {step.status:<10} {step.worker or step.kind:<12} {told}".rstrip()
        )
    for action in view.actions:
        lines += _action_lines(action, how)
    lines += [f"! {escaped(warning)}" for warning in view.warnings]
    lines += ["", *map(escaped, view.answer.splitlines())] if view.answer else []
    return lines


def _decided_lines(view: RunView, standing: Standing, how: Callable[[str], str]) -> list[str]:
    """What was decided and is not acted on yet; and, where nobody goes on by themselves, how somebody does."""
    told = [(each["tool"] or each["kind"], each) for each in standing.decided]
    lines = [
        f"decided  {escaped(name)} ({each['action_id']}): {each['choice']}, by {each['via']}, at {each['at']}"
        for name, each in told
    ]
    stuck = standing.needs is not None and standing.driver is None
    if stuck and not view.actions:
        lines.append(f"goes on  once a process with {escaped(str(standing.needs))} is alive, or by:")
        lines.append(f"  {how(f'runs resume {view.run_id}')}")
    return lines


def _is_new(action: Action) -> bool:
    return action.state in ("decided", "withdrawn") and not action.handled


def _decided(action: Action) -> JsonObject:
    return {
        "action_id": action.id,
        "kind": action.kind,
        "step": action.step,
        "tool": action.tool,
        "choice": action.choice,
        "via": action.via,
        "at": time_text(action.decided_at or action.created_at),
    }


def _origin_lines(origin: JsonObject | None) -> list[str]:
    if origin is None:
        return []
    if "import" in origin:
        return [f"origin   imported {time_text(origin['import']['at'])}, read-only"]
    return [f"origin   continues {origin['fork']['run']} from step {origin['fork']['from']}"]


def _stands_on(run: Run, steps: list[StepRow], actions: list[Action]) -> tuple[str, float]:
    running = [step for step in steps if step.status == "running"]
    if run.ended:
        return "ended" if run.stop_reason else "as it was exported", run.ended_at or run.updated_at
    waiting = [action for action in actions if action.state == "waiting"]
    if waiting and not running:
        names = ", ".join(f"{action.tool or action.kind} ({action.id})" for action in waiting)
        return f"on a decision about {names}", min(action.created_at for action in waiting)
    if running:
        names = ", ".join(step.id for step in running)
        return f"on {'step' if len(running) == 1 else 'steps'} {names}", min(step.started_at or 0 for step in running)
    if decided := [action for action in actions if _is_new(action)]:
        names = ", ".join(f"{action.tool or action.kind} ({action.choice})" for action in decided)
        return f"before it acts on what was decided: {names}", max(action.decided_at or 0 for action in decided)
    return ("on its plan" if run.status == "planning" else "before its next step"), run.updated_at


def _action_lines(action: ActionView, how: Callable[[str], str]) -> list[str]:
    name = escaped(action.tool or action.kind)
    head = f"waits    {name} ({action.kind}, level {action.level}): {' or '.join(action.choices)}"
    lines = ["", head, *(f"  ! {escaped(one_line(reason))}" for reason in action.reasons)]
    yes = go_ahead(action, action.action_id)
    return [*lines, f"  {how(yes)}", f"  {how(f'deny {action.action_id}')}"]
