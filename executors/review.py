"""Review: another worker, with read tools only, holds a report's claims against the evidence, not against its prose."""

from dataclasses import dataclass, replace

from downstream.door import Waiting
from downstream.json_shape import is_array
from downstream.model_port import Place
from journal.run_journal import RunJournal
from journal.values import JsonObject, Label

from .attempts import Attempt, Number
from .contract import Outcome
from .findings import without_support
from .job import Equipment, Job
from .settings import REVIEWER
from .step import WorkerStep
from .tools_of_step import tools_of_worker
from .wording import prompt, quoted, shown, wrapped
from .worker.brief import Brief
from .worker.call_log import CallLog
from .worker.handing_in import SUBMIT_REVIEW
from .worker.loop import open_loop

_PROBLEMS = 600
_NO_PROBLEM = frozenset({"", "none", "no", "n/a", "nothing", "no problem", "no problems"})
"""What is written into the list of problems where there is none."""


@dataclass(frozen=True)
class Under:
    """What is under review: the attempt's number, its calls, and the data that its report hands on."""

    number: Number
    log: CallLog
    data: JsonObject | None


async def reviewed(
    equipment: Equipment, journal: RunJournal, job: Job[WorkerStep], *, attempt: Attempt, under: Under
) -> Attempt | Waiting:
    """The attempt after its review: as it was, failed where its report is rejected, partial without a verdict."""
    loop = await open_loop(equipment, journal, _brief(equipment, job, attempt.outcome, under))
    ended = await loop.run()
    if isinstance(ended, Waiting):
        return ended
    submission = ended.submission
    if submission is not None and (unclear := _unclear(submission)) is not None:
        submission = await loop.once_more(f"- accepted: {unclear}") or submission
    verdict = None if submission is None else _accepted(submission)
    if submission is None or verdict is None:
        limit = loop.over_budget or ended.limit
        why = ended.problem or (f"stopped at its limit: {limit}" if limit else "no verdict was handed in")
        unreviewed = replace(attempt.outcome, status="partial", problem=f"the report was not reviewed: {why}")
        return Attempt(replace(unreviewed, limit=limit), over_budget=loop.over_budget is not None)
    is_borne_out = verdict and not _problems(submission)
    return attempt if is_borne_out else _rejected(attempt, submission, read=ended.log.read)


def _rejected(attempt: Attempt, submission: JsonObject, *, read: Label) -> Attempt:
    said = "; ".join(_problems(submission)) or "no reason was given"
    outcome = replace(
        attempt.outcome,
        status="failed",
        value=None,
        findings=without_support(attempt.outcome.findings),
        problem=f"the reviewer rejected the report: {quoted(said, _PROBLEMS)}",
        label=attempt.outcome.origins | read,
    )
    return replace(attempt, outcome=outcome, rejected=True)


def _brief(equipment: Equipment, job: Job[WorkerStep], outcome: Outcome, under: Under) -> Brief:
    reviewer = equipment.workers.get(REVIEWER.name, REVIEWER)
    number, step = under.number.number, job.step
    tools = tools_of_worker(reviewer, equipment.catalogue.tools())
    return Brief(
        key=f"{under.number.key}/review",
        role="reviewer",
        place=Place(number=number, step=step.id, attempt=number),
        meaning=job.meaning,
        worker=reviewer,
        task=step.task,
        system="\n\n".join(filter(None, [reviewer.instructions.strip(), prompt("reviewer")])),
        first_message=_first_message(job, outcome, under),
        tools=[tool for tool in tools if tool.class_ == "read"],
        ending=SUBMIT_REVIEW,
        origin="worker",
        label=under.log.read,
        artifact_steps=job.artifact_steps,
        fresh=True,
    )


def _first_message(job: Job[WorkerStep], outcome: Outcome, under: Under) -> str:
    """The claims and the results that they cite; the worker's summary stays out."""
    citable, data = under.log.citable, under.data
    claims = [
        f"{number}. {each.claim}\n   evidence: {', '.join(each.evidence) or 'none'}"
        for number, each in enumerate(outcome.findings, 1)
    ]
    cited = dict.fromkeys(call for finding in outcome.findings for call in finding.evidence)
    results = [f"[{call}]\n{wrapped(citable[call].text, origin=citable[call].tool)}" for call in cited]
    parts = [
        f"step: {job.step.id}",
        f"The claims answer this task: {job.step.task}",
        f"Claims:\n{wrapped(chr(10).join(claims), origin='worker')}",
    ]
    if data is not None:
        parts.append(f"Data that is handed on:\n{wrapped(shown(data), origin='worker')}")
    return "\n\n".join([*parts, "Evidence:", *results])


def _unclear(submission: JsonObject) -> str | None:
    """Why a verdict has to be said again, if it has to."""
    accepted = _accepted(submission)
    if accepted is None:
        return "must be true or false"
    if accepted and _problems(submission):
        return "is true, and yet problems are listed; it is false if one stands, else leave them out"
    return None


def _problems(submission: JsonObject) -> list[str]:
    written = submission.get("problems")
    said = [str(each) for each in (written if is_array(written) else [written]) if each is not None]
    return [each for each in said if each.strip().rstrip(".").lower() not in _NO_PROBLEM]


def _accepted(submission: JsonObject) -> bool | None:
    written = str(submission.get("accepted", "")).strip().lower()
    return {"true": True, "yes": True, "false": False, "no": False}.get(written)
