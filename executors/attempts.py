"""Attempts of a step: one that failed and changed nothing is made once more, with its error as data."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from downstream.door import Waiting
from journal.run_journal import Meaning, RunJournal
from journal.values import WORST, Json, Label

from .contract import Outcome
from .findings import every_finding
from .job import AnyJob, under_limits

_SAID_REJECTED = "the reviewer rejected the report"
"""How the problem of a rejected report begins in rows of earlier releases, which say it in no other way."""
OWN_WORD = "the worker reports that it is"
"""How the problem of an outcome begins where its report is no success by its own word."""


@dataclass(frozen=True)
class Attempt:
    """What one attempt came to. `may_retry`: it failed in a way that another attempt may mend.

    `over_budget`: the run's budget cut it short, so it is looked at again once a person raises that. `uncalled`: its
    model had functions to call and called none of them. `harmless`: whatever it changed may be done again. `rejected`:
    a reviewer found that the evidence does not bear out its findings.
    """

    outcome: Outcome
    may_retry: bool = False
    over_budget: bool = False
    uncalled: bool = False
    harmless: bool = False
    rejected: bool = False

    @property
    def again(self) -> bool:
        outcome, is_safe = self.outcome, self.harmless or not self.outcome.effects
        return self.may_retry and outcome.status == "failed" and is_safe and outcome.limit is None


@dataclass(frozen=True)
class Number:
    """Which attempt this is, its key, and why the one before failed: in words of this label.

    `uncalled`: in the one before, no function was called, so that the model is better asked in another way.
    """

    number: int
    key: str
    before: str | None
    label: Label = frozenset()
    uncalled: bool = False


MakeAttempt = Callable[[Number], Awaitable[Attempt | Waiting]]


async def attempts(journal: RunJournal, job: AnyJob, make: MakeAttempt, *, retries: int) -> Attempt | Waiting:
    """Make attempts until one need not or may not be made again; the outcome keeps what earlier ones found."""
    earlier: list[Attempt] = []
    while True:
        number = len(earlier) + 1
        this = _numbered(number, f"{job.key}/attempt.{number}", earlier[-1] if earlier else None)
        made = await _recorded(journal, job, make, this)
        if isinstance(made, Waiting):
            return made
        if not made.again or number > retries:
            return replace(made, outcome=_after(earlier, _told(made.outcome)))
        earlier.append(made)


def _numbered(number: int, key: str, before: Attempt | None) -> Number:
    if before is None:
        return Number(number, key, None)
    return Number(number, key, before.outcome.problem, before.outcome.origins or WORST, before.uncalled)


async def _recorded(journal: RunJournal, job: AnyJob, make: MakeAttempt, number: Number) -> Attempt | Waiting:
    meaning = Meaning("attempt", job.meaning)
    for key in (f"{number.key}/end", under_limits(f"{number.key}/end", journal)):
        if (found := await journal.recall(key, meaning)) is not None:
            return _from_json(found.value)
    made = await make(number)
    if isinstance(made, Attempt):
        key = f"{number.key}/end"
        await journal.record(under_limits(key, journal) if made.over_budget else key, meaning, _to_json(made))
    return made


def _told(outcome: Outcome) -> Outcome:
    """The outcome with our word on what is wrong before a model's own: of a summary, readers see the beginning.

    Not where the report says itself that it is no success.
    """
    wrong = outcome.problem or ""
    said = wrong.partition("; ")[0]
    if not outcome.summary or said in outcome.summary or said.startswith(OWN_WORD):
        return outcome
    return replace(outcome, summary=f"{wrong}; it reported: {outcome.summary}")


def _after(earlier: list[Attempt], last: Outcome) -> Outcome:
    """The last attempt's outcome with what must not be lost of those before it."""
    if not earlier:
        return last
    outcomes = [attempt.outcome for attempt in earlier]
    found = [attempt.outcome for attempt in earlier if last.status != "succeeded" or not attempt.rejected]
    told = "; ".join(f"attempt {number}: {outcome.problem}" for number, outcome in enumerate(outcomes, 1))
    return replace(
        last,
        findings=every_finding(last.findings, *(outcome.findings for outcome in found)),
        problem=f"{last.problem} ({told})" if last.problem else None,
        sources=tuple(dict.fromkeys(source for outcome in (*outcomes, last) for source in outcome.sources)),
        failed_calls=tuple(call for outcome in (*outcomes, last) for call in outcome.failed_calls),
        effects=tuple(call for outcome in (*outcomes, last) for call in outcome.effects),
        attempts=len(earlier) + 1,
        label=last.label.union(*(outcome.origins for outcome in outcomes)),
    )


def _said_rejected(problem: str | None) -> bool:
    return (problem or "").startswith(_SAID_REJECTED)


def _to_json(made: Attempt) -> Json:
    row: Json = {"outcome": made.outcome.to_json(), "may_retry": made.may_retry, "over_budget": made.over_budget}
    # Rows of earlier releases have none of these; left out where they say nothing new, theirs and ours are the same.
    row |= {"uncalled": True} if made.uncalled else {}
    row |= {"harmless": True} if made.harmless and made.outcome.effects else {}
    return row if made.rejected == _said_rejected(made.outcome.problem) else row | {"rejected": made.rejected}


def _from_json(value: Json) -> Attempt:
    outcome = Outcome.from_json(value["outcome"])
    return Attempt(**({"rejected": _said_rejected(outcome.problem)} | value | {"outcome": outcome}))
