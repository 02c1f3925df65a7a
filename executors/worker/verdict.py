"""What code says became of a worker's attempt, whatever its report claims."""

from dataclasses import dataclass

from executors.contract import Finding, Outcome, OutcomeStatus, Report
from journal.values import JsonObject, Value

from .brief import Ended
from .call_log import CallLog
from .reports import Checked

_NAMED = 3
_BY_REPORT: dict[str, OutcomeStatus] = {
    "done": "succeeded",
    "partial": "partial",
    "blocked": "failed",
    "failed": "failed",
}


@dataclass(frozen=True)
class Case:
    """An attempt that has ended, and its checked report, if it handed one in; `could_change` where it had a tool for
    that."""

    step: str
    ended: Ended
    checked: Checked | None
    could_change: bool = False

    @property
    def report(self) -> Report | None:
        return None if self.checked is None else self.checked.report

    @property
    def findings(self) -> tuple[Finding, ...]:
        return () if self.report is None else self.report.findings


def outcome_of(case: Case) -> Outcome:
    """A refused call counts before a limit, a limit before the report; a report with problems is none."""
    log, report = case.ended.log, case.report
    status = _status(case)
    summary = report.summary if report and report.summary else _without_summary(case)
    cited = [call for finding in case.findings for call in finding.evidence]
    return Outcome(
        case.step,
        status,
        summary=f"{_outside(log)}{_unchanged(case, status)}{summary}",
        value=_value(report, log) if report and (status in ("succeeded", "partial") or case.findings) else None,
        findings=case.findings,
        problem=None if status == "succeeded" else _problem(case),
        confidence=report.confidence if report else 0.0,
        plan_holds=report.plan_holds if report else True,
        suggestions=report.suggestions if report else (),
        sources=log.sources(case.step, cited),
        failed_calls=log.failed,
        effects=log.effects,
        limit=case.ended.limit,
        label=log.read | {"model"},
    )


def _outside(log: CallLog) -> str:
    """First, so that no long summary pushes it out of sight."""
    if not log.outside:
        return ""
    more = len(log.outside) - _NAMED
    names = ", ".join([*list(log.outside)[:_NAMED], *([f"{more} more"] if more > 0 else [])])
    return f"asked for what the step does not list, not called: {names}; "


def _unchanged(case: Case, status: OutcomeStatus) -> str:
    """Whatever a worker says that is believed: it may claim to have sent what it never sent."""
    return "changed nothing; " if status == "succeeded" and case.could_change and not case.ended.log.effects else ""


def _status(case: Case) -> OutcomeStatus:
    if case.ended.log.refused is not None:
        return "refused"
    if case.ended.limit is not None:
        return "partial"
    if case.checked is None or case.checked.problems:
        return "partial" if case.findings else "failed"
    return _BY_REPORT[case.checked.report.status]


def _problem(case: Case) -> str:
    return "; ".join(filter(None, [*_what_is_wrong(case), None if case.report else case.ended.log.last_failure]))


def _without_summary(case: Case) -> str:
    """What code says in the worker's place; a reviser reads it, so no tool's words stand in it."""
    return "; ".join([*_what_is_wrong(case), case.ended.log.in_words])


def _what_is_wrong(case: Case) -> list[str]:
    ended, report = case.ended, case.report
    said: list[str] = []
    if (refused := ended.log.refused) is not None:
        said.append(f"{refused.tool} was refused: {refused.reason}")
    if ended.limit is not None:
        said.append(f"stopped at its limit: {ended.limit}")
    if case.checked is not None and case.checked.problems:
        said.append(f"the report is not complete: {'; '.join(case.checked.problems)}")
    elif report is None:
        said.append(ended.problem or "the worker handed in no report")
    elif report.status != "done":
        said.append(f"the worker reports that it is {report.status}")
    return said


def _value(report: Report, log: CallLog) -> Value:
    findings = [finding.model_dump(mode="json") for finding in report.findings]
    data: JsonObject = report.data or {"summary": report.summary, "findings": findings}
    return Value(data, log.read | {"model"})
