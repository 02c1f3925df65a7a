"""Replies in a form: asked for as JSON by schema, else as a function call, else as JSON in the text, and repaired."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeAlias, TypeVar

from pydantic import ValidationError

from downstream.json_shape import is_object
from downstream.model_port import Function, Message, ModelFailed, ModelReply, ModelRequest
from downstream.settings import SCRIPTED
from journal.errors import SteprelayError
from journal.events import NewEvent
from journal.remembered import Remembered
from journal.run_journal import Meaning, RunJournal
from journal.values import Json, JsonObject

from .door import WORK, Account, ModelDoor
from .habits import habit
from .replies import ReplyErrors, broken_json, found_in, tidied
from .schemas import for_reply

T = TypeVar("T")
Rung: TypeAlias = Literal["schema", "function", "text"]
RUNGS: tuple[Rung, ...] = ("schema", "function", "text")
REPAIRS = 2
"""So often a model is shown what is wrong with its reply before it is asked in another way."""
_QUOTED = 8_000


class NoReply(SteprelayError):
    """A model was asked in every way and gave nothing of the wanted form; `errors` says what was wrong at last."""

    def __init__(self, model: str, name: str, errors: list[str]) -> None:
        self.errors = errors
        super().__init__(f"model {model} gave no usable {name}: {'; '.join(errors)}; another model may do better")


@dataclass(frozen=True)
class Instead:
    """What a model may do in place of handing in its reply: call `function`, or fill in `field` where it writes JSON.

    `read` of the form gets what it said under `field`: the arguments of the function, or the text of its first one.
    """

    field: str
    function: Function


@dataclass(frozen=True)
class Form(Generic[T]):
    """A reply by its name. `read` makes it ours and raises ReplyErrors or pydantic's ValidationError where it can't.

    `from_text` takes a reply without JSON as it stands, for roles whose reply is text at heart. What `instead` names
    is read always, and offered where the question says so. `is_told` is false where the request tells of it already.
    `taken` is what a reply may hold, where that is more than what is asked for.
    """

    name: str
    schema: JsonObject
    read: Callable[[JsonObject], T]
    description: str = ""
    from_text: Callable[[str], T] | None = None
    instead: Instead | None = None
    is_told: bool = True
    taken: JsonObject | None = None

    @property
    def whole_schema(self) -> JsonObject:
        """The schema of the reply, with the field for what may stand in its place."""
        return self._with_instead(self.schema)

    @property
    def read_schema(self) -> JsonObject:
        """The schema by which a reply is read."""
        return self._with_instead(self.taken or self.schema)

    def _with_instead(self, schema: JsonObject) -> JsonObject:
        if self.instead is None:
            return schema
        told = f"{self.instead.function.description} Empty where you hand in."
        name, field = self.instead.field, {"type": "string", "description": told}
        if "anyOf" in schema:
            only: JsonObject = {"type": "object", "properties": {name: field}, "required": [name]}
            return schema | {"anyOf": [only, *schema["anyOf"]]}
        return schema | {"properties": {name: field} | schema["properties"]}


@dataclass(frozen=True)
class Question(Generic[T]):
    """What is asked: a request that says nothing of the format yet, what it means, and the form of its reply.

    `after` is what was said since it was first asked. It stands behind what tells of the format, so that each of these
    requests begins with the whole of the one before. `offers` says whether what may stand in the reply's place is told.
    """

    request: ModelRequest
    meaning: Meaning
    form: Form[T]
    account: Account = WORK
    after: tuple[Message, ...] = ()
    offers: bool = False

    def asked(self, rung: Rung, *, by_grammar: bool = False) -> ModelRequest:
        """The request with its format put in the way of that rung."""
        request = formatted(self.request, self.form, rung, offers=self.offers, by_grammar=by_grammar)
        return replace(request, messages=(*request.messages, *self.after))


async def ask_structured(door: ModelDoor, journal: RunJournal, key: str, question: Question[T]) -> T:
    """Ask until there is a reply of the form: first under `key`, then under `key/repair.N`.

    A reply without the form is repaired, then asked for in the next way, with which later questions start. A reply of
    the form that `read` refuses with ReplyErrors is repaired only. Raises NoReply, or what `ModelDoor.ask` raises.
    """
    begun = await _begun(door, journal, key, question)
    ladder = _Ladder(door, journal, key, question, begun=begun)
    while True:
        reply = await ladder.ask()
        if reply is None:
            continue
        if reply.finish == "refusal":
            raise NoReply(reply.model, question.form.name, ["it refused to answer"])
        try:
            value = await ladder.read(reply)
            await ladder.remember(reply)
            return value
        except _Formless as error:
            if not ladder.repair(reply, error.errors) and not ladder.climb_down():
                raise NoReply(reply.model, question.form.name, error.errors) from error
        except ReplyErrors as error:
            if not ladder.repair(reply, error.errors):
                raise NoReply(reply.model, question.form.name, error.errors) from error


class _Formless(ReplyErrors):
    """The reply has not the form; asked in another way, the model may give it."""


@dataclass(frozen=True)
class _Begun:
    """How a question begins: where the last one to this model ended, and how its server is told of schemas."""

    rung: Rung
    by_grammar: bool


async def _begun(door: ModelDoor, journal: RunJournal, key: str, question: Question[T]) -> _Begun:
    """A replay begins as this one did."""
    model = door.model_for(question.request.role, question.account)

    async def first() -> JsonObject:
        rung, traits = await remembered_rung(door.remembered, model), await door.traits_of(model)
        return {"rung": rung, "by_grammar": traits.by_grammar}

    found = await journal.memo(f"{key}/rung", Meaning("rung", model), first)
    # An earlier release wrote the rung alone.
    begun: JsonObject = found if is_object(found) else {"rung": found, "by_grammar": False}
    return _Begun(_rung(begun["rung"]), begun["by_grammar"])


class _Ladder(Generic[T]):
    """Where a question stands: the way it is asked now, and what the model is shown of its last reply."""

    def __init__(self, door: ModelDoor, journal: RunJournal, key: str, question: Question[T], *, begun: _Begun) -> None:
        self.door = door
        self.journal = journal
        self.key = key
        self.question = question
        self.begun = begun
        self.rung: Rung = begun.rung
        self.model = door.model_for(question.request.role, question.account)
        self.asks = 0
        self.repairs = 0
        self.shown: tuple[Message, ...] = ()

    async def ask(self) -> ModelReply | None:
        """The next reply; None if the server does not take this way of asking, and the next is tried."""
        key = f"{self.key}/repair.{self.asks}" if self.asks else self.key
        request = self.question.asked(self.rung, by_grammar=self.begun.by_grammar)
        request = replace(
            request,
            messages=(*request.messages, *self.shown),
            place=replace(request.place, repair=self.asks),
        )
        self.asks += 1
        try:
            return await self.door.ask(self.journal, key, self.question.meaning, request, account=self.question.account)
        except ModelFailed as error:
            if error.kind != "bad_request" or not self.climb_down():
                raise
            return None

    async def read(self, reply: ModelReply) -> T:
        """What the reply says. Raises _Formless or ReplyErrors."""
        form = self.question.form
        if reply.finish == "length":
            longest = self.question.request.max_tokens
            raise _Formless([f"it was cut off for its length; say it shorter, in at most {longest} tokens"])
        try:
            data = found_in(reply, form.name, form.read_schema)
            if data is None:
                data = _instead(reply, form)
            if data is None and form.from_text is not None and reply.text.strip():
                return form.from_text(reply.text)
            if data is None:
                raise _Formless([broken_json(reply.text) or f"no JSON for {form.name} was found in it"])
            tidy, dropped = tidied(data, form.read_schema)
        except ReplyErrors as error:
            raise _Formless(error.errors) from error
        if dropped and not reply.replayed:
            text = f"{form.name}: unknown fields dropped: {', '.join(dropped)[:200]}"
            await self.journal.say(NewEvent("warning", {"text": text}, step=self.question.request.place.step))
        try:
            return form.read(tidy)
        except ValidationError as error:
            raise _Formless(validation_errors(error)) from error

    def repair(self, reply: ModelReply, errors: list[str]) -> bool:
        """Have the model shown what was wrong; False if it has been often enough."""
        if self.repairs == REPAIRS:
            return False
        self.repairs += 1
        problems = "\n".join(f"- {error}" for error in errors)
        text = f"That reply can't be used:\n{problems}\nReply again in full, with all of this put right. {_asked(self)}"
        said = reply.text or "\n".join(use.arguments for use in reply.uses)
        quoted = () if reply.finish == "length" or not said else (Message("assistant", said[:_QUOTED]),)
        self.shown = (*quoted, Message("user", text))
        return True

    def climb_down(self) -> bool:
        """Ask in the next way from now on; False on the last rung."""
        if self.rung == RUNGS[-1]:
            return False
        self.rung = RUNGS[RUNGS.index(self.rung) + 1]
        self.repairs, self.shown = 0, ()
        return True

    async def remember(self, reply: ModelReply) -> None:
        """Note for later questions which way led to a reply, if it was not the first."""
        learned = self.rung != self.begun.rung and reply.model == self.model
        if learned and not reply.replayed and not self.model.startswith(SCRIPTED):
            await self.door.remembered.put("model", habit(self.model), {"rung": self.rung})


def formatted(
    request: ModelRequest, form: Form[T], rung: Rung, *, offers: bool = False, by_grammar: bool = False
) -> ModelRequest:
    """The request with its format put in the way of that rung; `offers` what may stand in the reply's place."""
    if rung == "function":
        handed_in = Function(form.name, form.description or f"Hand in the reply {form.name}.", for_reply(form.schema))
        if offers and form.instead is not None:
            return replace(request, name=form.name, functions=(form.instead.function, handed_in))
        return replace(request, name=form.name, functions=(handed_in,), force=form.name)
    # A field and no function: many servers lose functions that are asked for together with a schema.
    wire = for_reply(form.whole_schema if offers else form.schema, by_grammar=by_grammar)
    # Servers that hold the model to a schema don't all show it to the model, and those that drop it say nothing.
    by_schema = f", by this JSON Schema:\n{json.dumps(wire)}" if form.is_told else "."
    told = f"reply with JSON: {form.name}\nOne JSON object and nothing else{by_schema}"
    return replace(
        request,
        name=form.name,
        schema=wire if rung == "schema" else None,
        strict=not by_grammar,
        messages=(*request.messages, Message("user", told)),
    )


def _instead(reply: ModelReply, form: Form[T]) -> JsonObject | None:
    """What was done in place of handing in, where it was not told by its field."""
    if form.instead is None:
        return None
    function = form.instead.function
    arguments = found_in(reply, function.name, function.parameters)
    return None if arguments is None else {form.instead.field: arguments}


async def remembered_rung(remembered: Remembered, model: str) -> Rung:
    """The first way of asking that has not failed with this model and this release of litellm."""
    known = await remembered.get("model", habit(model))
    return _rung(None if known is None else known.get("rung"))


def _rung(name: Json) -> Rung:
    found: list[Rung] = [rung for rung in RUNGS if rung == name]
    return found[0] if found else RUNGS[0]


def validation_errors(error: ValidationError) -> list[str]:
    """pydantic's complaints in one line each, without the input."""
    return [f"{'.'.join(map(str, each['loc'])) or 'reply'}: {each['msg']}" for each in error.errors()]


def _asked(ladder: "_Ladder[T]") -> str:
    name = ladder.question.form.name
    return f"Call {name}." if ladder.rung == "function" else f"reply with JSON: {name}"
