"""`steprelay plan`: plans a goal and prints the plan, for a person to read, change and give to `run --plan`."""

from io import StringIO
from typing import TYPE_CHECKING, Any

import typer

from journal.world import World
from server.terminal.exit_codes import ExitCode, UsageProblem

from .opening import load, run_async
from .options import Config, Output
from .run import Context, Goal, new_request

if TYPE_CHECKING:
    from journal.values import JsonObject


def plan(goal: Goal, config: Config = None, context: Context = None, output: Output = None) -> None:
    """Plan a goal and print the plan as YAML.

    Nothing of it is run. `steprelay run GOAL --plan FILE` follows it, also after you changed it.
    """
    request, settings = new_request(goal, context), load(config)

    async def work() -> ExitCode:
        from server.assembly import open_product
        from server.plan_only import make_plan

        async with open_product(settings, world=World(), adopts=False) as product:
            text = as_yaml(await make_plan(product, request.goal, request.context))
        if output is None:
            typer.echo(text, nl=False)
            return ExitCode.OK
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageProblem(f"{output} cannot be written: {error.strerror}; name another file") from error
        return ExitCode.OK

    run_async(work, settings)


def as_yaml(data: "JsonObject") -> str:
    """The data as YAML 1.2, keys in their order, texts of several lines as blocks."""
    from ruamel.yaml import YAML

    yaml: Any = YAML(typ="rt")
    yaml.width = 100
    yaml.representer.add_representer(str, _represented)
    text = StringIO()
    yaml.dump(data, text)
    return text.getvalue()


def _represented(representer: Any, text: str) -> Any:
    style = "|" if "\n" in text else None
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)
