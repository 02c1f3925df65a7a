"""Who sits at the page: sessions, begun by a one-time code from `steprelay ui` or by the approver's PIN."""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass

import anyio.to_thread

from journal.store import Store
from journal.world import World

from .approver import Approver, kept_approver
from .lockout import SignInRefused, tried

SESSION_SECONDS = 7 * 24 * 3600.0
CODE_SECONDS = 300.0
_SESSION, _CODE, _STEP = "page_session", "page_code", "totp"
_CODE_AGAIN = "type `steprelay ui` in a terminal for a new one"


@dataclass(frozen=True)
class Begun:
    """A session as its browser holds it: `cookie` goes along by itself, `key` only by the page's own script."""

    cookie: str
    key: str


@dataclass(frozen=True)
class SignedIn:
    """Somebody whom the page knows."""

    id: str
    approver: Approver | None

    @property
    def asks_codes(self) -> bool:
        return self.approver is not None and self.approver.seed is not None


def new_code(place_key: bytes, world: World) -> str:
    """A code that begins one session within five minutes, made by who can read the key's file."""
    body = f"{int(world.now() + CODE_SECONDS):x}.{secrets.token_hex(16)}"
    return f"{body}.{_mac(place_key, body)}"


class Sessions:
    """The sessions of a store. Only hashes of what browsers hold are kept."""

    def __init__(self, store: Store, place_key: bytes) -> None:
        self._store = store
        self._key = place_key

    async def by_code(self, code: str) -> Begun:
        """Raises SignInRefused; a code that comes twice also ends the session which it began."""
        if kept_approver() is not None:
            raise SignInRefused("a PIN was set up, so a code is not enough; type the PIN")
        body, _, mac = code.rpartition(".")
        expires, _, nonce = body.partition(".")
        now = self._store.world.now()
        if (
            not hmac.compare_digest(mac.encode(), _mac(self._key, body).encode())
            or not now < int(expires, 16) <= now + CODE_SECONDS + 1
        ):
            raise SignInRefused(f"the code is wrong or too old; {_CODE_AGAIN}")
        begun = _new()
        if not await self._store.remembered.add(_CODE, nonce, _hash(begun.cookie)):
            await self.end(str(await self._store.remembered.get(_CODE, nonce)))
            raise SignInRefused(f"the code was used before, so the session it began has been ended; {_CODE_AGAIN}")
        await self._keep(begun, None)
        return begun

    async def by_pin(self, pin: str) -> Begun:
        """Raises SignInRefused."""
        approver = kept_approver()
        if approver is None:
            raise SignInRefused("no PIN was set up; `steprelay approver init` does, or type `steprelay ui`")
        await self.check_pin(approver, pin)
        begun = _new()
        await self._keep(begun, approver)
        return begun

    async def check_pin(self, approver: Approver, pin: str) -> None:
        """Raises SignInRefused."""

        async def check() -> bool:
            return await anyio.to_thread.run_sync(approver.is_pin, pin)

        await tried(self._store, check, kind="pin", what="the PIN")

    async def find(self, cookie: str, key: str) -> SignedIn | None:
        """Who holds this cookie and key; None for nobody, for a session that is over, or begun under another PIN."""
        kept = await self._store.remembered.get(_SESSION, _hash(cookie))
        if kept is None or not hmac.compare_digest(kept["key"], _hash(key)):
            return None
        approver, now = kept_approver(), self._store.world.now()
        if kept["approver"] != (approver.mark if approver else None) or not 0 <= now - kept["at"] < SESSION_SECONDS:
            return None
        return SignedIn(_hash(cookie), approver)

    async def end(self, session_id: str) -> None:
        await self._store.remembered.forget(_SESSION, name=session_id)

    async def check_code(self, session: SignedIn, code: str) -> None:
        """Raises SignInRefused."""
        await check_code(self._store, session.approver, code)

    async def _keep(self, begun: Begun, approver: Approver | None) -> None:
        now = self._store.world.now()
        for kind, seconds in ((_SESSION, SESSION_SECONDS), (_CODE, SESSION_SECONDS), (_STEP, CODE_SECONDS)):
            await self._store.remembered.forget(kind, before=now - seconds)
        mark = approver.mark if approver else None
        kept = {"key": _hash(begun.key), "approver": mark, "at": now}
        await self._store.remembered.put(_SESSION, _hash(begun.cookie), kept)


async def check_code(store: Store, approver: Approver | None, code: str) -> None:
    """Take a code of the authenticator app, each once. Raises SignInRefused."""
    now = store.world.now()

    async def check() -> bool:
        if approver is None or (step := approver.step_of(code, now=now)) is None:
            return False
        return await store.remembered.add(_STEP, f"{approver.mark}:{step}", True)

    what = "the present code of the authenticator app, or it was used before"
    await tried(store, check, kind="code", what=what)


def _new() -> Begun:
    return Begun(secrets.token_urlsafe(32), secrets.token_urlsafe(32))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _mac(key: bytes, body: str) -> str:
    mac = hmac.new(key, f"code {body}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(mac).decode().rstrip("=")
