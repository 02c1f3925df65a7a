"""Handing a run over: to a living process with the same settings, else to one that is started for it."""

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from journal.world import World

from .opening import OWN_PROCESS

if TYPE_CHECKING:
    from journal.events import Event
    from server.product import Request
    from server.settings import Settings

_NOBODY = "nobody"
"""The driver of a run that its creator does not drive: no lease has this id, so whoever is alive adopts it at once."""


async def hand_over(settings: "Settings", request: "Request") -> "Event":
    """Create the run and see to it that some process drives it; returns its first event. Raises NoModelFound."""
    from server.opened_store import open_settings_store
    from server.product import new_run
    from server.views.view import needed_settings

    await _check_model(settings)
    async with open_settings_store(settings, world=World()) as store:
        new = new_run(settings, request, owner=store.owner)
        run_id, _ = await store.create_or_attach(new, driver=_NOBODY)
        is_driven = await needed_settings(store, await store.run(run_id)) is None
        created, *_ = await store.events(run_id)
    if not is_driven:
        _start_driver(run_id, settings.path)
    return created


async def _check_model(settings: "Settings") -> None:
    """Here, where somebody reads it, rather than in the log of a process in the background."""
    import anyio.to_thread

    from server.settings_file.model_choice import choose_model

    if settings.model.model is None:
        await anyio.to_thread.run_sync(lambda: choose_model(settings.model, os.environ, budget=settings.budget))


def _start_driver(run_id: str, config: Path | None) -> None:
    """A process in a session of its own, so that closing the terminal does not end it; what it says is logged."""
    from server.terminal.log_file import log_path

    command = [*OWN_PROCESS, "runs", "drive", run_id, *(("--config", str(config)) if config else ())]
    with log_path().open("ab") as log:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
