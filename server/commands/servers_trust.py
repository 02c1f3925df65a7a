"""`steprelay servers trust`: what a tool server lists otherwise than it was accepted, and a person's yes to it."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from journal.world import World
from server.terminal.exit_codes import ExitCode

from .config import refuse_agents
from .opening import load, run_async
from .options import AsJson, Config
from .servers import ServerName, let_go_on, server_named

if TYPE_CHECKING:
    from downstream.servers.catalogue import Catalogue
    from downstream.settings import ServerSettings
    from journal.audit import AuditLine
    from journal.store import Store
    from journal.values import JsonObject


def trust(
    name: ServerName,
    yes: Annotated[bool, typer.Option("--yes", help="Accept it without asking, having shown it.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Accept what a tool server lists otherwise than before, having shown the difference.

    What changed or was added is not used until then. Runs that wait for just that go on.
    """
    settings = load(config)
    server = server_named(settings, name)

    async def work() -> ExitCode:
        from downstream.servers.catalogue import Catalogue
        from downstream.servers.pool import open_pool
        from server.opened_store import open_settings_store

        async with (
            open_settings_store(settings, world=World()) as store,
            open_pool([server], store.world, learn=store.outlet.learn) as pool,
        ):
            catalogue = Catalogue(pool, store.remembered, [server])
            await catalogue.tools(refresh=True)
            if (why := catalogue.missing().get(server.name)) is not None:
                typer.echo(f"steprelay: server {server.name}: {store.outlet.text(why)}", err=True)
                return ExitCode.FAILED
            here = _Here(store, catalogue, server, config)
            return await (_as_json(here, yes=yes) if as_json else _at_a_terminal(here, yes=yes))

    run_async(work, settings)


class _Here:
    """A server with what it listed a moment ago: exactly that is shown and accepted, whatever it lists meanwhile."""

    def __init__(self, store: "Store", catalogue: "Catalogue", server: "ServerSettings", config: Path | None) -> None:
        self._store = store
        self._catalogue = catalogue
        self._server = server
        self._config = config
        pins = catalogue.pins(server.name)
        assert pins is not None, "it was listed a moment ago"
        self._pins = pins
        self._changes = catalogue.changes(server.name)

    def shown(self) -> "JsonObject":
        """What differs: `why` is our sentence, the lines are the server's, escaped."""
        from downstream.gate.prompt_text import escaped

        name, pins = self._server.name, self._pins
        tools = [
            {"tool": escaped(each.full_name), "why": each.why, "usable": False, "difference": each.lines}
            for each in self._changes
        ]
        why = "it describes itself in other words; models go on seeing those that were accepted"
        tools += [
            {"tool": f"{name}.{tool}", "why": why, "usable": True, "difference": pins.reworded_lines(tool)}
            for tool in pins.difference.reworded
        ]
        instructions = pins.reworded_lines("") if pins.difference.instructions else []
        found: JsonObject = {"server": name, "differs": pins.differs, "tools": tools, "instructions": instructions}
        shown: JsonObject = self._store.outlet.json(found)
        return shown

    async def accept(self, *, yes: bool) -> list[str]:
        """Pin it, and decide what waits for it; the runs that go on by it. The audit has it before it counts.

        Raises UsageProblem in the shell of an agent.
        """
        from downstream.gate.trust import settle_trust
        from server.terminal.asking import nobody_here

        refuse_agents()
        via = "flag" if yes or nobody_here(os.environ) is not None else "terminal"
        await self._store.note(self._line(via))
        await self._catalogue.accept_all(self._server.name, self._pins.found)
        return await settle_trust(self._store, self._server, self._changes, via=via)

    def _line(self, via: str) -> "AuditLine":
        from journal.audit import AuditLine

        pins = self._pins
        data: JsonObject = {
            "server": self._server.name,
            "pin": pins.found.pin,
            "was": pins.pinned.pin,
            "tools": [change.full_name for change in self._changes],
            "reworded": list(pins.difference.reworded),
            "instructions": pins.difference.instructions,
            "via": via,
        }
        return AuditLine("server.trusted", data)

    async def tell(self, runs: list[str]) -> None:
        await let_go_on(self._store, runs, self._config)


async def _as_json(here: _Here, *, yes: bool) -> ExitCode:
    found = here.shown()
    is_accepted = yes and bool(found["differs"])
    runs = await here.accept(yes=yes) if is_accepted else []
    typer.echo(json.dumps(found | {"accepted": is_accepted, "runs": runs}, ensure_ascii=False))
    return ExitCode.OK if is_accepted or not found["differs"] else ExitCode.WAITING


async def _at_a_terminal(here: _Here, *, yes: bool) -> ExitCode:
    from server.terminal.asking import confirm

    found = here.shown()
    if not found["differs"]:
        typer.echo(f"Server {found['server']} lists what was accepted of it.")
        return ExitCode.OK
    for each in found["tools"]:
        typer.echo(f"{each['tool']}: {each['why']}")
        _write(each["difference"])
    if found["instructions"]:
        typer.echo("Its instructions read differently:")
        _write(found["instructions"])
    if not yes and not await confirm("Accept all of it?"):
        typer.echo("Nothing was accepted.")
        return ExitCode.REFUSED
    runs = await here.accept(yes=yes)
    typer.echo("Accepted, until it changes again.")
    await here.tell(runs)
    return ExitCode.OK


def _write(lines: list[str]) -> None:
    for line in lines:
        typer.echo(f"  {line}")
    typer.echo()
