"""What is read of a run that goes on meanwhile is of one moment."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import anyio
import anyio.lowlevel
from journals import LIMITS, create, open_own_store, take

from journal.archive.record import read_record
from journal.archive.transfer import About, collected
from journal.events import NewEvent
from journal.ledger import Amount, Reservation, Spent
from journal.run_journal import Meaning, RunJournal
from journal.store import Store

CALLS = 12


async def go_on(journal: RunJournal) -> None:
    """Calls without end, each with a row of the ledger, a memo and an event."""
    for number in count():
        # A write is not cut short, so that nothing else here would be.
        await anyio.lowlevel.checkpoint()
        await journal.begin_call(Reservation(f"k{number}", Amount(tool_calls=1)))
        await journal.end_call(
            f"k{number}", Meaning("t", None), None, spent=Spent(), events=[NewEvent("call.ended", {})]
        )


async def look(store: Store, run_id: str) -> None:
    """Raises AssertionError where what is read does not fit together."""
    seen = 0
    while seen < CALLS:
        document = await collected(store, run_id, about=About())
        assert document["usage"]["tool_calls"] == len(document["ledger"])
        assert document["run"]["last_seq"] == len(document["events"])
        assert len(document["memo"]) == len(document["events"]) - 1
        record = await read_record(store, run_id)
        assert record.run.last_seq == len(record.tables["events"])
        seen = len(record.tables["memo"])
        assert seen == len(record.tables["events"]) - 1


async def test_the_parts_of_a_record_fit_together_while_the_run_goes_on(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        plenty = replace(LIMITS, tool_calls=10**9, seconds=1e9)
        journal = await take(store, await create(store), limits=plenty)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(go_on, journal)
                await look(store, journal.run.id)
                group.cancel_scope.cancel()
