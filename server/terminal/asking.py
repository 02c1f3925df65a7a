"""Asking the person at the terminal: what is unusual comes first, then every argument, in full and escaped."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import cast

import typer

from downstream.gate.forms import Form
from downstream.gate.prompt_text import argument_lines, escaped
from journal.actions import SAYS_NO, Action, Decision
from journal.values import Json, JsonObject
from server.views.words import duration, one_line

from .filling_in import fill_in, form_lines
from .lines import read_line

AGENT_MARKERS = ("CLAUDECODE", "CODEX_SANDBOX", "CURSOR_AGENT", "GEMINI_CLI", "OPENCODE")
"""Variables that agents set in the shells they use. A clean shell is no proof of a person; a marked one is none."""
LATER = "later"
GRANT = "grant"
"""What a person may say of a plan besides its choices: approve it, and allow calls of it beforehand."""
_FRAME = 78


def nobody_here(environ: Mapping[str, str]) -> str | None:
    """Why no person can be asked at this terminal; None where one can."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "this is no terminal with a person at it (stdin and stdout must both be one)"
    marker = next((name for name in AGENT_MARKERS if environ.get(name)), None)
    return f"this shell belongs to an agent ({marker} is set)" if marker else None


async def ask_decision(
    action: Action, *, now: float, choice: str | None = None, content: Json = None, grants: bool = False
) -> Decision | None:
    """Show the action and take the person's choice, or their yes to the one given; None leaves it waiting.

    A form is filled in here unless `content`, which must fit, comes with the choice. With `grants`, a plan may also be
    answered with GRANT.
    """
    for line in question_lines(action, now=now):
        typer.echo(line)
    also = (GRANT,) if grants and action.kind == "plan" else ()
    if action.level == "passkey":
        typer.echo("A yes takes a passkey, on the page; here you can only say no.")
    if also:
        typer.echo("(Or grant: approve the plan, and say call by call what may run without a question.)")
    if choice is None:
        choice = await _choose(action.choices if action.level != "passkey" else (no_of(action),), also)
    elif not await confirm(f"{choice} it?"):
        choice = None
    try:
        content = await fill_in(action) if choice == "submit" and content is None else content
    except EOFError:
        choice = None
    if choice is None:
        typer.echo("It goes on waiting.")
        return None
    return Decision(choice, "person", "terminal", content=content)


async def confirm(question: str, *, default: bool = False) -> bool:
    """A yes or a no; an empty line is the default, the end of input a no."""
    while True:
        typer.echo(f"{question} [{'Y/n' if default else 'y/N'}] ", nl=False)
        answer = await read_line()
        if answer is None:
            return False
        word = answer.strip().lower()
        if not word:
            return default
        if word in ("y", "yes", "n", "no"):
            return word.startswith("y")


def question_lines(action: Action, *, now: float) -> list[str]:
    """The action as a person must see it before they decide."""
    width = min(_FRAME, shutil.get_terminal_size().columns)
    title, *rest = action.question.splitlines() or [""]
    kind = action.effect or action.kind
    lines = ["", f"── {kind} · needs a yes of level {action.level} ".ljust(width, "─"), escaped(title), ""]
    lines += [f"  ! {escaped(one_line(reason))}" for reason in action.reasons]
    lines += [""] if action.reasons else []
    lines += _arguments(action, shown=rest)
    expires = f" · expires in {duration(action.expires_at - now)}" if action.expires_at else ""
    step = f"step {action.step} · " if action.step else ""
    lines += ["", f"  {step}action {action.id} · {action.hash[:8]}{expires}", "─" * width]
    return lines


def _arguments(action: Action, *, shown: Sequence[str]) -> list[str]:
    """In the question's order, which puts targets first; what it leaves out comes after."""
    given: Json = action.arguments
    if not isinstance(given, dict):
        return [f"  {escaped(line)}" for line in (*shown, json.dumps(given, ensure_ascii=False))]
    arguments = cast("JsonObject", given)
    if action.kind == "form":
        return [*(f"  {escaped(line)}" for line in shown), "", *form_lines(Form(action))]
    whole = {line: name for name in arguments for line in argument_lines({name: arguments[name]})}
    names = [whole[line] for line in shown if line in whole]
    names += [name for name in arguments if name not in names]
    other = [f"  {escaped(line)}" for line in shown if line not in whole and action.kind != "call"]
    column = max((len(escaped(name)) for name in names), default=0)
    lines = [line for name in names for line in _argument(name, arguments[name], column)]
    return [*other, *(lines or ["  (no arguments)"])]


def _argument(name: str, value: Json, column: int) -> list[str]:
    """`name  "value"`; a text of several lines as a block, each of its lines behind a bar."""
    head = f"  {escaped(name):<{column}}  "
    if not (isinstance(value, str) and "\n" in value):
        return _beside(head, [escaped(json.dumps(value, ensure_ascii=False))])
    return _beside(head, [f"│ {escaped(line)}" for line in value.split("\n")])


def _beside(head: str, lines: Sequence[str]) -> list[str]:
    return [f"{head if number == 0 else ' ' * len(head)}{line}" for number, line in enumerate(lines)]


async def _choose(choices: Sequence[str], also: Sequence[str]) -> str | None:
    offered = (*choices, LATER)
    while True:
        typer.echo(f"{', '.join(offered[:-1])} or {LATER}? ", nl=False)
        answer = await read_line()
        if answer is None:
            typer.echo()
            return None
        word = answer.strip().lower()
        choice = word if word in also else _meant(word, choices)
        if choice is not None:
            return None if choice == LATER else choice


def _meant(word: str, choices: Sequence[str]) -> str | None:
    """The choice of a word, of the beginning of one, or of yes and no where there are just these two."""
    if len(choices) == 2 and word in ("y", "yes", "n", "no"):
        return next(choice for choice in choices if (choice in SAYS_NO) == word.startswith("n"))
    if word in choices:
        return word
    fitting = [choice for choice in (*choices, LATER) if word and choice.startswith(word)]
    return fitting[0] if len(fitting) == 1 else None


def no_of(action: Action) -> str:
    """The choice of this action by which nothing happens."""
    return next(choice for choice in action.choices if choice in SAYS_NO)
