"""A worker step: a loop in a fresh context with the step's tools only, its report checked, its outcome made by code."""

from dataclasses import replace

from downstream.door import Origin, Waiting
from downstream.model_port import Place
from downstream.tools import HAS_EFFECT
from executors.attempts import Attempt, Number
from executors.contract import Outcome
from executors.findings import without_support
from executors.job import Equipment, Job
from executors.material import worker_material
from executors.review import Under, reviewed
from executors.settings import WorkerSettings
from executors.step import WorkerStep
from executors.tools_of_step import tools_of_step
from executors.wording import prompt, wrapped
from journal.run_journal import RunJournal

from .brief import Brief, Ended
from .handing_in import submit_report
from .loop import Loop, open_loop
from .reports import Checked, Expected, better_of, check_report
from .verdict import Case, outcome_of


async def attempt_worker(
    equipment: Equipment, journal: RunJournal, job: Job[WorkerStep], number: Number
) -> Attempt | Waiting:
    """Let the step's worker have one go at it; its report is reviewed where the step says so."""
    step = job.step
    worker = equipment.workers.get(step.worker)
    if worker is None:
        known = ", ".join(sorted(equipment.workers))
        return Attempt(Outcome(step.id, "failed", problem=f"there is no worker {step.worker!r}; there are {known}"))
    brief = await _brief(equipment, journal, job, worker, number=number)
    loop = await open_loop(equipment, journal, brief)
    ended = await loop.run()
    if isinstance(ended, Waiting):
        return ended
    checked = await _checked(step, loop, ended)
    if loop.over_budget is not None:
        ended = replace(ended, limit=loop.over_budget, over_budget=True)
    could = any(tool.class_ in HAS_EFFECT for tool in brief.tools)
    case = Case(step.id, ended, checked, could)
    attempt = _attempt(case, is_uncalled=loop.is_uncalled)
    if not step.review or checked is None:
        return attempt
    if ended.limit is not None or attempt.outcome.status not in ("succeeded", "partial"):
        return _not_reviewed(case, checked, attempt)
    under = Under(number, ended.log, checked.report.data)
    return await reviewed(equipment, journal, job, attempt=attempt, under=under)


def _attempt(case: Case, *, is_uncalled: bool) -> Attempt:
    ended, log = case.ended, case.ended.log
    # One that says that it could not do it may well know how to call.
    claims = case.report is not None and case.report.status == "done"
    return Attempt(
        outcome_of(case),
        # What nobody decided would be asked again, and waited for as long again.
        may_retry=ended.may_retry and not log.lapsed,
        over_budget=ended.over_budget,
        uncalled=claims and is_uncalled,
        harmless=not log.lasting,
    )


def _not_reviewed(case: Case, checked: Checked, attempt: Attempt) -> Attempt:
    """Where there is no time or no sense in a review, what it should have looked at counts as not supported."""
    if not checked.report.findings:
        return attempt
    outcome = outcome_of(replace(case, checked=checked.with_findings(without_support(checked.report.findings))))
    return replace(attempt, outcome=replace(outcome, problem=f"{outcome.problem}; its findings were not reviewed"))


async def _checked(step: WorkerStep, loop: Loop, ended: Ended) -> Checked | None:
    """The report, checked; with problems, after one turn to mend them. At a limit there is no such turn."""
    if ended.submission is None:
        return None
    log = ended.log
    gave = {call: end.text for call, end in log.citable.items()}
    gone = loop.tools.lacking(step.tools)
    had_tools = bool(loop.tools.names or gone)
    expected = Expected(log.citable, had_tools=had_tools, output=step.output, errors=log.errors, gave=gave, gone=gone)
    checked = check_report(ended.submission, expected)
    if ended.problem is not None:
        checked = replace(checked, problems=(ended.problem, *checked.problems))
    if not checked.problems or ended.limit is not None:
        return checked
    problems = "\n".join(f"- {problem}" for problem in checked.problems)
    again = await loop.once_more(problems)
    return checked if again is None else better_of(checked, check_report(again, expected))


async def _brief(
    equipment: Equipment, journal: RunJournal, job: Job[WorkerStep], worker: WorkerSettings, *, number: Number
) -> Brief:
    step = job.step
    parts = [f"step: {step.id}", f"Task: {step.task}", await worker_material(journal, job)]
    if number.before is not None:
        parts.append(f"An earlier attempt failed:\n{wrapped(number.before, origin='attempt')}")
    origin: Origin = "worker" if number.number == 1 else "retry"
    return Brief(
        key=number.key,
        role="worker",
        place=Place(step=step.id, attempt=number.number),
        meaning=job.meaning,
        worker=worker,
        task=step.task,
        system="\n\n".join(filter(None, [worker.instructions.strip(), prompt("worker")])),
        first_message="\n\n".join(filter(None, parts)),
        tools=tools_of_step(step.tools, worker, equipment.catalogue.tools()),
        ending=submit_report(step.output),
        origin=origin,
        label=job.read | number.label,
        artifact_steps=job.artifact_steps,
        uncalled=number.uncalled,
    )
