"""The models: which are used and why, and what is served on this machine."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from downstream.models.prices import is_loopback
from downstream.models.script_file import ScriptError, read_script
from downstream.settings import SCRIPTED, ModelSettings, Role
from server.settings import Settings
from server.settings_file.local_models import LocalModel
from server.settings_file.model_choice import NoModelFound, choose_model

from .finding import Finding, Say

_ROLES: tuple[Role, ...] = ("planner", "worker", "answer")
_OLLAMA_PORT = 11434
_SMALL = 8_192
"""Tokens; a plan, with the tools that it is made from, can take as many."""


@dataclass(frozen=True)
class Chosen:
    """The models that are asked, each with the roles that ask it, and how they are reached."""

    settings: ModelSettings
    roles: Mapping[str, str]


def choose(settings: Settings, environ: Mapping[str, str], served: Sequence[LocalModel], say: Say) -> Chosen | None:
    """The models of these settings, having said which they are and why; None where there are none."""
    chosen = settings.model
    if chosen.model is None:
        try:
            choice = choose_model(chosen, environ, budget=settings.budget, probe=lambda: served)
        except NoModelFound as error:
            say(Finding("model", "problem", str(error), "do one of the three"))
            return None
        chosen = choice.settings
        if choice.notice:
            say(Finding("model", "ok", choice.notice))
    roles: dict[str, list[str]] = {}
    for role in _ROLES:
        roles.setdefault(chosen.for_role(role) or "", []).append(role)
    for worker in settings.workers:
        if worker.model is not None:
            roles.setdefault(worker.model, []).append(f"worker {worker.name}")
    return Chosen(chosen, {model: ", ".join(names) for model, names in roles.items()})


def script(model: str) -> Finding:
    """Whether the file of a scripted model can be read."""
    path = Path(model.removeprefix(SCRIPTED))
    try:
        read_script(path.read_text(encoding="utf-8"), str(path))
    except (ScriptError, OSError, UnicodeDecodeError) as error:
        return Finding("model", "problem", str(error), "correct the script, or name another model")
    return Finding("model", "ok", f"{model} follows its script, whatever it is asked")


def local(chosen: Chosen | None, served: Sequence[LocalModel]) -> Iterator[Finding]:
    """What is served on this machine, and whether a model of Ollama is asked in the way that keeps prompts whole."""
    for place in dict.fromkeys(model.place for model in served):
        own = [model for model in served if model.place == place]
        yield Finding("local models", "ok", f"{place.program} serves {', '.join(map(_described, own))}")
    if chosen is None:
        return
    for model in chosen.roles:
        yield from _asked(model, chosen.settings.options.api_base, served)


def _described(model: LocalModel) -> str:
    known = {True: "calls functions", False: "calls no functions", None: ""}[model.calls_functions]
    context = "" if model.context is None else f"{model.context:,} tokens"
    details = ", ".join(filter(None, (known, context)))
    return f"{model.id} ({details})" if details else model.id


def _asked(model: str, base: str | None, served: Sequence[LocalModel]) -> Iterator[Finding]:
    provider, _, name = model.partition("/")
    if provider == "ollama" or (provider == "openai" and base and _is_ollama(base)):
        text = f"{model}: asked in this way, Ollama cuts long prompts at their beginning and does not say so"
        way_out = f"write ollama_chat/{name} as model, and no /v1 in model_options.api_base"
        yield Finding("model", "warning", text, way_out)
    theirs = [each for each in served if each.name.partition("/")[0] == provider and _serves(each, base)]
    mine = next((each for each in theirs if each.id in (name, f"{name}:latest")), None)
    if mine is not None and mine.context is not None and mine.context < _SMALL:
        text = f"{model} holds {mine.context:,} tokens, too few for a plan with many tools"
        yield Finding("model", "warning", text, "give it a larger context, or take another model")
    if provider == "ollama_chat" and theirs:
        if mine is None:
            yield Finding("model", "problem", f"Ollama has no model {name}", f"ollama pull {name}")
        else:
            yield Finding("model", "ok", f"{model}: each request sets the context that it needs (num_ctx)")


def _is_ollama(base: str) -> bool:
    return is_loopback(base) and urlsplit(base if "//" in base else f"//{base}").port == _OLLAMA_PORT


def _serves(model: LocalModel, base: str | None) -> bool:
    """Whether it is this server that an address leads to; without one, Ollama is asked at its usual place."""
    if base is None:
        return model.place.kind == "ollama"
    return is_loopback(base) and urlsplit(base if "//" in base else f"//{base}").port == model.place.port
