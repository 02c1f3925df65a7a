"""What a person reads when a run has ended, or waits: the answer, what it cost, and what they can do."""

import os
import sys
from collections.abc import Callable

import typer

from downstream.gate.prompt_text import escaped
from server.terminal.follow import Snapshot
from server.views.words import cost, counted, ended_as, go_ahead, is_about_servers, steps_done, tokens


def tell_end(now: Snapshot, *, how: Callable[[str], str]) -> None:
    """Print the end of a run, or what it waits for; `how` gives a command as it has to be typed."""
    run = now.run
    typer.echo()
    if run.ended:
        _tell_answer(run.answer or "")
        # What is missing first: other warnings may be its consequences.
        for warning in sorted(run.warnings, key=lambda text: not is_about_servers(text)):
            typer.echo(f"! {escaped(warning)}")
    typer.secho(_verdict(now), bold=True)
    if run.message and run.message != run.answer:
        typer.echo(escaped(run.message))
    for action in now.actions:
        typer.echo(f"{escaped(action.tool or action.kind)} waits for a decision of level {action.level}:")
        typer.echo(f"  {how(go_ahead(action, action.id))}")
        typer.echo(f"  {how(f'deny {action.id}')}")


def _tell_answer(answer: str) -> None:
    lines = "\n".join(escaped(line) for line in answer.splitlines())
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        from rich.console import Console
        from rich.markdown import Markdown

        # Links are written out, so that a text cannot lead elsewhere than it says.
        Console().print(Markdown(lines, hyperlinks=False))
    else:
        typer.echo(lines)
    typer.echo()


def _verdict(now: Snapshot) -> str:
    run, usage = now.run, now.usage
    state = ended_as(run.status.replace("_", " "), run.stop_reason)
    parts = [
        steps_done(now.steps),
        counted(usage.model_calls, "model call"),
        counted(usage.tool_calls, "tool call"),
        tokens(usage),
        cost(usage),
        f"{usage.seconds:.1f} s at work",
    ]
    return f"{run.id} {state}: {' · '.join(parts)}"
