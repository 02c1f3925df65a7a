"""Filling in a tool server's form at the terminal, field by field: nothing is filled in for the person."""

import json

import typer

from downstream.gate.form_fields import ContentUnfit, Field
from downstream.gate.forms import Form, checked_content, field_line
from downstream.gate.prompt_text import escaped
from journal.actions import Action
from journal.values import Json

from .exit_codes import UsageProblem
from .lines import read_line


async def fill_in(action: Action) -> Json:
    """What the person typed, which fits; None where an address was to be opened. Raises EOFError where nobody types."""
    content: dict[str, Json] = {field.name: await _ask(field) for field in Form(action).fields}
    return checked_content(action, "submit", content or None)


async def _ask(field: Field) -> Json:
    while True:
        typer.echo(f"{escaped(field_line(field))}\n  {field.name}: ", nl=False)
        typed = await read_line()
        if typed is None:
            raise EOFError
        text = typed.rstrip("\r\n")
        if not text and not field.required:
            return None
        value = _read(field, text)
        if field.fits(value):
            return value
        typer.echo(f"  It takes {escaped(field.takes)}.")


def _read(field: Field, text: str) -> Json:
    """The text as the kind of value that the field holds; what is none of that kind stays a text."""
    match field.kind:
        case "text" | "choice":
            return text
        case "choices":
            return [each.strip() for each in text.split(",")] if text.strip() else []
        case "boolean":
            return {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}.get(
                text.strip().lower(), text
            )
        case _:
            try:
                number: Json = json.loads(text)
            except ValueError:
                return text
            return number


def given_content(action: Action, choice: str | None, typed: str | None) -> Json:
    """What `--content` says. Raises UsageProblem where that is nothing for this action and choice."""
    if typed is None:
        return None
    if action.kind != "form" or choice != "submit":
        raise UsageProblem("--content goes with --choice submit, for an action of kind form")
    try:
        return checked_content(action, choice, json.loads(typed))
    except ValueError as error:
        raise UsageProblem(f"--content is no JSON: {error}") from error
    except ContentUnfit as error:
        raise UsageProblem(f"--content: {error}") from error


def form_lines(form: Form) -> list[str]:
    """The fields as they are shown before anything is decided."""
    return [f"  {escaped(field_line(field))}" for field in form.fields]
