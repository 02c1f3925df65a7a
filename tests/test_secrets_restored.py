"""Models and people see placeholders of secrets; the server that a secret is for gets it back, and nobody else."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from gate_case import Runs, Server, call, failing, gate_of, open_runs, text_result, tool, worker_call
from journals import rows

from downstream.door import Called, Refused, ToolCall, ToolEnd, Waiting
from downstream.gate.calls import ToolDoor
from downstream.gate.edits import EditRefused, edited_action
from downstream.gate.stages import Gate
from downstream.tools import Tool
from journal.outlet import Outlet
from journal.values import JsonObject

TOKEN, PIN, LISTED, LEARNED = "tok-4f7a1c9e22", "4929123456781", "listed-8c21ff", "login-77aa21bc"
SECRETS = (("SHOP_TOKEN", TOKEN), ("SHOP_PIN", PIN), ("LISTED", LISTED))
OWNERS = {"SHOP_TOKEN": frozenset({"shop"}), "SHOP_PIN": frozenset({"shop"})}
PLACEHOLDER, PIN_HOLDER = "[secret:SHOP_TOKEN]", "[secret:SHOP_PIN]"

LOOK = tool("shop.look", "read", ["word", "path"])
FETCH = tool("shop.fetch", "egress", ["url", "text"])
POST = tool("shop.post", "write", ["to", "text"])
NUMBERED: JsonObject = {"type": "object", "properties": {"pin": {"type": "integer"}, "many": {"type": "array"}}}
UNLOCK = tool("shop.unlock", "read", input_schema=NUMBERED)
READ = tool("notes.read", "read", ["path", "text"])
ALLOW: JsonObject = {"rules": [{"allow": "shop.post"}]}
TAINTED = frozenset({"open:web"})


@dataclass
class Shop:
    """A run, the gate in front of it, and what reached the servers."""

    runs: Runs
    gate: Gate
    there: Server = field(default_factory=Server)

    async def call(self, wanted: ToolCall) -> ToolEnd:
        return await ToolDoor(self.gate, self.there.send)(await self.runs.drive(), wanted)

    async def kept(self) -> str:
        """All that the store holds of actions, intents, events, audit and memo."""
        tables = ("actions", "intents", "events", "audit", "memo")
        return str([tuple(row) for name in tables for row in await rows(self.runs.store, f"SELECT * FROM {name}")])


@asynccontextmanager
async def open_shop(folder: Path, *tools: Tool, policy: JsonObject | None = None) -> AsyncGenerator[Shop]:
    outlet = Outlet(SECRETS, owners=OWNERS)
    outlet.learn("login at shop", LEARNED)
    async with open_runs(folder, secrets=SECRETS) as runs:
        yield Shop(runs, replace(gate_of(*tools, policy=policy), outlet=outlet))


async def test_a_read_of_its_own_server_gets_the_secret_back_and_its_echo_is_a_placeholder_again(
    tmp_path: Path,
) -> None:
    async with open_shop(tmp_path, LOOK) as shop:
        shop.there.answer = lambda out: text_result(f"looked with {out.arguments['word']}")
        ended = await shop.call(call("shop.look", {"word": f"Bearer {PLACEHOLDER}", "path": "/tmp/a"}))
        kept = await shop.kept()
    assert isinstance(ended, Called)
    assert shop.there.sent == [("shop.look", {"word": f"Bearer {TOKEN}", "path": "/tmp/a"})]
    assert ended.text == f"looked with Bearer {PLACEHOLDER}"
    assert TOKEN not in kept


async def test_a_secret_that_is_written_out_is_a_placeholder_until_its_own_server_gets_it(tmp_path: Path) -> None:
    async with open_shop(tmp_path, LOOK, READ) as shop:
        await shop.call(call("shop.look", {"word": TOKEN, TOKEN: "a name"}, key="k.1"))
        await shop.call(call("notes.read", {"path": "/a", "text": TOKEN}, key="k.2"))
        kept = await shop.kept()
    assert shop.there.sent == [
        ("shop.look", {"word": TOKEN, PLACEHOLDER: "a name"}),
        ("notes.read", {"path": "/a", "text": PLACEHOLDER}),
    ]
    assert TOKEN not in kept


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("SHOP_TOKEN", "is a secret of shop and is handed to nobody else"),
        ("LISTED", "is a secret that no tool server is handed"),
        ("login at shop", "is a secret that no tool server is handed"),
    ],
)
async def test_no_placeholder_goes_into_a_target_at_another_server_and_the_model_may_try_again(
    tmp_path: Path, name: str, whose: str
) -> None:
    async with open_shop(tmp_path, READ) as shop:
        refused = await shop.call(call("notes.read", {"path": f"/a/[secret:{name}]"}))
    said = f'the target "path" of notes.read holds [secret:{name}], which {whose}; leave it out'
    assert refused == Refused("notes.read", said, by="gate", correctable=True)
    assert shop.there.sent == []


async def test_elsewhere_a_placeholder_stays_the_text_that_it_is(tmp_path: Path) -> None:
    words = f"{PLACEHOLDER} [secret:LISTED] [secret:login at shop] [secret:NOBODYS]"
    async with open_shop(tmp_path, READ, LOOK) as shop:
        await shop.call(call("notes.read", {"path": "[secret:NOBODYS]", "text": words}, key="k.1"))
        await shop.call(call("shop.look", {"word": "x", "path": "[secret:NOBODYS]"}, key="k.2"))
    assert [sent["path"] for _, sent in shop.there.sent] == ["[secret:NOBODYS]", "[secret:NOBODYS]"]
    assert shop.there.sent[0][1]["text"] == words


async def test_a_call_that_could_hand_a_secret_on_waits_for_a_person_whatever_the_policy_allows(tmp_path: Path) -> None:
    wanted = worker_call("shop.post", {"to": "ana@example.org", "text": PLACEHOLDER}, label=TAINTED)
    clean = call("shop.post", {"to": "ana@example.org", "text": PLACEHOLDER})
    async with open_shop(tmp_path, POST, policy=ALLOW) as shop:
        waiting = await shop.call(clean)
        assert isinstance(waiting, Waiting)
        action = await shop.runs.store.action(waiting.action)
        sent_before = list(shop.there.sent)
        await shop.runs.decide(action.id, "approve")
        done = await shop.call(clean)
        kept = await shop.kept()
        by_worker = await shop.call(wanted)
    assert isinstance(done, Called)
    assert isinstance(by_worker, Waiting)
    assert (action.level, action.arguments) == ("person", clean.arguments.data)
    assert action.reasons[-1] == 'shop is sent secrets of its own, which it could hand on: SHOP_TOKEN in "text"'
    assert (sent_before, shop.there.sent) == ([], [("shop.post", {"to": "ana@example.org", "text": TOKEN})])
    assert TOKEN not in kept + action.question


@pytest.mark.parametrize(
    ("wanted", "target"),
    [
        (call("shop.post", {"to": PLACEHOLDER, "text": "hi"}), "to"),
        (call("shop.fetch", {"url": f"https://a.org/?k={PLACEHOLDER}"}), "url"),
        (call("shop.post", {"to": TOKEN, "text": "hi"}), "to"),
    ],
    ids=["recipient", "address", "written out"],
)
async def test_nobody_is_asked_about_a_target_that_nobody_can_be_shown(
    tmp_path: Path, wanted: ToolCall, target: str
) -> None:
    async with open_shop(tmp_path, POST, FETCH) as shop:
        refused = await shop.call(wanted)
    assert isinstance(refused, Refused)
    assert refused.reason == (
        f'its target "{target}" holds a secret, which nobody can be shown; take the secret out of the call'
    )
    assert shop.there.sent == []


async def test_an_edit_may_put_no_secret_into_a_target_and_keeps_placeholders(tmp_path: Path) -> None:
    async with open_shop(tmp_path, POST) as shop:
        waiting = await shop.call(call("shop.post", {"to": "ana@example.org", "text": "hi"}))
        assert isinstance(waiting, Waiting)
        action, run = await shop.runs.store.action(waiting.action), await shop.runs.store.run(shop.runs.run_id)
        with pytest.raises(EditRefused, match="nobody can be shown"):
            await edited_action(shop.gate, run, action, {"to": TOKEN, "text": "hi"})
        new = await edited_action(shop.gate, run, action, {"to": "ana@example.org", "text": TOKEN})
    assert new.arguments == {"to": "ana@example.org", "text": PLACEHOLDER}
    assert new.level == "person"


async def test_a_rule_that_denies_says_so_also_of_a_call_with_a_secret(tmp_path: Path) -> None:
    async with open_shop(tmp_path, LOOK, policy={"rules": [{"deny": "shop.look"}]}) as shop:
        refused = await shop.call(call("shop.look", {"word": PLACEHOLDER}))
    assert isinstance(refused, Refused)
    assert "deny" in refused.reason


async def test_a_number_that_is_a_secret_is_one_in_results_and_goes_back_as_the_number_that_the_schema_asks_for(
    tmp_path: Path,
) -> None:
    async with open_shop(tmp_path, UNLOCK) as shop:
        shop.there.answer = lambda out: text_result("").model_copy(
            update={"structured_content": {"pin": int(PIN), "sum": 4929123456.5, "other": int(PIN) + 1, "on": True}}
        )
        ended = await shop.call(call("shop.unlock", {"pin": PIN_HOLDER, "many": [PIN_HOLDER, 1]}, key="k.1"))
        raw = await shop.call(call("shop.unlock", {"pin": int(PIN)}, key="k.2"))
        unfit = await shop.call(call("shop.unlock", {"pin": f"{PIN_HOLDER} or so"}, key="k.3"))
        kept = await shop.kept()
    assert isinstance(ended, Called)
    assert isinstance(raw, Called)
    assert [sent for _, sent in shop.there.sent] == [{"pin": int(PIN), "many": [PIN, 1]}, {"pin": int(PIN)}]
    assert ended.value.data == {"pin": PIN_HOLDER, "sum": 4929123456.5, "other": int(PIN) + 1, "on": True}
    assert isinstance(unfit, Refused)
    assert (PIN in kept, PIN in unfit.reason, PIN in ended.text) == (False, False, False)


async def test_a_call_that_is_sent_again_after_nobody_knew_what_became_of_it_gets_its_secret_again(
    tmp_path: Path,
) -> None:
    wanted = call("shop.post", {"to": "ana@example.org", "text": PLACEHOLDER})
    async with open_shop(tmp_path, POST) as shop:
        first = await shop.call(wanted)
        assert isinstance(first, Waiting)
        await shop.runs.decide(first.action, "approve")
        shop.there.answer = failing("ran?")
        unknown = await shop.call(wanted)
        assert isinstance(unknown, Waiting)
        await shop.runs.decide(unknown.action, "retry")
        shop.there.answer = lambda out: text_result("sent")
        ended = await shop.call(wanted)
        kept = await shop.kept()
    assert isinstance(ended, Called)
    assert [sent["text"] for _, sent in shop.there.sent] == [TOKEN, TOKEN]
    assert TOKEN not in kept


def test_of_two_values_with_one_name_and_of_what_was_learned_nothing_is_restored() -> None:
    outlet = Outlet([("T", "first-value"), ("T", "other-value")], owners={"T": frozenset({"shop"})})
    data: Any = {"a": ["[secret:T]", 1]}
    assert outlet.restored(data, "shop") == data
    assert outlet.owners("T") == frozenset()
