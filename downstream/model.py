"""Models through litellm, on a thread and an event loop of its own; nothing else imports it.

This is a vendor's edge: litellm needs asyncio, takes seconds to import and at times blocks the loop that it runs on.
"""

import logging
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import anyio

from journal.ledger import Spent
from journal.outlet import Outlet
from journal.values import Json, JsonObject

from .model_port import FREE, ModelFailed, ModelReply, ModelRequest, Models, Rate, Role
from .models.errors import failure_kind, failure_text
from .models.messages import context_size, reply_from, seconds, wire_function, wire_message
from .models.scripted import ScriptedModels
from .models.vendor_loop import VendorLoop, open_vendor_loop
from .settings import SCRIPTED, ModelOptions, ModelSettings

log = logging.getLogger(__name__)

_AT_ONCE = 32
_LONGEST_DESCRIPTION = 1_024
"""OpenAI refuses a request in which a function has a longer one."""
_DUMMY_KEY = "none"
# Read at import: no look-ups on the network, no .env file of whatever folder the environment lies in.
_ENVIRONMENT = {
    "LITELLM_OFFLINE_MODE": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
_PRINTS = ("LITELLM_PRINT_STANDARD_LOGGING_PAYLOAD", "JSON_LOGS")
_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
_THINKING = {"low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192}
"""Tokens that a model may think for, on top of those asked for: litellm's budgets count within `max_tokens`."""
_FOREIGN = (ValueError, LookupError, TypeError, AttributeError, OSError)
"""What litellm lets through of its own mistakes, beside the errors that it means to raise."""


@asynccontextmanager
async def open_models(settings: ModelSettings, outlet: Outlet) -> AsyncGenerator[Models]:
    """Every model that the settings can name. litellm is imported by `warm_up`, or when a model is first asked."""
    scripted = ScriptedModels()
    async with open_vendor_loop(_close) as loop:
        vendor = _Litellm(loop, settings.options, outlet)

        async def complete(model: str, request: ModelRequest) -> ModelReply:
            ask = scripted.complete if model.startswith(SCRIPTED) else vendor.complete
            return await ask(model, request)

        async def rate_of(model: str) -> Rate | None:
            return FREE if model.startswith(SCRIPTED) else await vendor.rate_of(model)

        async def warm_up() -> None:
            if not all(name and name.startswith(SCRIPTED) for name in _named(settings)):
                await vendor.warm_up()

        yield Models(complete, rate_of, warm_up)


def _named(settings: ModelSettings) -> list[str | None]:
    roles: tuple[Role, ...] = ("planner", "worker", "answer")
    return [*(settings.for_role(role) for role in roles), *settings.fallbacks]


class _Litellm:
    def __init__(self, loop: VendorLoop, options: ModelOptions, outlet: Outlet) -> None:
        self._loop = loop
        self._options = options
        self._outlet = outlet
        self._calls = anyio.CapacityLimiter(_AT_ONCE)
        self._rates: dict[str, Rate | None] = {}

    async def warm_up(self) -> None:
        """Import litellm; where that fails, the first call says so."""
        try:
            await self._loop.run(_loaded())
        except ImportError as error:
            log.warning("litellm_missing", extra={"error": str(error)})

    async def complete(self, model: str, request: ModelRequest) -> ModelReply:
        try:
            litellm = await self._loop.run(_loaded())
        except ImportError as error:
            text = "litellm can't be imported here; install steprelay again, or use scripted:FILE as model"
            raise ModelFailed(model, "unavailable", text) from error
        async with self._calls:
            try:
                with anyio.fail_after(self._options.timeout):
                    return await self._loop.run(self._ask(litellm, model, request))
            except TimeoutError as error:
                text = f"it gave no answer within {self._options.timeout:g} s (model_options.timeout)"
                raise ModelFailed(model, "timeout", text) from error

    async def rate_of(self, model: str) -> Rate | None:
        """The user's price, nothing on this machine, else litellm's list; None where nobody knows."""
        if (rate := self._own_rate(model)) is not None:
            return rate
        if model not in self._rates:
            try:
                self._rates[model] = await self._loop.run(_listed_rate(model))
            except ImportError:
                return None
        return self._rates[model]

    def _own_rate(self, model: str) -> Rate | None:
        if (price := self._options.price) is not None:
            return Rate(price.input_per_million, price.output_per_million)
        base = self._options.api_base
        if base is None and model.startswith(("ollama/", "ollama_chat/")):
            base = os.environ.get("OLLAMA_API_BASE", "http://localhost:11434")
        return FREE if base is not None and is_loopback(base) else None

    async def _ask(self, litellm: Any, model: str, request: ModelRequest) -> ModelReply:
        """One request, on litellm's own loop."""
        try:
            response = await litellm.acompletion(**self._arguments(litellm, model, request))
            if request.stream:
                async with aclosing(response):
                    response = litellm.stream_chunk_builder([chunk async for chunk in response])
            spent = spent_on(litellm, model, response, rate=self._own_rate(model))
        except (litellm.exceptions.openai.OpenAIError, *_FOREIGN) as error:
            raise self._failed(litellm, model, error) from error
        return reply_from(model, response, spent)

    def _arguments(self, litellm: Any, model: str, request: ModelRequest) -> JsonObject:
        options, effort = self._options, self._options.reasoning_effort
        arguments: JsonObject = {
            "model": model,
            "messages": [wire_message(message, model) for message in request.messages],
            "max_tokens": request.max_tokens + _THINKING.get(effort or "", 0),
            "timeout": options.timeout,
            "max_retries": 0,
            "drop_params": True,
        }
        optional: JsonObject = {"api_base": options.api_base, "api_key": self._key(), "reasoning_effort": effort}
        arguments |= {name: value for name, value in optional.items() if value is not None}
        if request.schema is not None:
            schema = {"name": request.name or "reply", "schema": request.schema, "strict": True}
            arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.functions:
            provider: str = litellm.get_llm_provider(model)[1]
            longest = _LONGEST_DESCRIPTION if provider in ("openai", "azure") else None
            arguments["tools"] = [wire_function(function, longest=longest) for function in request.functions]
        if request.force is not None:
            arguments["tool_choice"] = {"type": "function", "function": {"name": request.force}}
        if request.stream:
            arguments |= {"stream": True, "stream_options": {"include_usage": True}}
        if model.startswith("ollama_chat/"):
            _prepare_ollama(litellm, model)
            arguments["num_ctx"] = context_size(request)
        return arguments

    def _key(self) -> str | None:
        if self._options.api_key is not None:
            return self._options.api_key.get_secret_value()
        # A server on this machine wants a key to be there, and must not be sent a provider's.
        return _DUMMY_KEY if self._options.api_base and is_loopback(self._options.api_base) else None

    def _failed(self, litellm: Any, model: str, error: Exception) -> ModelFailed:
        status: Json = getattr(error, "status_code", None)
        said = status if isinstance(status, int) else None
        kind = failure_kind(said, type(error).__name__, str(error))
        text = failure_text(kind, said, litellm._logging.redact_secrets(self._outlet.text(str(error))))
        log.info("model_failed", extra={"model": model, "kind": kind, "status": said, "error": type(error).__name__})
        headers: Json = getattr(error, "litellm_response_headers", None) or {}
        return ModelFailed(model, kind, text, retry_after=seconds(headers.get("retry-after")))


def spent_on(litellm: Any, model: str, response: Any, *, rate: Rate | None) -> Spent:
    """What a response took; without a rate of our own, by litellm's list."""
    usage = response.usage
    details: Any = getattr(usage, "prompt_tokens_details", None)
    cached: int = (getattr(details, "cached_tokens", None) or 0) if details else 0
    tokens: tuple[int, int] = (usage.prompt_tokens or 0, usage.completion_tokens or 0)
    if rate is not None:
        return Spent(*tokens, cached, rate.cost(input_tokens=tokens[0], output_tokens=tokens[1]))
    try:
        usd = float(litellm.completion_cost(completion_response=response, model=model) or 0)
    except (litellm.exceptions.ModelNotMappedError, litellm.exceptions.openai.OpenAIError, *_FOREIGN):
        usd = 0.0
    # Some models are listed at 0 because nobody has looked their price up.
    return Spent(*tokens, cached, usd, cost_known=usd > 0)


def is_loopback(url: str) -> bool:
    """Whether the address is on this machine, by what is written."""
    host = urlsplit(url if "//" in url else f"//{url}").hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _prepare_ollama(litellm: Any, model: str) -> None:
    """Keep litellm from asking the server about the model: it does so with a blocking call."""
    name = model.partition("/")[2]
    if f"ollama/{name}" not in litellm.model_cost:
        entry = {"litellm_provider": "ollama_chat", "mode": "chat", "supports_function_calling": True}
        litellm.register_model({f"ollama_chat/{name}": entry, f"ollama/{name}": entry})


async def _listed_rate(model: str) -> Rate | None:
    litellm = _import()
    thousand = {"prompt_tokens": 1000, "completion_tokens": 1000}
    try:
        paid, earned = litellm.cost_per_token(model=model, **thousand)
    except (litellm.exceptions.ModelNotMappedError, litellm.exceptions.openai.OpenAIError, *_FOREIGN):
        return None
    return Rate(paid * 1000, earned * 1000) if paid or earned else None


async def _close() -> None:
    """Close the connections that litellm keeps, on the loop that they belong to."""
    if (litellm := sys.modules.get("litellm")) is not None:
        await litellm.close_litellm_async_clients()
        litellm.in_memory_llm_clients_cache.flush_cache()


async def _loaded() -> Any:
    return _import()


def _import() -> Any:
    """litellm, made quiet: it would print to stdout, look things up on the network and read .env files."""
    os.environ.update(_ENVIRONMENT)
    for name in _PRINTS:
        os.environ.pop(name, None)
    import litellm

    module: Any = litellm
    module.suppress_debug_info = True
    module.set_verbose = False
    module.telemetry = False
    module.callbacks, module.success_callback, module.failure_callback = [], [], []
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.WARNING)
    return module
