"""Findings of several reports put together: none is lost, and none counts for more than code has seen."""

from collections.abc import Iterable
from itertools import chain

from .contract import Finding


def every_finding(*groups: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings of all groups, each claim once: the first that is supported, else the first."""
    every: dict[str, Finding] = {}
    for finding in chain(*groups):
        if finding.claim not in every or (finding.supported and not every[finding.claim].supported):
            every[finding.claim] = finding
    return tuple(every.values())


def without_support(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same findings, all marked as not supported."""
    return tuple(finding.model_copy(update={"supported": False}) for finding in findings)
