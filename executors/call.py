"""A call step: references resolved, one call through the gate, and what came of it, without any model."""

from typing import assert_never

from downstream.door import Called, Origin, Refused, ToolCall, Waiting
from downstream.tools import Tool
from journal.errors import BudgetReached
from journal.run_journal import RunJournal

from .attempts import Attempt, Number
from .contract import Outcome, Source
from .job import Equipment, Job
from .own_artifacts import OwnArtifacts
from .paths import ReferenceMissing
from .resolve import resolve
from .step import CallStep
from .tools_of_step import find_tool
from .wording import cut, quoted, shown

_SAFE_TO_REPEAT = frozenset({"read", "egress"})
_BRIEF = 120


async def attempt_call(
    equipment: Equipment, journal: RunJournal, job: Job[CallStep], number: Number
) -> Attempt | Waiting:
    """Make the step's call once. A missing reference fails it before anything is sent."""
    step = job.step
    tool = find_tool(step.tool, equipment.catalogue.tools())
    artifacts = OwnArtifacts(journal, job.artifact_steps)
    try:
        arguments = await resolve(step.arguments, job.inputs, label=job.label, read_artifact=artifacts.value)
    except ReferenceMissing as error:
        return Attempt(Outcome(step.id, "failed", problem=str(error)))
    name = step.tool if tool is None else tool.full_name
    origin: Origin = job.origin if number.number == 1 else "retry"
    call = ToolCall(f"{number.key}/call.0", step.id, name, arguments, frozenset({name}), origin, read=job.label)
    try:
        end = await equipment.call_tool(journal, call)
    except BudgetReached as error:
        return Attempt(Outcome(step.id, "failed", problem=f"not called: {error}", limit=error.limit), over_budget=True)
    return end if isinstance(end, Waiting) else _attempt(step, tool, end)


def _attempt(step: CallStep, tool: Tool | None, end: Called | Refused) -> Attempt:
    match end:
        case Called(ok=True):
            return Attempt(_succeeded(step, end))
        case Called():
            problem = f"{end.tool} failed: {quoted(end.text)}"
            failed = Outcome(step.id, "failed", problem=problem, failed_calls=(_named(end),), effects=_effects(end))
            safe = tool is not None and (tool.class_ in _SAFE_TO_REPEAT or tool.idempotent)
            # What nobody decided would be asked again, and waited for as long again.
            may_retry = safe and not (end.repeated or end.lapsed)
            return Attempt(failed, may_retry=may_retry, harmless=not end.effect)
        case Refused(correctable=True):
            return Attempt(Outcome(step.id, "failed", problem=f"{end.tool} was not called: {end.reason}"))
        case Refused():
            return Attempt(Outcome(step.id, "refused", problem=f"{end.tool} was refused: {end.reason}"))
        case _:
            assert_never(end)


def _succeeded(step: CallStep, end: Called) -> Outcome:
    said = "gave an empty result" if end.empty else f"answered {_brief(end)}"
    return Outcome(
        step.id,
        "succeeded",
        summary=f"{end.tool} {said}",
        value=end.value,
        sources=(Source(step.id, end.tool, end.call),),
        effects=_effects(end),
    )


def _brief(end: Called) -> str:
    """The result in few words: data on one line, or a text's first line."""
    text = shown(end.value.data)
    if not isinstance(end.value.data, str):
        return cut(text, _BRIEF)
    return quoted(next((line for line in text.splitlines() if line.strip()), ""), _BRIEF)


def _effects(end: Called) -> tuple[str, ...]:
    return (_named(end),) if end.effect or end.changed else ()


def _named(end: Called) -> str:
    return f"{end.tool} {end.call}"
