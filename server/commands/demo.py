"""`steprelay demo`: a whole run on a scripted model over the three bundled tool servers, with one real question."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from journal.world import World, new_id
from server.terminal.exit_codes import ExitCode

from .opening import OWN_PROCESS, load, run_async, short_path, typed
from .options import Approve, NoConfig

if TYPE_CHECKING:
    from server.demo import Demo

    from .driving import Manner


def demo(approve: Approve = "ask", config: NoConfig = None) -> None:
    """Show a whole run, without a model and without keys.

    A plan, parallel steps, a revision, an approval and an answer, over the bundled tool servers.
    """
    from journal.settings import state_folder
    from server.demo import prepare_demo

    from .driving import Manner

    shown = prepare_demo(state_folder() / "demo", OWN_PROCESS)
    run_async(partial(_show, shown, Manner(approve, config=shown.settings)))


async def _show(demo: "Demo", manner: "Manner") -> ExitCode:
    from server.assembly import open_product
    from server.demo import GOAL
    from server.product import Request

    from .driving import drive_here

    settings = load(demo.settings)
    typer.secho("The model of this demo is scripted: it says what a file says, so that no key is needed.", bold=True)
    typer.echo("All else is real: three tool servers, the gate in front of them, the journal, and the question.\n")
    before = _mails(demo.outbox)
    # A key of its own, so that each demo is a new run.
    request = Request(goal=GOAL, goal_label="user", idempotency_key=new_id("k"), interactive=manner.asks)
    async with open_product(settings, world=World(), adopts=False) as product:
        run_id = await product.start(request)
        code = await drive_here(product, run_id, manner)
    if code is ExitCode.WAITING:
        typer.echo("\nNobody can be asked here. To let the demo send its mail: ", nl=False)
        typer.echo(typed("demo --approve all", None))
        return code
    _tell_what_is_left(demo, run_id, sorted(_mails(demo.outbox) - before))
    return code


def _mails(outbox: Path) -> set[Path]:
    return set((outbox / "sent").glob("*.json"))


def _tell_what_is_left(demo: "Demo", run_id: str, mails: list[Path]) -> None:
    from server.settings_file.found import user_settings_path

    typer.echo()
    for mail in mails:
        said = json.loads(mail.read_text(encoding="utf-8"))
        typer.echo(f"The mail to {said['to']} lies in {short_path(mail)}")
    if not mails:
        typer.echo("No mail was sent.")
    typer.echo(f"The script that the model followed: {short_path(demo.script)}")
    typer.echo(f"The run, step by step: {typed(f'runs show {run_id}', demo.settings)}")
    own = short_path(user_settings_path())
    typer.echo(f'With your own servers: write them into {own} (as `mcpServers`), then {typed("run", None)} "your goal"')
