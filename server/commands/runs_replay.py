"""`steprelay runs replay`: a recorded run once more, from its own record."""

import json
from typing import TYPE_CHECKING

import typer

from journal.world import World
from server.terminal.exit_codes import ExitCode

from .opening import load, run_async
from .options import AsJson, Config, RunId

if TYPE_CHECKING:
    from server.replaying import Replayed


def replay(run_id: RunId, config: Config = None, as_json: AsJson = False) -> None:
    """Check a run's record, and carry it out once more from that record alone.

    No model and no tool server is asked, and nothing is changed. Exit code 0: the same came out and the record is as it
    was written; 4: not, and each difference is printed.
    """
    settings = load(config, "secrets")

    async def work() -> ExitCode:
        from server.opened_store import open_settings_store
        from server.replaying import replay_run

        async with open_settings_store(settings, world=World()) as store:
            replayed = await replay_run(store, settings, run_id)
        if as_json:
            typer.echo(json.dumps(replayed.to_json(), ensure_ascii=False))
        else:
            for line in _lines(replayed):
                typer.echo(line)
        return ExitCode.OK if replayed.equal else ExitCode.FAILED

    run_async(work, settings)


def _lines(replayed: "Replayed") -> list[str]:
    counted = f"{replayed.steps} steps, {replayed.records} records; no model and no server was asked"
    how = "equal" if replayed.equal else "different"
    reach = "" if replayed.whole or not replayed.equal else " as far as it goes"
    lines = [f"Run {replayed.run} replayed{reach}: {how} ({counted})."]
    lines += [f"  different: {text}" for text in replayed.differences]
    return lines + [f"  note: {text}" for text in replayed.notes]
