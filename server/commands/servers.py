"""`steprelay servers`: which tool servers there are, what they offer, and logging in at them."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from journal.world import World
from server.terminal.exit_codes import ExitCode, UsageProblem

from .opening import load, run_async, typed
from .options import AsJson, Config

if TYPE_CHECKING:
    from downstream.settings import ServerSettings
    from journal.store import Store
    from server.inventory import ServerLine, ToolLine
    from server.settings import Settings

ServerName: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="A server of the settings.")]


def list_(config: Config = None, as_json: AsJson = False) -> None:
    """List the tool servers, having tried to open each.

    Exit code 3 if there is nothing that can be used because of servers that are unavailable.
    """
    settings = load(config)

    async def work() -> ExitCode:
        from server.inventory import ServerLine, take_inventory

        found = await take_inventory(settings, settings.servers, world=World())
        lines = [*found.servers, *(ServerLine(name, None, "off") for name in settings.off)]
        if as_json:
            typer.echo(json.dumps({"servers": [asdict(line) for line in lines]}, ensure_ascii=False))
        else:
            _write_servers(lines)
        states = {line.state for line in lines}
        # As `doctor` says of the same servers: a run could call nothing.
        return ExitCode.SETTINGS if "unavailable" in states and "open" not in states else ExitCode.OK

    run_async(work, settings)


def tools(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only of this server.", show_default=False)] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """List the tools of the servers, each with its class.

    One in quarantine was added, or changed, since its server was first listed; it is not used.
    """
    settings = load(config)
    servers = settings.servers if name is None else (server_named(settings, name),)

    async def work() -> ExitCode:
        from server.inventory import take_inventory

        found = await take_inventory(settings, servers, world=World())
        if as_json:
            typer.echo(json.dumps({"tools": [_tool_as_json(tool) for tool in found.tools]}, ensure_ascii=False))
        else:
            _write_tools(found.tools)
        closed = [server for server in found.servers if server.why is not None]
        for server in closed:
            typer.echo(f"steprelay: server {server.name}: {server.why}", err=True)
        return ExitCode.FAILED if closed and name is not None else ExitCode.OK

    run_async(work, settings)


def login(
    name: ServerName,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address; open nothing.")] = False,
    config: Config = None,
) -> None:
    """Log in at a tool server, in a browser.

    Runs that wait for it go on by themselves.
    """
    settings = load(config)
    server = server_named(settings, name)
    if server.transport == "stdio":
        raise UsageProblem(f"server {server.name!r}: it is a command, which nobody logs in at; its env can hold a key")

    async def work() -> ExitCode:
        from downstream.auth.login import Door, log_in
        from downstream.gate.login import settle_logins
        from server.opened_store import open_settings_store

        where = await log_in(Door(server, World(), partial(_show, server.name, no_browser)))
        typer.echo(f"Logged in at {server.name}. The login is kept {where}.")
        async with open_settings_store(settings, world=World()) as store:
            await let_go_on(store, await settle_logins(store, server), config)
        return ExitCode.OK

    run_async(work, settings)


def logout(name: ServerName, config: Config = None) -> None:
    """Forget the login at a tool server."""
    settings = load(config)
    server = server_named(settings, name)

    async def work() -> ExitCode:
        from downstream.auth.kept import KeptLogin

        kept = KeptLogin(server)
        async with kept.open_lock():
            was_there = kept.forget()
        typer.echo(
            f"The login at {server.name} is forgotten." if was_there else f"There was no login at {server.name}."
        )
        return ExitCode.OK

    run_async(work, settings)


def server_named(settings: "Settings", name: str) -> "ServerSettings":
    """The server that somebody typed. Raises UsageProblem, which says what servers there are."""
    from downstream.tool_names import ToolNameError, normalise_server_name

    try:
        wanted = normalise_server_name(name)
    except ToolNameError as error:
        raise UsageProblem(str(error)) from error
    for server in settings.servers:
        if server.name == wanted:
            return server
    if wanted in settings.off:
        raise UsageProblem(f"server {name!r} is off in the settings; turn it on first")
    known = ", ".join(server.name for server in settings.servers) or "none"
    raise UsageProblem(f"the settings have no server {name!r}; they have: {known}")


async def _show(name: str, no_browser: bool, address: str) -> None:
    import webbrowser

    import anyio.to_thread

    typer.echo(f"To log in at {name}, open:\n  {address}")
    if not no_browser:
        await anyio.to_thread.run_sync(webbrowser.open, address)


async def let_go_on(store: "Store", runs: "list[str]", config: Path | None) -> None:
    """Say of runs that waited for this who goes on with them."""
    from server.views.view import needed_settings

    for run in runs:
        needed = await needed_settings(store, await store.run(run))
        goes_on = "goes on." if needed is None else f"goes on once a process with {needed} is alive, or by:"
        typer.echo(f"Run {run}, which waited for it, {goes_on}")
        if needed is not None:
            typer.echo(f"  {typed(f'runs resume {run}', config)}")


def _write_servers(lines: "list[ServerLine]") -> None:
    from downstream.gate.prompt_text import escaped
    from server.views.words import counted

    width = max((len(line.name) for line in lines), default=0)
    for line in lines:
        state = line.state.replace("_", " ")
        said = line.why or ""
        if line.tools is not None:
            said = f"{counted(line.tools, 'tool')}, protocol {line.protocol} ({line.era})"
        typer.echo(f"{line.name:<{width}}  {line.transport or '–':<5}  {state:<11}  {escaped(said)}".rstrip())
    if not lines:
        typer.echo("The settings have no tool servers.")


def _write_tools(lines: "tuple[ToolLine, ...]") -> None:
    from downstream.gate.prompt_text import escaped

    width = max((len(line.tool) for line in lines), default=0)
    for line in lines:
        state = line.class_ or "quarantined"
        typer.echo(f"{escaped(line.tool):<{width}}  {state:<11}  {escaped(line.quarantined or line.summary)}".rstrip())
    if not lines:
        typer.echo("No tools.")


def _tool_as_json(line: "ToolLine") -> dict[str, str | None]:
    return {"tool": line.tool, "class": line.class_, "summary": line.summary, "quarantined": line.quarantined}
