"""Models through litellm, on a thread and an event loop of its own; nothing else imports it.

This is a vendor's edge: litellm needs asyncio, takes seconds to import and at times blocks the loop that it runs on.
"""

import logging
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio

from journal.ledger import Spent
from journal.outlet import Outlet
from journal.values import Json, JsonObject

from .model_port import FREE, ModelFailed, ModelReply, ModelRequest, Models, Rate, Role, Traits
from .models.caching import cached_from, is_claude, takes_marks
from .models.clients import StayingClients, sent_elsewhere
from .models.errors import Endless, failure_kind, failure_text, was_never_sent
from .models.estimate import untold
from .models.listening import LONGEST_STREAM, Listening
from .models.messages import pause_asked, reply_from
from .models.placeholders import without_secrets
from .models.prices import (
    FOREIGN,
    OLLAMA,
    bytes_said,
    heard_of,
    is_loopback,
    listed_rate,
    listed_window,
    own_rate,
    spent_on,
)
from .models.scripted import ScriptedModels
from .models.vendor_loop import VendorLoop, open_vendor_loop
from .models.wire_request import NotTaken, Takes, Wanted, wire_request
from .settings import SCRIPTED, ModelOptions, ModelSettings

log = logging.getLogger(__name__)

_AT_ONCE = 32
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
_UNASKED = 4096
"""The same for a model that thinks without being asked to."""
_BY_GRAMMAR = frozenset({"ollama", "ollama_chat", "lm_studio", "llamafile", "hosted_vllm", "vllm", "xinference"})
"""Servers for one's own machines, which hold a model to a schema by a grammar made of it."""
_SCRIPTED = Traits(window=10_000_000)
"""A script reads its requests only to choose what it says."""


@asynccontextmanager
async def open_models(settings: ModelSettings, outlet: Outlet) -> AsyncGenerator[Models]:
    """Every model that the settings can name. litellm is imported by `warm_up`, or when a model is first asked."""
    scripted = ScriptedModels()
    async with open_vendor_loop(_close) as loop:
        vendor = _Litellm(loop, settings.options, outlet)

        async def complete(model: str, request: ModelRequest) -> ModelReply:
            ask = scripted.complete if model.startswith(SCRIPTED) else vendor.complete
            return await ask(model, without_secrets(request, outlet))

        async def rate_of(model: str) -> Rate | None:
            return FREE if model.startswith(SCRIPTED) else await vendor.rate_of(model)

        async def warm_up() -> None:
            if not all(name and name.startswith(SCRIPTED) for name in _named(settings)):
                await vendor.warm_up()

        async def room_of(model: str, role: Role) -> int:
            return 0 if model.startswith(SCRIPTED) else await vendor.room_of(model, role)

        async def traits_of(model: str) -> Traits:
            return _SCRIPTED if model.startswith(SCRIPTED) else await vendor.traits_of(model)

        yield Models(complete, rate_of, warm_up, room_of, traits_of)


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
        self._rooms: dict[tuple[str, Role], int] = {}
        self._traits: dict[str, Traits] = {}
        self._unstreamed = set[str]()

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
        if model in self._unstreamed:
            request = replace(request, stream=False, listen=None)
        room = await self.room_of(model, request.role)
        wanted = Wanted(model, request, self._options.effort_of(request.role), room)
        longest = self._options.timeout * (1 + LONGEST_STREAM if request.stream else 1)
        async with self._calls:
            try:
                with anyio.fail_after(longest):
                    return await self._loop.run(self._ask(litellm, wanted))
            except TimeoutError as error:
                text = f"it gave no answer within {longest:g} s (model_options.timeout)"
                raise ModelFailed(model, "timeout", text) from error

    async def rate_of(self, model: str) -> Rate | None:
        """The user's price, nothing on this machine, else litellm's list; None where nobody knows."""
        if (rate := self._own_rate(model)) is not None:
            return rate
        if model not in self._rates:
            try:
                self._rates[model] = listed_rate(await self._loop.run(_loaded()), model)
            except ImportError:
                return None
        return self._rates[model]

    async def room_of(self, model: str, role: Role) -> int:
        """The tokens that it may think for: those of the effort that is set, else of a model that thinks by itself."""
        if (model, role) not in self._rooms:
            try:
                self._rooms[model, role] = self._room(await self._loop.run(_loaded()), model, role)
            except ImportError:
                return 0
        return self._rooms[model, role]

    async def traits_of(self, model: str) -> Traits:
        """What litellm's list and the model's name tell; of a model that nobody knows, what most can do."""
        if model not in self._traits:
            try:
                self._traits[model] = self._known(await self._loop.run(_loaded()), model)
            except ImportError:
                return Traits()
        return self._traits[model]

    def _known(self, litellm: Any, model: str) -> Traits:
        try:
            provider, listed = _provider(litellm, model), _listed_caching(litellm, model)
        except _faults(litellm):
            return Traits()
        elsewhere = self._options.api_base is not None
        caches = cached_from(model, provider, listed=listed, elsewhere=elsewhere)
        base = self._options.api_base
        by_grammar = provider in _BY_GRAMMAR or (base is not None and is_loopback(base))
        return Traits(listed_window(litellm, model), caches, by_grammar)

    def _room(self, litellm: Any, model: str, role: Role) -> int:
        effort = self._options.effort_of(role)
        if effort is None:
            return _UNASKED if not is_claude(model) and litellm.supports_reasoning(model) else 0
        try:
            return _THINKING.get(effort, 0) if "reasoning_effort" in _takes(litellm, model) else 0
        except _faults(litellm):
            # A name of which litellm can make nothing: the request will say so.
            return 0

    def _own_rate(self, model: str) -> Rate | None:
        if (price := self._options.price) is not None:
            return own_rate(model, price)
        base = self._options.api_base
        if base is None and model.startswith(OLLAMA):
            base = os.environ.get("OLLAMA_API_BASE", "http://localhost:11434")
        return FREE if base is not None and is_loopback(base) else None

    async def _ask(self, litellm: Any, wanted: Wanted) -> ModelReply:
        """One request, on litellm's own loop."""
        model, heard, finish = wanted.model, Listening(wanted, self._options.timeout), None
        try:
            asked = wire_request(wanted, _takes(litellm, model))
            if model.startswith("ollama_chat/"):
                _prepare_ollama(litellm, model)
            with anyio.fail_after(self._options.timeout):
                response = await litellm.acompletion(**asked.arguments, **self._address())
            if wanted.request.stream:
                response, spent, finish = await self._heard_out(litellm, wanted, response, heard)
            else:
                spent = self._spent(litellm, wanted, response, bytes_said(response))
        except NotTaken as error:
            raise ModelFailed(model, "bad_request", f"it can't be asked with {error}", spent=Spent()) from error
        except _faults(litellm) as error:
            silent = "fell silent in its reply for" if heard.pieces else "gave no answer within"
            failed = self._failed(litellm, model, error, silent=silent)
            if heard.pieces:
                failed.spent = self._spent_on_part(litellm, wanted, heard)
            raise failed from error
        finally:
            # An error keeps all that it came through.
            heard.pieces.clear()
        try:
            return replace(reply_from(model, response, spent, finish=finish), left_out=asked.left_out)
        except _faults(litellm) as error:
            raise ModelFailed(model, "malformed", failure_text("malformed", None, ""), spent=spent) from error

    async def _heard_out(
        self, litellm: Any, wanted: Wanted, stream: Any, heard: Listening
    ) -> tuple[Any, Spent, str | None]:
        """A streamed reply as a whole one, what it took, and how its provider says that it ended."""
        is_whole = await heard.to_the_end(stream)
        finish = stream.received_finish_reason or stream.intermittent_finish_reason
        if is_whole and not heard.said and finish is None:
            self._unstreamed.add(wanted.model)
            raise ModelFailed(wanted.model, "malformed", "its server sent no stream; it is asked without from now on")
        response = litellm.stream_chunk_builder(heard.pieces)
        if not is_whole:
            response.choices[0].finish_reason = "length"
            return response, self._spent_on_part(litellm, wanted, heard), None
        if not any(getattr(each, "usage", None) for each in stream.chunks):
            # What stands there is litellm's guess.
            response.usage = litellm.Usage()
        return response, self._spent(litellm, wanted, response, heard.said), finish

    def _spent(self, litellm: Any, wanted: Wanted, response: Any, said: int) -> Spent:
        at_most = untold(wanted.request, wanted.model, said, room=wanted.room, whole=True)
        return spent_on(litellm, wanted.model, response, rate=self._own_rate(wanted.model), at_most=at_most)

    def _spent_on_part(self, litellm: Any, wanted: Wanted, heard: Listening) -> Spent:
        at_most = untold(wanted.request, wanted.model, heard.said, room=wanted.room, whole=False)
        rate = self._own_rate(wanted.model) or listed_rate(litellm, wanted.model)
        return heard_of(heard.pieces, rate, at_most=at_most)

    def _address(self) -> JsonObject:
        """Where and as whom litellm asks; its own patience is longer than ours, for it says less when it ends."""
        given: JsonObject = {"api_base": self._options.api_base, "api_key": self._key()}
        return {name: value for name, value in given.items() if value is not None} | {
            "timeout": self._options.timeout * 2
        }

    def _key(self) -> str | None:
        if self._options.api_key is not None:
            return self._options.api_key.get_secret_value()
        # A server on this machine wants a key to be there, and must not be sent a provider's.
        return _DUMMY_KEY if self._options.api_base and is_loopback(self._options.api_base) else None

    def _failed(self, litellm: Any, model: str, error: Exception, *, silent: str) -> ModelFailed:
        # What broke a stream stands within the error that says so; before the first piece that is a plain status.
        cause: Json = getattr(error, "original_exception", None) or error
        status: Json = getattr(cause, "status_code", None)
        said = status if isinstance(status, int) else None
        kind = failure_kind(said, type(cause).__name__, str(cause))
        text = failure_text(kind, said, litellm._logging.redact_secrets(self._outlet.text(str(cause))))
        log.info("model_failed", extra={"model": model, "kind": kind, "status": said, "error": type(cause).__name__})
        headers: Json = getattr(error, "litellm_response_headers", None) or {}
        if isinstance(error, TimeoutError):
            text = f"it {silent} {self._options.timeout:g} s (model_options.timeout)"
        elif (elsewhere := sent_elsewhere(headers)) is not None:
            kind, text = "unavailable", elsewhere
        spent = Spent() if was_never_sent(error) else None
        return ModelFailed(model, kind, text, retry_after=pause_asked(headers), spent=spent)


def _faults(litellm: Any) -> tuple[type[Exception], ...]:
    """What litellm raises, and what it lets through: its own mistakes, errors of what it speaks HTTP with, and ours
    about its streams."""
    own = (litellm.exceptions.openai.OpenAIError, litellm.exceptions.httpx.HTTPError, RuntimeError)
    return (*own, Endless, *FOREIGN)


def _takes(litellm: Any, model: str) -> Takes:
    provider = _provider(litellm, model)
    known: list[str] | None = litellm.get_supported_openai_params(model)
    marks = takes_marks(model, provider, listed=_listed_caching(litellm, model))
    return Takes(provider, None if known is None else frozenset(known), marks)


def _provider(litellm: Any, model: str) -> str:
    name: str = litellm.get_llm_provider(model)[1]
    return name


def _listed_caching(litellm: Any, model: str) -> bool:
    return not model.startswith(OLLAMA) and bool(litellm.utils.supports_prompt_caching(model))


def _prepare_ollama(litellm: Any, model: str) -> None:
    """Keep litellm from asking the server about the model: it does so with a blocking call."""
    name = model.partition("/")[2]
    if f"ollama/{name}" not in litellm.model_cost:
        entry = {"litellm_provider": "ollama_chat", "mode": "chat", "supports_function_calling": True}
        litellm.register_model({f"ollama_chat/{name}": entry, f"ollama/{name}": entry})


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
    if not isinstance(module.in_memory_llm_clients_cache, StayingClients):
        module.in_memory_llm_clients_cache = StayingClients(module.in_memory_llm_clients_cache)
    module.suppress_debug_info = True
    module.set_verbose = False
    module.telemetry = False
    module.callbacks, module.success_callback, module.failure_callback = [], [], []
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.WARNING)
    return module
