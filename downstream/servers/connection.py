"""The connection to one tool server: opened when first needed, held by one task, opened again when it was lost."""

import logging
import math
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import TypeAlias

import anyio
import httpx2
from mcp import Client, ClientSession, MCPError
from mcp.types import CallToolResult, Implementation, InputRequiredResult, TextContent
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from downstream.gate.schema_visits import Unusable
from downstream.settings import ServerSettings
from journal.errors import SteprelayError
from journal.values import Json, JsonObject
from journal.world import World

from .asking import AsksBack, OpenCall, OpenCalls, asked_in_error, asked_in_result
from .caller import Caller, Patience
from .changes import Changes
from .exchange import Exchange, new_exchange
from .failures import (
    AnsweredBadly,
    CallFailed,
    NeedsLogin,
    NotAccepted,
    ServerUnavailable,
    broken_promise,
    explain,
    login_reason,
    no_answer,
    why_not_open,
)
from .life import Life
from .listing import Listing
from .listing_mend import Mender
from .promise import misfit
from .results import DID_RUN, IN_SESSION
from .session import US, Inspect, Session
from .tool_request import Answer, request_call
from .transports import Surroundings, open_transport

log = logging.getLogger(__name__)

RawResult: TypeAlias = CallToolResult
"""What a server answered to a call, as the SDK read it; `results.normalise` makes it ours."""

NOBODY = Caller()
"""A caller of no run, which may always send."""

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0
_CLOSE_SECONDS = 4.0
_CLOSING = "steprelay is closing"
# What a server can bring about, by itself or through the SDK that reads what it says.
_ENDS = (
    *(SteprelayError, MCPError, OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError),
    *(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError),
    *(httpx2.HTTPError, httpx2.InvalidURL),
)
_NOT_LISTED = (MCPError, ValidationError, RuntimeError, TimeoutError)


@dataclass
class _Opening:
    """One turn of the owner task: `wanted` asks for it, and it `ended` when it is open or has failed with `error`."""

    wanted: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    error: str | None = None


class Connection:
    """One server. `run` is its owner task, started by the pool; everything else may be used from any task."""

    def __init__(self, server: ServerSettings, world: World, around: Surroundings) -> None:
        self.server = server
        self.inspect: Inspect | None = None
        self.protocol: str | None = None
        """The version of the protocol that was agreed upon last."""
        self._world = world
        self._around = around
        self._slots = anyio.CapacityLimiter(server.options.max_parallel)
        self._calls = OpenCalls(server.name, self._slots)
        self._unchecked: set[str] = set()
        self._session: Session | None = None
        self._opening = _Opening()
        self._scope = anyio.CancelScope()
        self._stopped = anyio.Event()

    @property
    def is_open(self) -> bool:
        """Whether there is a connection that is not known to be lost."""
        return self._session is not None and self._session.life.is_good

    async def listing(self, *, fresh: bool = False) -> Listing:
        """What the server lists, opening it where it is not; `fresh` asks it again. Raises ServerUnavailable."""
        was_open = self._session is not None
        session = await self._ready()
        if fresh and was_open:
            try:
                with anyio.fail_after(self.server.options.start_timeout):
                    await session.list_tools()
            except _NOT_LISTED as error:
                session.life.end()
                raise ServerUnavailable(self.server.name, why_not_open(error, said="")) from error
        return session.listing

    async def call(
        self,
        tool: str,
        arguments: JsonObject,
        *,
        timeout: float,  # noqa: ASYNC109 - counts only from the moment of sending
        caller: Caller = NOBODY,
    ) -> RawResult:
        """Call a tool (its name without the server), waiting for a free slot and for the server to be open.

        The deadline counts from then on, and so does the leave to send, which is asked for then. An answer that is an
        error, or does not fit, is a result with `is_error`. A call that surely did not run since the connection was
        lost, or its leave had lapsed, is sent once more. Raises CallFailed, and what the caller's `leave` raises.
        """
        async with self._slots:
            try:
                return await self._send(tool, arguments, timeout=timeout, caller=caller)
            except CallFailed as failed:
                if not failed.lost:
                    raise
            return await self._send(tool, arguments, timeout=timeout, caller=caller)

    async def run(self) -> None:
        """Open whenever somebody wants it, hold, close; ends after `stop`. Nothing but faults of ours is raised."""
        try:
            await self._open_again_and_again()
        finally:
            self._stopped.set()
            self._end(self._opening, _CLOSING)

    async def _open_again_and_again(self) -> None:
        failures = 0
        while True:
            opening, problem = self._opening, None
            await opening.wanted.wait()
            if self._stopped.is_set():
                return
            try:
                await self._hold(opening)
            # It is told to those who wait for the connection, and costs no other one.
            except* _ENDS as errors:
                problem = errors
            if problem is not None:
                log.debug("server_ended", extra={"server": self.server.name}, exc_info=problem)
                await self._around.tail.settle()
                self._end(opening, self._why_not(problem))
            # A login makes it worth another look at once.
            failures = failures + 1 if opening.error and not self._needs_login else 0
            with anyio.move_on_after(self._pause(failures)):
                await self._stopped.wait()

    def stop(self) -> None:
        """Close in good order and open no more; `run` ends within 6 s."""
        self._stopped.set()
        self._opening.wanted.set()
        if self._session is None:
            self._scope.cancel()
        else:
            self._session.life.end()

    def let_go(self) -> None:
        """Close, once no call is on its way, until somebody wants it again."""
        if self._session is not None:
            self._session.life.wear_out()

    async def _hold(self, opening: _Opening) -> None:
        server, life, changes, mender = self.server, Life(), Changes(), Mender()
        try:
            with anyio.move_on_after(server.options.start_timeout) as self._scope:
                transport = open_transport(server, self._around, life=life, on_change=changes.tell, mender=mender)
                info = Implementation(name=US, version=version(US))
                async with Client(
                    transport,
                    client_info=info,
                    cache=None,
                    # Declares forms and addresses; neither a model's replies nor folders are ever offered.
                    elicitation_callback=self._calls.on_question,
                ) as client:
                    session = Session(server, client, life, changes, self._world.new_id("s"), self.inspect, mender)
                    await session.list_tools()
                    self.protocol = client.protocol_version
                    self._session = session
                    self._scope.deadline = math.inf
                    self._end(opening)
                    await self._until_lost(session)
                    self._session = None
                    self._scope.deadline = anyio.current_time() + _CLOSE_SECONDS
        finally:
            self._session = None
        if not opening.ended.is_set():
            raise no_answer(server)

    async def _until_lost(self, session: Session) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(session.changes.follow, session.client, partial(self._list_again, session))
            await session.life.lost.wait()
            group.cancel_scope.cancel()

    async def _list_again(self, session: Session) -> None:
        try:
            with anyio.fail_after(self.server.options.start_timeout):
                await session.list_tools()
        except _NOT_LISTED:
            session.life.end("it does not list its tools any more")

    async def _ready(self) -> Session:
        if self._session is not None and self._session.life.is_good:
            return self._session
        if self._stopped.is_set():
            raise ServerUnavailable(self.server.name, _CLOSING)
        if self._needs_login:
            raise ServerUnavailable(self.server.name, login_reason(self.server.name))
        opening = self._opening
        opening.wanted.set()
        await opening.ended.wait()
        if self._session is None:
            raise ServerUnavailable(self.server.name, opening.error or "it ended right after it was opened")
        return self._session

    async def _send(
        self,
        tool: str,
        arguments: JsonObject,
        *,
        timeout: float,  # noqa: ASYNC109
        caller: Caller,
    ) -> RawResult:
        session = await self._ready_for(tool, caller.binding)
        with session.life.one_call():
            exchange = Exchange(await caller.leave(), self._world.reach)
            self._world.reach("send.leave")
            patience = Patience(timeout, caller)
            call = OpenCall(caller.desk, patience.aside)
            work = partial(request_call, self._open_client(session), tool, arguments, caller=caller, patience=patience)
            answers: list[Answer] = []
            with new_exchange(exchange), self._calls.entered(call), patience.wait():
                try:
                    answers.append(await call.during(work))
                except (MCPError, ValidationError, RuntimeError) as error:
                    return self._answer_to(error, exchange, session)
            if not answers:
                text = f"{self.server.name}.{tool} gave no answer {patience.over}"
                raise CallFailed(text, may_have_run=exchange.sent, late=True)
            (answer,) = answers
            if isinstance(answer, InputRequiredResult):
                raise asked_in_result(self.server.name, answer)
            self._world.reach("send.answered")
            return await self._checked(tool, answer, session)

    def _open_client(self, session: Session) -> ClientSession:
        """Raises CallFailed where the connection was closed since it was taken for open."""
        try:
            return session.client.session
        except RuntimeError as error:
            text = f"{self.server.name} went away before the call was sent"
            raise CallFailed(text, may_have_run=False, lost=True) from error

    async def _checked(self, tool: str, result: RawResult, session: Session) -> RawResult:
        """The result, unless it breaks the promise of its server; one that cannot be checked is taken as it is."""
        listed = session.listing.tool(tool)
        try:
            wrong = await misfit(tool, listed.output_schema if listed else None, result)
        except Unusable as error:
            if tool not in self._unchecked:
                self._unchecked.add(tool)
                log.warning(
                    "result_unchecked", extra={"server": self.server.name, "tool": tool, "why": str(error)[:200]}
                )
            wrong = None
        return _marked(result, session) if wrong is None else _made_up(broken_promise(self.server.name, wrong), session)

    def _answer_to(
        self, error: MCPError | ValidationError | RuntimeError, exchange: Exchange, session: Session
    ) -> RawResult:
        """The answer that an error stands for. Raises CallFailed where it stands for none."""
        if session.life.why is not None and isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
            error = MCPError(error.code, session.life.why)
        if exchange.status == 401 and (refused := self._login_failure()) is not None:
            raise refused from error
        meant = asked_in_error(self.server.name, error) or explain(self.server.name, error, exchange)
        if isinstance(meant, AsksBack):
            raise meant from error
        if isinstance(meant, AnsweredBadly):
            return _made_up(meant, session)
        if meant.lost:
            session.life.end()
        raise meant from error

    async def _ready_for(self, tool: str, binding: str | None) -> Session:
        self._world.reach("send.opening")
        try:
            session = await self._ready()
            await session.changes.settled.wait()
        except ServerUnavailable as error:
            failed = NeedsLogin(self.server.name) if self._needs_login else CallFailed(str(error), may_have_run=False)
            raise failed from error
        if (why := session.why_not(tool, binding)) is not None:
            raise NotAccepted(f"{self.server.name}.{tool}", why)
        return session

    @property
    def _needs_login(self) -> bool:
        return self._around.access is not None and self._around.access.is_due()

    def _login_failure(self) -> CallFailed | None:
        """Why a call did not run, where that is a matter of the login."""
        access, name = self._around.access, self.server.name
        if self._needs_login:
            return NeedsLogin(name)
        if access is not None and access.trouble is not None:
            return CallFailed(f"{name} refused the call: {access.trouble}", may_have_run=False)
        return None

    def _why_not(self, error: Exception) -> str:
        access = self._around.access
        if self._needs_login:
            return login_reason(self.server.name)
        if access is not None and access.trouble is not None:
            return access.trouble
        return why_not_open(error, said=self._around.tail.short())

    def _end(self, opening: _Opening, error: str | None = None) -> None:
        if not opening.ended.is_set():
            opening.error = error
            self._opening = _Opening()
            opening.ended.set()

    def _pause(self, failures: int) -> float:
        longest = min(_FIRST_PAUSE * 2**failures, _LONGEST_PAUSE) if failures else 0.0
        return longest * (0.5 + self._world.chance() / 2)


def _made_up(meant: AnsweredBadly, session: Session) -> RawResult:
    said, mark = TextContent(type="text", text=str(meant)), {DID_RUN: True} if meant.did_run else {}
    return _marked(CallToolResult(content=[said], is_error=True), session, **mark)


def _marked(result: RawResult, session: Session, **marks: Json) -> RawResult:
    """The result with our marks only: what a server sends under their names counts for nothing."""
    theirs = {name: value for name, value in (result.meta or {}).items() if name not in (DID_RUN, IN_SESSION)}
    ours = marks | ({IN_SESSION: session.memory} if session.memory else {})
    return result.model_copy(update={"meta": theirs | ours or None})
