"""Access to one server over HTTP: the token that its requests carry, renewed in time, and whether a login is due."""

import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Protocol, TypeAlias

import anyio
import anyio.to_thread
import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth

from downstream.servers.exchange import current_exchange
from downstream.settings import AuthSettings, ServerSettings
from journal.world import World

from .addresses import UnsafeAddress, check_address, is_same_place
from .kept import KeptLogin, Login, LoginNotKept, Version
from .tokens import NotRenewed, granted, renewed

log = logging.getLogger(__name__)

Learn: TypeAlias = Callable[[str, str], None]
"""Told the name and the value of each token before it is used, so that it is left out of all text."""


_EARLY = 5.0
"""A token is renewed so many seconds before it ends: the clocks of two machines differ, and a request takes time."""
_RENEW_SECONDS = 20.0


def unlearned(name: str, value: str) -> None:
    """Where no text leaves."""


class Tokens(Protocol):
    """Gives a token that is good as far as one can tell; None if there is none. `refused` is one that was not taken."""

    async def __call__(self, refused: str | None = None) -> str | None: ...


class Access:
    """One server's, shared by all connections to it; made by `access_to`.

    `trouble` says why the token that the latest request needed could not be had.
    """

    def __init__(self, server: ServerSettings, world: World, learn: Learn) -> None:
        self.server = server
        self.trouble: str | None = None
        self._url = server.url or ""
        self._auth = server.options.auth
        self._world = world
        self._learn = learn
        self._kept = KeptLogin(server)
        self._login: Login | None = None
        self._seen: Version = None
        self._refused_at: tuple[Version] | None = None
        self._turn = anyio.Lock()

    def is_due(self, *, asked: bool = False) -> bool:
        """Whether requests are of no use before somebody logs in. `asked`: somebody has been asked to already.

        Reads no more than the state of a file, and hears that way of a login that another process made.
        """
        if self._grants:
            return False
        if self._refused_at is not None:
            return self._refused_at == (self._kept.version,)
        return (asked or self._auth is not None) and self._kept.version is None

    def header(self, on_refusal: Callable[[], None] = lambda: None) -> httpx2.Auth:
        """Puts the token on the requests of one connection; `on_refusal` is told of each that was refused for good."""
        return _Header(self, self._grant if self._grants else self._of_login, on_refusal)

    def may_see(self, url: httpx2.URL) -> bool:
        """Whether a token may go there: to the server itself, in a way that nobody can read."""
        try:
            check_address(url, server=self._url)
        except UnsafeAddress:
            return False
        return is_same_place(url, httpx2.URL(self._url))

    def refuse(self, answer: httpx2.Response) -> None:
        """The server wants a login, and what we have is none to it."""
        if self.trouble is not None and self._login is not None:
            # A login that could not be renewed just now may be as good as ever.
            return
        asks = extract_field_from_www_auth(answer, "resource_metadata") or "bearer" in _challenge(answer)
        if self._auth is not None or asks:
            self._refused_at = (self._kept.version,)

    def accept(self) -> None:
        self._refused_at = None

    async def _of_login(self, refused: str | None = None) -> str | None:
        self.trouble = None
        login = await self._latest()
        if login is None:
            return None
        ends = login.expires_at is not None and login.expires_at - _EARLY <= self._world.now()
        if login.access_token == refused or (ends and login.refresh_token is not None):
            login = await self._renew(login)
        return None if login is None else login.access_token

    async def _latest(self) -> Login | None:
        """The login as it is kept now, by whomever."""
        if (version := self._kept.version) != self._seen:
            login = await anyio.to_thread.run_sync(self._kept.read)
            self._take(login)
            self._seen = version
        return self._login

    async def _renew(self, old: Login) -> Login | None:
        # A token that was used up for one whose answer is lost, because its run was cancelled, would be the last.
        with anyio.move_on_after(_RENEW_SECONDS, shield=True):
            try:
                async with self._kept.open_lock():
                    if (login := await self._latest()) is None or login.access_token != old.access_token:
                        return login
                    return await self._renewed(login)
            except LoginNotKept as error:
                # Renewed side by side, a token that may be used once would be used twice.
                self.trouble = str(error)
                return old
        self.trouble = f"its login was not renewed within {_RENEW_SECONDS:g} s"
        return old

    async def _renewed(self, old: Login) -> Login | None:
        try:
            if old.refresh_token is None:
                raise NotRenewed("its login has ended", refused=True)
            new = await renewed(old, server=self._url, now=self._world.now())
        except NotRenewed as error:
            self.trouble = str(error)
            log.info("login_not_renewed", extra={"server": self.server.name, "error": self.trouble})
            if not error.refused:
                return old
            await self._try(self._kept.forget)
            self._login, self._seen = None, None
            return None
        self._take(new)
        await self._try(partial(self._kept.write, new))
        self._seen = self._kept.version
        return new

    async def _try(self, change: Callable[[], object]) -> None:
        """Change what is kept; where that cannot be, this process goes on with what it has."""
        try:
            await anyio.to_thread.run_sync(change)
        except LoginNotKept as error:
            log.warning("login_not_kept", extra={"error": str(error)})

    async def _grant(self, refused: str | None = None) -> str | None:
        """By client credentials: nobody has to log in, so nothing has to be kept."""
        assert self._auth is not None
        async with self._turn:
            self.trouble = None
            login = self._login
            ends = login is not None and login.expires_at is not None
            late = ends and login is not None and (login.expires_at or 0) - _EARLY <= self._world.now()
            if login is None or late or login.access_token == refused:
                self._take(await self._asked_for(self._auth))
        return None if self._login is None else self._login.access_token

    async def _asked_for(self, auth: AuthSettings) -> Login | None:
        try:
            return await granted(self.server, auth, now=self._world.now())
        except NotRenewed as error:
            self.trouble = str(error)
            return None

    def _take(self, login: Login | None) -> None:
        if login is not None:
            for secret in filter(None, (login.access_token, login.refresh_token, login.client_secret)):
                self._learn(f"login at {self.server.name}", secret)
        self._login = login

    @property
    def _grants(self) -> bool:
        return self._auth is not None and self._auth.kind == "client_credentials"


def access_to(server: ServerSettings, world: World, learn: Learn) -> Access | None:
    """For a server over HTTP, unless its settings hold a header that says who we are."""
    names = {name.lower() for name in server.headers}
    if server.transport == "stdio" or (server.options.auth is None and "authorization" in names):
        return None
    return Access(server, world, learn)


class _Header(httpx2.Auth):
    """Raises nothing of its own: that would end the whole connection."""

    def __init__(self, access: Access, tokens: Tokens, on_refusal: Callable[[], None]) -> None:
        self._access = access
        self._tokens = tokens
        self._on_refusal = on_refusal

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if not self._access.may_see(request.url):
            self._note((yield request))
            return
        token = await self._tokens()
        _carry(request, token)
        response = yield request
        if response.status_code == 401:
            fresh = await self._tokens(refused=token)
            if fresh is not None and fresh != token:
                # Refused, it did not run; what it may come to, and whether it may go out, is open once more.
                exchange = current_exchange()
                exchange.left, exchange.status = False, None
                _carry(request, fresh)
                response = yield request
        self._note(response)

    def _note(self, response: httpx2.Response) -> None:
        if response.status_code == 401:
            self._access.refuse(response)
            self._on_refusal()
        elif response.is_success:
            self._access.accept()


def _carry(request: httpx2.Request, token: str | None) -> None:
    if token is not None:
        request.headers["Authorization"] = f"Bearer {token}"


def _challenge(answer: httpx2.Response) -> str:
    challenge: str = answer.headers.get("WWW-Authenticate", "")
    return challenge.lower()
