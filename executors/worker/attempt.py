"""A worker step: a loop in a fresh context with the step's tools only, its report checked, its outcome made by code."""

from dataclasses import replace

from downstream.door import Origin, Waiting
from downstream.model_port import Place
from downstream.tools import HAS_EFFECT
from executors.attempts import Attempt, Number
from executors.contract import Outcome
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
from .reports import Checked, Expected, check_report
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
        ended = replace(ended, limit=ended.limit or loop.over_budget, over_budget=True)
    over = ended.over_budget
    could = any(tool.class_ in HAS_EFFECT for tool in brief.tools)
    outcome = outcome_of(Case(step.id, ended, checked, could))
    # One that says that it could not do it may well know how to call.
    claims = checked is not None and checked.report.status == "done"
    attempt = Attempt(outcome, ended.may_retry, over, uncalled=claims and loop.is_uncalled)
    if checked is None or ended.limit is not None or attempt.outcome.status not in ("succeeded", "partial"):
        return attempt
    under = Under(number, ended.log, checked.report.data)
    return await reviewed(equipment, journal, job, attempt=attempt, under=under) if step.review else attempt


async def _checked(step: WorkerStep, loop: Loop, ended: Ended) -> Checked | None:
    """The report, checked; with problems, after one turn to mend them. At a limit there is no such turn."""
    if ended.submission is None:
        return None
    log = ended.log
    gave = {call: end.text for call, end in log.citable.items()}
    had_tools = bool(loop.tools.names)
    expected = Expected(log.citable, had_tools=had_tools, output=step.output, errors=log.errors, gave=gave)
    checked = check_report(ended.submission, expected)
    if ended.problem is not None:
        checked = replace(checked, problems=(ended.problem, *checked.problems))
    if not checked.problems or ended.limit is not None:
        return checked
    problems = "\n".join(f"- {problem}" for problem in checked.problems)
    again = await loop.once_more(prompt("repair", problems=problems))
    mended = None if again is None else check_report(again, expected)
    return checked if mended is None or _worse(mended, checked) else mended


def _worse(mended: Checked, first: Checked) -> bool:
    """A second report with problems of its own that lost findings of the first."""
    return bool(mended.problems) and len(mended.report.findings) < len(first.report.findings)


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
