"""The loop of a worker or reviewer: reply, calls, results, until it hands something in or a limit is reached."""

from dataclasses import replace
from functools import partial

from downstream.budget import within_budget
from downstream.door import Waiting
from downstream.model_port import RETRIED, Function, ModelFailed, ModelReply, ModelRequest
from downstream.models.door import NoModel
from downstream.models.habits import habit
from downstream.models.replies import broken_json
from downstream.settings import SCRIPTED
from executors.built_in_tools import READ_ARTIFACT, READ_RESOURCE, SEARCH_TOOLS
from executors.job import Equipment, under_limits
from executors.own_artifacts import OwnArtifacts
from executors.tool_search import find_tools
from executors.tools_of_step import StepTools, servers_to_read
from executors.wording import quoted
from journal.errors import BudgetReached
from journal.events import NewEvent
from journal.run_journal import RunJournal
from journal.values import Json, JsonObject

from .brief import STYLES, Brief, Ended, Style
from .call_log import CallLog
from .calls import WorkerCalls, waiting_in
from .conversation import Conversation, function_of
from .room import Room
from .turn import Use, speaks_of_use, uses_of

MANY_TOOLS = 30
"""A worker with more tools is shown a short list and searches for the others."""
_SHORT_LIST = 10
_REFUSALS = 2
"""After so many requests in a row that the model's server calls too long there is no other try."""
_SHARE = 0.5
"""Of the time that a run has left, so much one reply may take that is listened to: another can still report."""
_REMINDERS = 2
"""The second reply without a call has the model asked in another way."""


class Loop:
    """One attempt's turns. Made by `open_loop`, run once; `once_more` asks for what was handed in again."""

    def __init__(self, equipment: Equipment, journal: RunJournal, brief: Brief, begun: JsonObject) -> None:
        self.equipment = equipment
        self.journal = journal
        self.brief = brief
        self.log = CallLog(read=brief.label)
        # A step that was begun by an earlier release says neither.
        self.talk = Conversation(brief, by_grammar=begun.get("by_grammar", False))
        self.tools = StepTools.from_json(begun["tools"], brief.tools)
        self.calls = WorkerCalls(equipment, journal, brief, self.tools, self.log)
        self.calls.linked = begun.get("linked", ())
        self.room = Room(equipment, journal, brief, self.talk, self.log)
        self._begun = begun
        self._style: Style = begun["style"]
        self._turn = 1
        self._reminders = 0
        self._over: BudgetReached | None = None
        self._made: dict[str, Function] = {}
        self._calls_natively = False

    @property
    def over_budget(self) -> str | None:
        """The limit of the run that was reached, if one was."""
        return None if self._over is None else self._over.limit

    @property
    def is_uncalled(self) -> bool:
        """Whether tools were offered as native functions to the end, and none was called, nor one that is not there."""
        return self._style == STYLES[0] and bool(self.tools.names) and not (self.log.made or self.log.outside)

    async def run(self) -> Ended | Waiting:
        """Turns until the end. Raises Fenced and MemoMismatch only."""
        try:
            while (limit := await self._limit()) is None:
                if (ended := await self._one_turn()) is not None:
                    return ended
        except BudgetReached as error:
            self._over, limit = error, error.limit
        except (ModelFailed, NoModel) as error:
            return self._failed(error)
        return await self._last_turn(limit)

    async def once_more(self, problems: str) -> JsonObject | None:
        """What is handed in after the model was told these, one a line; None if nothing is."""
        self.talk.remind("repair", problems=problems)
        return await self._final("repair.1", turn=self._turn + 1, repair=1)

    async def _one_turn(self) -> Ended | Waiting | None:
        key, request = f"turn.{self._turn}", self._request()
        try:
            reply = await self._ask(key, request)
        except ModelFailed as error:
            if error.kind == "context":
                self.room.refused(request)
            elif error.kind != "bad_request" or not await self._climb_down():
                raise
            self._turn += 1
            return None
        self.room.took(request, reply)
        if reply.finish == "refusal":
            return Ended(self.log, problem=f"model {reply.model} refused to go on", may_retry=False)
        uses = self._taken_in(reply)
        if not uses:
            return await self._without_call(reply)
        self._reminders = 0
        if self.talk.by_grammar and self._style == STYLES[0] and not reply.uses:
            # It writes calls down as text, and its server can hold it to their form.
            await self._climb_down()
            if not self.log.made:
                self.talk.begin_again(kept=1)
        if all(use.name == self.brief.ending.name for use in uses):
            return Ended(self.log, await self._taken(uses, reply), problem=uses[0].problem)
        return await self._call(key, uses)

    async def _call(self, key: str, uses: list[Use]) -> Waiting | None:
        is_first = not self.log.made
        answers = await self.calls.turn(f"{self.brief.key}/{key}", uses)
        if self.brief.uncalled and is_first and self.log.made:
            await self._remember()
        if (waiting := waiting_in(answers)) is not None:
            return waiting
        self.calls.note(answers)
        for answer in answers:
            self.talk.answer(answer.use, answer.text, call=answer.call)
            self._over = self._over or answer.over
        self._turn += 1
        return None

    async def _without_call(self, reply: ModelReply) -> Ended | None:
        """Remind a model that wrote prose; the second time, ask it in the next way.

        At once where a call stands in the prose and its server can hold it to one.
        """
        self._turn += 1
        self._reminders += 1
        may_hold = self.talk.by_grammar and self._style == STYLES[0]
        if self._reminders >= _REMINDERS or (may_hold and speaks_of_use(reply, self.brief.ending.name)):
            self._reminders = 0
            if not await self._climb_down():
                return Ended(self.log, problem=f"model {reply.model} never called a tool and never reported")
            if not self.log.made:
                self.talk.begin_again()
                return None
        is_cut = reply.finish == "length"
        broken = None if is_cut else broken_json(reply.text)
        self.talk.remind("cut_off" if is_cut else "no_call", first=broken, ending=self.brief.ending.name)
        return None

    async def _climb_down(self) -> bool:
        """Ask in the next way from now on, and remember it for a model that has not called anything yet."""
        if self._style == STYLES[-1]:
            return False
        self._style = STYLES[STYLES.index(self._style) + 1]
        if not self.log.made:
            await self._remember()
        return True

    async def _remember(self) -> None:
        model = self.equipment.model_for(self.brief.role, self.brief.account)
        if not model.startswith(SCRIPTED):
            await self.equipment.remembered.put("worker", habit(model), {"style": self._style})

    async def _limit(self) -> str | None:
        """The limit that stops the loop before the next turn: written down, so that a replay stops there too."""
        key, meaning, turn = f"{self.brief.key}/stop", self.brief.row("stop"), f"turn.{self._turn}"
        await self.room.again(turn)
        if (found := await self.journal.recall(key, meaning)) is not None:
            return str(found.value["limit"]) if found.value["turn"] == self._turn else None
        if self._over is not None:
            return self._over.limit
        if await self.journal.recall(f"{self.brief.key}/{turn}", self.brief.row(self.brief.role)) is not None:
            return None
        limit = self._reached()
        if limit is None and not await self.room.make(turn, self._request()):
            limit = "context"
        if limit is not None:
            await self.journal.record(key, meaning, {"turn": self._turn, "limit": limit})
        return limit

    def _reached(self) -> str | None:
        limits = self.brief.worker.limits
        passed = self.journal.driven_seconds - self._begun["at"]
        reached = {
            "tool_calls": self.log.denied > 0,
            "repeated call": self.log.repeats,
            "context": self.room.refusals >= _REFUSALS,
            "turns": self._turn > limits.turns,
            "tokens": limits.tokens is not None and self.talk.tokens >= limits.tokens,
            "seconds": limits.seconds is not None and passed >= limits.seconds,
        }
        return next((name for name, is_reached in reached.items() if is_reached), None)

    async def _last_turn(self, limit: str) -> Ended:
        """One last chance to hand something in, without tools; where the budget allows none, there is nothing."""
        self.talk.remind("last_turn", limit=limit, ending=self.brief.ending.name)
        # Once a person raises the budget the loop goes on, and what it reports at the next limit is another report.
        key = "last" if self._over is None else under_limits("last", self.journal)
        await self.room.make(key, self.talk.last_request(self._functions(), self._style, turn=self._turn), is_last=True)
        submission = await self._final(key, turn=self._turn)
        return Ended(self.log, submission, limit=self.over_budget or limit, over_budget=self._over is not None)

    async def _final(self, key: str, *, turn: int, repair: int = 0) -> JsonObject | None:
        """What is handed in where nothing else is offered; unforced where a server lets no function be forced."""
        for name, forced in ((key, True), (f"{key}.unforced", False)):
            request = self.talk.last_request(self._functions(), self._style, turn=turn, repair=repair, forced=forced)
            try:
                return await self._submitted(await self._ask(name, request))
            except BudgetReached as error:
                self._over = error
                return None
            except ModelFailed as error:
                if error.kind != "bad_request":
                    return None
        return None

    async def _submitted(self, reply: ModelReply) -> JsonObject | None:
        handed_in = [use for use in self._taken_in(reply) if use.name == self.brief.ending.name]
        return await self._taken(handed_in, reply) if handed_in else None

    def _taken_in(self, reply: ModelReply) -> list[Use]:
        """What the reply uses, once it stands in the history."""
        self.talk.take(reply)
        is_native = self._calls_natively and self._style == STYLES[0]
        self._calls_natively = self._calls_natively or bool(reply.uses)
        return uses_of(reply, self.brief.ending.name, calls_natively=is_native)

    async def _taken(self, uses: list[Use], reply: ModelReply) -> JsonObject:
        """What was handed in first; the history tells of fields that nobody knows and nobody will read."""
        for use in uses:
            self.talk.answer(use, "Received.")
        use = uses[0]
        known = {name.removesuffix("_json") for name in self.brief.ending.parameters["properties"]}
        unknown = sorted(name for name in use.arguments if name.removesuffix("_json") not in known)
        if unknown and not reply.replayed:
            text = f"{use.name}: unknown fields dropped: {quoted(', '.join(unknown), 120)}"
            await self.journal.say(NewEvent("warning", {"text": text}, step=self.brief.place.step))
        return use.arguments

    def _failed(self, error: ModelFailed | NoModel) -> Ended:
        may_retry = isinstance(error, ModelFailed) and error.kind in RETRIED
        return Ended(self.log, problem=str(error), may_retry=may_retry)

    async def _ask(self, name: str, request: ModelRequest) -> ModelReply:
        key, meaning = f"{self.brief.key}/{name}", self.brief.row(self.brief.role)
        ask = partial(self.equipment.ask, self.journal, key, meaning, request, account=self.brief.account)
        bounded = under_limits(key, self.journal)
        return await within_budget(self.journal, bounded, meaning, ask, step=self.brief.place.step)

    def _request(self) -> ModelRequest:
        # One action at a time, a small model asks for the same again rather than say what it has read.
        ends = self.talk.by_grammar and self._style != STYLES[0] and self.log.is_again
        request = self.talk.request(self._functions(), self._style, turn=self._turn, ends=ends)
        left = self.journal.limits.seconds - self.journal.driven_seconds
        return replace(request, listen=max(0.0, left) * _SHARE) if request.stream else request

    def _has_artifacts(self) -> bool:
        """Whether there may be any to read. Asked for one action at a time, a model hears of that once there is one."""
        may_be: bool = self._begun["artifacts"]
        made = self.room.is_condensed or any(end.artifacts for end in self.log.ends)
        return may_be and (self._style == STYLES[0] or self._begun.get("given", True) or made)

    def _functions(self) -> tuple[Function, ...]:
        """The tools by name, then what is built in, then the end: always in the same order."""
        listed = {
            tool.wire: tool for tool in self.tools.definitions if tool.wire in self._begun["shown"]
        } | self.calls.found
        for wire in listed.keys() - self._made.keys():
            self._made[wire] = function_of(listed[wire])
        offered = [self._made[wire] for wire in sorted(listed)]
        if self._has_artifacts():
            offered.append(READ_ARTIFACT)
        if any(server in self.calls.linked for servers in self.log.links.values() for server in servers):
            offered.append(READ_RESOURCE)
        if len(self.tools.names) > len(self._begun["shown"]):
            offered.append(SEARCH_TOOLS)
        return (*offered, self.brief.ending)


async def open_loop(equipment: Equipment, journal: RunJournal, brief: Brief) -> Loop:
    """A loop at its beginning; what depends on the moment is written down: its tools, its style, its time."""

    async def begin() -> Json:
        tools = StepTools.of(brief.tools)
        shown = list(tools.names)
        if len(shown) > MANY_TOOLS:
            best = find_tools(brief.task, tools.definitions, limit=_SHORT_LIST) or tools.definitions[:_SHORT_LIST]
            shown = [tool.wire for tool in best]
        given = await OwnArtifacts(journal, brief.artifact_steps).any()
        style, by_grammar = await _first_style(equipment, brief)
        return {
            "tools": tools.to_json(),
            "shown": shown,
            "artifacts": bool(tools.names) or given,
            "given": given,
            "linked": servers_to_read(brief.worker, tools.definitions, equipment.catalogue.tools()),
            "style": style,
            "by_grammar": by_grammar,
            "at": journal.driven_seconds,
        }

    begun = await journal.memo(f"{brief.key}/begin", brief.row("begin"), begin)
    return Loop(equipment, journal, brief, begun)


async def _first_style(equipment: Equipment, brief: Brief) -> tuple[Style, bool]:
    """What is remembered of the model, else native functions; the next way where it has just called none of them.

    And whether its server holds what it writes to any schema.
    """
    try:
        model = equipment.model_for(brief.role, brief.account)
    except NoModel:
        return STYLES[0], False
    # A script says what it says however it is asked, and loses calls where they are asked for one by one.
    first = STYLES[1] if brief.uncalled and not model.startswith(SCRIPTED) else STYLES[0]
    known = await equipment.remembered.get("worker", habit(model))
    names: list[Style] = [style for style in STYLES if known is not None and known["style"] == style]
    return max([*names, first], key=STYLES.index), (await equipment.traits_of(model)).by_grammar
