"""Which model is used where settings name none: a provider whose key is set, else one served on this machine."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread

from pydantic import SecretStr

from downstream.settings import ModelSettings
from journal.errors import SteprelayError
from journal.values import Json
from planner.settings import BudgetSettings

from .located import is_list, is_map

_DEFAULTS = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-6",
    "OPENAI_API_KEY": "openai/gpt-5.4-mini",
    "GEMINI_API_KEY": "gemini/gemini-3.8-flash",
}
KEY_VARIABLES = tuple(_DEFAULTS)

_PATIENCE = 0.2
_LARGEST = 1 << 20


class NoModelFound(SteprelayError):
    """Settings name no model, no key is set, and nothing on this machine serves one."""

    def __init__(self) -> None:
        super().__init__(
            f"no model to work with; three ways to get one: set a key variable ({', '.join(KEY_VARIABLES)}); "
            f"start a local model server ({', '.join(place.program for place in LOOPBACK)}); or write `model:` into "
            "the settings, as a litellm name or as scripted:FILE to try things without a model"
        )


@dataclass(frozen=True)
class LocalPlace:
    """Where a program serves models on this machine."""

    program: str
    port: int
    path: str = "/v1/models"

    def settings_for(self, models: Json) -> "ModelSettings | None":
        """The first model in the reply to `path`, reached as this program wants it; None where the reply names none."""
        is_ollama = self.path == "/api/tags"
        listed = models.get("models" if is_ollama else "data") if is_map(models) else None
        entries = listed if is_list(listed) else []
        names = [entry.get("name" if is_ollama else "id") for entry in entries if is_map(entry)]
        # Such servers list embedding models too, which can't answer.
        name = next((name for name in names if isinstance(name, str) and name and "embed" not in name), None)
        if name is None:
            return None
        base = f"http://127.0.0.1:{self.port}"
        if is_ollama:
            return _settings(f"ollama_chat/{name}", base)
        return _settings(f"openai/{name}", f"{base}/v1")


LOOPBACK = (
    LocalPlace("Ollama", 11434, "/api/tags"),
    LocalPlace("LM Studio", 1234),
    LocalPlace("llama.cpp", 8080),
    LocalPlace("vLLM", 8000),
)


@dataclass(frozen=True)
class LocalModel:
    """A model that a program on this machine serves."""

    program: str
    settings: ModelSettings


@dataclass(frozen=True)
class ModelChoice:
    """The model to use, and the sentence that tells the user so."""

    settings: ModelSettings
    notice: str


Probe = Callable[[], LocalModel | None]


def choose_model(
    settings: ModelSettings, environ: Mapping[str, str], *, budget: BudgetSettings, probe: Probe | None = None
) -> ModelChoice:
    """The settings with a model put in by the first key that is set, else by the probe. Raises NoModelFound.

    Blocks for as long as the probe does; the usual one asks loopback for at most 0.2 s a step.
    """
    limits = f"a run may cost {budget.usd:g} USD and a day {budget.usd_day:g} USD; `model:` in the settings decides"
    for variable, model in _DEFAULTS.items():
        if environ.get(variable):
            chosen = settings.model_copy(update={"model": model})
            return ModelChoice(
                chosen, f"the settings name no model, so {model} is used, with the key in {variable}; {limits}"
            )
    local = (probe or probe_loopback)()
    if local is None:
        raise NoModelFound
    options = settings.options.model_copy(
        update={"api_base": local.settings.options.api_base, "api_key": local.settings.options.api_key}
    )
    chosen = settings.model_copy(update={"model": local.settings.model, "options": options})
    name = local.settings.model
    return ModelChoice(
        chosen, f"the settings name no model, so {name} is used, from {local.program} on this machine; {limits}"
    )


def probe_loopback(places: Sequence[LocalPlace] = LOOPBACK) -> LocalModel | None:
    """The first place, in their order, that serves a model. All are asked at once; no prompt is sent."""
    answers: Queue[tuple[int, ModelSettings | None]] = Queue()

    def ask(number: int, place: LocalPlace) -> None:
        answers.put((number, place.settings_for(_get(place))))

    for number, place in enumerate(places):
        # A daemon, because a server that sends byte by byte could hold it up; nobody waits for it then.
        Thread(target=ask, args=(number, place), daemon=True).start()
    found: dict[int, ModelSettings] = {}
    deadline = time.monotonic() + 2 * _PATIENCE
    for _ in places:
        try:
            number, settings = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            break
        if settings:
            found[number] = settings
    first = min(found, default=None)
    return None if first is None else LocalModel(places[first].program, found[first])


def _get(place: LocalPlace) -> Json:
    # Every command loads settings, few of them ask; importing this costs more than the rest of the module.
    from http.client import HTTPConnection, HTTPException

    # No proxy and no redirect: what is asked stays on this machine.
    connection = HTTPConnection("127.0.0.1", place.port, timeout=_PATIENCE)
    try:
        connection.request("GET", place.path)
        response = connection.getresponse()
        return json.loads(response.read(_LARGEST)) if response.status == 200 else None
    except (OSError, HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()


def _settings(model: str, api_base: str) -> ModelSettings:
    # Local servers want no key, but clients refuse to go without one.
    options = {"api_base": api_base, "api_key": SecretStr("none")}
    return ModelSettings.model_validate({"model": model, "options": options})
