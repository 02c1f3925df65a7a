"""Questions of tool servers on their way to a person and back: kept in the journal, or held with the call that asks."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import anyio

from downstream.door import Waiting
from downstream.questions import FormAsked, Question, Reply, UrlAsked
from downstream.servers.asking import NOT_RESUMED, ROUNDS, AsksBack, Desk, Resumed
from downstream.servers.failures import CallFailed
from journal.actions import Action
from journal.errors import Fenced, StoreError
from journal.run_journal import Meaning, RunJournal
from journal.values import Json, JsonObject

from .form_fields import BadForm, ContentUnfit
from .forms import OPEN_SECONDS, Asking, form_question, open_key, reply_of
from .stages import Case, Gate

_STATE_ONLY_SECONDS = 0.1
_CLEANUP_SECONDS = 5.0


@dataclass(frozen=True)
class Asked:
    """What a server asked in place of an answer. `sends` tells after which sending of the call's intent that was;
    `anew`: as in `AsksBack`."""

    round: int
    call: str
    tool: str
    arguments: JsonObject
    hash: str
    sends: int
    questions: Mapping[str, Question]
    state: str | None
    anew: bool

    def to_json(self) -> JsonObject:
        questions = {
            name: {
                "message": each.message,
                **({"schema": each.schema} if isinstance(each, FormAsked) else {"url": each.url}),
            }
            for name, each in self.questions.items()
        }
        return {**self.__dict__, "questions": questions}

    @classmethod
    def from_json(cls, data: Json) -> "Asked":
        questions: dict[str, Question] = {
            name: FormAsked(**each) if "schema" in each else UrlAsked(**each)
            for name, each in data["questions"].items()
        }
        fields: JsonObject = dict(data)
        fields["questions"] = questions
        return cls(**fields)


@dataclass(frozen=True)
class Unanswered:
    """Nobody decided in time, or a person would not; the call fails."""

    text: str


Collected: TypeAlias = Resumed | Waiting | Unanswered


async def note_asked(journal: RunJournal, case: Case, asks: AsksBack, *, call: str) -> Asked | None:
    """Write down what a server asks, before anything is done about it; None where it has asked too often."""
    before = await _latest(journal, case.call.key)
    if (round_ := before.round + 1 if before else 1) > ROUNDS:
        return None
    intent = await journal.intent(case.call.key)
    asked = Asked(
        round=round_,
        call=call,
        tool=case.tool.full_name,
        arguments=case.call.arguments.data,
        hash=case.hash,
        sends=intent.sends if intent else 0,
        questions=asks.questions,
        state=asks.state,
        anew=asks.anew,
    )
    await journal.record(_asked_key(case.call.key, round_), _meaning(case.call.key), asked.to_json())
    return asked


async def last_asked(journal: RunJournal, call_key: str) -> Asked | None:
    """What the server asked last about this call, if the call has not begun otherwise since."""
    if (found := await _latest(journal, call_key)) is None:
        return None
    intent = await journal.intent(call_key)
    if intent is None or intent.state == "not_done":
        return found
    return found if intent.sends == found.sends else None


async def not_begun(journal: RunJournal, call_key: str) -> None:
    """The server asked instead of doing the call, which so counts as not run."""
    intent = await journal.intent(call_key)
    if intent is None:
        await journal.abandon_call(call_key)
    elif intent.state == "begun":
        await journal.lose_call(call_key, state="not_done")


async def _latest(journal: RunJournal, call_key: str) -> Asked | None:
    found: Asked | None = None
    while row := await journal.recall(_asked_key(call_key, (found.round if found else 0) + 1), _meaning(call_key)):
        found = Asked.from_json(row.value)
    return found


async def collected(gate: Gate, journal: RunJournal, case: Case, asked: Asked) -> Collected:
    """The answers of a person to all that was asked, or what still waits."""
    replies: dict[str, Reply] = {}
    waiting: list[Action] = []
    seconds = gate.approvals.pending_hours * 3600
    for number, (name, question) in enumerate(asked.questions.items()):
        of = Asking(case.tool, case.call.step, f"{_asked_key(case.call.key, asked.round)}/form.{number}", seconds)
        try:
            got = await _answer(gate, journal, question, of)
        except BadForm as error:
            await _warn_of(journal, case, error)
            got = Reply("decline")
        if got is None:
            return Unanswered(f"no decision in {gate.approvals.pending_hours:g} h about what {case.tool.server} asked")
        if isinstance(got, Reply):
            replies[name] = got
        else:
            waiting.append(got)
    if waiting:
        return Waiting(waiting[0].id, min(action.expires_at or 0 for action in waiting))
    if asked.anew:
        refused = any(reply.action != "accept" for reply in replies.values())
        text = f"a person declined what {case.tool.server} asked for first, so it was not called again"
        return Unanswered(text) if refused else NOT_RESUMED
    if not asked.questions:
        # It wants to be asked again later, and says no more.
        await anyio.sleep(_STATE_ONLY_SECONDS)
    return Resumed(replies, asked.state)


async def _answer(gate: Gate, journal: RunJournal, question: Question, of: Asking) -> Reply | Action | None:
    """The reply, the action while it waits, or None where it lapsed."""
    action = await journal.action(of.key)
    void = action is None or action.state == "superseded" or (action.state == "withdrawn" and action.choice is None)
    if action is None or void:
        action = await journal.ask(form_question(gate, journal, question, of=of))
    if action.state == "waiting" and action.expires_at is not None and journal.world.now() > action.expires_at:
        await journal.settle_action(action, expired=True)
        return None
    if action.state in ("waiting", "expired"):
        return action if action.state == "waiting" else None
    if (reply := _checked_reply(action)) is None:
        await journal.supersede_action(action)
        return await journal.ask(form_question(gate, journal, question, of=of))
    if not action.handled:
        await journal.settle_action(action)
    return reply


def _checked_reply(action: Action) -> Reply | None:
    """None where what was recorded does not fit the form, whichever way it came."""
    try:
        return reply_of(action)
    except ContentUnfit:
        return None


class OpenDesk:
    """Answers what a server asks while its call is open: the run goes on being driven, and the action waits."""

    def __init__(self, gate: Gate, journal: RunJournal, case: Case) -> None:
        self._gate = gate
        self._journal = journal
        self._case = case
        self._asked = 0

    @property
    def desk(self) -> Desk:
        return Desk(self.ask, self._journal.warn)

    async def ask(self, question: Question) -> Reply:
        """Raises CallFailed, which ends the call, where nobody answers in time or the server goes on asking."""
        call, server = self._case.call, self._case.tool.server
        self._asked += 1
        if self._asked > ROUNDS:
            raise CallFailed(too_often(server), may_have_run=True, late=True)
        seconds = min(OPEN_SECONDS, self._gate.approvals.pending_hours * 3600)
        of = Asking(self._case.tool, call.step, open_key(call.key, self._asked), seconds)
        try:
            new = form_question(self._gate, self._journal, question, of=of)
        except BadForm as error:
            await _warn_of(self._journal, self._case, error)
            return Reply("decline")
        await drop_open(self._journal, call.key, number=self._asked)
        action = await self._journal.ask(new)
        decided: Reply | None = None
        try:
            with anyio.move_on_after(seconds):
                decided = await self._decided(action)
            if decided is None:
                await self._journal.settle_action(action, expired=True)
        finally:
            # The call has ended, or its server wants no answer any more.
            with anyio.move_on_after(_CLEANUP_SECONDS, shield=True):
                await self._withdraw(action)
        if decided is not None:
            return decided
        text = f"{server} asked for input and nobody answered within {seconds:g} s, so the call was broken off"
        raise CallFailed(text, may_have_run=True, late=True)

    async def _decided(self, action: Action) -> Reply:
        journal = self._journal
        while True:
            ring = journal.bell.listen(journal.run.id)
            now = await journal.action(action.key)
            if now is not None and now.state != "waiting":
                await journal.settle_action(now)
                return _checked_reply(now) or Reply("cancel")
            await ring.wait()

    async def _withdraw(self, action: Action) -> None:
        # Another drive that has the run by now ends it.
        with suppress(Fenced, StoreError):
            now = await self._journal.action(action.key)
            if now is not None and now.state == "waiting":
                await self._journal.supersede_action(now)


async def drop_open(journal: RunJournal, call_key: str, *, number: int = 1) -> None:
    """End the questions, from this number on, that were asked in a call which is open no more."""
    while (action := await journal.action(open_key(call_key, number))) is not None:
        if action.state == "waiting" or not action.handled:
            await journal.supersede_action(action)
        number += 1


def too_often(server: str) -> str:
    """What is said of a server that does nothing but ask."""
    return f"{server} asked for input {ROUNDS} times in one call and then again; the call was given up"


async def _warn_of(journal: RunJournal, case: Case, error: BadForm) -> None:
    text = (
        f"{case.tool.server} asked for input for {case.tool.full_name} in a way that cannot be shown; it was declined"
    )
    await journal.warn(f"step {case.call.step}: {text}: {error}")


def _asked_key(call_key: str, round_: int) -> str:
    return f"{call_key}/asks.{round_}"


def _meaning(call_key: str) -> Meaning:
    return Meaning("asked", call_key)
