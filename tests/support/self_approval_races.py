"""Two who meet at one action in every order: one run at the real gate for each, and what must come of it."""

from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from gate_case import Runs, Server, call, tool

from downstream.door import CallTool, Waiting
from journal.actions import Action, Decision
from journal.errors import DecisionRefused, Fenced
from journal.run_journal import Ending, RunJournal
from journal.runs import NewRun
from journal.world import new_id

SEND = tool("mail.send", "write", ["to"])
MAIL = call("mail.send", {"to": "ana@example.org"})
_DAY_AND_MORE = 25 * 3600.0


def orders(*actors: Sequence[str]) -> Generator[list[str]]:
    """Every order in which the actors' moves can follow each other; each actor keeps its own."""
    if not any(actors):
        yield []
    for place, actor in enumerate(actors):
        if actor:
            rest = [*actors[:place], actor[1:], *actors[place + 1 :]]
            yield from ([actor[0], *order] for order in orders(*rest))


@dataclass
class Race:
    """One run whose call waits. Moves: `look` and `yes` of a host, `no` of a person, cancel, end, expire, send."""

    runs: Runs
    server: Server
    door: CallTool
    journal: RunJournal
    action: Action
    decided: list[str] = field(default_factory=list[str])

    async def go(self, order: Sequence[str]) -> bool:
        """Whether the mail was sent after these moves."""
        for move in order:
            await self._move(move)
        return bool(self.server.sent)

    async def _move(self, move: str) -> None:
        store, run = self.runs.store, await self.runs.store.run(self.runs.run_id)
        match move:
            case "look":
                self.action = await store.action(self.action.id)
            case "yes":
                await self._decide(Decision("approve", "host", "approve_action", client="test-host"))
            case "no":
                await self._decide(Decision("deny", "person", "page"))
            case "cancel":
                await store.request_cancel(run, "enough")
            case "end":
                await self.journal.finish(Ending("cancelled", "cancelled", "", "", {}))
            case "expire":
                self.runs.clock.at += _DAY_AND_MORE
            case _:
                await self._send()

    async def _decide(self, decision: Decision) -> None:
        with suppress(DecisionRefused):
            self.decided.append((await self.runs.store.decide(self.action, decision)).choice or "")

    async def _send(self) -> None:
        # The run has ended.
        with suppress(Fenced):
            await self.door(self.journal, MAIL)


async def open_race(runs: Runs) -> Race:
    """A new run in the store of another, whose call waits for a yes of level host."""
    new = NewRun("me", "settings", "/settings.yaml", f"do it like {new_id('g')}", "host", "", {})
    run_id, created = await runs.store.create_or_attach(new, driver="me")
    assert created
    own, server = Runs(runs.store, run_id, runs.clock), Server()
    journal, door = await own.drive(), server.door(SEND)
    waiting = await door(journal, MAIL)
    assert isinstance(waiting, Waiting)
    action = await runs.store.action(waiting.action)
    assert action.level == "host"
    return Race(own, server, door, journal, action)


def may_send(order: Sequence[str]) -> bool:
    """Whether these moves hold a yes that came in time and a later chance to use it, by the rules alone."""
    decided = expired = gone = False
    yes = False
    for move in order:
        match move:
            case "yes" | "no" if not (decided or expired or gone):
                decided, yes = True, move == "yes"
            case "expire":
                expired, yes = True, False
            case "end":
                gone = True
            case "send" if yes and not gone:
                return True
            case _:
                pass
    return False
