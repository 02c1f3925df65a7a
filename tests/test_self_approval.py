"""Every channel by which a model or a host could say yes without a person, and what becomes of it.

With `pytest -s` the table of all tries is printed: what level 1 may decide stands as the host's word, everything else
is refused or raised to a person, and no call reached its tool server that no yes allowed. What such a yes could be
about, and when, stands in `test_self_approval_actions.py`.
"""

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from mcp_hosts import Era, Host, open_host
from page_visits import Visit, open_visit
from panel_hosts import open_panel_host
from products import STATE_KEY, call_step, open_test_product, script
from self_approval import (
    APPROVES,
    FORMS,
    HOST,
    LEVELS,
    PASSKEY,
    PERSON,
    RAISED,
    REFUSED,
    Became,
    Forms,
    Room,
    Table,
    ask_again,
    exact,
    near,
    never,
    open_room,
    open_table,
    word,
)

from journal.actions import Action, Decision
from journal.errors import DecisionRefused
from server.host.edits import Editor, edit_action
from server.host.mcp_server import build_host_server
from server.product import Product

pytestmark = pytest.mark.e2e
ERAS: list[Era] = ["legacy", "modern"]
MORE = call_step("more", "ledger.add_item", key="bob", value="wait")


@pytest.fixture(scope="module")
def table() -> Generator[Table]:
    with open_table("how a yes came") as rows:
        yield rows


async def test_only_an_exact_repeat_of_what_a_host_may_decide_counts(tmp_path: Path, table: Table) -> None:
    async with open_room(tmp_path, table, *LEVELS.values(), settings=PASSKEY) as room, room.host() as host:
        actions = {action["level"]: action for action in await room.start(host)}
        for level, action in actions.items():
            # What needs a passkey is told from what needs a person by its text alone.
            for how, said in list(near(action).items())[: 4 if level == "passkey" else None]:
                became = REFUSED if level == "host" else RAISED
                says = "repeated exactly" if level == "host" else f"needs a yes of level {level}"
                await room.tries(f"{level}: approve {how}", became, word(host, said), says=says)
        for level in ("person", "passkey"):
            says = f"needs a yes of level {level}, which approve_action cannot give"
            said = exact(actions[level])
            await room.tries(f"{level}: approve with all repeated exactly", RAISED, word(host, said), says=says)
            async with room.host("modern") as modern:
                tried = f"{level}: the same by a host of 2026-07-28"
                await room.tries(tried, RAISED, word(modern, said), says=says)
        said = exact(actions["host"])
        for how, wrong in (
            ("a yes that is none", "yes"),
            ("a yes in other case", "Approve"),
            ("both", "approve, deny"),
        ):
            other = said | {"decision": wrong}
            await room.tries(f"host: decision is {how}", REFUSED, word(host, other), says="its choices: approve, deny")
        leaked = said | {"digest": actions["host"]["digest"]}
        await room.tries("host: with its digest", REFUSED, word(host, leaked), says="unknown argument")
        await room.tries("host: approve with all repeated exactly", HOST, word(host, said), calls=1)
        await room.tries("host: approve a second time", REFUSED, word(host, said), says="decided (approve) already")
        assert room.calls() == [("add_item", {"key": "ana", "value": "ship"})]


async def test_equal_json_repeats_and_other_json_does_not(tmp_path: Path, table: Table) -> None:
    steps = [call_step(name, "ledger.meet", name=name, parties=1) for name in ("one", "two")]
    settings = {"policy": {"rules": [{"ask": "ledger.meet"}]}}
    async with open_room(tmp_path, table, *steps, settings=settings) as room, room.host() as host:
        one, two = await room.start(host)
        for how, parties in (('"1" for 1', "1"), ("true for 1", True), ("[1] for 1", [1]), ("1.1 for 1", 1.1)):
            said = exact(one, arguments=one["arguments"] | {"parties": parties})
            await room.tries(f"host: approve with {how}", REFUSED, word(host, said), says="repeated exactly")
        await room.tries(
            "host: approve one with another's arguments", REFUSED, word(host, exact(one, arguments=two["arguments"]))
        )
        assert toys.calls(tmp_path / "ledger.log", "meet") == []
        same = exact(one, arguments=one["arguments"] | {"parties": 1.0}, wait_seconds=0)
        await room.tries("host: approve with 1.0 for 1, which is the same number", HOST, word(host, same))
        turned = exact(two, arguments=dict(reversed(two["arguments"].items())))
        await room.tries("host: approve with the arguments in another order", HOST, word(host, turned))
        met = toys.calls(tmp_path / "ledger.log", "meet")
        assert sorted(call["arguments"]["name"] for call in met) == ["one", "two"]


async def test_where_settings_want_a_person_no_word_of_approve_action_counts(tmp_path: Path, table: Table) -> None:
    strict = {"approvals": {"approve_action": "person"}}
    async with open_room(tmp_path, table, LEVELS["host"], settings=strict) as room:
        forms = Forms(APPROVES, room.ahead)
        async with room.host() as older, room.host("modern") as newer, room.host("modern", forms) as asked:
            (action,) = await room.start(older)
            bare = {"action_id": action["action_id"], "decision": "approve"}
            for host in (older, newer):
                for how, said in {"alone": bare, "with all repeated exactly": exact(action)}.items():
                    tried = f"approve_action: person ({host.era}): approve {how}"
                    await room.tries(tried, RAISED, word(host, said), says="needs a yes of level person")
            tried = "approve_action: person (modern): the host answers its form after 2 s"
            await room.tries(tried, HOST, word(asked, exact(action)), calls=1)


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_counts_only_where_its_choice_was_made_in_a_persons_time(
    tmp_path: Path, table: Table, era: Era
) -> None:
    forms = Forms(APPROVES)
    async with (
        open_room(tmp_path, table, LEVELS["host"], LEVELS["person"]) as room,
        room.host(era, forms) as host,
        room.host(era) as silent,
    ):
        forms.ahead = room.ahead
        actions = {action["level"]: action for action in await room.start(silent)}
        alone = {"action_id": actions["host"]["action_id"], "decision": "approve"}
        for how, answer in FORMS.items():
            forms.answer, forms.asked = answer, 0
            await room.tries(f"host ({era}): approve alone, the form {how}", REFUSED, word(host, alone), says="waits")
            assert forms.asked == 1, how
        forms.asked = 0
        tried = f"person ({era}): approve with all repeated, by a host with forms"
        await room.tries(tried, RAISED, word(host, exact(actions["person"])), says="needs a yes of level person")
        assert forms.asked == 0
        forms.answer = APPROVES
        await room.tries(f"host ({era}): the form answered after 2 s", HOST, word(host, alone), calls=1)
        assert room.calls() == [("add_item", {"key": "ana", "value": "ship"})]


@dataclass
class Rounds:
    """Rounds of protocol 2026-07-28 by hand, about an action that a bare yes was given for."""

    room: Room
    host: Host
    action_id: str

    @property
    def ask(self) -> dict[str, Any]:
        return {"action_id": self.action_id, "decision": "approve"}

    async def open(self, host: Host | None = None) -> str:
        """The state of a form that is shown for two seconds by now."""
        result = await ask_again(host or self.host, self.ask)
        assert self.action_id in result.input_requests
        self.room.ahead[0] += 2
        return str(result.request_state)

    async def refused(
        self, tried: str, state: str, tool: str = "approve_action", /, *, of: str = "", says: str = "", **given: Any
    ) -> None:
        """A state with a yes for an action, its own if no other is named."""
        said = {of or self.action_id: "approve"}
        act = partial(ask_again, self.host, given or self.ask, tool=tool, state=state, said=said)
        await self.room.tries(f"2026-07-28: {tried}", REFUSED, act, says=says)


async def test_a_request_state_answers_its_own_questions_once(tmp_path: Path, table: Table) -> None:
    steps = [LEVELS["host"], MORE, LEVELS["person"]]
    async with open_room(tmp_path, table, *steps) as room, room.host("modern", never) as host:
        async with room.host() as silent:
            waiting = {action["step"]: action["action_id"] for action in await room.start(silent)}
        rounds = Rounds(room, host, waiting["keep"])
        state = await rounds.open()
        await rounds.refused("an answer for an action that was not asked about", state, of=waiting["drop"])
        await rounds.refused("a state used before", state)
        state = await rounds.open()
        await _with_bad_states(rounds, state, other=waiting["more"])

        async def both() -> str:
            async with anyio.create_task_group() as group:
                for action_id in (waiting["keep"], waiting["more"]):
                    group.start_soon(partial(ask_again, host, rounds.ask, state=state, said={action_id: "approve"}))
            return "of two answers that came with it at once one counts"

        await room.tries("2026-07-28: a state used twice at once, for two actions", HOST, both, calls=1)
        (left,) = [action for action in await room.product.store.waiting_actions() if action.level == "host"]
        rounds = Rounds(room, host, left.id)
        state = await rounds.open()
        assert not (await host.call("approve_action", rounds.ask | {"edited_arguments": left.arguments})).is_error
        await rounds.refused("a form answered after its action was edited", state)


async def _with_bad_states(rounds: Rounds, state: str, *, other: str) -> None:
    says, flipped = "equestState", "B" if state[40] == "A" else "A"
    wrong = {"action_id": other, "decision": "approve"}
    await rounds.refused("a state with other arguments", state, says=says, **wrong)
    await rounds.refused("a state in another tool", state, "plan_and_execute", says=says, goal="x")
    await rounds.refused("a state with a byte changed", f"{state[:40]}{flipped}{state[41:]}", says=says)
    await rounds.refused("a state made up", '{"run": "x"}', says=says)

    async def ready() -> Product:
        return rounds.room.product

    foreign = build_host_server(ready, state_key=bytes(reversed(STATE_KEY)))
    async with open_host(foreign, era="modern", on_elicit=never) as elsewhere:
        theirs = await rounds.open(elsewhere)
    await rounds.refused("a state of another user's process", theirs, says=says)


async def test_an_edit_runs_nothing_and_asks_for_no_less(tmp_path: Path, table: Table) -> None:
    rules = {"policy": {"rules": [{"deny": "ledger.add_item", "when": {"/key": {"prefix": "root"}}}]}}
    async with open_room(tmp_path, table, LEVELS["host"], MORE, settings=rules) as room, room.host() as host:
        first, second = await room.start(host, goal="Write to carl@example.org and to nobody else.")
        for how, edited, says in (
            ("to what a rule denies", {"key": "root", "value": "x"}, "may not be called so"),
            ("to what the tool does not take", {"key": "x", "force": True}, "do not fit"),
            ("into no text", {"key": 5, "value": "x"}, "do not fit"),
        ):
            act = word(host, exact(first, edited_arguments=edited))
            await room.tries(f"host: edit {how}", REFUSED, act, says=says)
        mallory = {"key": "mallory@evil.example", "value": "all"}
        await room.tries(
            "host: edit, repeating the old exactly", REFUSED, word(host, exact(first, edited_arguments=mallory))
        )
        edited = next(each for each in await _waiting(room, host) if each["arguments"] == mallory)
        await room.tries("after an edit: the old id", REFUSED, word(host, exact(first)), says="is superseded already")
        await room.tries(
            "after an edit: the new id, old arguments", RAISED, word(host, exact(edited, arguments=first["arguments"]))
        )
        await room.tries(
            "after an edit: the new id, all repeated",
            RAISED,
            word(host, exact(edited)),
            says="needs a yes of level person",
        )
        await room.tries(
            "host: edit back to the old", REFUSED, word(host, exact(edited, edited_arguments=first["arguments"]))
        )
        back = next(each for each in await _waiting(room, host) if each["arguments"] == first["arguments"])
        await room.tries("after an edit there and back: all repeated", RAISED, word(host, exact(back)))
        before = await room.product.store.action(second["action_id"])
        await room.product.decide(before, Decision("deny", "person", "page"))
        late = partial(_edited_after_all, room.product, before)
        await room.tries(
            "host: an edit that races a person's no", REFUSED, late, says="has been decided in the meantime"
        )
        assert (await room.product.store.action(before.id)).choice == "deny"
        assert room.calls() == []


async def _edited_after_all(product: Product, as_it_was: Action) -> str:
    with pytest.raises(DecisionRefused) as caught:
        await edit_action(
            product, as_it_was, {"key": "bob", "value": "anyway"}, decision="approve", editor=Editor("page", None)
        )
    return str(caught.value)


async def _waiting(room: Room, host: Host) -> list[Any]:
    (run,) = await room.product.store.runs()
    return list((await host.structured("get_run", {"run_id": run.id}))["actions"])


@dataclass
class AtPage:
    """A browser at the page, and all that it has to know of the actions there, by their level."""

    room: Room
    visit: Visit
    cards: dict[str, Any]

    async def tries(
        self, tried: str, became: Became, level: str = "person", /, *, says: str = "nobody is signed in", **more: Any
    ) -> None:
        async def choose() -> str:
            return (await self.visit.choose(self.cards[level] | more, "approve")).text

        await self.room.tries(f"page: {tried}", became, choose, says=says)


async def test_the_page_hears_only_who_signed_in_there_and_saw_it(tmp_path: Path, table: Table) -> None:
    async with (
        open_room(tmp_path, table, *LEVELS.values(), settings=PASSKEY) as room,
        open_test_product(tmp_path / "theirs", script=script(), servers={}) as (other, _),
        room.host() as host,
        open_visit(room.product) as visit,
        open_visit(other) as foreign,
    ):
        await room.start(host)
        waiting = await room.product.store.waiting_actions()
        cards: dict[str, Any] = {action.level: {"action_id": action.id, "digest": action.hash} for action in waiting}
        await foreign.sign_in()
        page = AtPage(room, visit, cards)
        await _with_half_a_session(page, foreign)
        act = partial(_from_elsewhere, visit, cards["person"])
        await room.tries("page: a request that another site makes", REFUSED, act, says="for a browser on this machine")
        await _unseen(page)
        await page.tries("a click on what needs a passkey", RAISED, "passkey", says="needs a yes of level passkey")
        assert room.calls() == []
        await page.tries("a person who signed in, saw it and pressed", PERSON, says="Recorded: approve.")
        await room.product.until(waiting[0].run, lambda run: run.status == "awaiting_approval")
        room.ahead[0] += 8 * 24 * 3600
        await page.tries("a session of last week", REFUSED, "host")


async def _with_half_a_session(page: AtPage, foreign: Visit) -> None:
    """In the end the visit is signed in."""
    visit = page.visit
    await page.tries("no session, the digest leaked", REFUSED)
    visit.key = foreign.key
    visit.client.cookies = foreign.client.cookies
    await page.tries("the session of another user's process", REFUSED)
    visit.client.cookies.clear()
    await visit.sign_in()
    cookies, key = dict(visit.client.cookies), visit.key
    visit.key = ""
    await page.tries("the cookie without the key that the page's script holds", REFUSED)
    visit.client.cookies.clear()
    visit.key = key
    await page.tries("the key without the cookie", REFUSED)
    visit.client.cookies.update(cookies)


async def _unseen(page: AtPage) -> None:
    """In the end the page has shown all actions for two seconds."""
    soon, other = "was shown less than 1.5 s ago", "is not what was shown"
    await page.tries("a session that never saw it", REFUSED, says=soon)
    await page.visit.actions()
    await page.tries("a click as it appears", REFUSED, says=soon)
    page.room.ahead[0] += 2
    await page.tries("the digest that hosts see", REFUSED, digest=page.cards["person"]["digest"][:8], says=other)
    await page.tries("the digest of another action", REFUSED, digest=page.cards["host"]["digest"], says=other)


async def _from_elsewhere(visit: Visit, card: dict[str, Any]) -> str:
    headers = {"x-steprelay-key": visit.key, "origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    said = {"action_id": card["action_id"], "digest": card["digest"], "choice": "approve"}
    return (await visit.client.post("/api/decide", json=said, headers=headers)).text


async def test_the_panels_tools_are_worth_no_more_than_the_host_that_shows_it(tmp_path: Path, table: Table) -> None:
    """Nothing keeps an untrusted host from handing its model the view key: such a press is the host's word."""
    async with (
        open_room(tmp_path, table, LEVELS["host"], LEVELS["person"]) as room,
        room.host() as plain,
        open_panel_host(room.server, name="test-host") as host,
        open_panel_host(room.server, name="other-host") as other,
    ):
        await host.show("plan_and_execute", goal="Do what is needed.")
        await other.show("get_run", run_id=host.run_id)
        cards = {card["level"]: card for card in (await host.state())["run"]["actions"]}
        room.ahead[0] += 2

        async def tries(tried: str, became: Any, level: str = "host", /, *, says: str, **more: Any) -> None:
            calls = int(became == HOST)
            act = partial(host.choose, cards[level], "approve", **more)
            await room.tries(f"panel: {tried}", became, act, says=says, calls=calls)

        not_this = "only steprelay's own panel may call this"
        made_up = {"run_id": host.run_id, "view_key": host.key}
        named = {name: cards["host"][name] for name in ("action_id", "digest")} | {"choice": "approve"}
        act = partial(plain.call, "panel_decide", made_up | named)
        await room.tries("panel: by a host that shows none, the view key leaked", REFUSED, act, says=not_this)
        await tries("by the model, with a key made up", REFUSED, view_key="k" * 43, says=not_this)
        await tries("by the model, with the digest for a key", REFUSED, view_key=cards["host"]["digest"], says=not_this)
        await tries("by the model, with another host's key", REFUSED, view_key=other.key, says=not_this)
        await tries("by the model, with no key", REFUSED, view_key="", says=not_this)
        await tries(
            "with the digest that hosts see", REFUSED, digest=cards["host"]["digest"][:8], says="is not what was"
        )
        act = partial(other.choose, cards["host"], "approve")
        await room.tries("panel: one that never showed it", REFUSED, act, says="was shown less than 1.5 s ago")
        await tries(
            "the view key leaked, what needs a person", REFUSED, "person", says="cannot be approved in this panel"
        )
        await tries("the view key leaked, what a host may decide", HOST, says="")
