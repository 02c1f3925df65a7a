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
    """By id the steps without an outcome; of those that a revision dropped, only the ones with a lost call."""
    rows = {row.id: row for row in await journal.steps()}
    lost, done = await _calls(journal)
    told: dict[str, Unended] = {}
    for id_, step in progress.every.items():
        if id_ in progress.outcomes or (id_ not in progress.plan.by_id and id_ not in lost):
            continue
        if id_ in lost:
            actions = f"action{'s' if len(lost[id_]) > 1 else ''} {', '.join(lost[id_])}"
            told[id_] = Unended(f"begun; nobody knows whether it ran ({actions})", began=True, lost=True)
        elif id_ in done:
            told[id_] = Unended(f"cut short by the end of the run; done by then: {', '.join(done[id_])}", began=True)
        else:
            told[id_] = _harmless(progress, step, rows.get(id_))
    return told


def _harmless(progress: Progress, step: AnyStep, row: StepRow | None) -> Unended:
    if row is None or row.started_at is None:
        return Unended(progress.why_not_run(step))
    if step.kind == "call" and row.status == "waiting":
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
