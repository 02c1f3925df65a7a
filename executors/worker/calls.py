"""The calls of one turn, made at the same time; whatever comes of each is text for the model, and data for the log."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import anyio

from downstream.door import Arguments, Called, Refused, ToolCall, Waiting
from downstream.resources import reading_of
from downstream.tools import Tool
from executors.built_in_tools import (
    BUILT_IN,
    READ_ARTIFACT,
    READ_RESOURCE,
    SEARCH_TOOLS,
    link_to_read,
    read_artifact,
    search_tools,
)
from executors.job import Equipment
from executors.own_artifacts import OwnArtifacts
from executors.paths import ReferenceMissing
from executors.resolve import resolve_artifacts
from executors.tools_of_step import StepTools, find_tool
from executors.wording import quoted, wrapped
from journal.errors import BudgetReached, SteprelayError
from journal.run_journal import RunJournal
from journal.values import Json, Value

from .brief import Brief
from .call_log import CallLog, server_of
from .turn import Use

_MOST_OUTSIDE = 20
"""Of the tools that a worker asked for in vain, so many are told."""


@dataclass(frozen=True)
class Answer:
    """What became of one use; `end` is None where a limit or the budget (`over`) did not let it become a call."""

    use: Use
    text: str
    end: Called | Refused | Waiting | None = None
    over: BudgetReached | None = None

    @property
    def call(self) -> str | None:
        """The id of the call, if one was made."""
        return self.end.call if isinstance(self.end, Called) else None


class WorkerCalls:
    """Makes the calls of a worker's turns, at most as many as its limit allows."""

    def __init__(self, equipment: Equipment, journal: RunJournal, brief: Brief, tools: StepTools, log: CallLog) -> None:
        self.equipment = equipment
        self.journal = journal
        self.brief = brief
        self.tools = tools
        self.log = log
        self.artifacts = OwnArtifacts(journal, brief.artifact_steps)
        self.found: dict[str, Tool] = {}
        """Tools that a search has brought up, by wire name."""
        self.linked: Collection[str] = ()
        """The servers of which may be read what their results link to."""

    async def turn(self, key: str, uses: Sequence[Use]) -> list[Answer]:
        """The answers to all uses of a turn, in their order, once every one has ended or waits."""
        answers: dict[int, Answer] = {}
        errors: list[SteprelayError] = []

        async def make(number: int, use: Use) -> None:
            try:
                answers[number] = await self._make(f"{key}/call.{number}", use)
            except SteprelayError as error:
                # The others go on: what they did must be written down before this one ends the drive.
                errors.append(error)

        async with anyio.create_task_group() as group:
            for number, use in enumerate(uses):
                if self._is_outside(use):
                    await self._tell_outside(use)
                if (why := self._not_made(use)) is not None:
                    answers[number] = _answer(use, Refused(use.name, why, by="gate", correctable=True))
                elif self.log.made >= self.brief.worker.limits.tool_calls:
                    self.log.denied += 1
                    answers[number] = Answer(use, f"Not called: the limit of {self.log.made} tool calls is reached.")
                else:
                    self.log.made += 1
                    group.start_soon(make, number, use)
        if errors:
            raise errors[0]
        return self._told_of_losses([answers[number] for number in range(len(uses))])

    def note(self, answers: Sequence[Answer]) -> None:
        """Enter a turn's calls into the log, once none of them waits any more."""
        for answer in answers:
            if isinstance(answer.end, Called | Refused):
                self.log.note(answer.use.name, answer.use.arguments, answer.end)
            if isinstance(answer.end, Called) and answer.end.tool == SEARCH_TOOLS.name:
                self.found.update(
                    (tool.wire, tool) for tool in self.tools.definitions if tool.wire in answer.end.value.data
                )

    def _told_of_losses(self, answers: list[Answer]) -> list[Answer]:
        """The answers; one from a server that was opened anew since this attempt last used it says so."""
        held, told = dict(self.log.sessions), list[Answer]()
        for answer in answers:
            end = answer.end
            if isinstance(end, Called) and end.session is not None:
                server = server_of(end.tool)
                if held.setdefault(server, end.session) != end.session:
                    answer = replace(answer, text=_with_loss(answer.text, server))
                held[server] = end.session
            told.append(answer)
        return told

    def _not_made(self, use: Use) -> str | None:
        if use.problem is not None:
            return use.problem
        if use.name == self.brief.ending.name:
            return "it came together with calls whose results you had not seen; call it again, alone"
        if self._is_outside(use):
            there = ", ".join(self.tools.names) or "no tool"
            return f"this step has no tool {use.name!r}; it has {there}"
        return None

    def _is_outside(self, use: Use) -> bool:
        names = (self.brief.ending.name, *BUILT_IN)
        return use.name not in names and self.tools.full_name(use.name) is None

    async def _tell_outside(self, use: Use) -> None:
        """Have the run's readers see what was asked for, each tool once; the worker may go on, as nothing was sent."""
        if len(self.log.outside) == _MOST_OUTSIDE:
            return
        tool = find_tool(use.name, self.equipment.catalogue.tools())
        name = tool.full_name if tool is not None else quoted(use.name, 60)
        if name in self.log.outside:
            return
        self.log.outside[name] = None
        step, role = self.brief.place.step, self.brief.role
        await self.journal.warn(
            f"step {step}: its {role} asked for {name}, which the step does not list; it was not called"
        )

    async def _make(self, key: str, use: Use) -> Answer:
        try:
            if use.name == READ_RESOURCE.name:
                end: Called | Refused | Waiting = await self._read_linked(key, use)
            elif use.name in BUILT_IN:
                end = await self._built_in(key, use)
            else:
                end = await self._called(key, use)
        except ReferenceMissing as error:
            end = Refused(use.name, str(error), by="gate", correctable=True)
        except BudgetReached as error:
            return Answer(use, f"Not called: {error}", over=error)
        return _answer(use, end)

    async def _called(self, key: str, use: Use) -> Called | Refused | Waiting:
        read = self.log.read | {"model"}
        arguments = await resolve_artifacts(use.arguments, label=read, read_artifact=self.artifacts.value)
        return await self._sent(key, self.tools.full_name(use.name) or use.name, arguments, self.tools.full_names)

    async def _read_linked(self, key: str, use: Use) -> Called | Refused | Waiting:
        link = link_to_read(use.arguments, self.log.links, self.linked)
        tool, arguments = reading_of(link.server), Arguments({"uri": link.uri}, self.log.read | {"model"})
        return await self._sent(key, tool, arguments, frozenset({tool}))

    async def _sent(
        self, key: str, tool: str, arguments: Arguments, allowed: frozenset[str]
    ) -> Called | Refused | Waiting:
        brief, read = self.brief, self.log.read | {"model"}
        call = ToolCall(key, brief.place.step or "", tool, arguments, allowed, brief.origin, read, fresh=brief.fresh)
        return await self.equipment.call_tool(self.journal, call)

    async def _built_in(self, key: str, use: Use) -> Called:
        async def make() -> Json:
            call = self.journal.world.new_id("c")
            if use.name == READ_ARTIFACT.name:
                opened, part = await read_artifact(use.arguments, self.artifacts)
                value = Value(part.text, opened.artifact.label)
                # An empty look shows nothing, so that no finding rests on it.
                return Called(call, use.name, True, value, part.text, empty=part.is_empty).to_json()
            found, text = search_tools(use.arguments, self.tools.definitions)
            value = Value([tool.wire for tool in found], frozenset({"config"}))
            return Called(call, use.name, True, value, text).to_json()

        return Called.from_json(await self.journal.memo(key, self.brief.row(use.name), make))


def _answer(use: Use, end: Called | Refused | Waiting) -> Answer:
    match end:
        case Called(ok=True):
            text = wrapped(end.text, origin=end.tool) if end.text.strip() else "(empty result)"
            return Answer(use, f"[{end.call}]\n{text}", end)
        case Called():
            return Answer(use, f"[{end.call}]\nThe call failed:\n{wrapped(end.text, origin=end.tool)}", end)
        case Refused(correctable=True):
            return Answer(use, f"Not called: {end.reason}", end)
        case Refused():
            return Answer(use, f"Refused: {end.reason}\nDo not ask for it again; go on without it, or report.", end)
        case Waiting():
            return Answer(use, "", end)
        case _:
            assert_never(end)


def _with_loss(text: str, server: str) -> str:
    """The text of an answer with our word on what its server has lost, after the call's id."""
    call, _, rest = text.partition("\n")
    return f"{call}\nThe connection to {server} was opened anew: what it held in its session is gone.\n{rest}"


def waiting_in(answers: Sequence[Answer]) -> Waiting | None:
    """The first action that a turn waits for, until the earliest time at which one of them lapses."""
    waiting = [answer.end for answer in answers if isinstance(answer.end, Waiting)]
    if not waiting:
        return None
    until = [each.until for each in waiting if each.until is not None]
    return Waiting(waiting[0].action, min(until, default=None))
