"""What one run learns and the next may use: catalogues with their pins, and how a model has to be asked."""

import json

from .database import Database
from .values import Json
from .world import World


class Remembered:
    """Small named facts of an owner, by kind (`catalogue`, `model`)."""

    def __init__(self, database: Database, world: World, *, owner: str) -> None:
        self._database = database
        self._world = world
        self._owner = owner

    async def get(self, kind: str, name: str) -> Json | None:
        sql = "SELECT value FROM remembered WHERE owner = ? AND kind = ? AND name = ?"
        row = await self._database.read(lambda tx: tx.row(sql, (self._owner, kind, name)))
        return None if row is None else json.loads(row["value"])

    async def put(self, kind: str, name: str, value: Json) -> None:
        sql = "INSERT OR REPLACE INTO remembered (owner, kind, name, value, at) VALUES (?, ?, ?, ?, ?)"
        parameters = (self._owner, kind, name, json.dumps(value), self._world.now())
        await self._database.write("remembered", lambda tx: tx.change(sql, parameters))
