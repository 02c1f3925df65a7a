"""What one run learns and the next may use: catalogues with their pins, and how a model has to be asked."""

import json
from collections.abc import Callable

from .database import Database, Transaction
from .values import Json
from .world import World


def put_fact(tx: Transaction, key: tuple[str, str, str], *, value: Json, at: float) -> None:
    """Remember a fact inside a change, by owner, kind and name, in place of what it was."""
    sql = "INSERT OR REPLACE INTO remembered (owner, kind, name, value, at) VALUES (?, ?, ?, ?, ?)"
    tx.change(sql, (*key, json.dumps(value), at))


class Remembered:
    """Small named facts of an owner, by kind (`catalogue`, `model`, `page_session`)."""

    def __init__(self, database: Database, world: World, *, owner: str) -> None:
        self._database = database
        self._world = world
        self._owner = owner

    async def get(self, kind: str, name: str) -> Json | None:
        sql = "SELECT value FROM remembered WHERE owner = ? AND kind = ? AND name = ?"
        row = await self._database.read(lambda tx: tx.row(sql, (self._owner, kind, name)))
        return None if row is None else json.loads(row["value"])

    async def put(self, kind: str, name: str, value: Json) -> None:
        at = self._world.now()
        await self._database.write("remembered", lambda tx: put_fact(tx, (self._owner, kind, name), value=value, at=at))

    async def all(self, kind: str) -> dict[str, Json]:
        """Everything remembered of a kind, by name."""
        sql = "SELECT name, value FROM remembered WHERE owner = ? AND kind = ?"
        rows = await self._database.read(lambda tx: tx.rows(sql, (self._owner, kind)))
        return {str(row["name"]): json.loads(row["value"]) for row in rows}

    async def update(self, kind: str, name: str, change: Callable[[Json | None], Json]) -> Json:
        """Replace a fact by what `change` makes of it, without anybody else's change between; the new one."""

        def work(tx: Transaction) -> Json:
            sql = "SELECT value FROM remembered WHERE owner = ? AND kind = ? AND name = ?"
            row = tx.row(sql, (self._owner, kind, name))
            value = change(None if row is None else json.loads(row["value"]))
            put_fact(tx, (self._owner, kind, name), value=value, at=self._world.now())
            return value

        return await self._database.write("remembered", work)

    async def add(self, kind: str, name: str, value: Json) -> bool:
        """Whether the name was new; one that is there already keeps its value."""
        sql = "INSERT OR IGNORE INTO remembered (owner, kind, name, value, at) VALUES (?, ?, ?, ?, ?)"
        parameters = (self._owner, kind, name, json.dumps(value), self._world.now())
        return await self._database.write("remembered", lambda tx: tx.change(sql, parameters)) == 1

    async def forget(self, kind: str, *, name: str | None = None, before: float | None = None) -> None:
        """Drop what is remembered of a kind: one name, what was put before a time, or all of it."""
        sql = (
            "DELETE FROM remembered WHERE owner = ? AND kind = ? AND (? IS NULL OR name = ?) AND (? IS NULL OR at < ?)"
        )
        parameters = (self._owner, kind, name, name, before, before)
        await self._database.write("remembered", lambda tx: tx.change(sql, parameters))
