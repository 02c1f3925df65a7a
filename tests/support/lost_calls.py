"""Calls that give no answer, by a crash or a dropped connection, and the door that they are made through."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gate_case import Runs, Server, call, failing, server, text_result, tool
from mcp.types import CallToolResult

from downstream.door import ToolEnd
from downstream.gate.sending import Outgoing
from downstream.settings import ServerSettings, ToolOptions
from downstream.tools import Tool
from journal.run_journal import RunJournal
from journal.values import Json, JsonObject

SEND = tool("mail.send", "write", ["to", "key"])
FIND = tool("mail.find", "read", ["to"])
TO: JsonObject = {"to": "ana@example.org"}
ALLOW: JsonObject = {"rules": [{"allow": "mail.*"}]}
THERE: Json = {"mails": [{"to": "ana@example.org", "at": 5}]}
NOTHING: Json = {"mails": []}
OTHER: Json = {"mails": [{"to": "bob@example.org", "at": 5}]}


class Killed(Exception):
    """The process ends here."""


@dataclass
class Mail(Server):
    """Loses the first `losses` sends, as a crash or a dropped connection would; `find` gives this."""

    how: str = "crash"
    found: Json = None
    losses: int = 1

    async def send(self, out: Outgoing) -> CallToolResult:
        self.sent.append((out.tool.full_name, out.arguments))
        assert (await out.leave())()
        if out.tool.name == "find":
            return self.found if isinstance(self.found, CallToolResult) else found(self.found)
        if self.losses > 0:
            self.losses -= 1
            if self.how == "crash":
                raise Killed
            return failing("ran?")(out)
        return text_result("fine")

    @property
    def tools(self) -> list[str]:
        return [name for name, _ in self.sent]


def found(data: Json) -> CallToolResult:
    return CallToolResult(content=[], structured_content=data)


def options(**given: Any) -> list[ServerSettings]:
    return [server("mail", tools={"send": ToolOptions(**given)})]


def door_of(there: Server, servers: Sequence[ServerSettings], *tools: Tool) -> Callable[[RunJournal], Any]:
    door = there.door(*(tools or (SEND, FIND)), policy=ALLOW, servers=servers)
    return lambda journal: door(journal, call(tools[0].full_name if tools else "mail.send", TO))


async def lost(runs: Runs, there: Mail, door: Callable[[RunJournal], Any]) -> ToolEnd:
    """The end of a call that gave no answer at first: in the drive after a crash, or in the same one."""
    if there.how == "crash":
        for _ in range(there.losses):
            with pytest.raises(Killed):
                await door(await runs.drive())
    end: ToolEnd = await door(await runs.drive())
    return end


async def verdicts(runs: Runs) -> list[Json]:
    """What the audit says that reads told, oldest first."""
    sql = "SELECT data FROM audit WHERE type = 'intent.reconciled' ORDER BY seq"
    return [json.loads(row["data"]) for row in await runs.store.database.read(lambda tx: tx.rows(sql))]


both = pytest.mark.parametrize("how", ["crash", "connection"])
"""How the answer is lost."""


class Elsewhere:
    """A call that a process began which is not dead, as its lock says, and has lost its run."""

    def __init__(self, folder: Path, runs: Runs) -> None:
        self.lock = folder / "leases" / "l_other"
        self.runs = runs

    async def begin(self, door: Callable[[RunJournal], Any], *, row: tuple[int, str] | None = None) -> None:
        store = self.runs.store
        run = await store.run(self.runs.run_id)
        journal = await store.take(run, driver="l_other", limits=lambda run: self.runs.limits)
        assert journal is not None
        with pytest.raises(Killed):
            await door(journal)
        if row is not None:
            sql = "INSERT INTO leases VALUES ('l_other', 'me', ?, ?, 'print', 'settings.yaml', 1, 1)"
            await store.database.write("by_hand", lambda tx: tx.change(sql, row))

    def pass_deadline(self) -> None:
        self.runs.clock.at += 90
