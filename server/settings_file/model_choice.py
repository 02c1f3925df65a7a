"""Which model is used where settings name none: a provider whose key is set, else one served on this machine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import SecretStr

from downstream.settings import ModelSettings, Role
from journal.errors import SteprelayError
from planner.settings import BudgetSettings

from .local_models import LOOPBACK, LocalModel, best_of, served_here

_DEFAULTS = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-6",
    "OPENAI_API_KEY": "openai/gpt-5.4-mini",
    "GEMINI_API_KEY": "gemini/gemini-3.8-flash",
}
KEY_VARIABLES = tuple(_DEFAULTS)
_ROLES: tuple[Role, ...] = ("planner", "worker", "answer")
"""Those whose models all others use."""


class NoModelFound(SteprelayError):
    """Settings name no model, no key is set, and nothing on this machine serves one."""

    def __init__(self) -> None:
        super().__init__(
            f"no model to work with; three ways to get one: set a key variable ({', '.join(KEY_VARIABLES)}); "
            f"start a local model server ({', '.join(place.program for place in LOOPBACK)}); or write `model:` into "
            "the settings, as a litellm name or as scripted:FILE to try things without a model"
        )


@dataclass(frozen=True)
class ModelChoice:
    """The model to use, and the sentence that tells the user so; none where the settings name it."""

    settings: ModelSettings
    notice: str


Probe = Callable[[], Sequence[LocalModel]]


def choose_model(
    settings: ModelSettings, environ: Mapping[str, str], *, budget: BudgetSettings, probe: Probe = served_here
) -> ModelChoice:
    """The settings with a model put in by the first key that is set, else by the probe. Raises NoModelFound.

    Where each role has one of its own, nothing is put in. Blocks for as long as the probe does; the usual one asks
    loopback for at most a second.
    """
    if all(map(settings.for_role, _ROLES)):
        return ModelChoice(settings, "")
    for variable, model in _DEFAULTS.items():
        if environ.get(variable):
            limits = f"a run may cost {budget.usd:g} USD and a day {budget.usd_day:g} USD"
            notice = f"{model} is used, with the key in {variable}; {limits}"
            return _choice(settings.model_copy(update={"model": model}), notice)
    served = probe()
    local = best_of(served)
    if local is None:
        raise NoModelFound
    # Local servers want no key, but clients refuse to go without one.
    options = settings.options.model_copy(update={"api_base": local.api_base, "api_key": SecretStr("none")})
    chosen = settings.model_copy(update={"model": local.name, "options": options})
    return _choice(chosen, f"{local.name} is used, from {local.program} on this machine{_among(local, served)}")


def _choice(settings: ModelSettings, notice: str) -> ModelChoice:
    return ModelChoice(settings, f"the settings name no model, so {notice}; `model:` in the settings decides")


def _among(local: LocalModel, served: Sequence[LocalModel]) -> str:
    """Why this one of several."""
    own = [model for model in served if model.place == local.place]
    if len(own) == 1:
        return ""
    able = ", since it is said to call functions" if local.calls_functions else ""
    return f" (one of {len(own)} there{able})"
