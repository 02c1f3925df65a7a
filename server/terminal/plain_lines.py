"""A run as plain lines, one for each thing that happened: for pipes, logs and terminals that can't do more."""

from collections.abc import Callable
from typing import TypeAlias

import typer

from downstream.gate.prompt_text import escaped
from journal.events import Event
from journal.values import JsonObject
from server.views.words import MARKS, is_about_servers, one_line

from .follow import Snapshot

_WIDTH = 160

Told: TypeAlias = list[str]


def show_lines(now: Snapshot) -> None:
    """Write what came since the last look."""
    titles = {step.id: step.title for step in now.steps}
    for event in now.events:
        tell = _TELL.get(event.type)
        for line in tell(event, titles) if tell else ():
            typer.echo(line)


def _line(mark: str, name: str, text: str) -> str:
    told = escaped(" ".join(text.splitlines()))
    whole = f"{mark} {escaped(name):<16} {told}".rstrip()
    return whole if len(whole) <= _WIDTH else f"{whole[: _WIDTH - 1]}…"


def _created(event: Event, titles: dict[str, str]) -> Told:
    return [_line("●", "run", event.run), _line(" ", "goal", str(event.data.get("goal", "")))]


def _accepted(event: Event, titles: dict[str, str]) -> Told:
    steps: list[JsonObject] = event.data.get("steps", [])
    lines = [_line("●", "plan", f"{len(steps)} {'step' if len(steps) == 1 else 'steps'}")]
    for step in steps:
        needs = ", ".join(step.get("needs") or ())
        after = f" (after {needs})" if needs else ""
        lines.append(_line(" ", f"  {step['id']}", f"{step['kind']:<8} {step.get('title') or ''}{after}"))
    return lines


def _rejected(event: Event, titles: dict[str, str]) -> Told:
    return [_line("✘", "plan", f"sent back: {error}") for error in event.data.get("errors", [])]


def _started(event: Event, titles: dict[str, str]) -> Told:
    step = event.step or ""
    return [_line("▶", step, titles.get(step) or str(event.data.get("kind", "")))]


def _ended(event: Event, titles: dict[str, str]) -> Told:
    status = str(event.data.get("status"))
    summary = one_line(str(event.data.get("summary") or ""))
    told = summary if status == "succeeded" and summary else f"{status}: {summary}" if summary else status
    return [_line(MARKS.get(status, " "), event.step or "", told)]


def _called(event: Event, titles: dict[str, str]) -> Told:
    data = event.data
    came = "ok" if data.get("ok") else "failed"
    cached = ", from the cache" if data.get("cached") else ""
    return [_line(" ", event.step or "", f"{data.get('tool')} {came}{cached}")]


def _waiting(event: Event, titles: dict[str, str]) -> Told:
    data = event.data
    name = data.get("tool") or data.get("kind")
    return [_line("‖", event.step or "run", f"{name} waits for a decision of level {data.get('level')}")]


def _decided(event: Event, titles: dict[str, str]) -> Told:
    data = event.data
    return [_line("●", event.step or "run", f"{data.get('choice')}, by {data.get('via')}, level {data.get('level')}")]


def _revised(event: Event, titles: dict[str, str]) -> Told:
    data = event.data
    added: list[JsonObject] = data.get("add") or []
    names = [*(f"-{step}" for step in data.get("drop") or ()), *(f"+{step['id']}" for step in added)]
    changes = f" ({' '.join(names)})" if names else ""
    return [_line("↻", "plan", f"{data.get('decision')}{changes}: {data.get('reason') or ''}")]


def _warned(event: Event, titles: dict[str, str]) -> Told:
    """Only what explains the lines that follow; all warnings are told at the end."""
    text = str(event.data.get("text"))
    return [_line("!", "tools", text)] if is_about_servers(text) else []


def _budget(event: Event, titles: dict[str, str]) -> Told:
    data = event.data
    return [
        _line("✘", event.step or "budget", f"{data.get('limit')} used up: {data.get('used')} of {data.get('allowed')}")
    ]


_TELL: dict[str, Callable[[Event, dict[str, str]], Told]] = {
    "run.created": _created,
    "plan.accepted": _accepted,
    "plan.rejected": _rejected,
    "step.started": _started,
    "step.ended": _ended,
    "call.ended": _called,
    "action.waiting": _waiting,
    "action.decided": _decided,
    "revision.made": _revised,
    "budget.refused": _budget,
    "warning": _warned,
}
