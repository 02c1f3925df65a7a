"""Who the page takes for a person: codes of `steprelay ui`, the approver's PIN, and codes of an authenticator app."""

import base64
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from page_visits import PORT, Visit, add_action, open_visit, start_waiting
from products import open_test_product, script

from journal.world import World
from server.page.approver import BadApprover, app_address, keep_approver, kept_approver, new_approver, totp
from server.page.opening import signed_in_address
from server.page.place import Place

PIN = "correct horse"
SAY = {"id": "say", "kind": "compose", "title": "Say", "task": "Say it."}
QUICK: dict[str, Any] = {"approvals": {"min_answer_seconds": 0}}


@dataclass
class Later:
    """A visit, and a clock that stands still unless the test puts it forward."""

    visit: Visit
    ahead: float = 0.0


@asynccontextmanager
async def open_later(folder: Path) -> AsyncGenerator[Later]:
    moved = list[Later]()

    def now() -> float:
        return 1_800_000_000 + (moved[0].ahead if moved else 0.0)

    world = World(now=now)
    said = script(SAY, steps={"say": {"text": "Hello."}})
    async with (
        open_test_product(folder, script=said, servers={}, settings=QUICK, world=world) as (product, _),
        open_visit(product) as visit,
    ):
        moved.append(Later(visit))
        yield moved[0]


async def refused(visit: Visit, **offer: str) -> str:
    """Why nobody is let in by this."""
    answer = await visit.post("/api/session", offer)
    assert answer.status_code == 403, answer.text
    return str(answer.json()["error"])


async def status(visit: Visit) -> int:
    return (await visit.get("/api/state")).status_code


async def test_a_code_begins_one_session_and_coming_twice_ends_it(tmp_path: Path) -> None:
    async with open_later(tmp_path) as later:
        visit, code = later.visit, later.visit.code()
        await visit.sign_in(code=code)
        assert await status(visit) == 200
        assert "used before, so the session it began has been ended" in await refused(visit, code=code)
        assert await status(visit) == 401


async def test_a_code_that_is_wrong_or_old_begins_nothing(tmp_path: Path) -> None:
    async with open_later(tmp_path) as later:
        visit, code = later.visit, later.visit.code()
        for bad in ("", "a.b.c", code[:-1], code.replace(code[:8], "ffffffff")):
            assert "wrong or too old" in await refused(visit, code=bad)
        later.ahead = 301
        assert "wrong or too old" in await refused(visit, code=code)


async def test_a_code_counts_at_the_port_and_for_the_store_that_it_was_made_for(tmp_path: Path) -> None:
    async with open_later(tmp_path) as later:
        visit, world = later.visit, later.visit.product.store.world
        for place, port in ((Place(tmp_path / "another.db"), PORT), (visit.place, PORT + 1)):
            code = signed_in_address(place, port, world).partition("#code=")[2]
            assert "wrong or too old" in await refused(visit, code=code)
        await visit.sign_in(code=signed_in_address(visit.place, PORT, world).partition("#code=")[2])


async def test_a_session_ends_after_a_week_or_when_a_person_signs_out(tmp_path: Path) -> None:
    async with open_later(tmp_path) as later:
        visit = later.visit
        await visit.sign_in()
        cookie = next(iter(visit.client.cookies.jar))
        assert (cookie.path, cookie.has_nonstandard_attr("HttpOnly"), cookie.get_nonstandard_attr("SameSite")) == (
            "/api",
            True,
            "strict",
        )
        later.ahead = 7 * 24 * 3600 - 60
        assert await status(visit) == 200
        later.ahead += 120
        assert await status(visit) == 401
        await visit.sign_in()
        assert (await visit.post("/api/session/end", {})).status_code == 200
        assert await status(visit) == 401


async def test_only_hashes_of_what_browsers_hold_are_kept(tmp_path: Path) -> None:
    async with open_later(tmp_path) as later:
        visit, code = later.visit, later.visit.code()
        await visit.sign_in(code=code)
        held = [visit.key, next(iter(visit.client.cookies.values())), code]
        kept = await visit.product.store.database.read(lambda tx: tx.rows("SELECT * FROM remembered"))
    said = str([tuple(row) for row in kept])
    assert len(kept) == 2
    assert not any(each in said for each in held)


async def test_once_there_is_a_pin_it_alone_signs_in_and_older_sessions_end(tmp_path: Path) -> None:
    async with open_later(tmp_path) as later:
        visit = later.visit
        assert "no PIN was set up" in await refused(visit, pin=PIN)
        await visit.sign_in()
        path = keep_approver(new_approver(PIN, with_codes=False))
        assert (await visit.get("/api/state")).json()["pin"] is True
        assert "a code is not enough" in await refused(visit, code=visit.code())
        assert await refused(visit, pin="wrong one") == "that is not the PIN"
        await visit.sign_in(pin=PIN)
        assert await status(visit) == 200
        keep_approver(new_approver(PIN, with_codes=False))
        assert await status(visit) == 401
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PIN not in path.read_text()


async def test_guessing_a_pin_is_locked_out_for_longer_and_longer(tmp_path: Path) -> None:
    keep_approver(new_approver(PIN, with_codes=False))
    async with open_later(tmp_path) as later:
        visit = later.visit
        for _ in range(5):
            assert await refused(visit, pin="wrong one") == "that is not the PIN"
        assert "try again in 60 s" in await refused(visit, pin=PIN)
        later.ahead += 61
        assert await refused(visit, pin="wrong one") == "that is not the PIN"
        assert "try again in 120 s" in await refused(visit, pin=PIN)
        later.ahead += 121
        await visit.sign_in(pin=PIN)
        assert await refused(visit, pin="wrong one") == "that is not the PIN"
        await visit.sign_in(pin=PIN)
        # Set back, the clock does not lock anybody out for years.
        store = visit.product.store
        await store.remembered.put("approver", "pin", [5, store.world.now() + 10 * 3600])
        await visit.sign_in(pin=PIN)


async def test_with_an_authenticator_app_each_yes_takes_a_code_once_and_a_no_none(tmp_path: Path) -> None:
    approver = new_approver(PIN, with_codes=True)
    keep_approver(approver)
    assert approver.seed is not None
    async with open_later(tmp_path) as later:
        visit = later.visit
        run_id = await start_waiting(visit.product)
        await add_action(visit.product, run_id, key="a/approval")
        await add_action(visit.product, run_id, key="b/approval")
        await visit.sign_in(pin=PIN)
        assert (await visit.get("/api/state")).json()["asks_codes"] is True
        first, second, third = await visit.actions()
        code = totp(approver.seed, int(visit.product.store.world.now() // 30))
        for bad in ("", "ä", "000000" if code != "000000" else "000001"):
            answer = await visit.choose(second, "approve", code=bad)
            assert (answer.status_code, "not the present code" in answer.text) == (403, True)
        assert (await visit.choose(second, "approve", code=code)).status_code == 200
        assert "used before" in (await visit.choose(third, "approve", code=code)).text
        assert (await visit.choose(first, "deny")).status_code == 200


async def test_who_knows_the_pin_cannot_guess_codes_for_longer_by_typing_it_between(tmp_path: Path) -> None:
    keep_approver(new_approver(PIN, with_codes=True))
    async with open_later(tmp_path) as later:
        visit = later.visit
        await start_waiting(visit.product)
        told = list[str]()
        for _ in range(3):
            await visit.sign_in(pin=PIN)
            [card] = await visit.actions()
            told += [(await visit.choose(card, "approve", code="none")).json()["error"] for _ in range(2)]
        # What changes passkeys takes the PIN with a code too.
        removed = await visit.post("/api/passkeys/remove", {"id": "any", "pin": PIN, "code": "none"})
        assert [each.startswith("that is not the present code") for each in told] == [True] * 5 + [False]
        assert "too many wrong tries; try again in 60 s" in told[-1]
        assert removed.json()["error"] == told[-1]
        # Wrong codes lock nobody out of signing in and saying no.
        await visit.sign_in(pin=PIN)


@pytest.mark.parametrize(("at", "code"), [(59, "287082"), (1111111109, "081804"), (1234567890, "005924")])
def test_codes_are_those_of_rfc_6238(at: int, code: str) -> None:
    assert totp(base64.b32encode(b"12345678901234567890").decode(), at // 30) == code


def test_a_code_of_a_clock_that_is_half_a_minute_off_counts() -> None:
    approver = new_approver(PIN, with_codes=True)
    assert approver.seed is not None
    codes = [totp(approver.seed, 100 + off) for off in (-2, -1, 0, 1, 2)]
    assert [approver.step_of(code, now=3010) for code in codes] == [None, 99, 100, 101, None]
    assert new_approver(PIN, with_codes=False).step_of(codes[2], now=3010) is None
    assert app_address("ABC") == "otpauth://totp/steprelay?secret=ABC&issuer=steprelay"


@pytest.mark.parametrize("pin", ["", "12345", "111111", "1212121212"])
def test_a_pin_that_is_none_is_not_taken(pin: str) -> None:
    with pytest.raises(BadApprover, match="6 characters or more"):
        new_approver(pin, with_codes=False)


async def test_the_page_says_that_an_approver_cannot_be_read_to_whom_it_knows_and_to_others(tmp_path: Path) -> None:
    async with open_later(tmp_path) as later:
        visit = later.visit
        path = keep_approver(new_approver(PIN, with_codes=False))
        path.write_text("cut of")
        told = [await visit.get("/api/state")]
        path.unlink()
        await visit.sign_in()
        path.write_text("cut of")
        told += [await visit.get("/api/state"), await visit.post("/api/session", {"code": visit.code()})]
        for each in told:
            wanted = f"{path} cannot be read; run `steprelay approver init` again"
            assert (each.status_code, each.json()) == (409, {"error": wanted})
        path.unlink()
        assert await status(visit) == 200


def test_an_approver_that_cannot_be_read_or_kept_lets_nobody_in() -> None:
    assert kept_approver() is None
    path = keep_approver(new_approver(PIN, with_codes=False))
    path.write_text('{"salt": "zz"}')
    with pytest.raises(BadApprover, match="run `steprelay approver init` again"):
        kept_approver()
    path.unlink()
    path.mkdir()
    with pytest.raises(BadApprover, match="cannot be written"):
        keep_approver(new_approver(PIN, with_codes=False))
