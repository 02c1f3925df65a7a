"""What a tool server asks a person before it goes on, and, for servers of the older protocol, in which call."""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
from mcp import MCPError
from mcp.client import ClientRequestContext
from mcp.types import ElicitRequest, ElicitRequestParams, ElicitRequestURLParams, ElicitResult, InputRequiredResult
from mcp_types import URL_ELICITATION_REQUIRED, ElicitationRequiredErrorData, InputResponses
from pydantic import ValidationError

from downstream.json_shape import is_array, is_object
from downstream.questions import FormAsked, Question, Reply, UrlAsked
from journal.errors import SteprelayError
from journal.values import Json

from .failures import CallFailed
from .names import clean_text

log = logging.getLogger(__name__)
T = TypeVar("T")

ROUNDS = 8
"""A server that asks more often within one call, or for more at once, is not answered any more."""


@dataclass(frozen=True)
class Resumed:
    """The answers with which a call is made again, and the state that the server wants back."""

    replies: Mapping[str, Reply]
    state: str | None

    def responses(self) -> InputResponses | None:
        return {name: _result(reply) for name, reply in self.replies.items()} or None


NOT_RESUMED = Resumed({}, None)
CANCELLED = Reply("cancel")


class AsksBack(SteprelayError):
    """The server asked instead of doing the call, which by the protocol it has not begun.

    `anew`: once all is done that it asked for, the call is made again as it was, without the answers.
    """

    def __init__(
        self, server: str, questions: Mapping[str, Question], state: str | None, *, anew: bool = False
    ) -> None:
        self.questions, self.state, self.anew = questions, state, anew
        super().__init__(f"{server} asks for input before it goes on")


def asked_in_result(server: str, result: InputRequiredResult) -> AsksBack | CallFailed:
    """What an answer asks for. Only a person is ever asked: of models and folders we have said that we give none."""
    questions: dict[str, Question] = {}
    requests = result.input_requests or {}
    if len(requests) > ROUNDS:
        return _too_many(server, len(requests))
    for name, request in requests.items():
        if not isinstance(request, ElicitRequest):
            return CallFailed(f"{server} asks for {request.method}, which it is never given", may_have_run=False)
        questions[name] = question_of(request.params)
    return AsksBack(server, questions, result.request_state)


def asked_in_error(server: str, error: Exception) -> AsksBack | CallFailed | None:
    """The addresses that an error of protocol 2025-11-25 wants opened first; None for any other error."""
    if not isinstance(error, MCPError) or error.code != URL_ELICITATION_REQUIRED:
        return None
    data: Json = error.data
    asked: Json = data.get("elicitations") if is_object(data) else None
    if is_array(asked) and len(asked) > ROUNDS:
        return _too_many(server, len(asked))
    try:
        wanted = ElicitationRequiredErrorData.model_validate(error.data, by_name=False).elicitations
    except ValidationError:
        return None
    questions = {str(number): question_of(params) for number, params in enumerate(wanted)}
    return AsksBack(server, questions, None, anew=True)


def _too_many(server: str, count: int) -> CallFailed:
    text = f"{server} asks for {count} things at once; at most {ROUNDS} are put before a person"
    return CallFailed(text, may_have_run=False)


def question_of(params: ElicitRequestParams) -> Question:
    message = clean_text(params.message)
    if isinstance(params, ElicitRequestURLParams):
        return UrlAsked(message, params.url)
    return FormAsked(message, params.requested_schema)


@dataclass(frozen=True)
class Desk:
    """Where the questions of one call go. What `ask` raises ends the call; `warn` says why one was declined."""

    ask: Callable[[Question], Awaitable[Reply]]
    warn: Callable[[str], Awaitable[None]]


async def _decline(question: Question) -> Reply:
    return Reply("decline")


async def _ignore(text: str) -> None:
    pass


NO_DESK = Desk(_decline, _ignore)
"""For calls behind which no run stands."""


@dataclass
class _Put:
    """A question, or a text of ours, on its way to the task that makes the call."""

    item: Question | str
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)
    reply: Reply = CANCELLED


class OpenCall:
    """One call under way. Its questions are put to the desk one by one, in the task that makes the call.

    `aside` is entered while a person is asked, whose time is not the server's.
    """

    def __init__(self, desk: Desk, aside: Callable[[], AbstractContextManager[None]]) -> None:
        self.answered = False
        self._desk = desk
        self._aside = aside
        self._puts: list[_Put] = []
        self._more = anyio.Event()
        self._ended = False
        self._problem: Exception | None = None

    async def during(self, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` returns. Raises what `work` or the desk raises, bare."""
        ended: list[T] = []
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._serve, group.cancel_scope)
                try:
                    ended.append(await work())
                    self.answered = True
                except (SteprelayError, MCPError, ValidationError, RuntimeError) as error:
                    self._problem, self.answered = error, True
                group.cancel_scope.cancel()
        finally:
            self._ended = True
            for each in self._puts:
                each.done.set()
        if self._problem is not None:
            raise self._problem
        return ended[0]

    async def put(self, item: Question | str) -> Reply:
        """Have the desk answer a question, or tell it a text; `cancel` once the call has ended."""
        each = _Put(item)
        if self._ended:
            return each.reply
        self._puts.append(each)
        self._more.set()
        try:
            await each.done.wait()
        finally:
            each.scope.cancel()
        return each.reply

    async def _serve(self, call: anyio.CancelScope) -> None:
        taken = 0
        while True:
            await self._more.wait()
            self._more = anyio.Event()
            for each in self._puts[taken:]:
                try:
                    await self._answer(each)
                except SteprelayError as error:
                    self._problem = error
                    call.cancel()
                taken += 1

    async def _answer(self, each: _Put) -> None:
        with each.scope:
            if isinstance(each.item, str):
                await self._desk.warn(each.item)
            else:
                with self._aside():
                    each.reply = await self._desk.ask(each.item)
        each.done.set()


_CALL: ContextVar[OpenCall | None] = ContextVar("open_call", default=None)
# Over HTTP a question comes in answer to the request of its call, and the SDK hands it on in that request's context.


@dataclass(eq=False)
class _Unplaced:
    """A question of which it is not known yet whose it is; `hopeless` where as many wait as calls could have asked."""

    hopeless: bool = False


class OpenCalls:
    """The calls under way on one connection, and the answer to the question whose question one is.

    Over stdio the older protocol does not say. Once a server has asked, its calls are made one at a time, through
    `slots`; a question that comes before is that of the call which is left when all others are answered.
    """

    def __init__(self, server: str, slots: anyio.CapacityLimiter) -> None:
        self._server = server
        self._slots = slots
        self._open: list[OpenCall] = []
        self._unplaced: list[_Unplaced] = []
        self._moved = anyio.Event()

    @contextmanager
    def entered(self, call: OpenCall) -> Generator[OpenCall]:
        """The call is under way within."""
        self._open.append(call)
        token = _CALL.set(call)
        try:
            yield call
        finally:
            _CALL.reset(token)
            self._open.remove(call)
            self._move()

    async def on_question(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        """Answers a server of the older protocol; a question that belongs to no call is declined."""
        call = _CALL.get() or await self._whose()
        return _result(Reply("decline") if call is None else await call.put(question_of(params)))

    async def _whose(self) -> OpenCall | None:
        if not (candidates := list(self._open)):
            return None
        self._slots.total_tokens = 1
        mine = _Unplaced()
        self._unplaced.append(mine)
        self._move()
        try:
            while True:
                left = [call for call in candidates if call in self._open]
                # One that was given up may be the one that asked.
                if any(call not in left and not call.answered for call in candidates):
                    break
                if len(left) == 1:
                    return left[0]
                if len(self._unplaced) >= len(left):
                    for each in self._unplaced:
                        each.hopeless = True
                    self._move()
                if mine.hopeless:
                    break
                await self._moved.wait()
        finally:
            self._unplaced.remove(mine)
        await self._tell(left)
        return None

    async def _tell(self, calls: list[OpenCall]) -> None:
        text = (
            f"{self._server} asked for input while several of its calls were under way, and did not say for which; "
            "it was declined. From now on its calls are made one at a time"
        )
        log.warning("question_declined", extra={"server": self._server, "calls": len(calls)})
        for call in calls:
            await call.put(text)

    def _move(self) -> None:
        self._moved.set()
        self._moved = anyio.Event()


def _result(reply: Reply) -> ElicitResult:
    return ElicitResult(action=reply.action, content=reply.content)
