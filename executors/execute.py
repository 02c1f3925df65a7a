"""Carrying out a step from wherever its memo left off; the outcome is recorded once it is final."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import assert_never

from downstream.door import Origin, Waiting
from journal.run_journal import Meaning, RunJournal
from journal.values import Label, Value

from .attempts import MakeAttempt, attempts
from .call import attempt_call
from .compose import attempt_compose
from .contract import Assignment, Execute, Outcome
from .job import Equipment, Job, under_limits
from .step import CallStep, ComposeStep, WorkerStep
from .worker.attempt import attempt_worker


def make_execute(equipment: Equipment) -> Execute:
    """The one way to carry out a step. A step whose outcome is recorded is not looked at again."""

    async def execute(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
        job = Job(assignment.step, *_given(assignment))
        key, meaning = f"{job.key}/outcome", Meaning("outcome", job.meaning)
        bounded = under_limits(key, journal)
        for over_budget, recorded in ((False, key), (True, bounded)):
            if (found := await journal.recall(recorded, meaning)) is not None:
                return replace(Outcome.from_json(found.value), over_budget=over_budget)
        make = _maker(equipment, journal, assignment)
        made = await attempts(journal, job, make, retries=equipment.retries(journal))
        if isinstance(made, Waiting):
            return made
        await journal.record(bounded if made.over_budget else key, meaning, made.outcome.to_json())
        return replace(made.outcome, over_budget=made.over_budget)

    return execute


def _given(assignment: Assignment) -> tuple[Mapping[str, Value], Origin, Label]:
    return assignment.inputs, assignment.origin, assignment.label


def _maker(equipment: Equipment, journal: RunJournal, assignment: Assignment) -> MakeAttempt:
    match assignment.step:
        case CallStep() as step:
            return partial(attempt_call, equipment, journal, Job(step, *_given(assignment)))
        case WorkerStep() as step:
            return partial(attempt_worker, equipment, journal, Job(step, *_given(assignment)))
        case ComposeStep() as step:
            return partial(attempt_compose, equipment, journal, Job(step, *_given(assignment)))
        case _:
            assert_never(assignment.step)
