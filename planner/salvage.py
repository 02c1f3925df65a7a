"""What is left of a run that cannot be replayed: its steps, and every outcome that was written down."""

from journal.run_journal import RunJournal

from .chronicle import Ended, read_entry
from .plan import Plan
from .planning import read_steps
from .progress import Progress


async def salvaged(journal: RunJournal) -> Progress | None:
    """How far the run came, from records read for what they hold and not for what they meant; None without a plan."""
    rows = await journal.steps()
    if not rows:
        return None
    progress = Progress(Plan(read_steps([row.definition for row in rows if not row.dropped])))
    progress.every = {step.id: step for step in read_steps([row.definition for row in rows])}
    entries = await journal.records("order")
    for key in sorted(entries, key=lambda key: int(key.removeprefix("order."))):
        entry = read_entry(entries[key])
        if isinstance(entry, Ended):
            progress.outcomes[entry.outcome.step] = entry.outcome
    return progress
