"""What is said of steps that have no outcome when their run ends: whether they began, and what they may have done."""

from collections import defaultdict
from dataclasses import dataclass

from downstream.door import Waiting
from downstream.gate.unknown import ask_what_became
from journal.run_journal import RunJournal
from journal.steps import StepRow

from .plan import AnyStep
from .progress import Progress

WAITED = "not run: it waited for a decision"


@dataclass(frozen=True)
class Unended:
    """`said` is one sentence about the step; `lost`: it sent a call, and nobody knows whether that ran."""

    said: str
    began: bool = False
    lost: bool = False


async def unended_steps(journal: RunJournal, progress: Progress) -> dict[str, Unended]:
    """By id the steps without an outcome; of those that a revision dropped, only the ones that sent a call."""
    rows = {row.id: row for row in await journal.steps()}
    lost, done = await _calls(journal)
    asks = {action.step for action in await journal.actions() if not action.handled}
    told: dict[str, Unended] = {}
    for id_, step in progress.every.items():
        planned = id_ in progress.plan.by_id
        if id_ in progress.outcomes or not (planned or id_ in lost or id_ in done):
            continue
        if id_ in lost or id_ in done:
            told[id_] = _sent(lost.get(id_, []), done.get(id_, []), planned=planned)
        else:
            told[id_] = _harmless(progress, step, rows.get(id_), asks=id_ in asks)
    return told


def _sent(lost: list[str], done: list[str], *, planned: bool) -> Unended:
    said = "cut short by the end of the run" if planned else "dropped by a revision"
    if lost:
        said = f"begun; nobody knows whether it ran (action{'s' if len(lost) > 1 else ''} {', '.join(lost)})"
    parts = [said, f"done by then: {', '.join(done)}"] if done else [said]
    return Unended("; ".join(parts), began=True, lost=bool(lost))


def _harmless(progress: Progress, step: AnyStep, row: StepRow | None, *, asks: bool) -> Unended:
    if row is None or row.started_at is None:
        return Unended(progress.why_not_run(step))
    # One that the deadline stopped waits too, for a word about that.
    if step.kind == "call" and row.status == "waiting" and asks:
        return Unended(WAITED, began=True)
    return Unended("cut short by the end of the run", began=True)


async def _calls(journal: RunJournal) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """By step: the actions that ask what became of its lost calls, and the calls with an effect that were done."""
    lost: defaultdict[str, list[str]] = defaultdict(list)
    done: defaultdict[str, list[str]] = defaultdict(list)
    for intent in await journal.intents():
        if intent.past:
            continue
        if intent.state == "unknown":
            asked = await ask_what_became(journal, intent)
            said = "unknown" if isinstance(asked, Waiting) else asked.choice
            if said in ("unknown", "give_up"):
                lost[intent.step].append(asked.action if isinstance(asked, Waiting) else asked.id)
        else:
            said = intent.state
        if said == "done":
            done[intent.step].append(f"{intent.tool} {intent.call}")
    return lost, done
