"""One real question to a model: whether it answers, calls functions, and gives JSON in a form that is asked for."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from downstream.model_port import FREE, Function, Message, ModelFailed, ModelReply, ModelRequest, Models, Place, Rate
from downstream.models.habits import habit
from downstream.models.replies import ReplyErrors, found_in
from downstream.models.structured import Form, formatted
from executors.worker.turn import uses_of
from journal.ledger import Spent
from journal.remembered import Remembered
from journal.values import JsonObject

from .finding import Finding

Way: TypeAlias = Literal["functions", "written", "schema", "text"]
"""How a model says what it wants done: calls, calls that it writes as text, JSON by schema, JSON in its text."""

_TOKENS = 300
_FORM: Form[JsonObject] = Form(
    "say_word",
    {
        "type": "object",
        "properties": {"word": {"type": "string", "description": "the word that you were given"}},
        "required": ["word"],
    },
    dict,
    "Say the word that you were given.",
)
_FUNCTION = Function(_FORM.name, _FORM.description, _FORM.schema)
_REQUEST = ModelRequest(
    "worker",
    Place(),
    (
        Message("system", "You do what you are asked by calling the function that you are offered."),
        Message("user", "The word is: harbour. Say it by calling say_word."),
    ),
    _TOKENS,
)
_REMINDER = Message("user", "Text alone does nothing here. Call say_word now.")
_STYLES: dict[Way, str] = {"functions": "functions", "written": "functions", "schema": "schema", "text": "text"}
_WAYS_OUT = {
    "auth": "check the key in the variable that the settings name",
    "quota": "look at the account of its provider",
    "transport": "start its server, or correct model_options.api_base",
    "timeout": "raise model_options.timeout, or take a faster model",
    "bad_request": "check the model's name: it is `provider/name`, as litellm writes it",
    "price": "write model_options.price",
}


@dataclass
class Trial:
    """How it went with one model. `way` is None where nothing that it said could be used."""

    model: str
    way: Way | None = None
    failed: ModelFailed | None = None
    asked: int = 0
    spent: list[Spent] = field(default_factory=list[Spent])
    seconds: float = 0.0


async def at_most(models: Models, model: str) -> tuple[int, Rate | None]:
    """The tokens that the first question can take, and their price (None: nobody knows)."""
    request = replace(_REQUEST, functions=(_FUNCTION,))
    tokens = request.prompt_characters() // 4 + _TOKENS + await models.room_of(model, "worker")
    return tokens, await models.rate_of(model)


async def try_out(models: Models, model: str) -> Trial:
    """Ask once; a model that calls no function is asked again, and then in the other ways, until one works."""
    trial = Trial(model)
    began = time.monotonic()
    try:
        trial.way = await _first_way(models, trial)
    except ModelFailed as error:
        trial.failed = error
    trial.seconds = time.monotonic() - began
    return trial


async def _first_way(models: Models, trial: Trial) -> Way | None:
    offered = replace(_REQUEST, functions=(_FUNCTION,))
    reply = await _ask(models, trial, offered)
    if reply is not None and not _is_called(reply):
        # As in a run: what was told twice to call something, and did not, can't.
        again = replace(offered, messages=(*offered.messages, reply.message(), _REMINDER))
        reply = await _ask(models, trial, again)
    if reply is not None and _is_called(reply):
        return "functions" if reply.uses else "written"
    for way in ("schema", "text"):
        reply = await _ask(models, trial, formatted(_REQUEST, _FORM, way))
        if reply is not None and _is_said(reply):
            return way
    return None


async def _ask(models: Models, trial: Trial, request: ModelRequest) -> ModelReply | None:
    """None where the server does not take the question in this form. Raises ModelFailed."""
    trial.asked += 1
    try:
        reply = await models.complete(trial.model, request)
    except ModelFailed as error:
        # Without the functions or the schema, the same server may answer.
        if error.kind == "bad_request" and (request.functions or request.schema is not None):
            trial.failed = error
            return None
        raise
    trial.failed = None
    trial.spent.append(reply.spent)
    return reply


def _is_called(reply: ModelReply) -> bool:
    """Whether a worker would take it for a call that can be made."""
    uses = uses_of(reply, "submit_report")
    return any(use.name == _FORM.name and use.problem is None and "word" in use.arguments for use in uses)


def _is_said(reply: ModelReply) -> bool:
    try:
        found = found_in(reply, _FORM.name, _FORM.schema)
    except ReplyErrors:
        return False
    return found is not None and isinstance(found.get("word"), str)


async def remember(remembered: Remembered, trial: Trial) -> bool:
    """Have runs begin in the way that works, as they would find out for themselves; whether that is news to them."""
    if trial.way is None:
        return False
    name = habit(trial.model)
    style = {"style": _STYLES[trial.way]}
    is_news = style != (await remembered.get("worker", name) or {"style": "functions"})
    if is_news:
        await remembered.put("worker", name, style)
    if trial.way == "text":
        await remembered.put("model", name, {"rung": "text"})
    return is_news


def price_in_words(rate: Rate | None, tokens: int) -> str:
    """What so many tokens cost at most."""
    if rate is None:
        return "at a price that nobody knows"
    return "for nothing" if rate == FREE else f"for at most ${rate.cost(input_tokens=0, output_tokens=tokens):.4f}"


def findings(trial: Trial, *, is_news: bool) -> Iterator[Finding]:
    """What the trial says of the model."""
    model, check = trial.model, "model call"
    if trial.failed is not None and trial.way is None:
        way_out = _WAYS_OUT.get(trial.failed.kind, "try again later, or take another model")
        yield Finding(check, "problem", str(trial.failed), way_out)
        return
    spent = f"{sum(each.tokens for each in trial.spent)} tokens, {trial.seconds:.1f} s"
    questions = "once" if trial.asked == 1 else f"{trial.asked} times"
    took = f"(asked {questions}: {spent})"
    kept = "; runs begin so from now on" if is_news else ""
    if trial.way == "functions":
        yield Finding(check, "ok", f"{model} answers and calls functions{kept} {took}")
    elif trial.way == "written":
        yield Finding(check, "ok", f"{model} answers, and writes its calls as text, which is read as well{kept} {took}")
    elif trial.way == "schema":
        text = f"{model} calls no functions but gives JSON by schema: its workers say one action at a time{kept} {took}"
        yield Finding(check, "warning", text, "nothing has to be done; a model that calls functions works faster")
    elif trial.way == "text":
        text = f"{model} calls no functions and keeps to no schema: it gives JSON in its text{kept} {took}"
        yield Finding(check, "warning", text, "take a model that keeps to a schema, if plans fail")
    else:
        text = f"{model} answers, but neither by a function nor in JSON, so that it can neither plan nor work {took}"
        yield Finding(check, "problem", text, "take another model")
