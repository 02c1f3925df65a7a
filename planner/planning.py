"""From a goal to a plan that may run: asked for, checked, given back with errors, or replaced by one worker step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Literal, TypeAlias

from pydantic import TypeAdapter

from downstream.budget import within_budget
from downstream.model_port import ModelFailed
from downstream.models.structured import NoReply, Question, formatted
from executors.job import under_limits
from executors.settings import OPERATOR, REVIEWER, built_in_workers
from executors.step import Step, WorkerStep
from executors.wording import cut, wrapped
from journal.errors import BudgetReached, SteprelayError
from journal.events import NewEvent
from journal.ledger import ANSWER_SHARE
from journal.run_journal import Meaning, RunJournal
from journal.values import Json, JsonObject

from .asking import PLAN, as_said, question
from .cards import tool_line, tools_to_show, worker_card
from .checker import Bounds, check_plan
from .desk import Desk
from .plan import AnyStep, Plan, PlanError, listed

By: TypeAlias = Literal["planner", "given", "fallback"]
TRIES = 3
"""The planner is asked once and gets errors back at most twice."""
WHOLE_GOAL = "The whole goal"
"""What the one step is called where there is no plan."""
_SHORTEST = 1_000
"""Tokens in which a small plan can be written; where less is left the planner is not asked."""
_CONTEXT = 40_000
_ERRORS = 40
_HOPELESS: frozenset[str] = frozenset({"auth", "quota", "rate", "overload", "transport", "timeout", "script", "price"})
"""Failures of the planner's model with which a worker would hardly fare better."""
_STEPS: TypeAdapter[tuple[AnyStep, ...]] = TypeAdapter(tuple[Step, ...])


class NoRoom(SteprelayError):
    """The budget named by `limit` allows no question to the planner, which takes at least so many `tokens`."""

    def __init__(self, error: BudgetReached, *, tokens: int) -> None:
        self.limit = error.limit
        share = 1 - ANSWER_SHARE
        # A model call and a tenth of the tokens are kept back for the answer.
        least = {"tokens": ceil((error.used + tokens) / share), "model_calls": int(error.used) + 2}.get(error.limit)
        way = f"at least {least:,} would do" if least is not None else "raise it"
        super().__init__(
            f"It is {error.allowed:,g}, of which {error.used:,g} is used: too little to ask for a plan; {way}."
        )


@dataclass(frozen=True)
class Made:
    """A plan and who made it."""

    plan: Plan
    by: By


async def recorded_plan(journal: RunJournal) -> Plan | None:
    """The run's first plan, if it has one."""
    found = await journal.recall("plan", _meaning(journal))
    return None if found is None else Plan(read_steps(found.value["steps"]))


async def make_plan(journal: RunJournal, desk: Desk) -> Plan:
    """The run's first plan, recorded: the one given with the run, else one by the planner.

    Raises PlanError for a given plan that is not valid, NoRoom, NoModel, ModelFailed where no model answers.
    """
    given: Json = journal.run.options.get("plan")
    offer = await desk.offer()
    for warning in (*desk.catalogue.warnings(), *offer.warnings):
        await journal.warn(warning)
    bounds = desk.bounds(offer, max_steps=desk.budget_of(journal.run).steps)
    made = Made(check_plan(given, bounds), "given") if given is not None else await _asked(journal, desk, bounds)
    value = {"steps": made.plan.to_json(), "by": made.by}
    await journal.record("plan", _meaning(journal), value, events=[_accepted(made)])
    return made.plan


def _meaning(journal: RunJournal) -> Meaning:
    return Meaning("plan", {"goal": journal.run.goal, "given": journal.run.options.get("plan")})


def read_steps(recorded: Json) -> tuple[AnyStep, ...]:
    """Steps as a journal holds them."""
    return _STEPS.validate_python(recorded)


def _accepted(made: Made) -> NewEvent:
    return NewEvent("plan.accepted", {"version": 1, "steps": listed(made.plan.steps), "by": made.by})


async def _asked(journal: RunJournal, desk: Desk, bounds: Bounds) -> Made:
    texts: tuple[str, ...] = (_first_message(journal, desk, bounds),)
    for number in range(1, TRIES + 1):
        try:
            reply = await _ask(journal, desk, texts, number=number)
        except NoReply as error:
            await journal.warn(f"the planner gave no plan: {cut(str(error), 300)}")
            break
        except ModelFailed as error:
            await journal.warn(f"the planner gave no plan: {cut(str(error), 300)}")
            if error.kind in _HOPELESS:
                raise
            break
        checked = await _checked(journal, reply, bounds, number=number)
        if isinstance(checked, Plan):
            return Made(checked, "planner")
        texts = (texts[0], as_said(reply), _errors_text(checked))
    plan = _fallback(journal, bounds)
    await journal.warn(f"there was no valid plan, so worker {plan.worker!r} works on the goal as one step")
    return Made(Plan((plan,)), "fallback")


async def _ask(journal: RunJournal, desk: Desk, texts: tuple[str, ...], *, number: int) -> JsonObject:
    meaning = {"goal": journal.run.goal, "context": journal.run.context, "attempt": number}
    asked = question("planner", PLAN, texts, meaning=meaning, number=number)
    # The longest of the ways in which it may be asked.
    prompt = formatted(asked.request, PLAN, "schema").prompt_characters() // 4
    asked, key = await _fitted(journal, asked, prompt), f"plan.{number}"
    # Once a person raises a limit, the planner is asked after all.
    bounded = under_limits(key, journal.limits)
    try:
        return await within_budget(journal, bounded, asked.meaning, partial(desk.ask, journal, key, asked))
    except BudgetReached as error:
        raise NoRoom(error, tokens=prompt + _SHORTEST) from error


async def _fitted(journal: RunJournal, asked: Question[JsonObject], prompt: int) -> Question[JsonObject]:
    """The question with less room for its reply, where the tokens that are left would not do for the longest."""
    used, limits = await journal.usage(), journal.limits
    left = int(limits.tokens * (1 - ANSWER_SHARE)) - used.input_tokens - used.output_tokens - prompt
    longest = min(asked.request.max_tokens, max(left, _SHORTEST))
    return replace(asked, request=replace(asked.request, max_tokens=longest))


async def _checked(journal: RunJournal, reply: JsonObject, bounds: Bounds, *, number: int) -> Plan | Sequence[str]:
    """The plan, or its errors as they were first told; a refusal is written down with its event."""
    key, meaning = f"plan.{number}/check", Meaning("check", number)
    if (found := await journal.recall(key, meaning)) is not None:
        errors: list[str] = found.value
        return errors
    try:
        return check_plan(reply, bounds)
    except PlanError as error:
        refused = list(error.errors)
    rejected = NewEvent("plan.rejected", {"attempt": number, "errors": refused})
    await journal.record(key, meaning, refused, events=[rejected])
    return refused


def _fallback(journal: RunJournal, bounds: Bounds) -> WorkerStep:
    built_in = built_in_workers()
    configured = [name for name, worker in bounds.workers.items() if worker not in built_in and name != REVIEWER.name]
    name = configured[0] if configured else OPERATOR.name
    task = task_of(journal.run.goal, journal.run.context)
    return WorkerStep(id="goal", kind="worker", title=WHOLE_GOAL, worker=name, task=task)


def task_of(goal: str, context: str) -> str:
    """The goal as the task of one worker, where there is no plan for it."""
    return f"{goal}\n\nContext:\n{cut(context, _CONTEXT)}" if context else goal


def _first_message(journal: RunJournal, desk: Desk, bounds: Bounds) -> str:
    run, shown = journal.run, tools_to_show(bounds.tools, journal.run.goal)
    workers = [worker for name, worker in bounds.workers.items() if name != "reviewer"]
    left_out = len(bounds.tools) - len(shown)
    gone = desk.catalogue.missing().items()
    missing = "\n".join(f"Tool server {name} is not there: {reason}" for name, reason in gone)
    parts = [
        f"Goal:\n{wrapped(run.goal, origin='goal')}",
        f"Context:\n{wrapped(cut(run.context, _CONTEXT), origin='context')}" if run.context else "",
        f"Notes of the operator:\n{desk.notes}" if desk.notes else "",
        "Workers:\n" + "\n".join(f"- {worker_card(worker, bounds.tools, shown)}" for worker in workers),
        "Tools:\n" + wrapped("\n".join(map(tool_line, shown)) or "(there are none)", origin="tool servers"),
        f"{left_out} more tools that fit the goal less are not shown; workers can search them." if left_out else "",
        wrapped(missing, origin="tool servers") if missing else "",
        f"At most {bounds.max_steps} steps.",
    ]
    return "\n\n".join(filter(None, parts))


def _errors_text(errors: Sequence[str]) -> str:
    listed = "\n".join(f"- {error}" for error in errors[:_ERRORS])
    more = f"\n… and {len(errors) - _ERRORS} more" if len(errors) > _ERRORS else ""
    return f"This plan can't run:\n{listed}{more}\nHand it in again in full, with all of this put right."
