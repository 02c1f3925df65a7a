"""Under which keys a run may have something written down, so that a drive does not ask for what is not there."""

from typing import Literal, TypeAlias

from .database import Database, Row, Transaction

Table: TypeAlias = Literal["memo", "actions", "intents"]
_TABLES: tuple[Table, ...] = ("memo", "actions", "intents")


class KnownKeys:
    """The keys of one run in one drive: those of earlier drives are read once, those of this one are noted.

    A key is noted before it is written, so none is ever missing, and one that is there may still have nothing.
    """

    def __init__(self, database: Database, run_id: str) -> None:
        self._database = database
        self._run = run_id
        self._were_read = False
        self._keys: dict[Table, set[str]] = {table: set() for table in _TABLES}

    def note(self, table: Table, key: str) -> None:
        self._keys[table].add(key)

    async def of(self, table: Table) -> set[str]:
        if not self._were_read:
            for found, row in await self._database.read(self._rows):
                self._keys[found].add(row["key"])
            self._were_read = True
        return self._keys[table]

    def _rows(self, tx: Transaction) -> list[tuple[Table, Row]]:
        sql = "SELECT key FROM {} WHERE run = ?"
        return [(table, row) for table in _TABLES for row in tx.rows(sql.format(table), (self._run,))]
