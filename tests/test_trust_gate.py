"""The trust stage: one question for a change of a tool in a run, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gate_case import Runs, Server, call, gate_of, open_runs, server, tool

from downstream.door import Called, Refused, ToolEnd, Waiting
from downstream.gate.calls import ToolDoor
from downstream.gate.trust import settle_trust
from downstream.servers.listing import Definition
from downstream.servers.pins import Change
from downstream.tools import Tool
from journal.actions import Action
from journal.values import JsonObject

LOOK = tool("box.look", "read", ["a"])
BOX = server("box")


def change(description: str = "new", **schema: JsonObject) -> Change:
    now = Definition("look", "", description, schema or {"type": "object"}, None, {})
    return Change("box", "its arguments changed since it was first listed", replace(now, description="old"), now)


@dataclass
class Pinned:
    """Pins with at most one change."""

    held: Change | None = None
    words: tuple[str, ...] = ()
    accepted: list[Change] = field(default_factory=list[Change])

    def change(self, name: str) -> Change | None:
        return self.held if name == "box.look" else None

    def news(self, server: str) -> Sequence[str]:
        return self.words

    async def accept(self, change: Change) -> None:
        self.accepted.append(change)
        self.held = None


@dataclass
class Box:
    """A gate before one tool whose definition is pinned."""

    runs: Runs
    pins: Pinned
    server: Server = field(default_factory=Server)

    async def make(self, number: int = 0) -> ToolEnd:
        gate = replace(gate_of(LOOK, servers=[BOX]), pins=self.pins)
        found = replace(gate, find=self._find)
        key = f"step.a@1/attempt.1/call.{number}"
        return await ToolDoor(found, self.server.send)(await self.runs.drive(), call("box.look", {"a": "x"}, key=key))

    def _find(self, name: str) -> Tool | None:
        return None if self.pins.held else LOOK

    async def actions(self) -> list[Action]:
        return await self.runs.store.actions(self.runs.run_id)


async def test_all_calls_of_a_changed_tool_wait_for_one_answer_and_then_are_made(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        box = Box(runs, Pinned(held := change(), ("box describes itself differently now",)))
        box.pins.held = held
        first, second = await box.make(), await box.make(1)
        assert isinstance(first, Waiting)
        assert (first, box.server.sent) == (second, [])
        await runs.decide(first.action, "accept")
        ends = [await box.make(), await box.make(1)]
        run = await runs.store.run(runs.run_id)
        [action] = await box.actions()
    assert [isinstance(end, Called) and end.ok for end in ends] == [True, True]
    assert (box.pins.accepted, action.handled, len(box.server.sent)) == ([held], True, 2)
    assert run.warnings == ("box describes itself differently now",)


async def test_a_no_holds_for_the_run_also_one_that_a_host_passed_on(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        box = Box(runs, Pinned(change()))
        waiting = await box.make()
        assert isinstance(waiting, Waiting)
        await runs.decide(waiting.action, "reject", level="host", via="approve_action")
        ends = [await box.make(), await box.make(1)]
        [action] = await box.actions()
    for end in ends:
        assert isinstance(end, Called)
        assert (end.ok, "stays in quarantine" in end.text, "rejected" in end.text) == (False, True, True)
    assert (action.state, action.handled, box.pins.accepted, box.server.sent) == ("withdrawn", True, [], [])


async def test_another_change_is_another_question_and_a_yes_to_the_first_accepts_nothing(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        box = Box(runs, Pinned(change()))
        first = await box.make()
        assert isinstance(first, Waiting)
        await runs.decide(first.action, "accept")
        box.pins.held = change("newer still")
        second = await box.make()
        box.pins.held = change("and again")
        third = await box.make()
        states = [(action.state, action.handled) for action in await box.actions()]
    assert isinstance(second, Waiting)
    assert isinstance(third, Waiting)
    assert len({first.action, second.action, third.action}) == 3
    assert states == [("decided", True), ("superseded", True), ("waiting", False)]
    assert box.pins.accepted == []


async def test_a_change_that_was_taken_back_is_asked_about_no_more(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        box = Box(runs, Pinned(change()))
        await box.make()
        box.pins.held = None
        end = await box.make()
        [action] = await box.actions()
    assert (isinstance(end, Called), action.state) == (True, "superseded")


async def test_a_definition_that_nobody_can_judge_fails_the_call(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        box = Box(runs, Pinned(change("x" * 300_000)))
        end = await box.make()
        actions = await box.actions()
    assert isinstance(end, Called)
    assert (end.ok, "nobody can judge" in end.text, actions) == (False, True, [])


async def test_what_a_command_accepted_decides_what_waits_for_just_that(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        box = Box(runs, Pinned(held := change()))
        waiting = await box.make()
        assert isinstance(waiting, Waiting)
        assert await settle_trust(runs.store, BOX, [change("something else")]) == []
        assert await settle_trust(runs.store, BOX, [held]) == [runs.run_id]
        # The pins know of it already.
        box.pins.held = None
        end = await box.make()
        [action] = await box.actions()
    assert (isinstance(end, Called) and end.ok, action.choice, action.handled) == (True, "accept", True)


async def test_what_is_held_without_pins_is_refused(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        end = await Server().door()(await runs.drive(), call("notes.odd"))
    assert isinstance(end, Refused)
    assert end.reason == "notes.odd may not be used: its arguments changed"
