"""`steprelay plan`: plans a goal and prints the plan, for a person to read, change and give to `run --plan`."""

import json
import os
import re
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from journal.world import World
from server.terminal.exit_codes import ExitCode, UsageProblem

from .opening import load, run_async
from .options import Config, Output
from .run import Context, Goal, new_request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from journal.values import JsonObject
    from server.product import Product


# Typer reads a command's options from its parameters.
def plan(  # noqa: PLR0913
    goal: Goal,
    config: Config = None,
    context: Context = None,
    output: Output = None,
    grant: Annotated[
        bool, typer.Option("--grant", help="Ask, call by call, what may run without a question; needs -o FILE.")
    ] = False,
    uses: Annotated[int, typer.Option(min=1, max=1000, help="With --grant: in how many runs each may be used.")] = 1,
    days: Annotated[int, typer.Option(min=1, max=365, help="With --grant: after how many days they expire.")] = 7,
) -> None:
    """Plan a goal and print the plan as YAML.

    Nothing of it is run. `steprelay run GOAL --plan FILE` follows it, also after you changed it; with --grant,
    `steprelay run GOAL --grants FILE` does, as long as nobody changed it.
    """
    if grant:
        _refuse_unseen(output)
    request, settings = new_request(goal, context), load(config)

    async def work() -> ExitCode:
        from server.assembly import open_product
        from server.plan_only import make_plan

        async with open_product(settings, world=World(), adopts=False) as product:
            made = await make_plan(product, request.goal, request.context)
            _warn(made.warnings)
            data = await _with_grants(product, made.plan, goal=goal, uses=uses, days=days) if grant else made.plan
        text = as_text(data, output)
        if output is None:
            typer.echo(text, nl=False)
            return ExitCode.OK
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageProblem(f"{output} cannot be written: {error.strerror}; name another file") from error
        return ExitCode.OK

    run_async(work, settings)


def _warn(warnings: "Iterable[str]") -> None:
    """On stderr: stdout is for the plan."""
    from downstream.gate.prompt_text import escaped

    for warning in warnings:
        typer.echo(f"! {escaped(warning)}", err=True)


def _refuse_unseen(output: Path | None) -> None:
    """Raises UsageProblem where grants could not be asked for, or not kept."""
    from server.terminal.asking import nobody_here

    if output is None:
        raise UsageProblem("--grant needs -o FILE, a file for the plan and its grants")
    if (why := nobody_here(os.environ)) is not None:
        raise UsageProblem(f"--grant needs a person at a terminal, and {why}; leave it out")


async def _with_grants(product: "Product", plan: "JsonObject", *, goal: str, uses: int, days: int) -> "JsonObject":
    from server.grant_file import GrantFile, sealed
    from server.granting import Life
    from server.terminal.granting import ask_grants_of

    grants = await ask_grants_of(product.settings, product.store, plan["steps"], goal=goal, life=Life(uses, days))
    return sealed(GrantFile(plan, tuple(grants)))


def as_text(data: "JsonObject", path: Path | None) -> str:
    """The data for a file of this name, such that reading it gives back every letter."""
    from server.settings_file.yaml_text import read_yaml

    if path is None or path.suffix not in (".json", ".jsonc"):
        text = as_yaml(data)
        if read_yaml(text).data == data:
            return text
    # YAML reads it too, once there is nothing in it that it takes for the end of a line.
    text = json.dumps(data, ensure_ascii=False, indent=2) + "\n"
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found.group()):04x}", text)


def as_yaml(data: "JsonObject") -> str:
    """The data as YAML 1.2, keys in their order, texts of several lines as blocks."""
    from ruamel.yaml import YAML

    yaml: Any = YAML(typ="rt")
    yaml.width = 100
    yaml.representer.add_representer(str, _represented)
    yaml.representer.ignore_aliases = _is_written_out
    text = StringIO()
    yaml.dump(data, text)
    return text.getvalue()


def _is_written_out(data: object) -> bool:
    """Also where it stands twice: anchors are not read."""
    return True


def _represented(representer: Any, text: str) -> Any:
    style = "|" if "\n" in text else None
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)
