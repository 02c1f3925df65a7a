"""A yes by passkey: registered by a person, signed for exactly one choice, and worth nothing in any other way."""

import json
import stat
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from page_visits import PORT, Visit, add_action, open_visit, start_waiting
from passkeys_here import UP, UV, Authenticator, Said, text, with_library, without_library
from products import open_test_product, script

from journal.actions import Action
from journal.settings import state_folder
from journal.world import World
from server.page.approver import keep_approver, new_approver, totp
from server.page.passkey_file import BadPasskeys, Passkey, change_passkeys, kept_passkeys
from server.product import Product

SAY = {"id": "say", "kind": "compose", "title": "Say", "task": "Say it."}
PLAN = script(SAY, steps={"say": {"text": "Hello."}})
QUICK: dict[str, Any] = {"approvals": {"min_answer_seconds": 0}}
ORIGIN = f"http://localhost:{PORT}"
PIN = "correct horse"

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def library() -> Generator[None]:
    with with_library():
        yield


@dataclass
class Desk:
    """A person signed in at the page, their device, and two calls that wait for a passkey."""

    visit: Visit
    product: Product
    device: Authenticator
    ahead: list[float]
    run_id: str

    async def cards(self) -> list[Any]:
        return [card for card in await self.visit.actions() if card["level"] == "passkey"]

    async def asks(self, card: Any, choice: str = "approve") -> Any:
        """What the page has signed for a choice."""
        named = {"action_id": card["action_id"], "digest": card["digest"], "choice": choice}
        answer = await self.visit.post("/api/passkeys/approve", named)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def state(self, card: Any) -> Action:
        return await self.product.store.action(card["action_id"])

    async def audit(self, type_: str) -> list[Any]:
        sql = "SELECT data FROM audit WHERE type = ? ORDER BY seq"
        rows = await self.product.store.database.read(lambda tx: tx.rows(sql, (type_,)))
        return [json.loads(row["data"]) for row in rows]


@asynccontextmanager
async def open_desk(folder: Path, *, registered: bool = True) -> AsyncGenerator[Desk]:
    real, ahead = World(), [0.0]
    world = World(now=lambda: real.now() + ahead[0])
    async with (
        open_test_product(folder, script=PLAN, servers={}, settings=QUICK, world=world) as (product, _),
        open_visit(product) as visit,
    ):
        run_id = await start_waiting(product)
        for key in ("a", "b"):
            await add_action(product, run_id, key=f"{key}/approval", level="passkey", arguments={"to": key})
        await visit.sign_in()
        desk = Desk(visit, product, Authenticator(ORIGIN), ahead, run_id)
        if registered:
            await register(visit, desk.device)
        yield desk


async def register(visit: Visit, device: Authenticator, name: str = "laptop", **proof: Any) -> None:
    begun = await visit.post("/api/passkeys/begin", {"name": name} | proof)
    assert begun.status_code == 200, begun.text
    added = await visit.post("/api/passkeys/add", {"name": name, "credential": device.make(begun.json())})
    assert added.status_code == 200, added.text


async def test_a_registered_passkey_approves_what_it_signed_for_and_the_record_says_so(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        first, second = await desk.cards()
        assert [choice["label"] for choice in first["choices"]] == ["Approve with passkey", "Deny"]
        signed = desk.device.sign(await desk.asks(first))
        done = await desk.visit.choose(first, "approve", passkey=signed, note="Go on.")
        assert done.json() == {"message": "Recorded: approve."}, done.text
        action, other = await desk.state(first), await desk.state(second)
        (added,), decided = await desk.audit("passkey.added"), await desk.audit("action.decided")
    (kept,) = kept_passkeys()
    mark = f"laptop ({kept.id[:12]})"
    assert (action.choice, action.decided_level, action.via, action.note) == ("approve", "passkey", "passkey", "Go on.")
    assert (other.state, kept.counter, added["passkey"]) == ("waiting", 2, mark)
    assert [(said["level"], said["via"], said["client"]) for said in decided] == [("passkey", "passkey", mark)]
    path = state_folder() / "passkeys.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def _with(**changed: Any) -> Callable[[Authenticator], None]:
    def change(device: Authenticator) -> None:
        for name, value in changed.items():
            setattr(device, name, value)

    return change


def _tampered(said: Said) -> Said:
    signature = said["response"]["signature"]
    return said | {"response": said["response"] | {"signature": f"{signature[:-6]}{signature[-6:].swapcase()}"}}


def _but(**parts: Any) -> Callable[[Said], Said]:
    """The answer with these parts in place of its own."""
    return lambda said: said | parts


def _but_inside(**parts: Any) -> Callable[[Said], Said]:
    return lambda said: said | {"response": said["response"] | parts}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (_with(origin="http://localhost:3000"), "origin"),
        (_with(origin=f"http://127.0.0.1:{PORT}"), "origin"),
        (_with(site="evil.example"), "RP ID hash"),
        (_with(flags=UP), "user was not verified"),
        (_with(flags=UV), "not present"),
        (_with(counter=0), "sign count"),
        (_with(private=Authenticator(ORIGIN).private), "signature"),
    ],
    ids=["other port", "other host", "other site", "not verified", "no touch", "counter back", "other key"],
)
async def test_what_another_page_or_device_made_is_refused(
    tmp_path: Path, wrong: Callable[[Authenticator], None], told: str
) -> None:
    async with open_desk(tmp_path) as desk:
        first, _ = await desk.cards()
        wrong(desk.device)
        answer = await desk.visit.choose(first, "approve", passkey=desk.device.sign(await desk.asks(first)))
        assert (answer.status_code, told in answer.text) == (403, True), answer.text
        assert (await desk.state(first)).state == "waiting"


@pytest.mark.parametrize(
    ("tamper", "told"),
    [
        (_tampered, "signature"),
        (_but(id=text(b"other"), rawId=text(b"other")), "this passkey is not registered here"),
        (_but(rawId=text(b"x")), "id and raw_id"),
        (_but(type="password"), "unexpected type"),
        (_but(response={}), "no answer of a browser"),
        (_but(response=None), "no answer of a browser"),
        (_but_inside(clientDataJSON=text(b"{")), "no answer of a browser"),
        (_but_inside(clientDataJSON="*"), "no answer of a browser"),
        (_but_inside(clientDataJSON=1), "no answer of a browser"),
        (_but_inside(authenticatorData=text(b"x")), "malformed"),
        (_but_inside(signature="*"), "was not taken"),
        (_but_inside(userHandle=1), "was not taken"),
    ],
)
async def test_an_answer_that_was_changed_on_its_way_is_refused(
    tmp_path: Path, tamper: Callable[[Said], Said], told: str
) -> None:
    async with open_desk(tmp_path) as desk:
        first, _ = await desk.cards()
        answer = await desk.visit.choose(first, "approve", passkey=tamper(desk.device.sign(await desk.asks(first))))
        assert (answer.status_code, told in answer.text) == (403, True), answer.text
        assert (await desk.state(first)).state == "waiting"


async def test_a_signature_counts_once_for_its_own_action_session_and_time(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk, open_visit(desk.product) as another:
        first, second = await desk.cards()
        await another.sign_in()
        await another.actions()

        async def told(visit: Visit, card: Any, signed: Said) -> str:
            answer = await visit.choose(card, "approve", passkey=signed)
            assert answer.status_code == 403, answer.text
            return str(answer.json()["error"])

        signed = desk.device.sign(await desk.asks(first))
        assert "this session has not asked for that" in await told(another, first, signed)
        assert "signed for something else" in await told(desk.visit, second, signed)
        assert "was used before" in await told(desk.visit, first, signed)
        late = desk.device.sign(await desk.asks(first))
        desk.ahead[0] += 181
        assert "took longer than 180 s" in await told(desk.visit, first, late)
        signed = desk.device.sign(await desk.asks(first))
        assert (await desk.visit.choose(first, "approve", passkey=signed)).status_code == 200
        assert "was used before" in await told(desk.visit, first, signed)
        made_up = desk.device.sign({"challenge": text(b"x" * 32)})
        assert "has not asked" in await told(desk.visit, second, made_up)
        assert (await desk.state(second)).state == "waiting"


async def test_of_two_approvals_at_once_one_counts(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        first, _ = await desk.cards()
        signed = [desk.device.sign(await desk.asks(first)) for _ in range(2)]
        codes: list[int] = []

        async def approve(said: Said) -> None:
            codes.append((await desk.visit.choose(first, "approve", passkey=said)).status_code)

        async with anyio.create_task_group() as group:
            for said in signed:
                group.start_soon(approve, said)
        decided = await desk.audit("action.decided")
    assert sorted(codes)[0] == 200
    assert sorted(codes)[1] in (403, 409)
    assert len(decided) == 1


async def test_without_a_signature_nothing_is_approved_and_anybody_signed_in_says_no(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        first, second = await desk.cards()
        bare = await desk.visit.choose(first, "approve")
        assert (bare.status_code, "only the page can take it, with a passkey" in bare.text) == (409, True)
        assert (await desk.visit.choose(first, "deny")).status_code == 200
        denied, other = await desk.state(first), await desk.state(second)
    assert (denied.choice, denied.decided_level, denied.via, other.state) == ("deny", "person", "page", "waiting")


async def test_a_passkey_is_worth_no_more_than_a_press_where_none_is_asked_for(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        plan = (await desk.visit.actions())[0]
        answer = await desk.visit.choose(plan, "approve", passkey=desk.device.sign(await desk.asks(plan)))
        assert answer.status_code == 200
        decided = await desk.state(plan)
    assert (decided.decided_level, decided.via) == ("person", "page")


async def test_where_there_is_a_passkey_it_signs_for_another_and_for_its_removal(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        visit, (kept,) = desk.visit, kept_passkeys()
        bare = await visit.post("/api/passkeys/begin", {"name": "phone"})
        assert (bare.status_code, "one of your passkeys has to sign" in bare.text) == (403, True)
        to_add = (await visit.post("/api/passkeys/sign", {})).json()
        phone = Authenticator(ORIGIN, id=b"\x08" * 32)
        await register(visit, phone, "phone\u202e", passkey=desk.device.sign(to_add))
        listed = (await visit.get("/api/passkeys")).json()
        assert [each["name"] for each in listed["passkeys"]] == ["laptop", "phone\\u202e"]
        assert (listed["proof"], listed["missing"], listed["installed"]) == ("passkey", None, True)
        to_add = (await visit.post("/api/passkeys/sign", {})).json()
        wrong = {"id": kept.id, "passkey": phone.sign(to_add)}
        assert "signed for something else" in (await visit.post("/api/passkeys/remove", wrong)).text
        for again in (200, 403):
            to_remove = (await visit.post("/api/passkeys/sign", {"removes": kept.id})).json()
            gone = await visit.post("/api/passkeys/remove", {"id": kept.id, "passkey": phone.sign(to_remove)})
            assert gone.status_code == again, gone.text
        (removed,) = await desk.audit("passkey.removed")
        first, _ = await desk.cards()
        old = await visit.choose(first, "approve", passkey=desk.device.sign(await desk.asks(first)))
    assert (removed["passkey"], "not registered here" in old.text) == (f"laptop ({kept.id[:12]})", True)
    assert [each.id for each in kept_passkeys()] == [text(phone.id)]


async def test_where_there_is_a_pin_it_is_asked_for_once_more_with_the_code(tmp_path: Path) -> None:
    approver = new_approver(PIN, with_codes=True)
    keep_approver(approver)
    assert approver.seed is not None
    async with open_desk_with_pin(tmp_path) as desk:
        visit, code = desk.visit, totp(approver.seed, int(desk.product.store.world.now() // 30))
        assert (await visit.get("/api/passkeys")).json()["proof"] == "pin"
        for pin, typed, why in (("", code, "that is not the PIN"), (PIN, "", "not the present code")):
            refused = await visit.post("/api/passkeys/begin", {"name": "a", "pin": pin, "code": typed})
            assert (refused.status_code, why in refused.text) == (403, True)
        await register(visit, desk.device, pin=PIN, code=code)
        (kept,) = kept_passkeys()
        refused = await visit.post("/api/passkeys/remove", {"id": kept.id, "pin": PIN, "code": code})
        assert "used before" in refused.text
        desk.ahead[0] += 30
        later = totp(approver.seed, int(desk.product.store.world.now() // 30))
        gone = await visit.post("/api/passkeys/remove", {"id": kept.id, "pin": PIN, "code": later})
        assert gone.status_code == 200, gone.text
    assert kept_passkeys() == ()


@asynccontextmanager
async def open_desk_with_pin(folder: Path) -> AsyncGenerator[Desk]:
    # A clock that begins with a period of codes.
    ahead = [1_800_000_000.0]
    async with (
        open_test_product(folder, script=PLAN, servers={}, world=World(now=lambda: ahead[0])) as (product, _),
        open_visit(product) as visit,
    ):
        await visit.sign_in(pin=PIN)
        yield Desk(visit, product, Authenticator(ORIGIN), ahead, "")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (_with(origin="http://evil.example"), "origin"),
        (_with(site="evil.example"), "RP ID hash"),
        (_with(flags=UP), "not verified"),
    ],
    ids=["other origin", "other site", "not verified"],
)
async def test_what_was_made_elsewhere_or_by_nobody_is_not_registered(
    tmp_path: Path, wrong: Callable[[Authenticator], None], told: str
) -> None:
    async with open_desk(tmp_path, registered=False) as desk:
        wrong(desk.device)
        options = (await desk.visit.post("/api/passkeys/begin", {"name": "a"})).json()
        answer = await desk.visit.post("/api/passkeys/add", {"name": "a", "credential": desk.device.make(options)})
    assert (answer.status_code, told in answer.text) == (403, True), answer.text
    assert kept_passkeys() == ()


async def test_a_registration_counts_once_and_for_the_name_it_was_begun_with(tmp_path: Path) -> None:
    async with open_desk(tmp_path, registered=False) as desk:
        options = [(await desk.visit.post("/api/passkeys/begin", {"name": "a"})).json() for _ in range(2)]
        made = [desk.device.make(each) for each in options]
        options.append((await desk.visit.post("/api/passkeys/begin", {"name": "a"})).json())
        made.append(Authenticator(ORIGIN, id=b"\x08" * 32).make(options[2]))
        wrong = await desk.visit.post("/api/passkeys/add", {"name": "b", "credential": made[1]})
        assert (wrong.status_code, "signed for something else" in wrong.text) == (403, True)
        tries = [("a", made[0]), ("a", made[0]), ("a", made[2])]
        answers = [await desk.visit.post("/api/passkeys/add", {"name": n, "credential": c}) for n, c in tries]
        assert [answer.status_code for answer in answers] == [200, 403, 403]
        to_add = (await desk.visit.post("/api/passkeys/sign", {})).json()
        proof = {"passkey": desk.device.sign(to_add)}
        options = [(await desk.visit.post("/api/passkeys/begin", {"name": "a"} | proof)).json()]
        twice = await desk.visit.post("/api/passkeys/add", {"name": "a", "credential": desk.device.make(options[0])})
    assert (twice.status_code, "registered already" in twice.text) == (403, True)
    assert len(kept_passkeys()) == 1


async def test_until_a_passkey_can_be_used_all_texts_say_what_is_missing(tmp_path: Path) -> None:
    rule = {"policy": {"rules": [{"ask": "ledger.*", "via": "passkey"}]}}
    async with open_desk(tmp_path, registered=False) as desk:
        first, _ = await desk.cards()
        view = await desk.product.view(desk.run_id)
        unable = await desk.visit.post(
            "/api/passkeys/approve",
            {"action_id": first["action_id"], "digest": first["digest"], "choice": "approve"},
        )
        with without_library():
            (bare, _), gone = await desk.cards(), (await desk.visit.get("/api/passkeys")).json()
            begun = await desk.visit.post("/api/passkeys/begin", {"name": "a"})
            signed = await desk.visit.choose(first, "approve", passkey={"id": "x"})
    none, extra = "no passkey is registered: `steprelay ui`", "steprelay[webauthn]"
    assert [none in said for said in (first["told"][-1], view.actions[1].how, unable.text)] == [True] * 3
    assert [extra in said for said in (bare["told"][-1], gone["missing"], begun.text, signed.text)] == [True] * 4
    assert (gone["installed"], begun.status_code, signed.status_code) == (False, 409, 403)
    assert view.actions[1].how.startswith("With a passkey only: `")
    async with open_test_product(tmp_path / "b", script=PLAN, servers={}, settings=rule) as (product, _):
        warned = (await product.view(await start_waiting(product))).warnings
    assert [text for text in warned if text.startswith("policy.rules[0]: via: passkey, but no passkey is")] != []


async def test_at_the_address_by_number_the_page_sends_on_to_the_name(tmp_path: Path) -> None:
    async with open_desk(tmp_path, registered=False) as desk:
        sent = await desk.visit.get("/a/a_1")
        there = await desk.visit.get("/a/a_1", host=f"localhost:{PORT}")
        with without_library():
            here = await desk.visit.get("/a/a_1")
    assert (sent.status_code, sent.headers["location"]) == (307, f"http://localhost:{PORT}/a/a_1")
    assert [there.status_code, here.status_code] == [200, 200]


async def test_passkeys_that_cannot_be_read_or_kept_approve_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        first, _ = await desk.cards()
        signed = desk.device.sign(await desk.asks(first))
        path = state_folder() / "passkeys.json"
        path.write_text('[{"id": 1}]')
        answers: list[httpx.Response] = [
            await desk.visit.choose(first, "approve", passkey=signed),
            await desk.visit.get("/api/passkeys"),
        ]
        assert ["cannot be read; delete it" in answer.text for answer in answers] == [True, True]
        assert (await desk.cards())[0]["told"][-1].endswith("register your passkeys again.")
    path.unlink()
    path.mkdir()
    with pytest.raises(BadPasskeys, match="cannot be read"):
        kept_passkeys()
    path.rmdir()
    lock = path.with_suffix(".lock")
    lock.unlink()
    lock.mkdir()
    with pytest.raises(BadPasskeys, match="cannot be written"):
        await change_passkeys(lambda kept: [replace(each, counter=9) for each in kept] or [Passkey("", "", "", 0, 0)])
