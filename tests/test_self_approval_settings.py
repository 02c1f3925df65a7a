"""A yes that only other settings would count: the fourth part of the table of `test_self_approval.py`.

Two hosts share a store. One's settings leave hosts nothing to decide; the other's trust them with everything.
"""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp_hosts import Era, Host, open_host
from panel_hosts import open_panel_host
from products import open_test_product, script
from self_approval import (
    APPROVES,
    HOST,
    LEVELS,
    REFUSED,
    Answer,
    Forms,
    Room,
    Table,
    ask_again,
    exact,
    never,
    open_room,
    open_table,
    word,
)

pytestmark = pytest.mark.e2e

OTHERS = "its run belongs to other settings"


@pytest.fixture(scope="module")
def table() -> Generator[Table]:
    with open_table("what other settings would count") as rows:
        yield rows


@asynccontextmanager
async def open_loose(folder: Path) -> AsyncGenerator[Any]:
    """A server on the same store, whose settings trust every host of these tests."""
    loose = {
        "approvals": {"trusted_hosts": ["test-host"], "min_answer_seconds": 0},
        "store": f"sqlite:///{folder / 'store.db'}",
    }
    async with open_test_product(folder / "other", script=script(), servers={}, settings=loose) as (_, server):
        yield server


async def tries(room: Room, host: Host, tried: str, action: Any) -> None:
    """A repeat of the whole action, which takes nothing back of it."""
    await room.tries(
        f"{tried} ({host.era}): approve with all repeated", REFUSED, word(host, exact(action)), says=OTHERS
    )


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_host_whose_settings_are_not_the_runs_vouches_for_nothing(
    tmp_path: Path, table: Table, era: Era
) -> None:
    strict = {"approvals": {"approve_action": "person"}}
    forms = Forms(Answer({"decision": "approve"}, after=0))
    async with (
        open_room(tmp_path, table, LEVELS["host"], settings=strict) as room,
        open_loose(tmp_path) as loose,
        room.host() as host,
        open_host(loose, era=era, on_elicit=forms) as other,
    ):
        (action,) = await room.start(host)
        seen = await other.structured("get_run", {"run_id": action_run(await host.structured("list_runs"))})
        assert "outside this client" in seen["message"]
        await tries(room, other, "other settings", action)
        assert forms.asked == 0
        said = exact(action, decision="deny", tool=None, arguments=None)
        assert (await other.structured("approve_action", said))["status"] != "awaiting_approval"


def action_run(listed: Any) -> str:
    return str(listed["runs"][0]["run_id"])


async def test_a_form_of_the_runs_settings_is_not_answered_at_another_server(tmp_path: Path, table: Table) -> None:
    async with (
        open_room(tmp_path, table, LEVELS["host"]) as room,
        open_loose(tmp_path) as loose,
        room.host() as silent,
        room.host("modern", never) as host,
        open_host(loose, era="modern", on_elicit=never) as other,
    ):
        (action,) = await room.start(silent)
        bare = {"action_id": action["action_id"], "decision": "approve"}
        asked = await ask_again(host, bare)
        given = {"state": asked.request_state, "said": {action["action_id"]: "approve"}}
        act = partial(ask_again, other, bare, **given)
        await room.tries("other settings (modern): a form of the run's own, answered there", REFUSED, act)
        forms = Forms(APPROVES, room.ahead)
        async with room.host("modern", forms) as own:
            await room.tries("its own settings (modern): the same form", HOST, word(own, bare), calls=1)


async def test_a_panel_is_trusted_by_the_settings_of_its_run(tmp_path: Path, table: Table) -> None:
    async with (
        open_room(tmp_path, table, LEVELS["host"], LEVELS["person"]) as room,
        open_loose(tmp_path) as loose,
        room.host() as host,
        open_panel_host(loose, name="test-host") as panel,
    ):
        await room.start(host)
        await panel.show("get_run", run_id=action_run(await host.structured("list_runs")))
        cards = {card["level"]: card for card in (await panel.state())["run"]["actions"]}
        assert all("approve" not in [choice["name"] for choice in card["choices"]] for card in cards.values())
        for level, card in cards.items():
            act = partial(panel.choose, card, "approve")
            says = f"cannot be approved in this panel: {OTHERS}"
            await room.tries(f"other settings, its panel: what needs level {level}", REFUSED, act, says=says)
        assert (await panel.edit(cards["host"], {"key": "ana", "value": "wait"})).is_error
