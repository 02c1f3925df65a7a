"""Requests to an authorization server that need no person: a login renewed, and a grant for client credentials."""

from urllib.parse import quote

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import ValidationError

from downstream.servers.names import clean_text
from downstream.settings import AuthSettings, ServerSettings
from journal.errors import SteprelayError
from journal.values import JsonObject

from .addresses import UnsafeAddress, open_auth_http
from .kept import Login

# What an authorization server can bring about that answers as none should, by itself or through the SDK.
PROBLEMS = (httpx2.HTTPError, httpx2.InvalidURL, UnsafeAddress, OAuthFlowError, ValueError, OverflowError)

_LONGEST = 10**9
"""Seconds; a token that is to be good for longer is renewed when it is refused."""

# From this version on, tokens are asked for with the name of the server that they are for.
_PROBE_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
_PING = {"jsonrpc": "2.0", "id": 0, "method": "ping"}


class NotRenewed(SteprelayError):
    """No new token came; `refused` says that the old login is worth nothing any more."""

    def __init__(self, why: str, *, refused: bool = False) -> None:
        self.refused = refused
        super().__init__(why)


async def renewed(login: Login, *, server: str, now: float) -> Login:
    """The login with a new token, got for its refresh token. Raises NotRenewed."""
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token or "", "client_id": login.client_id}
    if login.resource is not None:
        form["resource"] = login.resource
    auth = httpx2.Auth()
    if login.client_auth == "client_secret_basic":
        auth = httpx2.BasicAuth(quote(login.client_id, safe=""), quote(login.client_secret or "", safe=""))
    elif login.client_auth == "client_secret_post":
        form["client_secret"] = login.client_secret or ""
    try:
        async with open_auth_http(server) as http:
            answer = await http.post(login.token_endpoint, data=form, auth=auth)
    except (httpx2.HTTPError, httpx2.InvalidURL, UnsafeAddress) as error:
        raise NotRenewed(f"its authorization server cannot be reached ({type(error).__name__})") from error
    if answer.status_code in (400, 401, 403):
        raise NotRenewed("its authorization server no longer accepts the login", refused=True)
    if answer.status_code != 200:
        raise NotRenewed(f"its authorization server gave no token (HTTP {answer.status_code})")
    try:
        token = OAuthToken.model_validate_json(answer.content)
        told: JsonObject = {
            "access_token": token.access_token,
            # One that is not replaced goes on being good.
            "refresh_token": token.refresh_token or login.refresh_token,
            "expires_at": expiry(token, now=now),
            "scope": token.scope or login.scope,
        }
        return Login.model_validate(login.model_dump() | told)
    except ValidationError as error:
        raise NotRenewed("its authorization server answered with something that is no token") from error


async def granted(server: ServerSettings, auth: AuthSettings, *, now: float) -> Login:
    """A login with a token for the client credentials of the settings. Raises NotRenewed."""
    url, kept = server.url or "", OneGrant()
    provider = _Credentials(
        url,
        kept,
        client_id=auth.client_id or "",
        client_secret=auth.client_secret.get_secret_value() if auth.client_secret else "",
        # Unnamed, only an authorization server at the server's own address is handed the secret.
        issuer=auth.issuer or origin(url),
    )
    provider.scopes = auth.scopes
    try:
        async with open_auth_http(url, provider) as http:
            status = await probe(http, server)
        if (token := kept.tokens) is None:
            raise NotRenewed(f"it does not say where its client credentials are taken (HTTP {status})")
        ends = expiry(token, now=now)
        return Login(
            access_token=token.access_token, expires_at=ends, token_endpoint="", client_id=auth.client_id or ""
        )
    except PROBLEMS as error:
        raise NotRenewed(f"its client credentials got no token: {first_line(error)}") from error


async def probe(http: httpx2.AsyncClient, server: ServerSettings) -> int:
    """Ask the server for something that changes nothing, so that it says whom it trusts with logins; its status."""
    headers = _PROBE_HEADERS | {name: text for name, text in server.headers.items() if name.lower() != "authorization"}
    method, ping = ("GET", None) if server.transport == "sse" else ("POST", _PING)
    async with http.stream(method, server.url or "", json=ping, headers=headers) as answer:
        return answer.status_code


class OtherIssuer(SteprelayError):
    """A server leads to another authorization server than the one that the client of the settings belongs to."""

    def __init__(self) -> None:
        super().__init__(
            "it trusts another authorization server than that of client_id; set auth.issuer to its address"
        )


class OneGrant:
    """What one login brought, kept for as long as it takes; the SDK's TokenStorage. Raises OtherIssuer."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        if self.client is not None:
            raise OtherIssuer
        self.client = client_info


class OwnScopes(OAuthClientProvider):
    """Asks for the scopes of the settings, where there are any, instead of those that the server proposes."""

    scopes: tuple[str, ...] = ()

    async def _perform_authorization(self) -> httpx2.Request:
        if self.scopes:
            self.context.client_metadata.scope = " ".join(self.scopes)
        return await super()._perform_authorization()


class _Credentials(OwnScopes, ClientCredentialsOAuthProvider):
    """For client credentials."""


def expiry(token: OAuthToken, *, now: float) -> float | None:
    """The Unix time until which a token that came just now is good, if it says so."""
    return None if token.expires_in is None else now + max(0, min(token.expires_in, _LONGEST))


def origin(url: str) -> str:
    """Scheme, host and port of an address."""
    parsed = httpx2.URL(url)
    return str(parsed.copy_with(path="/", query=None, fragment=None)).rstrip("/")


def first_line(error: BaseException) -> str:
    """What an error says, without the lines that quote what it was about."""
    return clean_text((str(error).splitlines() or [type(error).__name__])[0])[:200]
