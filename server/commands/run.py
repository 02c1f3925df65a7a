"""`steprelay run`: a goal from the command line, driven here or handed over."""

import json
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from journal.world import World, new_id
from server.terminal.exit_codes import ExitCode, UsageProblem

from .opening import load, run_async
from .options import Approve, Config

if TYPE_CHECKING:
    from journal.values import JsonObject
    from server.product import Product, Request
    from server.settings import Settings

    from .driving import Manner

Goal = Annotated[
    str, typer.Argument(metavar="GOAL", help="What is to be achieved, in plain words.", show_default=False)
]
Context = Annotated[
    Path | None,
    typer.Option("--context", metavar="FILE", help="A file with what the planner should know; - reads stdin."),
]
_LONGEST_GOAL, _LONGEST_CONTEXT = 20_000, 200_000


# Typer reads a command's options from its parameters.
def run(  # noqa: PLR0913
    goal: Goal,
    config: Config = None,
    context: Context = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help='Follow this plan, {"steps": […]} in JSON or YAML.'),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one event a line, and nothing else.")] = False,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach",
            help="Print the run's id (with --json its first event) and leave the run to a process in the background.",
        ),
    ] = False,
    approve: Approve = "ask",
    grants: Annotated[
        Path | None,
        typer.Option("--grants", metavar="FILE", help="Follow the plan in this file, with the calls granted in it."),
    ] = None,
) -> None:
    """Reach a goal in several steps.

    Ctrl-C leaves the run as it is; `steprelay runs resume ID` goes on with it.
    """
    from .driving import Manner

    if detach and approve != "ask":
        raise UsageProblem(
            "--approve decides in this terminal, and --detach leaves the run to another process; leave one of them out"
        )
    manner = Manner(approve, as_json, config)
    request = replace(new_request(goal, context), interactive=manner.asks and not detach)
    if plan is not None or grants is not None:
        # A key of its own, so that the same goal with another plan is another run.
        request = replace(with_plan(request, plan, grants), idempotency_key=new_id("k"))
    settings = load(config)
    work = partial(_hand_over if detach else _drive, settings, request, manner)
    run_async(work, settings)


async def _drive(settings: "Settings", request: "Request", manner: "Manner") -> ExitCode:
    from server.assembly import open_product

    from .driving import drive_here

    async with open_product(settings, world=World(), adopts=False) as product:
        request = await _checked(product, request)
        return await drive_here(product, await product.start(request), manner)


async def _hand_over(settings: "Settings", request: "Request", manner: "Manner") -> ExitCode:
    from server.assembly import open_product

    from .detached import hand_over

    if request.plan is not None:
        async with open_product(settings, world=World(), adopts=False) as product:
            request = await _checked(product, request)
    created = await hand_over(settings, request)
    typer.echo(json.dumps(created.to_json(), ensure_ascii=False) if manner.as_json else created.run)
    return ExitCode.OK


async def _checked(product: "Product", request: "Request") -> "Request":
    """The request, having said which of its grants no call of its plan can use, with a warning of each for the run.

    Raises PlanError with everything that is wrong with the plan that came with the request.
    """
    if request.plan is None:
        return request
    await product.check(request.plan)
    if not request.grants:
        return request
    from downstream.gate.prompt_text import escaped
    from downstream.servers.catalogue import remembered_tools
    from server.granting import Granter

    tools = await remembered_tools(product.store.remembered, product.settings.servers)
    granter = Granter.of(product.settings, tools, product.store.outlet)
    unfit = granter.unfit(request.plan["steps"], request.grants)
    for text in unfit:
        typer.echo(f"! {escaped(product.store.outlet.text(text))}", err=True)
    return replace(request, warnings=(*request.warnings, *unfit))


def new_request(goal: str, context: Path | None) -> "Request":
    """What was typed, checked. Raises UsageProblem."""
    from server.host.depth import depth_of
    from server.product import Request

    if not goal.strip():
        raise UsageProblem("the goal is empty; say what is to be achieved")
    if len(goal) > _LONGEST_GOAL:
        raise UsageProblem(
            f"the goal has {len(goal):,} characters, at most {_LONGEST_GOAL:,} are taken; put the rest into --context"
        )
    return Request(
        goal=goal, context="" if context is None else _context(context), goal_label="user", depth=depth_of(os.environ)
    )


def with_plan(request: "Request", plan: Path | None, grants: Path | None) -> "Request":
    """The request with the plan that one of these files holds, and the grants. Raises UsageProblem."""
    if grants is None:
        return request if plan is None else replace(request, plan=read_plan(plan))
    from journal.canonical import digest
    from server.grant_file import read_grant_file

    file = read_grant_file(grants)
    if plan is not None and digest(read_plan(plan)["steps"]) != digest(file.plan["steps"]):
        raise UsageProblem(f"{plan} is another plan than the one that {grants} grants calls of; leave --plan out")
    return replace(request, plan=file.plan, grants=file.grants)


def read_plan(path: Path) -> "JsonObject":
    """The plan in a file. Raises UsageProblem where it holds none; whether it fits is seen once servers are known."""
    from server.settings_file.document import SettingsError, read_document

    told = 'a plan is a map with its steps, {"steps": […]}; `steprelay plan` writes one'
    try:
        located = read_document(path, otherwise=told)
    except SettingsError as error:
        raise UsageProblem(str(error)) from error
    for place, line in located.repeated:
        raise UsageProblem(f"{path}:{line}: {place[-1]!r} stands twice; keep one")
    data: JsonObject = located.data
    if not isinstance(data.get("steps"), list):
        raise UsageProblem(f"{path}: {told}")
    return data


def _context(path: Path) -> str:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageProblem(f"{path}: the context cannot be read: {why}") from error
    if len(text) > _LONGEST_CONTEXT:
        raise UsageProblem(f"{path}: the context has {len(text):,} characters, at most {_LONGEST_CONTEXT:,} are taken")
    return text
