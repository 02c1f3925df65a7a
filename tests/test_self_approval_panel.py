"""A yes without a person by the panel's edits and classes: the third part of the table of `test_self_approval.py`.

A host is trusted here whose model may hold the view key: what that key alone can do is edit, which runs nothing.
"""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_hosts import Host
from panel_hosts import PanelHost, open_panel_host
from self_approval import (
    HOST,
    LEVELS,
    PERSON,
    RAISED,
    REFUSED,
    Became,
    Room,
    Table,
    exact,
    open_room,
    open_table,
    word,
)

from downstream.servers.confirmed import confirmed_classes
from journal.actions import Decision
from server.page.approver import keep_approver, new_approver, totp

pytestmark = pytest.mark.e2e

NOT_THIS = "only steprelay's own panel may call this"
SOON = "was shown less than 1.5 s ago"
NOT_SHOWN = "is not what was shown in this panel"
REPEATED = {"tool": "ledger.add_item"}
SHIPPED = {"key": "ana", "value": "ship it"}


@pytest.fixture(scope="module")
def table() -> Generator[Table]:
    with open_table("what was changed in the panel") as rows:
        yield rows


@dataclass
class Panels:
    """A run's panel in a trusted host and in another; `plain` shows none. `cards` are the actions by level."""

    room: Room
    plain: Host
    trusted: PanelHost
    other: PanelHost
    cards: dict[str, Any] = field(default_factory=dict[str, Any])

    async def look(self) -> list[Any]:
        """Show all that waits in both for two seconds; its actions, in order."""
        state = await self.trusted.state()
        await self.other.state()
        self.room.ahead[0] += 2
        self.cards = {card["level"]: card for card in state["run"]["actions"]}
        return list(state["run"]["actions"])

    async def edits(
        self,
        tried: str,
        says: str,
        host: PanelHost | None = None,
        /,
        *,
        of: Any = None,
        to: Any = SHIPPED,
        **other: Any,
    ) -> None:
        """A try to edit, the write if no other action is named; whether it is taken or not, it is no yes."""
        act = partial((host or self.trusted).edit, of or self.cards["host"], to, **other)
        await self.room.tries(f"panel: edit {tried}", REFUSED, act, says=says)

    async def presses(
        self, tried: str, became: Became, card: Any, /, *, says: str, host: PanelHost | None = None, **other: Any
    ) -> None:
        act = partial((host or self.trusted).choose, card, "approve", **other)
        await self.room.tries(f"panel: {tried}", became, act, says=says, calls=int(became in (HOST, PERSON)))


@asynccontextmanager
async def open_panels(
    folder: Path, table: Table, *steps: Any, goal: str = "Do what is needed.", settings: Any = None
) -> AsyncGenerator[Panels]:
    trusts: dict[str, Any] = {"approvals": {"trusted_hosts": ["trusted-host"]}, **(settings or {})}
    async with (
        open_room(folder, table, *steps, settings=trusts) as room,
        room.host() as plain,
        open_panel_host(room.server, name="trusted-host") as trusted,
        open_panel_host(room.server, name="test-host") as other,
    ):
        await trusted.show("plan_and_execute", goal=goal)
        await other.show("get_run", run_id=trusted.run_id)
        yield Panels(room, plain, trusted, other)


async def test_a_model_that_calls_the_panels_edit_changes_nothing_without_its_key(tmp_path: Path, table: Table) -> None:
    async with open_panels(tmp_path, table, LEVELS["host"], LEVELS["person"]) as panels:
        seen = {action.level: action for action in await panels.room.product.store.waiting_actions()}
        unseen = {"action_id": seen["host"].id, "digest": seen["host"].hash}
        await panels.edits("of what it never showed, the key leaked", SOON, of=unseen)
        await panels.look()
        mine = {"run_id": panels.trusted.run_id, "view_key": panels.trusted.key, "arguments": "{}"}
        named = {name: panels.cards["host"][name] for name in ("action_id", "digest")}
        act = partial(panels.plain.call, "panel_edit", mine | named)
        await panels.room.tries(
            "panel: edit by a host that shows none, the view key leaked", REFUSED, act, says=NOT_THIS
        )
        for how, key in (
            ("no key", ""),
            ("a key made up", "k" * 43),
            ("the leaked digest for a key", panels.cards["host"]["digest"]),
            ("another host's key", panels.other.key),
        ):
            await panels.edits(f"by the model, with {how}", NOT_THIS, view_key=key)
        leaked = "cannot be edited in this panel"
        await panels.edits("by the model of an untrusted host, the key leaked", leaked, panels.other)
        short = panels.cards["host"]["digest"][:8]
        await panels.edits("with the digest that hosts see", NOT_SHOWN, digest=short)
        await panels.edits("with the digest of another action", NOT_SHOWN, digest=panels.cards["person"]["digest"])
        await panels.edits("to what the tool does not take", "do not fit", to={"key": "ana"})
        assert {action.state for action in await panels.room.product.store.actions(panels.trusted.run_id)} == {
            "waiting"
        }


async def test_an_edit_is_no_yes_and_its_yes_is_a_persons_to_exactly_what_they_saw(
    tmp_path: Path, table: Table
) -> None:
    async with open_panels(tmp_path, table, LEVELS["host"]) as panels:
        (old,) = await panels.look()
        await panels.edits("by the model, the key of a trusted host leaked", "Nothing has run.")
        await panels.presses("after an edit, the old action", REFUSED, old, says="is superseded already")
        (edited,) = await panels.look()
        await panels.presses(
            "after an edit, the old digest", REFUSED, edited | {"digest": old["digest"]}, says=NOT_SHOWN
        )
        await panels.presses(
            "after an edit, the old id", REFUSED, edited | {"action_id": old["action_id"]}, says=NOT_SHOWN
        )
        told = "(level person) cannot be approved in this panel"
        await panels.presses("an edit, in a host that is not trusted", REFUSED, edited, says=told, host=panels.other)
        (action,) = await panels.room.product.store.waiting_actions()
        said = {"action_id": action.id, "tool": action.tool, "arguments": action.arguments, "choices": ["approve"]}
        act = word(panels.plain, exact(said))
        await panels.room.tries(
            "panel: an edit, then approve_action with all repeated", RAISED, act, says="level person"
        )
        more = {"action_id": action.id, "decision": "approve", "edited_arguments": SHIPPED | {"value": "ship it."}}
        await panels.room.tries(
            "panel: one character more by approve_action, as the person reads", REFUSED, word(panels.plain, more)
        )
        (longer,) = await panels.room.product.store.waiting_actions()
        assert longer.arguments == {"key": "ana", "value": "ship it."}
        fresh = {"action_id": longer.id, "digest": longer.hash}
        await panels.presses("then a press for what was read", REFUSED, edited, says="is superseded already")
        swapped = fresh | {"digest": edited["digest"]}
        await panels.presses("then a press for its digest under the new id", REFUSED, swapped, says=NOT_SHOWN)
        await panels.presses("then a press for what nobody has read", REFUSED, fresh, says=SOON)
        (shown,) = await panels.look()
        assert [each["before"] for each in shown["arguments"] if each["changed"]] == ['"ship it"']
        await panels.presses("a person who saw the longer text and pressed", PERSON, shown, says="Recorded: approve.")
        await panels.presses("the same press again", REFUSED, shown, says="decided (approve) already")
        assert panels.room.calls() == [("add_item", {"key": "ana", "value": "ship it."})]


async def test_an_edit_of_level_host_is_decided_by_no_press_in_a_host_that_is_not_trusted(
    tmp_path: Path, table: Table
) -> None:
    """Its recipient stands in the goal, so approve_action may decide it, whose dialog shows all of it."""
    sinks = {"policy": {"sinks": {"ledger.add_item": ["/key"]}}}
    goal = "Tell carl@example.org, and nobody else."
    async with open_panels(tmp_path, table, LEVELS["host"], goal=goal, settings=sinks) as panels:
        (old,) = await panels.look()
        to_carl = {"key": "carl@example.org", "value": "ship"}
        by_host = {"action_id": old["action_id"], "decision": "approve", "edited_arguments": to_carl}
        await panels.room.tries("host: edit to a recipient in the goal", REFUSED, word(panels.plain, by_host))
        (edited,) = await panels.look()
        told = "(level host) cannot be approved in this panel"
        tried = "an edit of level host, in a host that is not trusted"
        await panels.presses(tried, REFUSED, edited, says=told, host=panels.other)
        act = word(
            panels.plain, {"action_id": edited["action_id"], "decision": "approve"} | REPEATED | {"arguments": to_carl}
        )
        await panels.room.tries("host: the same edit, with all repeated exactly", HOST, act, calls=1)
        assert panels.room.calls() == [("add_item", to_carl)]


async def test_what_was_decided_or_has_expired_is_not_edited(tmp_path: Path, table: Table) -> None:
    steps = [LEVELS["host"], LEVELS["person"]]
    async with open_panels(tmp_path, table, *steps) as panels:
        store = panels.room.product.store
        first, second = await panels.look()
        refused = await store.action(first["action_id"])
        await panels.room.product.decide(refused, Decision("deny", "person", "page"))
        await panels.edits("of what a person refused", "(call, decided) cannot be edited", of=first)
        panels.room.ahead[0] += 25 * 3600
        await panels.edits("of what has expired", "has expired", of=second, to={"key": "plan b"})
        await panels.presses("approve what has expired", REFUSED, second, says="has expired")
        assert (await store.action(second["action_id"])).arguments == {"key": "plan"}
        assert len(await store.actions(panels.trusted.run_id)) == len(steps)


async def test_of_two_edits_at_once_one_waits(tmp_path: Path, table: Table) -> None:
    async with open_panels(tmp_path, table, LEVELS["host"]) as panels:
        (card,) = await panels.look()

        async def both() -> str:
            told: list[str] = []

            async def edit(value: str) -> None:
                result = await panels.trusted.edit(card, SHIPPED | {"value": value})
                told.append(str(getattr(result.content[0], "text", "")) if result.is_error else "taken")

            async with anyio.create_task_group() as group:
                for value in ("one", "two"):
                    group.start_soon(edit, value)
            return " / ".join(sorted(told))

        await panels.room.tries("panel: two edits of one action at once", REFUSED, both, says="taken")
        old, new = await panels.room.product.store.actions(panels.trusted.run_id)
        assert (old.state, new.state, new.edit_of) == ("superseded", "waiting", old.id)
        (shown,) = await panels.look()
        await panels.presses("a person approves the one that waits", PERSON, shown, says="Recorded: approve.")
        assert panels.room.calls() == [("add_item", new.arguments)]


async def test_no_tool_is_classed_but_by_a_person_to_whom_it_was_shown(tmp_path: Path, table: Table) -> None:
    approver = new_approver("132435", with_codes=True)
    keep_approver(approver)
    async with open_panels(tmp_path, table, LEVELS["passkey"]) as panels:
        room, trusted = panels.room, panels.trusted
        card = next(each for each in (await trusted.state())["tools"] if each["tool"] == "ledger.unlabelled")

        async def classes(tried: str, says: str, host: PanelHost = trusted, /, **other: Any) -> None:
            act = partial(host.class_tool, card, "read", **other)
            await room.tries(f"panel: class {tried}", REFUSED, act, says=says)

        await classes("as it appears", SOON)
        room.ahead[0] += 2
        mine = {"run_id": trusted.run_id, "view_key": trusted.key}
        said = {"tool": card["tool"], "pin": card["pin"], "tool_class": "read"}
        act = partial(panels.plain.call, "panel_class", mine | said)
        await room.tries("panel: class by a host that shows none, the key leaked", REFUSED, act, says=NOT_THIS)
        await classes("by the model, with no key", NOT_THIS, view_key="")
        await classes("by the model, with the hash shown for a key", NOT_THIS, view_key=card["pin"])
        untrusted = "no tool can be classed in this panel"
        await classes("by the model of an untrusted host, the key leaked", untrusted, panels.other)
        await classes("by another definition than was shown", "waits to be classed", pin="0" * 64)
        await classes("with the key of a trusted host leaked, codes set up", "not the present code")
        assert await confirmed_classes(room.product.store.remembered) == {}
        (waiting,) = await room.product.store.waiting_actions()
        assert (waiting.effect, waiting.level, room.calls()) == ("unknown", "person", [])
        code = totp(approver.seed or "", int(room.product.store.world.now() // 30))
        assert not (await trusted.class_tool(card, "destructive", code=code)).is_error
        ((mark, class_),) = (await confirmed_classes(room.product.store.remembered)).items()
        assert (mark.split()[0], mark.split()[-1], class_) == ("ledger", card["pin"], "destructive")
