"""What the journal keeps of an attempt: read back as it was, also from rows of earlier releases."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from executing import open_bench, worker_step

from executors.attempts import Attempt, Number, attempts
from executors.contract import Finding, Outcome
from executors.job import Job
from journal.run_journal import Meaning, RunJournal

STEP = worker_step()
JOB = Job(STEP, {}, "plan", frozenset({"plan"}))
MEANING = Meaning("attempt", JOB.meaning)
CLAIM = (Finding(claim="The first one's."),)
WORDS = "the reviewer rejected the report"
REJECTED = Attempt(Outcome("s", "failed", findings=CLAIM, problem=f'{WORDS}: "No."'), may_retry=True, rejected=True)
IN_OTHER_WORDS = Attempt(Outcome("s", "failed", findings=CLAIM, problem="it was sent back"), True, rejected=True)
ONLY_SAID = Attempt(Outcome("s", "failed", findings=CLAIM, problem=f"{WORDS}, it says"), may_retry=True)
DONE = Attempt(Outcome("s", "succeeded", summary="Done."))


def key(number: int) -> str:
    return f"{JOB.key}/attempt.{number}/end"


async def made(journal: RunJournal, given: Sequence[Attempt]) -> Outcome:
    async def make(number: Number) -> Attempt:
        return given[number.number - 1]

    ended = await attempts(journal, JOB, make, retries=1)
    assert isinstance(ended, Attempt)
    return ended.outcome


@pytest.mark.parametrize(
    ("first", "kept", "row"),
    [
        (REJECTED, (), {}),
        (IN_OTHER_WORDS, (), {"rejected": True}),
        (ONLY_SAID, CLAIM, {"rejected": False}),
    ],
    ids=["rejected", "rejected in other words", "only said so"],
)
async def test_only_the_findings_of_an_attempt_that_a_reviewer_rejected_are_gone_also_when_read_back(
    tmp_path: Path, first: Attempt, kept: tuple[Finding, ...], row: dict[str, Any]
) -> None:
    async with open_bench(tmp_path) as bench:
        journal = await bench.drive()
        assert (await made(journal, [first, DONE])).findings == kept
        assert (await made(await bench.drive(), [])).findings == kept
        recorded = await journal.recall(key(1), MEANING)
        assert recorded is not None
        assert {name: recorded.value[name] for name in recorded.value if name == "rejected"} == row


@pytest.mark.parametrize(("problem", "kept"), [(f'{WORDS}: "No."', ()), ("the model was silent", CLAIM)])
async def test_in_a_row_of_an_earlier_release_the_words_still_say_whether_it_was_rejected(
    tmp_path: Path, problem: str, kept: tuple[Finding, ...]
) -> None:
    outcome = Outcome("s", "failed", findings=CLAIM, problem=problem)
    row = {"outcome": outcome.to_json(), "may_retry": True, "over_budget": False}
    async with open_bench(tmp_path) as bench:
        journal = await bench.drive()
        await journal.record(key(1), MEANING, row)
        outcome = await made(journal, [DONE, DONE])
        assert (outcome.status, outcome.attempts, outcome.findings) == ("succeeded", 2, kept)
