"""Passkeys on the page: registering and removing them, and a yes that one has signed for exactly one choice."""

import hashlib
import hmac
import secrets
from typing import TypeAlias

from journal.actions import Action
from journal.audit import AuditLine
from journal.canonical import canonical
from journal.store import Store
from journal.values import JsonObject

from .authenticators import challenge_in, creation_options, registered, request_options, verified
from .link import SITE
from .lockout import SignInRefused
from .passkey_file import Passkey, change_passkeys, kept_passkeys, passkeys_missing, with_counter

CHALLENGE_SECONDS = 180.0
_CHALLENGE, _USED = "passkey_challenge", "passkey_used"

Purpose: TypeAlias = tuple[str, ...]
"""What a signature is for. It goes into the challenge, so that it counts for nothing else."""


def approving(action: Action, choice: str) -> Purpose:
    """A yes: this choice for what the action's hash covers."""
    return "decide", action.id, action.hash, choice


def adding() -> Purpose:
    """Leave to register another passkey."""
    return ("add",)


def removing(id_: str) -> Purpose:
    """Leave to remove a passkey."""
    return "remove", id_


def _making(name: str) -> Purpose:
    # The first needs no other's signature, so leave to make it must not outlast that it is the first.
    return "make", name, "another" if kept_passkeys() else "first"


class Passkeys:
    """The passkeys of this user, as the page on this port has them used; `by` names a person's session."""

    def __init__(self, store: Store, *, port: int) -> None:
        self._store = store
        self._origin = f"http://{SITE}:{port}"

    async def ask(self, purpose: Purpose, *, by: str) -> JsonObject:
        """What the browser is to have signed for this. Raises SignInRefused where there is no passkey to sign it."""
        if (why := passkeys_missing()) is not None:
            raise SignInRefused(why)
        return request_options(await self._challenge(purpose, by), kept_passkeys())

    async def check(self, purpose: Purpose, assertion: JsonObject, *, by: str) -> Passkey:
        """The passkey that has signed for just this, in this session, a moment ago, for the first time.

        Raises SignInRefused, BadPasskeys.
        """
        if (why := passkeys_missing()) is not None:
            raise SignInRefused(why)
        challenge = await self._taken(purpose, challenge_in(assertion), by)
        found: list[Passkey] = []

        def use(kept: tuple[Passkey, ...]) -> list[Passkey]:
            passkey = next((each for each in kept if each.id == assertion.get("id")), None)
            if passkey is None:
                raise SignInRefused("this passkey is not registered here")
            found.append(passkey)
            return with_counter(kept, passkey, verified(assertion, challenge, origin=self._origin, passkey=passkey))

        await change_passkeys(use)
        return found[0]

    async def begin(self, name: str, *, by: str) -> JsonObject:
        """What the browser is to make a passkey with."""
        return creation_options(await self._challenge(_making(name), by), kept_passkeys())

    async def add(self, name: str, credential: JsonObject, *, by: str) -> None:
        """Keep a passkey that was made as `begin` said. Raises SignInRefused, BadPasskeys."""
        challenge = await self._taken(_making(name), challenge_in(credential), by)
        now = self._store.world.now()
        made = registered(credential, challenge, origin=self._origin, name=name, at=now)

        def put(kept: tuple[Passkey, ...]) -> list[Passkey]:
            if any(each.id == made.id for each in kept):
                raise SignInRefused("this passkey is registered already")
            return [*kept, made]

        await self._store.note(_line("passkey.added", made, by))
        await change_passkeys(put)

    async def remove(self, id_: str, *, by: str) -> None:
        """Raises SignInRefused, BadPasskeys."""
        passkey = next((each for each in kept_passkeys() if each.id == id_), None)
        if passkey is None:
            raise SignInRefused("there is no such passkey any more")
        await self._store.note(_line("passkey.removed", passkey, by))
        await change_passkeys(lambda kept: [each for each in kept if each.id != id_])

    async def _challenge(self, purpose: Purpose, by: str) -> bytes:
        """A new challenge: a hash over what it is for and a nonce, which never leaves the store."""
        remembered, now, nonce = self._store.remembered, self._store.world.now(), secrets.token_bytes(32)
        challenge = _bound(purpose, nonce)
        for kind in (_CHALLENGE, _USED):
            await remembered.forget(kind, before=now - CHALLENGE_SECONDS)
        kept = {"nonce": nonce.hex(), "by": by, "at": now}
        await remembered.put(_CHALLENGE, hashlib.sha256(challenge).hexdigest(), kept)
        return challenge

    async def _taken(self, purpose: Purpose, told: bytes, by: str) -> bytes:
        """The challenge, used up whatever comes of it. Raises SignInRefused."""
        remembered, name = self._store.remembered, hashlib.sha256(told).hexdigest()
        kept = await remembered.get(_CHALLENGE, name)
        if kept is None or kept["by"] != by:
            raise SignInRefused("this session has not asked for that; press the button again")
        if not 0 <= self._store.world.now() - kept["at"] < CHALLENGE_SECONDS:
            raise SignInRefused(f"that took longer than {CHALLENGE_SECONDS:g} s; press the button again")
        if not await remembered.add(_USED, name, True):
            raise SignInRefused("that was used before; press the button again")
        challenge = _bound(purpose, bytes.fromhex(kept["nonce"]))
        if not hmac.compare_digest(challenge, told):
            raise SignInRefused("the passkey has signed for something else than what is asked for now")
        return challenge


def mark_of(passkey: Passkey) -> str:
    """How the record names a passkey."""
    return f"{passkey.name} ({passkey.id[:12]})"


def _bound(purpose: Purpose, nonce: bytes) -> bytes:
    return hashlib.sha256(nonce + canonical(list(purpose))).digest()


def _line(type_: str, passkey: Passkey, by: str) -> AuditLine:
    return AuditLine(type_, {"passkey": mark_of(passkey), "via": "page", "client": by})
