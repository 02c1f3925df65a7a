"""The page's part in passkeys over HTTP: what a browser is to sign or make, and what it made of that."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from downstream.gate.prompt_text import escaped
from journal.values import Json, JsonObject
from server.views.action_view import time_text

from .bodies import Body, Refused, read_body
from .desk import Desk
from .lockout import SignInRefused
from .passkey_file import can_verify, kept_passkeys, passkeys_missing
from .passkeys import Passkeys, Purpose, adding, approving, removing
from .sessions import SignedIn

FindSession: TypeAlias = Callable[[Request], Awaitable[SignedIn]]
CheckPerson: TypeAlias = Callable[[SignedIn, str, str], Awaitable[bool]]
"""Takes a PIN and a code; false where none was set up."""
_Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=60)]
_Id: TypeAlias = Annotated[str, Field(max_length=2_000)]


class _Approve(Body):
    action_id: str
    choice: str
    digest: str


class _Sign(Body):
    removes: _Id | None = None


class _Proof(Body):
    pin: Annotated[str, Field(max_length=200)] = ""
    code: Annotated[str, Field(max_length=20)] = ""
    passkey: JsonObject | None = None


class _Begin(_Proof):
    name: _Name


class _Add(Body):
    name: _Name
    credential: JsonObject


class _Remove(_Proof):
    id: _Id


class PasskeyRoutes:
    """The handlers; each wants a session."""

    def __init__(self, desk: Desk, passkeys: Passkeys, find: FindSession, check_person: CheckPerson) -> None:
        self._desk = desk
        self._passkeys = passkeys
        self._find = find
        self._check_person = check_person

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/api/passkeys", self.show),
            Route("/api/passkeys/approve", self.approve, methods=["POST"]),
            Route("/api/passkeys/sign", self.sign, methods=["POST"]),
            Route("/api/passkeys/begin", self.begin, methods=["POST"]),
            Route("/api/passkeys/add", self.add, methods=["POST"]),
            Route("/api/passkeys/remove", self.remove, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        session = await self._find(request)
        kept: list[Json] = [
            {"id": each.id, "name": escaped(each.name), "added_at": time_text(each.added_at)}
            for each in kept_passkeys()
        ]
        signs = "passkey" if kept else None
        proof = signs if session.approver is None else "pin"
        told = passkeys_missing()
        return JSONResponse({"passkeys": kept, "installed": can_verify(), "missing": told, "proof": proof})

    async def approve(self, request: Request) -> Response:
        """What is to be signed for a yes to an action as it was shown."""
        session = await self._find(request)
        taken = await read_body(request, _Approve)
        action = await self._desk.as_shown(taken.action_id, taken.digest)
        return JSONResponse(await self._passkeys.ask(approving(action, taken.choice), by=session.id))

    async def sign(self, request: Request) -> Response:
        """What is to be signed so that the passkeys may be changed, where no PIN was set up."""
        session = await self._find(request)
        taken = await read_body(request, _Sign)
        purpose = adding() if taken.removes is None else removing(taken.removes)
        return JSONResponse(await self._passkeys.ask(purpose, by=session.id))

    async def begin(self, request: Request) -> Response:
        """What a new passkey is to be made with, once the person has shown who they are."""
        session = await self._find(request)
        taken = await read_body(request, _Begin)
        if not can_verify():
            raise Refused(409, passkeys_missing() or "")
        await self._check(session, taken, adding(), is_first=not kept_passkeys())
        return JSONResponse(await self._passkeys.begin(taken.name, by=session.id))

    async def add(self, request: Request) -> Response:
        session = await self._find(request)
        taken = await read_body(request, _Add)
        await self._passkeys.add(taken.name, taken.credential, by=session.id)
        return JSONResponse({"message": f"{escaped(taken.name)} is registered."})

    async def remove(self, request: Request) -> Response:
        session = await self._find(request)
        taken = await read_body(request, _Remove)
        await self._check(session, taken, removing(taken.id), is_first=False)
        await self._passkeys.remove(taken.id, by=session.id)
        return JSONResponse({"message": "It is removed, and approves nothing any more."})

    async def _check(self, session: SignedIn, proof: _Proof, purpose: Purpose, *, is_first: bool) -> None:
        """A session alone changes nothing but that it may register the first passkey. Raises SignInRefused."""
        if await self._check_person(session, proof.pin, proof.code) or is_first:
            return
        if proof.passkey is None:
            raise SignInRefused("one of your passkeys has to sign for that")
        await self._passkeys.check(purpose, proof.passkey, by=session.id)
