"""A person's login at a tool server, by their browser: found, registered, granted, and kept."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from downstream.servers.names import clean_text
from downstream.settings import AuthSettings, ServerSettings
from journal.errors import SteprelayError
from journal.world import World

from .addresses import check_address, open_auth_http
from .kept import KeptLogin, Login
from .loopback import Comeback, open_comeback
from .tokens import PROBLEMS, OneGrant, OtherIssuer, OwnScopes, expiry, first_line, origin, probe

Show: TypeAlias = Callable[[str], Awaitable[None]]
"""Brings the address at which a person logs in before them."""

_BY_BROWSER = AuthSettings(kind="oauth")


class LoginFailed(SteprelayError):
    """Nobody was logged in; what was kept before is as it was."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(f"no login at {server!r}: {why}")


@dataclass(frozen=True)
class Door:
    """Who is to log in where: `show` brings the address before a person, who then has so many seconds."""

    server: ServerSettings
    world: World
    show: Show
    seconds: float = 300.0


async def log_in(door: Door) -> str:
    """Have a person log in, and keep what was granted; returns where. Raises LoginFailed or LoginNotKept."""
    server = door.server
    auth = server.options.auth or _BY_BROWSER
    if server.url is None or auth.kind != "oauth":
        raise LoginFailed(server.name, "its settings have no place for one; see server_options")
    try:
        async with open_comeback(auth.redirect_port) as comeback:
            login = await _granted(door, server.url, auth, comeback=comeback)
    except OSError as error:
        port = auth.redirect_port or "a free port"
        raise LoginFailed(server.name, f"{port} of 127.0.0.1 cannot be listened at: {error.strerror}") from error
    kept = KeptLogin(server)
    async with kept.open_lock():
        return await anyio.to_thread.run_sync(kept.write, login)


async def _granted(door: Door, url: str, auth: AuthSettings, *, comeback: Comeback) -> Login:
    name, grant = door.server.name, OneGrant(_client(auth, url, comeback))
    way = _Way(door, comeback)
    metadata = OAuthClientMetadata(client_name="steprelay", redirect_uris=[AnyUrl(comeback.address)])
    provider = OwnScopes(url, metadata, grant, redirect_handler=way.go, callback_handler=way.come_back)
    provider.scopes = auth.scopes
    try:
        async with open_auth_http(url, provider) as http:
            status = await probe(http, door.server)
        if grant.tokens is None or grant.client is None:
            raise LoginFailed(name, f"it does not ask for one (HTTP {status})")
        return _login(grant.tokens, grant.client, provider=provider, ends=expiry(grant.tokens, now=door.world.now()))
    except (*PROBLEMS, OtherIssuer) as error:
        raise LoginFailed(name, first_line(error)) from error


def _login(
    token: OAuthToken, client: OAuthClientInformationFull, *, provider: OAuthClientProvider, ends: float | None
) -> Login:
    found = provider.context.oauth_metadata
    return Login(
        access_token=token.access_token,
        refresh_token=token.refresh_token,
        expires_at=ends,
        scope=token.scope,
        token_endpoint=str(found.token_endpoint) if found else f"{origin(provider.context.server_url)}/token",
        resource=provider.context.get_resource_url(),
        client_id=client.client_id,
        client_secret=client.client_secret,
        client_auth=_client_auth(client.token_endpoint_auth_method),
    )


@dataclass(frozen=True)
class _Way:
    """The person's way to the authorization server and back."""

    door: Door
    comeback: Comeback

    async def go(self, address: str) -> None:
        check_address(httpx2.URL(address), server=self.door.server.url or "")
        self.comeback.state = parse_qs(urlsplit(address).query).get("state", [""])[0]
        await self.door.show(address)

    async def come_back(self) -> AuthorizationCodeResult:
        name, seconds = self.door.server.name, self.door.seconds
        with anyio.move_on_after(seconds):
            await self.comeback.came.wait()
        brought = self.comeback.brought
        if not brought:
            raise LoginFailed(name, f"nobody came back from the browser within {seconds:g} s")
        if "error" in brought:
            raise LoginFailed(name, f"the authorization server said {clean_text(brought['error'])[:120]!r}")
        return AuthorizationCodeResult(code=brought.get("code", ""), state=brought["state"], iss=brought.get("iss"))


def _client(auth: AuthSettings, url: str, comeback: Comeback) -> OAuthClientInformationFull | None:
    """The client of the settings; without one, each login registers its own, since its address is another."""
    if auth.client_id is None:
        return None
    secret = auth.client_secret.get_secret_value() if auth.client_secret else None
    return OAuthClientInformationFull(
        client_id=auth.client_id,
        client_secret=secret,
        redirect_uris=[AnyUrl(comeback.address)],
        token_endpoint_auth_method="client_secret_basic" if secret else "none",
        # Unnamed, only an authorization server at the server's own address is handed a secret.
        issuer=auth.issuer or (origin(url) if secret else None),
    )


def _client_auth(method: str | None) -> Literal["none", "client_secret_post", "client_secret_basic"]:
    match method:
        case "client_secret_post" | "client_secret_basic":
            return method
        case _:
            return "none"
