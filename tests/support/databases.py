"""What tests of the database write and read."""

from collections.abc import Callable

from journal.database import Database, Transaction

PUT = "INSERT INTO remembered (owner, kind, name, value, at) VALUES ('me', 'test', ?, ?, 0)"


def put(name: str, value: str = "1") -> Callable[[Transaction], int]:
    return lambda tx: tx.change(PUT, (name, value))


def failing(error: Exception) -> Callable[[Transaction], int]:
    def change(tx: Transaction) -> int:
        put("failing")(tx)
        raise error

    return change


async def names(database: Database) -> list[str]:
    rows = await database.read(lambda tx: tx.rows("SELECT name FROM remembered ORDER BY name"))
    return [row["name"] for row in rows]
