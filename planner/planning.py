"""From a goal to a plan that may run: asked for, checked, given back with errors, or replaced by one worker step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Literal, TypeAlias

from pydantic import TypeAdapter

from downstream.budget import within_budget
from downstream.model_port import ModelFailed, Place
from downstream.models.door import Account, NoModel
from downstream.models.estimate import worst_prompt
from downstream.models.structured import NoReply, Question
from downstream.tools import Tool
from executors.job import under_limits
from executors.settings import OPERATOR, REVIEWER, built_in_workers
from executors.step import Step, WorkerStep
from executors.wording import cut, wrapped
from journal.errors import BudgetReached, SteprelayError
from journal.events import NewEvent
from journal.ledger import ANSWER_SHARE, Usage
from journal.run_journal import Meaning, RunJournal
from journal.values import Json, JsonObject

from .alone import CONTEXT, readers, spelled_out, to_plan_with, whole_goal
from .asking import SEARCH, as_said, plan_form, question
from .cards import tool_line, tools_to_show, worker_card
from .checker import Bounds, check_plan
from .desk import Desk
from .patience import Patience, PlanningOver
from .plan import AnyStep, Plan, PlanError, listed
from .search import SEARCHES, Listed, only_a_plan, search_in, searched

By: TypeAlias = Literal["planner", "given", "fallback"]
TRIES = 3
"""The planner is asked once and gets errors back at most twice."""
_SHORTEST = 1_000
"""Tokens in which a small plan can be written; where less is left the planner is not asked."""
_HOPELESS: frozenset[str] = frozenset({"auth", "quota", "rate", "overload", "transport", "timeout", "script", "price"})
"""Failures of the planner's model with which a worker of the same model would hardly fare better."""
_STEPS: TypeAdapter[tuple[AnyStep, ...]] = TypeAdapter(tuple[Step, ...])


class NoRoom(SteprelayError):
    """The budget named by `limit` allows no question to the planner, which takes at least so many `tokens`."""

    def __init__(self, error: BudgetReached, *, taken: Usage, tokens: int) -> None:
        self.limit = error.limit
        # What is refused is told without what earlier tries of the same question took.
        counted = {
            "tokens": taken.input_tokens + taken.output_tokens,
            "model_calls": taken.model_calls,
            "usd": taken.cost_usd,
        }
        used = max(error.used, counted.get(error.limit, 0))
        # A tenth of tokens and model calls, and at least one call, is kept back for the answer.
        share = 1 - ANSWER_SHARE
        calls = max(int(used) + 2, ceil((used + 1) / share))
        least = {"tokens": ceil((used + tokens) / share), "model_calls": calls}.get(error.limit, 0)
        way = f"at least {least:,} would do" if least > error.allowed else "raise it"
        super().__init__(
            f"It is {error.allowed:,.12g}, of which {used:,.12g} is used: too little to ask for a plan; {way}."
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
    plan = _fallback(journal, bounds)
    if (whole := len(journal.run.context)) > CONTEXT:
        await journal.warn(f"only the first {CONTEXT:,} of the context's {whole:,} characters are used to plan")
    talk = _Talk(journal, desk, bounds)
    for number in range(1, TRIES + 1):
        try:
            reply = await talk.reply(number)
        except (NoReply, PlanningOver) as error:
            await journal.warn(f"the planner gave no plan: {cut(str(error), 300)}")
            break
        except ModelFailed as error:
            await journal.warn(f"the planner gave no plan: {cut(str(error), 300)}")
            if error.kind in _HOPELESS and not _fares_better(error, desk, bounds, step=plan):
                raise
            break
        checked = await _checked(journal, reply, bounds, number=number)
        if isinstance(checked, Plan):
            return Made(checked, "planner")
        talk.go_on(reply, _errors_text(checked))
    await journal.warn(f"there was no valid plan, so worker {plan.worker!r} works on the goal as one step")
    return Made(Plan((plan,)), "fallback")


class _Talk:
    """What the planner was told and has said so far; it only grows, so that requests begin as the ones before did."""

    def __init__(self, journal: RunJournal, desk: Desk, bounds: Bounds) -> None:
        self.journal = journal
        self.desk = desk
        self._patience = Patience(journal)
        shown = tools_to_show(bounds.offered, journal.run.goal)
        self._listed = Listed(bounds, frozenset(tool.full_name for tool in shown))
        self._offers = bool(self._listed.left_out)
        # What a search will find can't be known now.
        named = () if self._offers else sorted(tool.full_name for tool in shown)
        self._form = plan_form(to_plan_with(bounds), named, most=bounds.max_steps, alone=readers(bounds))
        self._texts: tuple[str, ...] = (_first_message(journal, desk, bounds, shown),)

    def go_on(self, reply: JsonObject, text: str) -> None:
        """The planner is told this of its reply."""
        self._texts = (*self._texts, as_said(reply), text)

    async def reply(self, number: int) -> JsonObject:
        """What comes of an attempt: the first reply that searches for nothing more."""
        for turn in range(1, SEARCHES + 1):
            reply = await self._ask(number, turn)
            if (search := search_in(reply)) is None:
                return reply
            key, left = f"plan.{number}/search.{turn}", SEARCHES - turn
            self._listed, told = await searched(self.journal, key, search, listed=self._listed, left=left)
            self.go_on(reply, told)
        return await self._ask(number, SEARCHES + 1)

    async def _ask(self, number: int, turn: int) -> JsonObject:
        journal, key = self.journal, f"plan.{number}" if turn == 1 else f"plan.{number}/turn.{turn}"
        meaning: JsonObject = {"goal": journal.run.goal, "context": journal.run.context, "attempt": number}
        meaning |= {"turn": turn} if turn > 1 else {}
        form = self._form if turn <= SEARCHES else replace(self._form, read=only_a_plan)
        asked = question("planner", form, self._texts, meaning=meaning, place=Place(number=number, turn=turn))
        asked = replace(asked, offers=self._offers)
        # The longest of the ways in which it may be asked.
        prompt = worst_prompt(asked.asked("schema"))
        asked = await _fitted(journal, asked, prompt)
        # Once a person raises a limit, the planner is asked after all.
        bounded, ask = under_limits(key, journal), partial(self.desk.ask, journal, key, asked)
        in_time = partial(self._patience.within, key, asked.meaning, ask)
        try:
            return await within_budget(journal, bounded, asked.meaning, in_time)
        except BudgetReached as error:
            raise NoRoom(error, taken=await journal.usage(), tokens=prompt + _SHORTEST) from error


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
        return check_plan(spelled_out(reply, journal.run, bounds), bounds)
    except PlanError as error:
        refused = list(error.told)
    rejected = NewEvent("plan.rejected", {"attempt": number, "errors": refused})
    await journal.record(key, meaning, refused, events=[rejected])
    return refused


def _fallback(journal: RunJournal, bounds: Bounds) -> WorkerStep:
    built_in = built_in_workers()
    configured = [name for name, worker in bounds.workers.items() if worker not in built_in and name != REVIEWER.name]
    return whole_goal(journal.run, configured[0] if configured else OPERATOR.name)


def _fares_better(error: ModelFailed, desk: Desk, bounds: Bounds, *, step: WorkerStep) -> bool:
    """Whether the step's worker asks another model than the planner. What a script lacks is to be said loudly."""
    worker = bounds.workers.get(step.worker, OPERATOR)
    account = Account(worker=worker.name, model=worker.model)
    try:
        return error.kind != "script" and desk.model_for("worker", account) != desk.model_for("planner", Account())
    except NoModel:
        return False


def _first_message(journal: RunJournal, desk: Desk, bounds: Bounds, shown: Sequence[Tool]) -> str:
    run = journal.run
    workers = [bounds.workers[name] for name in to_plan_with(bounds)]
    left_out = len(bounds.offered) - len(shown)
    gone = desk.catalogue.missing().items()
    missing = "\n".join(f"Tool server {name} is not there: {reason}" for name, reason in gone)
    parts = [
        f"Goal:\n{wrapped(run.goal, origin='goal')}",
        f"Context:\n{wrapped(cut(run.context, CONTEXT), origin='context')}" if run.context else "",
        f"Notes of the operator:\n{desk.notes}" if desk.notes else "",
        "Workers:\n" + "\n".join(f"- {worker_card(worker, bounds.offered, shown)}" for worker in workers),
        "Tools:\n" + wrapped("\n".join(map(tool_line, shown)) or "(there are none)", origin="tool servers"),
        _more(left_out) if left_out else "",
        wrapped(missing, origin="tool servers") if missing else "",
        f"At most {bounds.max_steps} steps.",
    ]
    return "\n\n".join(filter(None, parts))


def _more(left_out: int) -> str:
    which = "tool that fits the goal less is" if left_out == 1 else "tools that fit the goal less are"
    return (
        f"{left_out} more {which} not shown. A worker step without `tools` may use them all the same. For a `call`, or"
        f" for a list of `tools`, find what is missing with search_tools, at most {SEARCHES} times; where you reply"
        f" with JSON, put the words into `{SEARCH.field}` and leave `steps` empty."
    )


def _errors_text(errors: Sequence[str]) -> str:
    listed = "\n".join(f"- {error}" for error in errors)
    return f"This plan can't run:\n{listed}\nHand it in again in full, with all of this put right."
