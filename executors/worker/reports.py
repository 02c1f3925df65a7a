"""Checking by code what a worker hands in: read with patience, supported only by calls that gave something."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from downstream.json_shape import is_array, is_object
from downstream.models.replies import ReplyErrors, read_object
from downstream.nesting import TOO_DEEP, too_deep
from executors.contract import Finding, Report
from executors.findings import every_finding, without_support
from executors.wording import cut
from journal.values import Json, JsonObject

from .output_schema import schema_errors

ReportStatus = Literal["done", "partial", "blocked", "failed"]
STATUSES: tuple[ReportStatus, ...] = get_args(ReportStatus)
_SUMMARY, _CLAIM, _SUGGESTION = 1_200, 2_000, 300
_SUGGESTIONS = 10
_COPIED = 12
"""So many characters that a claim and an error have in common are no chance."""
_FALSE = frozenset({"false", "no", "0"})
_PERCENT = re.compile(r"(.*?)\s*%", re.DOTALL)


@dataclass(frozen=True)
class Expected:
    """What a report is held against: the calls that may be cited, whether there were tools, and the step's output.

    `errors` is what calls said that failed: no finding, whatever it cites, unless a call `gave` the same. `gone` are
    tools of the step that were not there.
    """

    citable: Collection[str]
    had_tools: bool
    output: JsonObject | None = None
    errors: tuple[str, ...] = ()
    gave: Mapping[str, str] = field(default_factory=dict[str, str])
    gone: Collection[str] = ()

    def bear_out(self, claim: str, cited: Collection[str]) -> bool:
        """Whether these calls may bear the claim out; not where it is the text of an error and none of them said so."""
        said, errors = _plain(claim), [_plain(error) for error in self.errors]
        pairs = [pair for error in errors for pair in ((said, error), (error, said))]
        copied = any(len(part) >= _COPIED and part in whole for part, whole in pairs)
        return bool(cited) and (not copied or any(said in _plain(self.gave.get(call, "")) for call in cited))


@dataclass(frozen=True)
class Checked:
    """A report as far as it could be read, and everything that is wrong with it; with no problem it counts.

    `has_status`: it says one that there is; what says none is hardly a report.
    """

    report: Report
    problems: tuple[str, ...]
    has_status: bool = True

    def with_findings(self, findings: tuple[Finding, ...]) -> "Checked":
        return replace(self, report=self.report.model_copy(update={"findings": findings}))


def check_report(submitted: JsonObject, expected: Expected) -> Checked:
    """Read and check a report. Nothing that it found is lost: what cites nothing valid is marked as not supported.

    Data that does not fit the step's output is left out, since steps that follow would rely on it.
    """
    problems: list[str] = []
    status = _status(submitted.get("status"), problems)
    has_status = not problems
    findings = _findings(submitted.get("findings"), expected, problems)
    report = Report(
        status=status,
        summary=cut(_text(submitted.get("summary")), _SUMMARY),
        findings=findings,
        data=_data(submitted, problems),
        confidence=_confidence(submitted.get("confidence")),
        suggestions=tuple(_suggestions(submitted.get("suggestions"))),
        plan_holds=str(submitted.get("plan_holds", True)).strip().lower() not in _FALSE,
    )
    if status == "done":
        problems += _undone(report, expected)
    if expected.output is not None and (report.data is not None or status == "done"):
        misfits = _misfits(report.data, expected.output)
        report = report.model_copy(update={"data": None}) if misfits else report
        problems += misfits
    return Checked(report, tuple(problems), has_status)


def better_of(first: Checked, second: Checked) -> Checked:
    """What counts of a report and of the one that came after it was given back.

    The second, with what only the first found marked as not supported; the first where the second is worse: it could
    not be read, or has problems too and more of them or fewer findings.
    """
    if first.has_status != second.has_status:
        is_worse = first.has_status
    else:
        more_wrong = len(second.problems) > len(first.problems)
        is_worse = bool(second.problems) and (more_wrong or len(second.report.findings) < len(first.report.findings))
    if is_worse:
        return first
    return second.with_findings(every_finding(second.report.findings, without_support(first.report.findings)))


def _undone(report: Report, expected: Expected) -> list[str]:
    problems: list[str] = []
    if not report.summary:
        problems.append("summary: a report that says done needs one")
    if expected.had_tools and not any(finding.supported for finding in report.findings):
        there = (
            f"the calls that gave something are {', '.join(expected.citable)}" if expected.citable else "no call did"
        )
        gone = f"; not there any more: {', '.join(expected.gone)}" if expected.gone else ""
        problems.append(f"findings: none of them cites a call of yours that gave something; {there}{gone}")
    return problems


def _misfits(data: JsonObject | None, output: JsonObject) -> list[str]:
    return ["data: the step asks for it and it is missing"] if data is None else schema_errors(data, output)


def _status(written: Json, problems: list[str]) -> ReportStatus:
    for status in STATUSES:
        if _text(written).lower() == status:
            return status
    problems.append(f"status: must be one of {', '.join(STATUSES)}")
    return "failed"


def _findings(written: Json, expected: Expected, problems: list[str]) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    for number, item in enumerate(_list(written)):
        claim = _text(item.get("claim") if is_object(item) else item)
        if not claim:
            problems.append(f"findings[{number}].claim: is missing")
            continue
        cited = _cited(item.get("evidence")) if is_object(item) else []
        valid = tuple(dict.fromkeys(call for call in cited if call in expected.citable))
        findings.append(Finding(claim=cut(claim, _CLAIM), evidence=valid, supported=expected.bear_out(claim, valid)))
    return tuple(findings)


def _suggestions(written: Json) -> list[str]:
    """They stand before the reviser, who reads no foreign text at length."""
    return [cut(text, _SUGGESTION) for item in _list(written)[:_SUGGESTIONS] if (text := _text(item))]


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _cited(written: Json) -> list[str]:
    """Call ids, with or without brackets, in a list or in one text."""
    return [name for item in _list(written) for name in re.split(r"[\s,;\[\]]+", _text(item)) if name]


def _data(submitted: JsonObject, problems: list[str]) -> JsonObject | None:
    for name in ("data", "data_json"):
        written = submitted.get(name)
        if isinstance(written, str) and written.strip():
            try:
                written = read_object(written, name)
            except ReplyErrors as error:
                problems += error.errors
                continue
        if too_deep(written):
            problems.append(f"{name}: {TOO_DEEP}")
        elif is_object(written):
            return written
        elif written not in (None, "", []):
            problems.append(f"{name}: must be a JSON object")
    return None


def _confidence(written: Json) -> float:
    """Full where nothing is said; none where it cannot be read, so that the plan is looked at again."""
    if written in (None, ""):
        return 1.0
    percent = _PERCENT.fullmatch(written.strip()) if isinstance(written, str) else None
    try:
        # What is not a number is below nothing: not-a-number itself compares to none.
        return min(1.0, max(0.0, float(written) if percent is None else float(percent[1]) / 100))
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _list(written: Json) -> list[Json]:
    if is_array(written):
        return written
    return [] if written in (None, "") else [written]


def _text(written: Json) -> str:
    return "" if written is None else str(written).strip()
