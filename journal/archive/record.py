"""All that the journal holds of one run, read once, as its rows stand."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from journal.database import Transaction
from journal.errors import SteprelayError
from journal.runs import Run, get_run
from journal.store import Store
from journal.values import Json, JsonObject

Rows = Sequence[JsonObject]
TABLES = ("memo", "steps", "intents", "ledger", "actions", "events", "audit", "artifacts")


class Unreadable(SteprelayError):
    """A row of the record that is not what this release writes."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} cannot be read: it is not what a release of steprelay writes")


@dataclass(frozen=True)
class Record:
    """The rows of a run by table, as the columns hold them. `came` is what an imported run brought along besides."""

    run: Run
    row: JsonObject
    tables: Mapping[str, Rows]
    came: JsonObject | None

    def memo(self) -> dict[str, JsonObject]:
        """The memo rows by key."""
        return {str(row["key"]): row for row in self.tables["memo"]}

    @property
    def ended_at(self) -> float | None:
        """When the run ended where it was driven; None if it had not."""
        if self.came is None:
            return self.run.ended_at
        ended: float | None = self.came["was"]["ended_at"]
        return ended

    @property
    def redacted(self) -> bool:
        return self.came is not None and bool(self.came.get("redacted"))


async def read_record(store: Store, run_id: str) -> Record:
    """Raises UnknownId."""

    def read(tx: Transaction) -> Record:
        run = get_run(tx, run_id, owner=store.owner)
        row = tx.rows("SELECT * FROM runs WHERE id = ?", (run_id,))[0]
        tables = {
            table: [dict(found) for found in tx.rows(f"SELECT * FROM {table} WHERE run = ? ORDER BY rowid", (run_id,))]
            for table in TABLES
        }
        kept = tx.row("SELECT data FROM imports WHERE run = ?", (run_id,))
        return Record(run, dict(row), tables, None if kept is None else json.loads(kept["data"]))

    return await store.database.read(read)


def data_of(row: JsonObject, column: str) -> Json:
    """What a column holds as JSON. Raises Unreadable."""
    try:
        return json.loads(row[column])
    except ValueError:
        name = row.get("key") or row.get("id") or f"line {row.get('seq')} ({row.get('type')})"
        raise Unreadable(f"{name}: its {column}") from None
