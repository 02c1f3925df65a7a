"""The course of a checkup: one thing after the other, each told as soon as it is known."""

from collections.abc import Callable, Sequence
from functools import partial

import anyio.to_thread

from downstream.model import open_models
from downstream.model_port import Models
from downstream.settings import SCRIPTED
from journal.errors import StoreError
from journal.settings import NotBuiltYet
from journal.world import World
from server.opened_store import open_settings_store
from server.settings import Settings
from server.settings_file.local_models import LocalModel, served_here

from . import installation, models, storage, tool_servers, trial
from .finding import Finding, Say, State
from .keys import missing_key
from .settings_found import Surroundings, look_at_settings

_OF_MODELS = ("model", "models", "model_options")
Probe = Callable[[], Sequence[LocalModel]]


def first_look(around: Surroundings, say: Say) -> Settings | None:
    """What can be told without opening anything; the settings, if there are any that can be used."""
    say(installation.programs())
    say(installation.litellm_release(installation.installed("litellm")))
    return look_at_settings(around, say)


async def check_up(
    settings: Settings, around: Surroundings, say: Say, *, asks_model: bool = True, probe: Probe = served_here
) -> None:
    """Open and start everything and tell how it went. Models are asked unless told not to, or litellm must not run."""
    tell, world = partial(_tell, settings, say), World()
    for finding in await storage.store(settings, world):
        tell(finding)
    may_run = installation.litellm_release(installation.installed("litellm")).state != "problem"
    await _models(settings, around, tell, asks=asks_model and may_run, probe=probe)
    for finding in await tool_servers.tool_servers(settings, world):
        tell(finding)
    for finding in (*storage.waivers(settings), *storage.passkeys(settings), await storage.page(settings)):
        tell(finding)
    for finding in installation.keyring(settings.servers):
        tell(finding)


def _tell(settings: Settings, say: Say, finding: Finding) -> None:
    """Without the secrets of these settings."""
    text, way_out = settings.outlet.text(finding.text), finding.way_out
    say(Finding(finding.check, finding.state, text, None if way_out is None else settings.outlet.text(way_out)))


async def _models(settings: Settings, around: Surroundings, say: Say, *, asks: bool, probe: Probe) -> None:
    served = await anyio.to_thread.run_sync(probe)
    chosen = models.choose(settings, around.environ, served, say)
    for finding in models.local(chosen, served):
        say(finding)
    if chosen is None:
        return
    for model in chosen.roles:
        if model.startswith(SCRIPTED):
            say(models.script(model))
    real = {model: roles for model, roles in chosen.roles.items() if not model.startswith(SCRIPTED)}
    unset = next((str(gap.problem) for gap in settings.gaps if gap.place[0] in _OF_MODELS), None)
    if not asks or unset is not None:
        state: State = "ok" if unset is None else "warning"
        for model, roles in real.items():
            say(Finding("model", state, f"{model} ({roles}) is not asked{f': {unset}' if unset else ''}"))
        return
    async with open_models(chosen.settings, settings.outlet) as opened:
        for model, roles in real.items():
            if (variable := missing_key(model, chosen.settings.options, around.environ)) is not None:
                text = f"{model} ({roles}) has no key: {variable} is not set; it is not asked"
                say(Finding("model", "problem", text, f"set {variable}, or write model_options.api_key: ${{VARIABLE}}"))
                continue
            await _one(settings, opened, model, roles, say=say)


async def _one(settings: Settings, opened: Models, model: str, roles: str, *, say: Say) -> None:
    """What the question costs, then the question, and what runs may know of its end."""
    tokens, rate = await trial.at_most(opened, model)
    if rate is None and settings.budget.usd_is_written:
        # Nor would a run ask it.
        text = f"{model} ({roles}) has no price that is known, so that budget.usd can't be kept; it is not asked"
        way_out = "write model_options.price: {input_per_million: …, output_per_million: …}"
        say(Finding("model", "problem", text, way_out))
        return
    price = trial.price_in_words(rate, tokens)
    text = f"{model} ({roles}) is now asked a question of at most {tokens} tokens, {price}"
    say(Finding("model", "ok", text))
    tried = await trial.try_out(opened, model)
    is_news = False
    try:
        async with open_settings_store(settings, world=World()) as store:
            is_news = await trial.remember(store.remembered, tried)
    except (StoreError, NotBuiltYet):
        # Told of already; what was found out is then not kept.
        pass
    for finding in trial.findings(tried, is_news=is_news):
        say(finding)
