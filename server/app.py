"""The command `steprelay`: builds the command line. Everything heavy is imported by the command that needs it."""

import io
import sys
from typing import Annotated, TypeAlias

import typer

from journal.errors import SteprelayError

from .commands import (
    approver,
    audit,
    config,
    decide,
    demo,
    doctor,
    init,
    plan,
    policy,
    run,
    runs,
    runs_change,
    runs_prune,
    runs_replay,
    runs_transfer,
    serve,
    servers,
    servers_trust,
    tool_server,
    ui,
)
from .terminal.exit_codes import code_of_error


def main() -> None:
    """The console entry. Ends the process with one of the exit codes of `exit_codes`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a character must not end a run.
            stream.reconfigure(errors="backslashreplace")
    try:
        build_app()()
    except SteprelayError as error:
        sys.stderr.write(f"steprelay: {error}\n")
        sys.exit(code_of_error(error))


def build_app() -> typer.Typer:
    """All commands there are; what is not built is not here."""
    app = _group("Plans and runs multi-step work over your own MCP servers, and asks before anything risky.")
    app.callback()(_top)
    app.command("serve")(serve.serve)
    app.command("run")(run.run)
    app.command("plan")(plan.plan)
    app.command("demo")(demo.demo)
    app.command("init")(init.init)
    app.command("doctor")(doctor.doctor)
    app.add_typer(_runs(), name="runs")
    app.add_typer(_servers(), name="servers")
    app.command("approvals")(decide.approvals)
    app.command("approve")(decide.approve)
    app.command("deny")(decide.deny)
    app.command("ui")(ui.ui)
    app.add_typer(_approver(), name="approver")
    app.add_typer(_audit(), name="audit")
    app.add_typer(_policy(), name="policy")
    app.add_typer(_config(), name="config")
    app.add_typer(_tool_server(), name="tool-server")
    return app


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"steprelay {version('steprelay')}")
        raise typer.Exit


_Version: TypeAlias = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Say the version and end.")
]


def _top(version: _Version = False) -> None: ...


def _runs() -> typer.Typer:
    group = _group("List, show, watch, resume, cancel, export, import and prune runs.")
    group.command("list")(runs.list_)
    group.command("show")(runs.show)
    group.command("watch")(runs.watch)
    group.command("resume")(runs_change.resume)
    group.command("cancel")(runs_change.cancel)
    group.command("export")(runs_transfer.export)
    group.command("import")(runs_transfer.import_)
    group.command("replay")(runs_replay.replay)
    group.command("prune")(runs_prune.prune)
    group.command("drive", hidden=True)(runs_change.drive)
    return group


def _servers() -> typer.Typer:
    group = _group("The tool servers of the settings: what they offer, and logins.")
    group.command("list")(servers.list_)
    group.command("tools")(servers.tools)
    group.command("trust")(servers_trust.trust)
    group.command("login")(servers.login)
    group.command("logout")(servers.logout)
    return group


def _approver() -> typer.Typer:
    group = _group("Who approves on the page.")
    group.command("init")(approver.init)
    return group


def _audit() -> typer.Typer:
    group = _group("The record of every decision and every call with an effect: check it, write it out.")
    group.command("verify")(audit.verify)
    group.command("export")(audit.export)
    return group


def _policy() -> typer.Typer:
    group = _group("What the policy of the settings says of calls.")
    group.command("explain")(policy.explain)
    group.command("test")(policy.hold_to)
    return group


def _config() -> typer.Typer:
    group = _group("Which settings are used, and what they may hold.")
    group.command("schema")(config.schema)
    group.command("show")(config.show)
    group.command("path")(config.path)
    group.command("trust")(config.trust)
    return group


def _tool_server() -> typer.Typer:
    group = _group("The bundled tool servers, for any MCP client.")
    group.command("notes")(tool_server.notes)
    group.command("code")(tool_server.code)
    group.command("outbox")(tool_server.outbox)
    return group


def _group(text: str) -> typer.Typer:
    return typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
